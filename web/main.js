// The page: from a change to a request, from an answer to pixels.

import { drawCurves, drawDelays } from "./charts.js";
import { Completion } from "./completion.js";
import { conceptOf, rendered } from "./concepts.js";
import { choice, field, make, readKeys, slider, toggle, withKey } from "./controls.js";
import { Latest } from "./engine.js";
import { command, perfetto, python, save, svg } from "./export.js";
import { GALLERY } from "./gallery.js";
import { AXIS_KEYS } from "./keys.js";
import { LEFT, PALETTE, Timeline, prepare, running } from "./lanes.js";
import { METRICS, SEEDS, compared, interval } from "./metrics.js";
import { Draws } from "./seeds.js";
import { fresh, fromAddress, runRequest, setupRequest, toAddress } from "./state.js";
import { change, moment, parseTime, span } from "./units.js";
import { Decisions, lastDecision, nextDecision, present, reason } from "./why.js";

const at = (id) => document.getElementById(id);
const DATA = JSON.parse(at("data").textContent);

let state = null;
const engines = { a: new Latest(), b: new Latest() };
const questions = { a: new Latest(1e9), b: new Latest(1e9), setup: new Latest(1e9) };
const catalogues = { a: null, b: null };
const decisions = { a: new Decisions(), b: new Decisions() };
const runs = { a: null, b: null };
const requests = { a: null, b: null };
let recording = null;
let tasks = [];
let chosen = [];
let quantity = "vruntime";
let serial = 0;
const draws = new Draws();
let drawn = null;
const timeline = new Timeline(at("lanes"));

// ---- From the state to both runs ---------------------------------------------------------------------------------

/** Looks at the state again: catalogues first, then both runs. `whole` makes the controls anew. */
async function refresh(whole = false) {
  const mine = ++serial;
  document.body.classList.toggle("recorded", Boolean(recording));
  at("recording").hidden = !recording;
  // A recording is too large for an address.
  history.replaceState(null, "", recording ? location.pathname + location.search : `#${toAddress(state)}`);
  const late = setTimeout(() => document.body.classList.add("busy"), 100);
  const [setup, a, b] = await Promise.all([
    questions.setup.ask({ op: "workload", ...setupRequest(state) }), ...["a", "b"].map((side) => catalogue(side)),
  ]);
  if (mine === serial && setup && a && b) {
    showFault(setup.head.error ? setup.head : null);
    if (!setup.head.error) {
      tasks = setup.head.tasks;
      if (state.json === null && document.activeElement !== at("editor")) at("editor").value = "";
    }
    if (whole) keepingFocus(controls);
    if (!setup.head.error) {
      await Promise.all(["a", "b"].map((side) => simulate(side)));
      if (mine === serial) overSeeds();
    }
  }
  clearTimeout(late);
  if (mine === serial) document.body.classList.remove("busy");
}

async function catalogue(side) {
  const { release, rules } = state[side];
  const key = JSON.stringify([release, rules, state.cpus]);
  if (catalogues[side]?.key === key) return catalogues[side];
  const answer = await questions[side].ask({ op: "catalogue", release, rules, cpus: state.cpus });
  if (!answer) return null;
  if (answer.head.error) {
    at(`fault-${side}`).textContent = answer.head.error;
    return catalogues[side] ?? null;
  }
  catalogues[side] = { key, ...answer.head };
  return catalogues[side];
}

async function simulate(side) {
  const request = recording ? { op: "replay", text: recording.text, release: recording.release || null, ours: side === "b" }
    : runRequest(state, state[side], catalogues[side].knobs, DATA.costs, chosen, tasks.map((task) => task.name));
  const text = recording ? `${recording.name} ${recording.release}` : JSON.stringify(request);
  if (requests[side] === text) return;
  const answer = await engines[side].ask(request);
  if (!answer) return;
  at(recording ? "recording-fault" : `fault-${side}`).textContent = answer.head.error ?? "";
  if (answer.head.error) return;
  requests[side] = text;
  runs[side] = prepare(answer);
  decisions[side].forget(recording ? request : { ...request, standings: [] });
  timeline.runs = runs;
  arrived();
}

/** Says beside a kernel's controls that no kernel has its rules. */
function hybrids() {
  for (const side of ["a", "b"]) {
    const label = recording ? "" : runs[side]?.head.label ?? "";
    const place = at(`hybrid-${side}`);
    if (place) place.textContent = label.includes("hybrid") ? `${label}: no kernel has these rules together` : "";
  }
}

/** A run came: the view stays if it was chosen, and all that is drawn of it is drawn anew. */
function arrived() {
  const end = Math.max(runs.a?.end ?? 0, runs.b?.end ?? 0);
  if (state.from === null || state.from >= end) {
    timeline.view = { from: 0, to: end };
    if (state.from !== null) state.from = state.to = null;
  } else {
    timeline.view = { from: state.from, to: Math.min(state.to, end) };
  }
  timeline.mode = state.lanes || (Math.max(...["a", "b"].map((side) => runs[side]?.names.length ?? 0)) <= 8 ? "task" : "cpu");
  if (!chosen.length && runs.a && runs.b && !recording) {
    const first = runs.a.names.map((_, task) => task).filter((task) => runs.a.arrays.segment_offset[task + 1] > runs.a.arrays.segment_offset[task]);
    chosen = first.slice(0, 2);
    if (chosen.length) refresh();
  }
  legend();
  hybrids();
  drawn = null;
  numbers();
  summary();
  draw();
  if (timeline.cursor) why();
  window.drawn = performance.now();
  if (runs.a && runs.b && !performance.getEntriesByName("first picture").length) requestAnimationFrame(() => performance.mark("first picture"));
}

// ---- Drawing -----------------------------------------------------------------------------------------------------

let asked = false;

function draw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    paint();
  });
}

function paint() {
  const frame = at("frame");
  timeline.layout();
  const tall = Math.min(timeline.height, Math.max(220, Math.round(innerHeight * 0.62)));
  frame.style.height = `${tall}px`;
  at("spacer").style.height = `${timeline.height}px`;
  const width = frame.clientWidth;
  const canvas = at("lanes");
  canvas.style.width = `${width}px`;
  canvas.style.height = `${tall}px`;
  timeline.draw(width, tall, frame.scrollTop, devicePixelRatio || 1);
  drawCurves(at("curves"), timeline, quantity);
  drawDelays(at("delays"), runs, delayKind(), timeline.colours());
  at("where").textContent = `${moment(timeline.view.from)} to ${moment(timeline.view.to)}`;
}

function end() {
  return Math.max(runs.a?.end ?? 1, runs.b?.end ?? 1);
}

/** Moves and scales the view about a time, within the run. */
function show(from, to) {
  const room = Math.min(Math.max(to - from, 1000), end());
  const middle = (from + to) / 2;
  const left = Math.min(Math.max(middle - room / 2, 0), end() - room);
  timeline.view = { from: left, to: left + room };
  const whole = room >= end();
  [state.from, state.to] = whole ? [null, null] : [left, left + room];
  clearTimeout(show.later);
  show.later = setTimeout(() => history.replaceState(null, "", `#${toAddress(state)}`), 200);
  draw();
}

function zoom(factor, time = (timeline.view.from + timeline.view.to) / 2) {
  const { from, to } = timeline.view;
  show(time - (time - from) * factor, time + (to - time) * factor);
}

function pan(part) {
  const { from, to } = timeline.view;
  const room = to - from;
  const left = Math.min(Math.max(from + part * room, 0), end() - room);
  show(left, left + room);
}

/** The kinds of tasks with their colours; each is a button that shows its tasks alone. */
function legend() {
  const run = runs.a ?? runs.b;
  const kinds = run.head.kinds;
  at("legend").replaceChildren(
    ...kinds.map((kind, place) => {
      const chip = make("span", { class: "chip" }, make("i"), kind);
      chip.firstChild.style.background = PALETTE[place];
      return chip;
    }),
    ...[["running", "runs"], ["waiting", "waits"], ["throttled", "throttled"], ["sleeping", "sleeps"]].map(([name, text]) =>
      make("span", { class: "chip" }, make("i", { class: name }), text)),
  );
  const list = at("delay-kind");
  const value = list.value;
  list.replaceChildren(make("option", { value: "" }, "all tasks"), ...kinds.map((kind, place) => make("option", { value: place }, kind)));
  list.value = Number(value) < kinds.length ? value : "";
}

/** The kind of task whose waits are shown; −1 for all. */
function delayKind() {
  const kind = at("delay-kind").value;
  return kind === "" ? -1 : Number(kind);
}

function sum(run, name) {
  return run.head.outcome.tasks.reduce((total, task) => total + task[name], 0);
}

function numbers() {
  const kind = delayKind();
  const cells = METRICS.map(([name, title, read, text]) => {
    const [one, other] = ["a", "b"].map((side) => (runs[side] ? read(runs[side], kind) : null));
    const over = drawn ? compared(...["a", "b"].map((side) => drawn[side].map((run) => read(run, kind))), text) : null;
    const { a, b, words } = over ?? { a: one, b: other, words: change(one, other) };
    const shown = (value) => (value === null || value === undefined ? "none" : text(value));
    return make("div", { class: "metric", title }, make("dt", {}, name),
      make("dd", {}, make("span", {}, "A ", make("b", {}, shown(a))), make("span", {}, "B ", make("b", {}, shown(b))), make("em", {}, words)));
  });
  const shares = (runs.a ?? runs.b).head.kinds.map((kind, place) => {
    const part = (run) => {
      const total = sum(run, "run_ns");
      const own = run.head.outcome.tasks.reduce((time, task, number) => time + (run.arrays.task_kind[number] === place ? task.run_ns : 0), 0);
      return total ? `${((100 * own) / total).toFixed(1)} %` : "0 %";
    };
    return make("div", { class: "metric", title: "Its part of the CPU time that all tasks used." }, make("dt", {}, `CPU of ${kind}`),
      make("dd", {}, ...["a", "b"].filter((side) => runs[side]).map((side) => make("span", {}, `${side.toUpperCase()} `, make("b", {}, part(runs[side]))))));
  });
  at("numbers").replaceChildren(...cells, ...(shares.length > 1 && shares.length <= 4 ? shares : []));
}

/** With the switch on: the medians over seeds in place of the single run's values. */
async function overSeeds() {
  drawn = null;
  at("seeds").checked = state.seeds > 1;
  at("seed-state").textContent = "";
  if (state.seeds < 2 || recording || !runs.a || !runs.b) {
    draws.forget();
    return;
  }
  const asked = Object.fromEntries(["a", "b"].map((side) => [side, runRequest(state, state[side], catalogues[side].knobs, DATA.costs, [], tasks.map((task) => task.name))]));
  const found = await draws.ask(asked, (done) => { at("seed-state").textContent = `seed ${done + 1} of ${SEEDS}`; });
  if (!found) return;
  drawn = found;
  const same = ["a", "b"].every((side) => found[side].every((run) => METRICS.every(([, , read]) => read(run, -1) === read(found[side][0], -1))));
  at("seed-state").textContent = same ? "every seed gives the same run: nothing here is drawn at random"
    : `medians of ${SEEDS} pairs of seeds, the change with its 95 % interval (sign test)`;
  numbers();
}

/** The sentence under the first view, and the text for who reads with a screen reader. */
function summary() {
  if (!runs.a || !runs.b) return;
  const words = [];
  const longest = (run) => {
    const found = run.head.outcome.tasks.map((task) => [task.max_delay_ns, task.name]).sort((one, other) => other[0] - one[0]);
    return found[0];
  };
  const [a, b] = [longest(runs.a), longest(runs.b)];
  const label = (side) => `${runs[side].head.label} (${runs[side].head.eevdf ? "EEVDF" : "CFS"})`;
  at("headline").textContent = headline();
  for (const [side, most] of [["a", a], ["b", b]]) {
    const run = runs[side];
    words.push(`${side.toUpperCase()} is Linux ${label(side)} on ${run.head.outcome.cpus} ${run.head.outcome.cpus === 1 ? "CPU" : "CPUs"}; the run lasts ${span(run.end)} and switches ${run.head.outcome.switches} times.`);
    const top = run.head.outcome.tasks.map((task) => [task.run_ns, task.wait_ns, task.name]).sort((one, other) => other[0] - one[0]).slice(0, 8);
    words.push(top.map(([ran, waited, name]) => `${name} ran for ${span(ran)} and waited for ${span(waited)}`).join("; ") + ".");
    if (most) words.push(`The longest single wait is ${span(most[0])}, of ${most[1]}.`);
  }
  at("summary").textContent = words.join(" ");
  const notes = [...new Set([...(runs.a.head.text_notes ?? []), ...runs.a.head.outcome.notes, ...runs.b.head.outcome.notes])];
  at("notes").replaceChildren(...notes.slice(0, 6).map((text) => make("li", {}, text)));
}

/** What the gallery's entry compares, in a sentence that is true of the runs as they are. */
function headline() {
  const { replay } = runs.b.head;
  if (replay) {
    const picks = replay.report.decisions.pick;
    return replay.differing ? `Our rules pick otherwise than the kernel ${replay.differing} times, marked in the strip.`
      : `Our rules pick as the kernel did, each time: ${(picks.compared ?? picks.total ?? 0).toLocaleString("en")} picks compared.`;
  }
  const kinds = runs.a.head.kinds;
  const [what, kind = kinds[0]] = (GALLERY.find((one) => one.id === state.entry)?.watch ?? "wait").split(" ");
  const place = Math.max(kinds.indexOf(kind), 0);
  if (what === "turnaround") return `The turnaround is ${span(runs.a.head.outcome.turnaround_ns)} in A and ${span(runs.b.head.outcome.turnaround_ns)} in B.`;
  if (what === "share") {
    const part = (run) => {
      const own = run.head.outcome.tasks.reduce((time, task, number) => time + (run.arrays.task_kind[number] === place ? task.run_ns : 0), 0);
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

// ---- Why ---------------------------------------------------------------------------------------------------------

/** Puts the cursor where the pointer is and says why. */
function point(event) {
  const frame = at("frame");
  const box = frame.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top + frame.scrollTop];
  const lane = timeline.lanes?.find((lane) => lane.kind !== "head" && y >= lane.top && y < lane.top + lane.height);
  if (!lane || x < LEFT) return;
  const time = Math.min(Math.max(timeline.time(x, frame.clientWidth), 0), end());
  timeline.cursor = { side: lane.side, kind: lane.kind, number: lane.number, time };
  draw();
  why();
}

/** The CPU that the cursor is about. */
function cursorCpu() {
  const { side, kind, number, time } = timeline.cursor;
  const run = runs[side];
  if (kind === "cpu") return number;
  if (kind === "differs") {
    for (let cpu = 0; cpu < run.head.outcome.cpus; cpu++) {
      const [a, b] = [running(runs.a, cpu, time), running(runs.b, cpu, time)];
      if ((a < 0 ? "" : runs.a.names[a]) !== (b < 0 ? "" : runs.b.names[b])) return cpu;
    }
    return 0;
  }
  const { segment_offset: offset, segment_start: starts, segment_cpu: cpus } = run.arrays;
  let found = 0;
  for (let at = offset[number]; at < offset[number + 1] && starts[at] <= time; at++) found = cpus[at];
  return found;
}

let explained = 0;

async function why(said = null) {
  const mine = ++explained;
  const { side, time, kind, number } = timeline.cursor;
  const run = runs[side];
  if (!run) return;
  const cpu = cursorCpu();
  at("present").textContent = `${side.toUpperCase()}: ${present(run, cpu, time)}`;
  const known = await decisions[side].around(time, Math.max(run.end / 50, 1e6));
  if (mine !== explained || !known) return;
  const list = [];
  if (said !== null && known.decision_time[said] !== undefined) list.push(said);
  const pick = lastDecision(known, time, (place) => known.decision_cpu[place] === cpu && known.decision_kind[place] === 0);
  const other = lastDecision(known, time, (place) =>
    known.decision_cpu[place] === cpu && known.decision_kind[place] !== 0 && known.decision_kind[place] !== 5 && known.decision_kind[place] !== 6
    && (kind !== "task" || known.decision_task[place] === number || known.decision_kind[place] === 1 || known.decision_kind[place] === 2));
  for (const place of [pick, other]) if (place >= 0 && !list.includes(place)) list.push(place);
  at("reasons").replaceChildren(...list.slice(0, 2).map((place) => {
    const one = reason(known, place);
    return make("li", {}, make("span", { class: "when" }, moment(one.time)), make("button", { type: "button", class: "rule",
      title: `${TERMS[one.kind] ?? ""}: opens its page`, onclick: () => concept(conceptOf(one.kind, one.said, run.head.eevdf)) }, one.what), `: ${one.said}`);
  }));
  at("step").textContent = `decisions of CPU ${cpu} in ${side.toUpperCase()}`;
}

/** Opens the page about a rule. */
function concept(name) {
  at("concept-text").replaceChildren(...rendered(DATA.concepts[name]));
  at("concept").showModal();
  at("concept").scrollTop = 0;
}

const TERMS = {
  pick: "pick_next_task: which task runs next", wakeup: "wakeup_preempt: whether a waking task preempts the current one",
  turn: "task_tick, update_curr: whether the current task goes on", place: "place_entity: where in virtual time a task comes in",
  select: "select_task_rq: the CPU of a waking task", throttle: "throttle_cfs_rq: a group's quota is used up",
  unthrottle: "unthrottle_cfs_rq: the quota is refilled", newidle: "sched_balance_newidle: what an idling CPU pulls", balance: "sched_balance_rq",
};

/** Steps to the decision before or after the cursor. */
async function step(forward, ofTask) {
  if (!runs.a && !runs.b) return;
  timeline.cursor ??= { side: runs.b ? "b" : "a", kind: "cpu", number: 0, time: timeline.view.from };
  const { cursor } = timeline;
  const run = runs[cursor.side];
  const cpu = cursorCpu();
  let task = null;
  if (ofTask) task = cursor.kind === "task" ? cursor.number : running(run, cpu, cursor.time);
  let [time, length] = [cursor.time, Math.max(run.end / 50, 1e6)];
  for (let tries = 0; tries < 400; tries++) {
    const known = await decisions[cursor.side].around(Math.min(Math.max(time, 0), run.end - 1), length);
    if (!known) return;
    const found = nextDecision(known, cursor.time, forward, cpu, task);
    if (found >= 0) {
      cursor.time = known.decision_time[found];
      const { from, to } = timeline.view;
      if (cursor.time < from || cursor.time > to) show(cursor.time - (to - from) / 2, cursor.time + (to - from) / 2);
      draw();
      await why(found);
      return;
    }
    const edge = forward ? known.to + 1 : known.from - 1;
    if (edge < 0 || edge >= run.end) return;
    time = edge;
    length *= 1.5;
  }
}

// ---- Controls ----------------------------------------------------------------------------------------------------

function touched() {
  state.entry = "";
  caption();
  refresh();
}

/** Makes controls anew and leaves the focus on the one that had it: who uses a keyboard goes on from there. */
function keepingFocus(remake) {
  const name = (one) => `${one.tagName} ${one.getAttribute("aria-label") ?? one.closest("label")?.textContent ?? one.textContent}`;
  const section = (one) => one.closest("section > div")?.id;
  const before = document.activeElement;
  const [called, within] = [name(before), section(before)];
  remake();
  if (before.isConnected || !within) return;
  const all = at(within).querySelectorAll("button, select, input, textarea, summary, [tabindex]");
  [...all].find((one) => name(one) === called)?.focus();
}

function controls() {
  const builtin = state.workload.split(":")[0];
  const names = catalogues.a.workloads.map((one) => [one.name, one.name]);
  const list = choice("workload", [["JSON below", ""], ...names], state.json === null ? builtin : "", (name) => {
    if (name === "") editFromWorkload();
    else Object.assign(state, { json: null, workload: name, tasks: {}, groups: [], sessions: [], from: null, to: null, lanes: "" });
    chosen = [];
    touched();
    refresh(true);
  });
  at("workload").replaceChildren(make("div", { class: "row" }, list,
    make("button", { type: "button", onclick: editFromWorkload }, "edit as JSON")), ...keyControls(builtin));
  at("editor-box").hidden = state.json === null;
  if (state.json !== null && at("editor").value !== state.json) at("editor").value = state.json;
  gutter();
  at("machine").replaceChildren(machineControls());
  taskControls();
  for (const side of ["a", "b"]) sideControls(side);
  hybrids();
  caption();
}

function keyControls(name) {
  if (state.json !== null) return [];
  const builder = catalogues.a.workloads.find((one) => one.name === name);
  if (!builder) return [];
  const given = readKeys(state.workload);
  return [make("p", { class: "hint" }, builder.summary), ...builder.keys.map((key) => {
    const set = (text) => {
      state.workload = withKey(state.workload, builder, key.name, text);
      touched();
    };
    const text = given[key.name] ?? key.default;
    if (key.kind === "switch") return toggle(key.name, key.summary, text === "1", key.name in given, (on) => set(on ? "1" : "0"));
    const number = (value) => (key.kind === "time" ? parseTime(value) : Number(value));
    if (key.kind === "bytes" || Number.isNaN(number(text))) {
      return make("div", { class: "knob", title: `${key.summary}; ${key.allowed}` }, make("label", {}, key.name), field(key.name, text, key.allowed, set));
    }
    // A slider ends where a page still answers at once; the field takes what the workload allows.
    const high = Math.min(key.high, Math.max(number(key.default) * 64, key.kind === "time" ? 1e9 : 64));
    return slider({ label: key.name, title: `${key.summary}; ${key.allowed}`, kind: key.kind === "time" ? "time" : "count", low: Math.min(key.low, high),
      high, value: key.name in given ? number(text) : undefined, normal: number(key.default), change: set });
  })];
}

/** Puts the built-in workload's text into the editor. */
async function editFromWorkload() {
  if (state.json === null) {
    const answer = await questions.setup.ask({ op: "workload", ...setupRequest({ ...state, tasks: {}, groups: [], sessions: [] }) });
    if (!answer || answer.head.error) return;
    state.json = answer.head.json;
    at("editor").value = state.json;
  }
  at("editor-box").hidden = false;
  touched();
  refresh(true);
}

function machineControls() {
  const set = (name, read = (text) => text) => (text) => {
    state[name] = read(text);
    touched();
  };
  return make("div", {},
    slider({ label: "CPUs", title: "How many CPUs the machine has", kind: "count", low: 1, high: 64, value: state.cpus === 1 ? undefined : state.cpus, normal: 1,
      change: (text) => { state.cpus = Number(text ?? 1); touched(); } }),
    make("div", { class: "knob" }, make("label", {}, "topology"), field("topology", state.topology, "smt=2,llc=4", set("topology"))),
    make("div", { class: "knob" }, make("label", {}, "costs"), choice("costs",
      [["ideal: only work takes time", "ideal"], [`reference: ${DATA.reference}`, "reference"], ["linsched: the study's", "linsched"],
      ...(state.machine ? [[`${state.costs}: the report's machine`, "report"]] : [])], state.machine ? "report" : state.costs, (name) => {
        if (name !== "report") Object.assign(state, { costs: name, machine: "" });
        touched();
      })),
    make("div", { class: "knob" }, make("label", {}, "ticks a second"), choice("ticks a second", ["100", "250", "300", "1000"].map((text) => [text, text]), String(state.hz), set("hz", Number))),
    make("div", { class: "knob" }, make("label", {}, "seed"), field("seed", String(state.seed), "1", set("seed", (text) => Number(text) || 1))),
    make("div", { class: "knob" }, make("label", {}, "ends after"), field("ends after", state.duration, "the workload's end", set("duration"))));
}

function taskControls() {
  const rows = tasks.slice(0, 40).map((task) => {
    const given = state.tasks[task.name] ?? {};
    const set = (name) => (text) => {
      const treatment = { ...state.tasks[task.name], [name]: text };
      if (text === "") delete treatment[name];
      state.tasks[task.name] = treatment;
      touched();
    };
    return make("tr", {}, make("th", { scope: "row" }, task.name),
      ...[["policy", task.policy], ["nice", task.nice], ["slice", task.slice ?? "default"], ["affinity", task.affinity.join(",") || "all"], ["group", task.group ?? "none"]]
        .map(([name, normal]) => make("td", {}, field(`${name} of ${task.name}`, given[name], String(normal), set(name), "narrow"))));
  });
  const head = make("tr", {}, ...["task", "policy", "nice", "slice", "CPUs", "group"].map((text) => make("th", { scope: "col" }, text)));
  const list = (name, hint) => make("div", { class: "knob" }, make("label", {}, name), field(name, state[name].join(" "), hint, (text) => {
    state[name] = text.split(/\s+/).filter(Boolean);
    touched();
  }));
  at("tasks").replaceChildren(make("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "attributes of each task" }, make("table", {}, head, ...rows)),
    list("groups", "/web:weight=300,tasks=2"), list("sessions", "tty1:tasks=1"));
}

function sideControls(side) {
  const one = state[side];
  const { knobs, rules, releases, eevdf } = catalogues[side];
  const remake = async () => {
    state.entry = "";
    await refresh(true);
  };
  const release = choice(`kernel ${side.toUpperCase()}`, releases.map((row) => [`${row.series} ${row.eevdf ? "EEVDF" : "CFS"}`, row.series]),
    releases.find((row) => row.release === one.release || row.series === one.release)?.series ?? one.release, (series) => {
      one.release = series;
      one.rules = {};
      remake();
    });
  const set = (name) => (text) => {
    if (text === null) delete one.knobs[name];
    else one.knobs[name] = text;
    touched();
  };
  const numeric = (row, text) => (text === undefined ? undefined : row.kind === "time" ? (text === "unlimited" ? row.high : parseTime(text)) : Number(text));
  const shown = knobs.filter((row) => row.exists && row.simulated);
  const sliders = shown.filter((row) => row.kind !== "switch").map((row) => slider({ label: row.name, title: row.summary, kind: row.kind, low: row.low, high: row.high,
    value: numeric(row, one.knobs[row.name]), normal: row.default, change: set(row.name) }));
  const switches = shown.filter((row) => row.kind === "switch").map((row) => {
    const given = one.knobs[row.name];
    const on = given === undefined ? row.default === 1 : !["0", "off", "false"].includes(given);
    return toggle(row.name.replace("feature.", ""), row.summary, on, given !== undefined, (value) => set(row.name)(Number(value) === row.default ? null : String(Number(value))));
  });
  const gone = knobs.filter((row) => !row.exists && !row.name.startsWith("feature.") && row.instead && row.name in { latency: 1, min_granularity: 1, wakeup_granularity: 1, base_slice: 1 });
  const flags = rules.filter((row) => row.kind === "flag").map((row) => {
    const on = one.rules[row.name] ?? row.on;
    return toggle(row.name, `${row.does} (since ${row.since}${row.commit ? `, ${row.commit.hash} "${row.commit.subject}"` : ""})`, on, row.name in one.rules, (value) => {
      if (value === row.on) delete one.rules[row.name];
      else one.rules[row.name] = value;
      touched();
    });
  });
  const all = ["policy", "nice", "slice"].map((name) => make("div", { class: "knob" }, make("label", {}, name),
    field(`${name} of all tasks of ${side.toUpperCase()}`, one.task[name], "as the workload says", (text) => {
      if (text === "") delete one.task[name];
      else one.task[name] = text;
      touched();
    })));
  const open = (name) => at(`side-${side}`).querySelector(`details[data-name="${name}"]`)?.open ?? false;
  at(`side-${side}`).replaceChildren(
    make("div", { class: "row" }, release, choice(`thread weights of ${side.toUpperCase()}`, [["weights by task", "none"], ["weights: pfs", "pfs"], ["weights: dw-cfs", "dw-cfs:beta=1.1"]], one.weights, (text) => {
      one.weights = text;
      touched();
    })),
    make("p", { id: `fault-${side}`, class: "fault", role: "alert" }),
    make("p", { id: `hybrid-${side}`, class: "hint" }),
    ...sliders,
    gone.length ? make("p", { class: "hint" }, gone.map((row) => `${row.name}: ${row.instead}`).join("; ")) : null,
    make("details", { "data-name": "all", open: open("all") || Object.keys(one.task).length > 0 }, make("summary", {}, "policy, nice and slice of all tasks"), ...all),
    make("details", { "data-name": "switches", open: open("switches") }, make("summary", {}, `features and switches (${switches.length})`), make("div", { class: "toggles" }, ...switches)),
    make("details", { "data-name": "rules", open: open("rules") }, make("summary", {}, `rules by name (${flags.length})`), make("div", { class: "toggles" }, ...flags)),
  );
}

// ---- The editor --------------------------------------------------------------------------------------------------

function showFault(head) {
  const editing = state.json !== null;
  at("editor-fault").textContent = head && editing ? `${head.line ? `line ${head.line}: ` : ""}${head.error}` : "";
  at("workload-fault").textContent = head && !editing ? head.error : "";
  gutter(editing && head?.line ? head.line : 0);
  document.body.classList.toggle("refused", Boolean(head));
}

function gutter(wrong = 0) {
  const lines = at("editor").value.split("\n").length;
  at("gutter").replaceChildren(...Array.from({ length: lines }, (_, line) => make("div", { class: line + 1 === wrong ? "wrong" : "" }, String(line + 1))));
  const mark = at("mark");
  mark.hidden = !wrong;
  if (wrong) mark.style.top = `${8 + (wrong - 1) * 18 - at("editor").scrollTop}px`;
}

// ---- Gallery, sharing, keys --------------------------------------------------------------------------------------

function caption() {
  const entry = recording ? null : GALLERY.find((one) => one.id === state.entry);
  at("title").textContent = recording ? recording.name : entry ? entry.title : state.json === null ? state.workload : "your workload";
  at("story").hidden = !entry;
  if (entry) {
    at("sentences").textContent = entry.sentences.join(" ");
    at("attempt").textContent = entry.attempt;
  }
}

function open(next) {
  recording = null;
  state = next;
  chosen = [];
  timeline.cursor = null;
  timeline.filter = "";
  at("present").textContent = "Point at the timeline, or step with the arrows.";
  at("reasons").replaceChildren();
  at("editor").value = state.json ?? "";
  refresh(true);
}

function openEntry(place) {
  const entry = GALLERY[place];
  if (!entry) return;
  open(entry.state());
  at("menu-gallery").open = false;
}

/** The kernel's schedule of a recording becomes A, that of our rules B. */
async function openRecording(name, blob) {
  const head = new Uint8Array(await blob.slice(0, 2).arrayBuffer());
  const packed = head[0] === 0x1f && head[1] === 0x8b;
  const text = await new Response(packed ? blob.stream().pipeThrough(new DecompressionStream("gzip")) : blob).text();
  open({ ...fresh(), lanes: "cpu" });
  recording = { name, text, release: "" };
  at("recording-name").textContent = name;
  at("recording-release").value = "";
  refresh(true);
}

/** Opens a file: a recording, or a workload's text. */
async function openFile(file) {
  const begin = await file.slice(0, 64).text();
  if (/^\s*(\{|\/\*)/.test(begin)) open({ ...fresh(), json: await file.text() });
  else await openRecording(file.name, file);
}

async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    tell(`${what} copied`);
  } catch {
    at("copied").value = text;
    at("copied-box").showModal();
    at("copied").select();
  }
}

function tell(text) {
  at("told").textContent = text;
  clearTimeout(tell.later);
  tell.later = setTimeout(() => { at("told").textContent = ""; }, 4000);
}

const SHARES = {
  link: () => copy(location.href, "the address"),
  command: () => copy(command(state), "the command"),
  python: () => copy(python(state), "the program"),
  json: async () => {
    const answer = await questions.setup.ask({ op: "workload", ...setupRequest(state) });
    if (answer && !answer.head.error) copy(answer.head.json, "the workload");
  },
  perfetto: () => save("schedlab.json", perfetto(runs)),
  svg: () => save("schedlab.svg", svg(timeline, at("frame").clientWidth)),
  png: () => {
    paint();
    at("lanes").toBlob((blob) => save("schedlab.png", blob));
  },
};

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const field = event.target.closest("input, textarea, select");
  if (field) {
    if (event.key === "Escape") field.blur();
    return;
  }
  const act = ACTIONS[event.key] ?? (/^[1-9]$/.test(event.key) ? () => openEntry(Number(event.key) - 1) : null);
  if (!act) return;
  event.preventDefault();
  act();
}

const ACTIONS = {
  w: () => zoom(0.6), s: () => zoom(1.7), a: () => pan(-0.25), d: () => pan(0.25), "+": () => zoom(0.6), "-": () => zoom(1.7),
  ArrowUp: () => zoom(0.6), ArrowDown: () => zoom(1.7), h: () => pan(-0.25), l: () => pan(0.25),
  f: () => show(0, end()), t: () => lanes(), x: () => swap(), "=": () => equal(), D: () => only(), "/": () => at("find").focus(),
  ArrowLeft: () => step(false, false), ArrowRight: () => step(true, false), "<": () => step(false, true), ">": () => step(true, true),
  "?": () => at("keys").showModal(),
};

function lanes() {
  state.lanes = timeline.mode === "cpu" ? "task" : "cpu";
  timeline.mode = state.lanes;
  at("frame").scrollTop = 0;
  history.replaceState(null, "", `#${toAddress(state)}`);
  draw();
}

function swap() {
  [state.a, state.b] = [state.b, state.a];
  state.entry = "";
  refresh(true);
}

function equal() {
  state.b = structuredClone(state.a);
  state.entry = "";
  refresh(true);
}

function only() {
  timeline.only = !timeline.only;
  draw();
}

function listen() {
  const frame = at("frame");
  document.addEventListener("keydown", key);
  frame.addEventListener("scroll", draw);
  addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  frame.addEventListener("wheel", (event) => {
    if (event.shiftKey || (timeline.height <= frame.clientHeight ? false : !event.ctrlKey && event.deltaX === 0)) return;
    event.preventDefault();
    const time = timeline.time(event.clientX - frame.getBoundingClientRect().left, frame.clientWidth);
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX / frame.clientWidth);
    else zoom(Math.exp(event.deltaY / 400), time);
  }, { passive: false });
  const pointers = new Map();
  let moved = false;
  frame.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, event);
    moved = false;
  });
  frame.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const others = [...pointers.values()].filter((one) => one.pointerId !== event.pointerId);
    const room = timeline.view.to - timeline.view.from;
    if (others.length) {
      const [was, is] = [Math.abs(before.clientX - others[0].clientX), Math.abs(event.clientX - others[0].clientX)];
      if (was > 8 && is > 8) zoom(was / is, timeline.time((event.clientX + others[0].clientX) / 2 - frame.getBoundingClientRect().left, frame.clientWidth));
    } else if (moved || Math.abs(event.clientX - before.clientX) > 3) {
      if (!moved) frame.setPointerCapture(event.pointerId);
      const shift = ((before.clientX - event.clientX) / (frame.clientWidth - LEFT)) * room;
      const left = Math.min(Math.max(timeline.view.from + shift, 0), end() - room);
      show(left, left + room);
    } else return;
    moved = true;
    pointers.set(event.pointerId, event);
  });
  for (const name of ["pointerup", "pointercancel"]) {
    frame.addEventListener(name, (event) => {
      pointers.delete(event.pointerId);
      if (name === "pointerup" && !moved) point(event);
    });
  }
  let hover = 0;
  frame.addEventListener("mousemove", (event) => {
    if (pointers.size) return;
    cancelAnimationFrame(hover);
    hover = requestAnimationFrame(() => point(event));
  });
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files.length) openFile(event.dataTransfer.files[0]);
  });
  at("file").addEventListener("change", () => { if (at("file").files.length) openFile(at("file").files[0]); });
  at("recording-release").addEventListener("change", () => { recording.release = at("recording-release").value; refresh(); });
  at("recording-close").addEventListener("click", () => open(GALLERY[0].state()));
  new Completion(at("editor"), at("completion"), DATA.schema);
  at("seeds").addEventListener("change", () => {
    state.seeds = at("seeds").checked ? SEEDS : 1;
    history.replaceState(null, "", `#${toAddress(state)}`);
    overSeeds().then(numbers);
  });
  let typing = 0;
  at("editor").addEventListener("input", () => {
    state.json = at("editor").value;
    gutter();
    clearTimeout(typing);
    typing = setTimeout(() => { chosen = []; touched(); }, 150);
  });
  at("editor").addEventListener("scroll", () => { at("gutter").scrollTop = at("editor").scrollTop; });
  at("editor").addEventListener("blur", () => {
    if (state.json === null) return;
    state.json = at("editor").value;
    refresh(true);
  });
  at("find").addEventListener("input", () => {
    timeline.filter = at("find").value;
    timeline.mode = "task";
    state.lanes = "task";
    draw();
  });
  at("delay-kind").addEventListener("change", () => { numbers(); draw(); });
  at("quantity").addEventListener("change", () => { quantity = at("quantity").value; draw(); });
  for (const button of document.querySelectorAll("[data-share]")) {
    button.addEventListener("click", () => { SHARES[button.dataset.share](); at("menu-share").open = false; });
  }
  for (const button of document.querySelectorAll("[data-key]")) button.addEventListener("click", () => ACTIONS[button.dataset.key]());
  addEventListener("hashchange", () => { if (`#${toAddress(state)}` !== location.hash) open(fromAddress(location.hash)); });
  addEventListener("beforeprint", paint);
  at("gallery").replaceChildren(...GALLERY.map((entry, place) => make("li", {}, make("button", { type: "button", "data-entry": entry.id, onclick: () => openEntry(place) },
    make("b", {}, place < 9 ? `${place + 1}  ${entry.title}` : entry.title), make("span", {}, entry.sentences[0])))));
  at("key-list").replaceChildren(...AXIS_KEYS.map(([keys, text]) => make("tr", {}, make("th", { scope: "row" }, keys), make("td", {}, text))));
}

listen();
open(location.hash.length > 1 ? fromAddress(location.hash) : GALLERY[0].state());
const served = new URLSearchParams(location.search).get("recording");
if (served) fetch("recording").then((answer) => answer.blob()).then((blob) => openRecording(served, blob));
// For measurements and tests.
window.live = { timeline, runs, paint, show, step, state: () => state, set: (next) => open(next), fromAddress, toAddress, palette: PALETTE, compared, interval, svg: () => svg(timeline, 900), perfetto: () => perfetto(runs), command: () => command(state), python: () => python(state) };
