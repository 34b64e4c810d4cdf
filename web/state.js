// What the page shows, and the address that says it all.

/** The state of a page on which nothing was changed. */
export function fresh() {
  return {
    entry: "", workload: "hogs", json: null, cpus: 1, topology: "", costs: "ideal", machine: "", hz: 250, seed: 1, seeds: 1, duration: "",
    a: side("6.1"), b: side("6.12"), tasks: {}, groups: [], sessions: [], lanes: "", from: null, to: null,
  };
}

/** One of the two kernels. */
export function side(release) {
  return { release, knobs: {}, rules: {}, weights: "none", task: {} };
}

const TREATMENTS = ["policy", "nice", "slice", "affinity", "group"];

function sideText(one) {
  const parts = [one.release];
  for (const [name, value] of Object.entries(one.knobs)) parts.push(`${name}=${value}`);
  for (const [name, on] of Object.entries(one.rules)) parts.push(`rule.${name}=${on ? "on" : "off"}`);
  if (one.weights !== "none") parts.push(`weights=${one.weights}`);
  for (const name of TREATMENTS) if (one.task[name]) parts.push(`task.${name}=${one.task[name]}`);
  return parts.join(";");
}

function readSide(text) {
  const [release, ...parts] = text.split(";");
  const one = side(release);
  for (const part of parts) {
    const at = part.indexOf("=");
    const [name, value] = [part.slice(0, at), part.slice(at + 1)];
    if (name === "weights") one.weights = value;
    else if (name.startsWith("rule.")) one.rules[name.slice(5)] = value === "on";
    else if (name.startsWith("task.")) one.task[name.slice(5)] = value;
    else if (name) one.knobs[name] = value;
  }
  return one;
}

/** The part of the address after '#'. */
export function toAddress(state) {
  const plain = fresh();
  const words = new URLSearchParams();
  for (const name of ["entry", "topology", "machine", "duration", "lanes"]) if (state[name]) words.set(name, state[name]);
  if (state.json === null) words.set("workload", state.workload);
  else words.set("json", state.json);
  for (const name of ["cpus", "costs", "hz", "seed", "seeds"]) if (state[name] !== plain[name]) words.set(name, state[name]);
  words.set("a", sideText(state.a));
  words.set("b", sideText(state.b));
  for (const [name, treatment] of Object.entries(state.tasks)) {
    const parts = TREATMENTS.filter((key) => treatment[key] !== undefined).map((key) => `${key}=${treatment[key]}`);
    if (parts.length) words.append("task", [name, ...parts].join(";"));
  }
  for (const group of state.groups) words.append("group", group);
  for (const session of state.sessions) words.append("session", session);
  if (state.from !== null) {
    words.set("from", Math.round(state.from));
    words.set("to", Math.round(state.to));
  }
  return words.toString();
}

/** The state that an address says. */
export function fromAddress(text) {
  const words = new URLSearchParams(text.replace(/^#/, ""));
  const state = fresh();
  for (const name of ["entry", "topology", "machine", "duration", "lanes", "costs", "workload"]) state[name] = words.get(name) ?? state[name];
  for (const name of ["cpus", "hz", "seed", "seeds"]) if (words.has(name)) state[name] = Number(words.get(name)) || state[name];
  state.json = words.get("json");
  for (const name of ["a", "b"]) if (words.has(name)) state[name] = readSide(words.get(name));
  for (const text of words.getAll("task")) {
    const [name, ...parts] = text.split(";");
    state.tasks[name] = Object.fromEntries(parts.map((part) => part.split(/=(.*)/s).slice(0, 2)).filter(([key]) => TREATMENTS.includes(key)));
  }
  state.groups = words.getAll("group");
  state.sessions = words.getAll("session");
  if (words.has("from") && words.has("to")) [state.from, state.to] = [Number(words.get("from")), Number(words.get("to"))];
  return state;
}

function knobValue(text, row) {
  if (text === "unlimited" || text === "-1") return "unlimited";
  if (row?.kind === "switch") return !["0", "off", "false"].includes(text);
  if (row?.kind === "count") return /^\d+$/.test(text) ? Number(text) : text;
  return text;
}

function treatment(given) {
  const made = {};
  if (given.policy) made.policy = given.policy;
  if (given.nice !== undefined && given.nice !== "") made.nice = Number(given.nice);
  if (given.slice) made.slice = given.slice;
  if (given.affinity) made.affinity = cpus(given.affinity);
  if (given.group) made.group = given.group;
  return made;
}

/** The CPUs of a text such as 0-2,5. */
function cpus(text) {
  return text.split(",").filter(Boolean).flatMap((part) => {
    const [first, last] = part.split("-").map(Number);
    return last === undefined ? [first] : Array.from({ length: Math.min(Math.max(last - first + 1, 0), 4096) }, (_, place) => first + place);
  });
}

/** What the engine is asked for the workload alone. */
export function setupRequest(state) {
  const request = {
    workload: state.json === null ? { builtin: state.workload } : { text: state.json },
    tasks: Object.fromEntries(Object.entries(state.tasks).map(([name, given]) => [name, treatment(given)])),
    groups: state.groups, sessions: state.sessions,
  };
  if (state.duration) request.duration = state.duration;
  return request;
}

/** The machine but for its CPUs: that of a report where the state has one, else the costs by their name. */
function machineOf(state, costs) {
  try {
    if (state.machine) return JSON.parse(state.machine);
  } catch {
    // An address that was cut off: the costs are ideal.
  }
  return { costs: costs[state.costs] ?? {} };
}

/** What the engine is asked for one side's run. `names` are the workload's tasks. */
export function runRequest(state, one, rows, costs, standings, names) {
  const machine = { ...machineOf(state, costs), cpus: state.cpus };
  if (state.topology) machine.topology = state.topology;
  const knobs = {};
  for (const [name, text] of Object.entries(one.knobs)) {
    const row = rows.find((row) => row.name === name);
    // What the other release has was carried over from there.
    if (!row || row.exists) knobs[name] = knobValue(text, row);
  }
  const scheduler = { release: one.release, hz: state.hz, knobs, rules: one.rules };
  if (one.weights !== "none") scheduler.weights = one.weights;
  const given = names.map((name) => [name, { ...one.task, ...state.tasks[name] }]).filter(([, own]) => Object.keys(own).length);
  const tasks = Object.fromEntries(given.map(([name, own]) => [name, treatment(own)]));
  return { ...setupRequest(state), tasks, op: "run", machine, scheduler, seed: state.seed, standings };
}
