// What a run is measured by, and the same over several seeds.

import { change, span } from "./units.js";

/** How many seeds the switch takes. */
export const SEEDS = 20;

/** The tasks of a run without other work of the machine. */
export const ownTasks = (run) => run.head.outcome.tasks.filter((task) => !task.background);

/** The CPU time of a kind's tasks, in nanoseconds; 0 of other work of the machine. */
export function cpuTime(run, kind) {
  return run.head.outcome.tasks.reduce((time, task, number) => time + (run.arrays.task_kind[number] === kind && !task.background ? task.run_ns : 0), 0);
}

/** Whether a kind is that of other work of the machine. */
export function isBackground(run, kind) {
  return run.head.outcome.tasks.some((task, number) => task.background && run.arrays.task_kind[number] === kind);
}

const count = (value) => value.toLocaleString("en");

/** Each metric: its name, what it is, how it is read from a run and a kind of task (−1: all), and how it is written. */
export const METRICS = [
  ["p99 wait", "From becoming runnable to running: 99 of 100 waits are shorter.", (run, kind) => delaysOf(run, kind).p99, span],
  ["longest wait", "The longest time from becoming runnable to running.", (run, kind) => delaysOf(run, kind).max, span],
  ["switches", "Context switches, voluntary and involuntary.", (run) => run.head.outcome.switches, count],
  ["migrations", "Times that a task changed its CPU.", (run) => ownTasks(run).reduce((total, task) => total + task.migrations, 0), count],
  ["turnaround", "What the workload calls its time; the whole run where it marks none.", (run) => run.head.outcome.turnaround_ns, span],
];

/** The distribution of the waits of a kind of task; of all where the kind is −1. */
export function delaysOf(run, kind) {
  return run.head.delays[kind < 0 ? run.head.delays.length - 1 : kind] ?? run.head.delays.at(-1);
}

/** The middle value; the mean of the two middle ones of an even number. */
export function median(values) {
  const sorted = [...values].sort((one, other) => one - other);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/**
 * An interval for the median of what the values were drawn from, by the sign test: for 20 values the 6th and the 15th, which hold it
 * between them in 95.9 % of cases, P(6 ≤ X ≤ 14) of the binomial distribution with n = 20, p = ½.
 */
export function interval(values) {
  const sorted = [...values].sort((one, other) => one - other);
  const total = sorted.length;
  let [place, tail, chance] = [0, 0, 0.5 ** total];
  // The most values that may be left out below while at most 2.5 % of cases are lost there.
  while (place < total / 2 && tail + chance <= 0.025) {
    tail += chance;
    chance *= (total - place) / (place + 1);
    place += 1;
  }
  return [sorted[Math.max(place - 1, 0)], sorted[Math.min(total - place, total - 1)]];
}

/** What pairs of seeds say of a metric: both medians, and the change with its interval in words. */
export function compared(as, bs, text) {
  const pairs = as.map((a, place) => [a, bs[place]]).filter(([a, b]) => a !== null && b !== null && a !== undefined && b !== undefined);
  if (!pairs.length) return { a: null, b: null, words: "" };
  const [a, b] = [median(pairs.map(([one]) => one)), median(pairs.map(([, other]) => other))];
  const differences = pairs.map(([one, other]) => other - one);
  if (differences.every((one) => one === 0)) return { a, b, words: "equal" };
  const [low, high] = interval(differences);
  const part = (value) => (a ? change(a, a + value) : `${value > 0 ? "+" : "−"}${text(Math.abs(value))}`);
  const ends = low === high ? "" : ` (${part(low)} to ${part(high)})`;
  return { a, b, words: low <= 0 && high >= 0 ? `may be chance${ends}` : `${part(median(differences))}${ends}` };
}
