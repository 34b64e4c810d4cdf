// The controls on the left: workload, machine, tasks and both kernels, made of the page's state.
//
// Each function takes the page: its `state`, `tasks`, `catalogues` and `costs` (the name of the reference costs), `touched()` after a change of
// the state, and `refresh(true)` where controls have to be made anew.

import { at, choice, field, make, readKeys, slider, toggle, withKey } from "./controls.js";
import { exactTime, parseTime } from "./units.js";

/** Makes controls anew and leaves the focus on the one that had it: who uses a keyboard goes on from there. */
export function keepingFocus(remake) {
  const name = (one) => `${one.tagName} ${one.getAttribute("aria-label") ?? one.closest("label")?.textContent ?? one.textContent}`;
  const section = (one) => one.closest("section > div")?.id;
  const before = document.activeElement;
  const [called, within] = [name(before), section(before)];
  remake();
  if (before.isConnected || !within) return;
  const all = at(within).querySelectorAll("button, select, input, textarea, summary, [tabindex]");
  [...all].find((one) => name(one) === called)?.focus();
}

/** A control for each key of a built-in workload. */
export function keyControls(page, name) {
  if (page.state.json !== null) return [];
  const builder = page.catalogues.a.workloads.find((one) => one.name === name);
  if (!builder) return [];
  const given = readKeys(page.state.workload);
  return [make("p", { class: "hint" }, builder.summary), ...builder.keys.map((key) => {
    const set = (text) => {
      page.state.workload = withKey(page.state.workload, builder, key.name, text);
      page.touched();
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

/** CPUs, topology, costs, ticks, seed and end. */
export function machineControls(page) {
  const set = (name, read = (text) => text) => (text) => {
    page.state[name] = read(text);
    page.touched();
  };
  return make("div", {},
    slider({ label: "CPUs", title: "How many CPUs the machine has", kind: "count", low: 1, high: 64, value: page.state.cpus === 1 ? undefined : page.state.cpus, normal: 1,
      change: (text) => { page.state.cpus = Number(text ?? 1); page.touched(); } }),
    make("div", { class: "knob" }, make("label", {}, "topology"), field("topology", page.state.topology, "smt=2,llc=4", set("topology"))),
    make("div", { class: "knob" }, make("label", {}, "costs"), choice("costs",
      [["ideal: only work takes time", "ideal"], [`reference: ${page.costs}`, "reference"], ["linsched: the study's", "linsched"],
      ...(page.state.machine ? [[`${page.state.costs}: the report's machine`, "report"]] : [])], page.state.machine ? "report" : page.state.costs, (name) => {
        if (name !== "report") Object.assign(page.state, { costs: name, machine: "" });
        page.touched();
      })),
    make("div", { class: "knob" }, make("label", {}, "ticks a second"), choice("ticks a second", ["100", "250", "300", "1000"].map((text) => [text, text]), String(page.state.hz), set("hz", Number))),
    make("div", { class: "knob" }, make("label", {}, "seed"), field("seed", String(page.state.seed), "1", set("seed", (text) => Number(text) || 1))),
    make("div", { class: "knob" }, make("label", {}, "ends after"), field("ends after", page.state.duration, "the workload's end", set("duration"))));
}

/** The attributes of each task, groups and sessions. */
export function taskControls(page) {
  const rows = page.tasks.slice(0, 40).map((task) => {
    const given = page.state.tasks[task.name] ?? {};
    const set = (name) => (text) => {
      const treatment = { ...state.tasks[task.name], [name]: text };
      if (text === "") delete treatment[name];
      page.state.tasks[task.name] = treatment;
      page.touched();
    };
    return make("tr", {}, make("th", { scope: "row" }, task.name),
      ...[["policy", task.policy], ["nice", task.nice], ["slice", task.slice ?? "default"], ["affinity", task.affinity.join(",") || "all"], ["group", task.group ?? "none"]]
        .map(([name, normal]) => make("td", {}, field(`${name} of ${task.name}`, given[name], String(normal), set(name), "narrow"))));
  });
  const head = make("tr", {}, ...["task", "policy", "nice", "slice", "CPUs", "group"].map((text) => make("th", { scope: "col" }, text)));
  const list = (name, hint) => make("div", { class: "knob" }, make("label", {}, name), field(name, page.state[name].join(" "), hint, (text) => {
    page.state[name] = text.split(/\s+/).filter(Boolean);
    page.touched();
  }));
  return [make("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "attributes of each task" }, make("table", {}, head, ...rows)),
    list("groups", "/web:weight=300,tasks=2"), list("sessions", "tty1:tasks=1")];
}

/** A kernel's release, knobs, features and rules. */
export function sideControls(page, side) {
  const one = page.state[side];
  const { knobs, rules, releases } = page.catalogues[side];
  const remake = async () => {
    page.state.entry = "";
    await page.refresh(true);
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
    page.touched();
  };
  const amount = (row, number) => (row.kind === "time" ? exactTime(number) : String(number));
  const numeric = (row, text) => (text === undefined ? undefined : row.kind === "time" ? (text === "unlimited" ? row.high : parseTime(text)) : Number(text));
  const shown = knobs.filter((row) => row.exists && row.simulated);
  const sliders = shown.filter((row) => row.kind !== "switch").map((row) => slider({ label: row.name, title: `${row.summary}; ${amount(row, row.low)} to ${amount(row, row.high)}`, kind: row.kind, low: row.low, high: row.high,
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
      page.touched();
    });
  });
  const all = ["policy", "nice", "slice"].map((name) => make("div", { class: "knob" }, make("label", {}, name),
    field(`${name} of all tasks of ${side.toUpperCase()}`, one.task[name], "as the workload says", (text) => {
      if (text === "") delete one.task[name];
      else one.task[name] = text;
      page.touched();
    })));
  const open = (name) => at(`side-${side}`).querySelector(`details[data-name="${name}"]`)?.open ?? false;
  return [
    make("div", { class: "row" }, release, choice(`thread weights of ${side.toUpperCase()}`, [["weights by task", "none"], ["weights: pfs", "pfs"], ["weights: dw-cfs", "dw-cfs:beta=1.1"]], one.weights, (text) => {
      one.weights = text;
      page.touched();
    })),
    make("p", { id: `fault-${side}`, class: "fault", role: "alert" }),
    make("p", { id: `hybrid-${side}`, class: "hint" }),
    ...sliders,
    ...(gone.length ? [make("p", { class: "hint" }, gone.map((row) => `${row.name}: ${row.instead}`).join("; "))] : []),
    make("details", { "data-name": "all", open: open("all") || Object.keys(one.task).length > 0 }, make("summary", {}, "policy, nice and slice of all tasks"), ...all),
    make("details", { "data-name": "switches", open: open("switches") }, make("summary", {}, `features and switches (${switches.length})`), make("div", { class: "toggles" }, ...switches)),
    make("details", { "data-name": "rules", open: open("rules") }, make("summary", {}, `rules by name (${flags.length})`), make("div", { class: "toggles" }, ...flags)),
  ];
}
