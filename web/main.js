// The page: from a change to a request, from an answer to pixels.

import { drawCurves, drawDelays } from "./charts.js";
import { Completion } from "./completion.js";
import { conceptOf, rendered } from "./concepts.js";
import { at, choice, make } from "./controls.js";
import { Latest } from "./engine.js";
import { command, perfetto, python, save, svg } from "./export.js";
import { GALLERY } from "./gallery.js";
import { AXIS_KEYS } from "./keys.js";
import { LEFT, PALETTE, Timeline, prepare, running } from "./lanes.js";
import { METRICS, SEEDS, compared, interval } from "./metrics.js";
import { keepingFocus, keyControls, machineControls, sideControls, taskControls } from "./panels.js";
import { follow } from "./pointer.js";
import { Draws } from "./seeds.js";
import { fresh, fromAddress, runRequest, setupRequest, toAddress } from "./state.js";
import { headline, numbers, sentences } from "./summary.js";
import { moment } from "./units.js";
import { Decisions, lastDecision, nextDecision, present, reason } from "./why.js";

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
/** What the panels read and call. */
const page = {
  get state() { return state; },
  get tasks() { return tasks; },
  catalogues, touched, refresh, costs: DATA.reference,
};

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
  showNumbers();
  summarise();
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

function showNumbers() {
  at("numbers").replaceChildren(...numbers(runs, drawn, delayKind()));
}

/** The sentence under the first view, the text for users of screen readers, and the notes. */
function summarise() {
  if (!runs.a || !runs.b) return;
  at("headline").textContent = headline(runs, GALLERY.find((one) => one.id === state.entry));
  at("summary").textContent = sentences(runs);
  const notes = [...new Set([...(runs.a.head.text_notes ?? []), ...runs.a.head.outcome.notes, ...runs.b.head.outcome.notes])];
  at("notes").replaceChildren(...notes.slice(0, 6).map((text) => make("li", {}, text)));
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
  showNumbers();
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
    make("button", { type: "button", onclick: editFromWorkload }, "edit as JSON")), ...keyControls(page, builtin));
  at("editor-box").hidden = state.json === null;
  if (state.json !== null && at("editor").value !== state.json) at("editor").value = state.json;
  gutter();
  at("machine").replaceChildren(machineControls(page));
  at("tasks").replaceChildren(...taskControls(page));
  for (const side of ["a", "b"]) at(`side-${side}`).replaceChildren(...sideControls(page, side));
  hybrids();
  caption();
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
  follow(frame, timeline, { zoom, pan, show, end, point });
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
    overSeeds().then(showNumbers);
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
  at("delay-kind").addEventListener("change", () => { showNumbers(); draw(); });
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
