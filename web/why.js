// Why: who ran, who waited, and the rule's reason, at any moment of either schedule.

import { Engine } from "./engine.js";
import { firstAfter, running, segmentAt } from "./lanes.js";
import { moment, span } from "./units.js";

const KINDS = ["pick", "wakeup", "turn", "place", "select", "newidle", "balance", "throttle", "unthrottle"];

/** The decisions of one side, fetched a window at a time. */
export class Decisions {
  constructor() {
    this.engine = new Engine();
    this.forget(null);
  }

  /** Another run took the place of the one that was explained. */
  forget(request) {
    if (this.request && this.busy) this.engine.abandon();
    this.request = request;
    this.known = null;
    this.busy = false;
  }

  /** The decisions around a time; null where another run came meanwhile. */
  async around(time, length) {
    let half = length;
    while (!this.covers(time)) {
      const { request } = this;
      if (!request) return null;
      const from = Math.max(0, Math.floor(time - half));
      this.busy = true;
      const answer = await this.engine.ask(question(request, { from, to: Math.ceil(time + half) }));
      if (this.request !== request || !answer) return null;
      this.busy = false;
      if (answer.head.error) return null;
      const { decision_time: times } = answer.arrays;
      const to = answer.head.more ? times[times.length - 1] : answer.head.to;
      this.known = { from, to, texts: answer.head.texts, ...answer.arrays };
      if (half < 1000) break;
      half /= 8;
    }
    return this.known;
  }

  covers(time) {
    return this.known && this.known.from <= time && time < this.known.to;
  }
}

function question(request, window) {
  if (request.op === "replay") return { op: "explain_replay", recording: request, window };
  return { op: "explain", run: request, window };
}

/** The last decision at or before `time` that `wanted` takes; −1 if there is none. */
export function lastDecision(known, time, wanted) {
  let at = firstAfter(known.decision_time, 0, known.decision_time.length, time) - 1;
  while (at >= 0 && !wanted(at)) at -= 1;
  return at;
}

/** The decision after or before `time` that acts, on the CPU or about the task. */
export function nextDecision(known, time, forward, cpu, task) {
  const fits = (at) => known.decision_acts[at] && (task === null ? known.decision_cpu[at] === cpu : known.decision_task[at] === task);
  const { decision_time: times } = known;
  if (forward) {
    for (let at = firstAfter(times, 0, times.length, time); at < times.length; at++) if (fits(at)) return at;
    return -1;
  }
  let at = firstAfter(times, 0, times.length, time) - 1;
  while (at >= 0 && (times[at] >= time || !fits(at))) at -= 1;
  return at;
}

/** Who ran and who waited on a CPU at a time, in a sentence. */
export function present(run, cpu, time) {
  const { segment_state: states, segment_cpu: cpus, segment_start: starts } = run.arrays;
  const task = running(run, cpu, time);
  const waiting = [];
  for (let other = 0; other < run.names.length; other++) {
    const at = segmentAt(run, other, time);
    if (at >= 0 && states[at] !== 0 && cpus[at] === cpu) waiting.push([other, time - starts[at], states[at]]);
  }
  waiting.sort((one, other) => other[1] - one[1]);
  const names = waiting.slice(0, 3).map(([other, since, state]) => {
    const so = state === 2 ? "is throttled" : "waits";
    return `${run.names[other]} ${since > 0 ? `${so} for ${span(since)} so far` : so}`;
  });
  if (waiting.length > 3) names.push(`${waiting.length - 3} more wait`);
  const ran = task < 0 ? `CPU ${cpu} idles` : `${run.names[task]} runs on CPU ${cpu}`;
  return `At ${moment(time)} ${ran}${names.length ? `; ${names.join(", ")}` : task < 0 ? "" : "; no task waits"}.`;
}

/** A decision's reason as a sentence, and the name of its kind. */
export function reason(known, at) {
  const text = known.texts[at];
  const colon = text.indexOf(": ");
  const [what, said] = [text.slice(0, colon), text.slice(colon + 2)];
  return { time: known.decision_time[at], cpu: known.decision_cpu[at], what, said: `${said}.`, kind: KINDS[known.decision_kind[at]] };
}
