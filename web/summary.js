// What two runs come to, in numbers and in sentences.

import { make } from "./controls.js";
import { METRICS, compared, cpuTime, isBackground, ownTasks } from "./metrics.js";
import { change, span } from "./units.js";

function sum(run, name) {
  return ownTasks(run).reduce((total, task) => total + task[name], 0);
}

/**
 * Each metric of both runs, and each kind's part of the CPU time where kinds are few.
 * `drawn`: the same workload's runs over seeds by side, or null; `kind`: that of the tasks whose waits count, -1 for all.
 */
export function numbers(runs, drawn, kind) {
  const cells = METRICS.map(([name, title, read, text]) => {
    const [one, other] = ["a", "b"].map((side) => (runs[side] ? read(runs[side], kind) : null));
    const over = drawn ? compared(...["a", "b"].map((side) => drawn[side].map((run) => read(run, kind))), text) : null;
    const { a, b, words } = over ?? { a: one, b: other, words: change(one, other) };
    const shown = (value) => (value === null || value === undefined ? "none" : text(value));
    return make("div", { class: "metric", title }, make("dt", {}, name),
      make("dd", {}, make("span", {}, "A ", make("b", {}, shown(a))), make("span", {}, "B ", make("b", {}, shown(b))), make("em", {}, words)));
  });
  const kinds = [...(runs.a ?? runs.b).head.kinds.entries()].filter(([place]) => !isBackground(runs.a ?? runs.b, place));
  const shares = kinds.map(([place, kind]) => {
    const part = (run) => {
      const total = sum(run, "run_ns");
      const own = cpuTime(run, place);
      return total ? `${((100 * own) / total).toFixed(1)} %` : "0 %";
    };
    return make("div", { class: "metric", title: "Its part of the CPU time that all tasks used." }, make("dt", {}, `CPU of ${kind}`),
      make("dd", {}, ...["a", "b"].filter((side) => runs[side]).map((side) => make("span", {}, `${side.toUpperCase()} `, make("b", {}, part(runs[side]))))));
  });
  return [...cells, ...(shares.length > 1 && shares.length <= 4 ? shares : [])];
}

/** What ran and what waited, for users of screen readers. */
export function sentences(runs) {
  const label = (run) => `${run.head.label} (${run.head.eevdf ? "EEVDF" : "CFS"})`;
  return ["a", "b"].flatMap((side) => {
    const run = runs[side];
    const { cpus, switches } = run.head.outcome;
    const by = (time) => [...ownTasks(run)].sort((one, other) => other[time] - one[time]);
    const most = by("max_delay_ns")[0];
    return [
      `${side.toUpperCase()} is Linux ${label(run)} on ${cpus} ${cpus === 1 ? "CPU" : "CPUs"}; the run lasts ${span(run.end)} and switches ${switches} times.`,
      `${by("run_ns").slice(0, 8).map((task) => `${task.name} ran for ${span(task.run_ns)} and waited for ${span(task.wait_ns)}`).join("; ")}.`,
      ...(most ? [`The longest single wait is ${span(most.max_delay_ns)}, of ${most.name}.`] : []),
    ];
  }).join(" ");
}

/** What the gallery's entry compares, in a sentence that is true of the runs as they are. */
export function headline(runs, entry) {
  const { replay } = runs.b.head;
  if (replay) {
    const picks = replay.report.decisions.pick;
    return replay.differing ? `Our rules pick otherwise than the kernel ${replay.differing} times, marked in the strip.`
      : `Our rules pick as the kernel did, each time: ${(picks.compared ?? picks.total ?? 0).toLocaleString("en")} picks compared.`;
  }
  const kinds = runs.a.head.kinds;
  const [what, kind = kinds[0]] = (entry?.watch ?? "wait").split(" ");
  const place = Math.max(kinds.indexOf(kind), 0);
  if (what === "turnaround") return `The turnaround is ${span(runs.a.head.outcome.turnaround_ns)} in A and ${span(runs.b.head.outcome.turnaround_ns)} in B.`;
  if (what === "share") {
    const part = (run) => {
      const own = cpuTime(run, place);
      return `${((100 * own) / Math.max(run.end * run.head.outcome.cpus, 1)).toFixed(1)} %`;
    };
    return `${kinds[place]} runs for ${part(runs.a)} of the CPU time in A and for ${part(runs.b)} in B.`;
  }
  const wait = (run) => {
    const longest = run.head.delays[place]?.max ?? 0;
    return longest ? `waits for ${span(longest)} at the longest` : "never waits";
  };
  return `${kinds[place]} ${wait(runs.a)} in A and ${wait(runs.b)} in B.`;
}
