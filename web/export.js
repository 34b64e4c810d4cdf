// The state and its runs in other forms: a command, a program, a trace, a picture.


function quote(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** The workload's word on a command line; a text of its own is a file to save first. */
function word(state) {
  return state.json === null ? state.workload : "workload.json";
}

/** Options of one side that the command line and the Python API have in common. */
function settings(one) {
  return Object.entries(one.knobs).filter(([, value]) => value !== "");
}

/** What a command or a program cannot say of the state. */
function remarks(state) {
  const single = Object.values(state.tasks).some((treatment) => Object.keys(treatment).length);
  return (single ? "# The attributes of single tasks are in the JSON workload: copy that.\n" : "")
    + (state.machine ? `# The machine's costs are those that the report calls ${state.costs}.\n` : "");
}

/** Two commands, one a side. */
export function command(state) {
  const lines = ["a", "b"].map((name) => {
    const one = state[name];
    const words = ["schedlab", "run", quote(word(state)), "--on", "sim", "--kernel", one.release, "--cpus", state.cpus, "--costs", state.costs];
    if (state.topology) words.push("--topology", state.topology);
    if (state.hz !== 250) words.push("--hz", state.hz);
    if (state.seed !== 1) words.push("--seed", state.seed);
    for (const [knob, value] of settings(one)) words.push("--set", quote(`${knob}=${value}`));
    for (const [rule, on] of Object.entries(one.rules)) words.push("--rule", `${rule}=${on ? "on" : "off"}`);
    if (one.weights !== "none") words.push("--weights", one.weights);
    for (const [name, value] of Object.entries(one.task)) words.push(`--${name}`, quote(value));
    for (const group of state.groups) words.push("--group", quote(group));
    for (const session of state.sessions) words.push("--session", quote(session));
    return words.join(" ");
  });
  return `${remarks(state)}${lines.join("\n")}\n`;
}

/** A Python program that simulates both sides. */
export function python(state) {
  const text = (value) => JSON.stringify(value);
  const machine = [state.cpus, text(state.costs), ...(state.topology ? [text(state.topology)] : [])].join(", ");
  const scheduler = (one) => {
    const parts = [text(one.release)];
    const knobs = settings(one).map(([name, value]) => `${text(name)}: ${text(value)}`);
    if (knobs.length) parts.push(`knobs={${knobs.join(", ")}}`);
    if (state.hz !== 250) parts.push(`hz=${state.hz}`);
    if (one.weights !== "none") parts.push(`weights=${text(one.weights)}`);
    const rules = Object.entries(one.rules).map(([name, on]) => `${text(name)}: ${on ? "True" : "False"}`);
    if (rules.length) parts.push(`rules={${rules.join(", ")}}`);
    const all = Object.keys(one.task).length ? `schedlab.Attributes(${[text(one.task.policy ?? "other"), one.task.nice ?? 0,
      ...(one.task.slice ? [text(one.task.slice)] : [])].join(", ")})` : "None";
    return `(schedlab.Scheduler(${parts.join(", ")}), ${all})`;
  };
  const groups = state.groups.length || state.sessions.length ? `.with_groups(${text(state.groups)}, ${text(state.sessions)})` : "";
  return `${remarks(state)}import schedlab

workload = schedlab.Workload.parse(${text(word(state))})${groups}
machine = schedlab.Machine(${machine})
for name, (scheduler, attributes) in {
    "A": ${scheduler(state.a)},
    "B": ${scheduler(state.b)},
}.items():
    outcome = schedlab.simulate(workload, scheduler=scheduler, attributes=attributes, machine=machine, seed=${state.seed})
    print(name, outcome.turnaround_ns)
`;
}

/** Both schedules as a trace that Perfetto opens (Chrome's JSON form). */
export function perfetto(runs) {
  const events = [];
  for (const [place, side] of ["a", "b"].entries()) {
    const run = runs[side];
    if (!run) continue;
    const pid = place + 1;
    events.push({ ph: "M", pid, name: "process_name", args: { name: `${side.toUpperCase()} ${run.head.label}` } });
    const { slice_offset: offset, slice_start: starts, slice_end: ends, slice_task: tasks } = run.arrays;
    for (let cpu = 0; cpu + 1 < offset.length; cpu++) {
      events.push({ ph: "M", pid, tid: cpu, name: "thread_name", args: { name: `CPU ${cpu}` } });
      for (let at = offset[cpu]; at < offset[cpu + 1]; at++) {
        events.push({ ph: "X", pid, tid: cpu, ts: starts[at] / 1e3, dur: (ends[at] - starts[at]) / 1e3, name: run.names[tasks[at]] });
      }
    }
  }
  return JSON.stringify({ displayTimeUnit: "ns", traceEvents: events });
}

function escape(text) {
  return String(text).replace(/[&<>"]/g, (letter) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[letter]);
}

/** A context that writes SVG: as much of a canvas' as the timeline uses. */
class SvgContext {
  constructor() {
    this.parts = [];
    this.fillStyle = this.strokeStyle = "#000";
    this.font = "12px sans-serif";
    this.textAlign = "left";
    this.lineWidth = 1;
    this.globalAlpha = 1;
    this.path = [];
  }

  fillRect(x, y, width, height) {
    const opacity = this.globalAlpha < 1 ? ` fill-opacity="${this.globalAlpha}"` : "";
    this.parts.push(`<rect x="${round(x)}" y="${round(y)}" width="${round(width)}" height="${round(height)}" fill="${this.fillStyle}"${opacity}/>`);
  }

  strokeRect(x, y, width, height) {
    this.parts.push(`<rect x="${round(x)}" y="${round(y)}" width="${round(width)}" height="${round(height)}" fill="none" stroke="${this.strokeStyle}"/>`);
  }

  fillText(text, x, y) {
    const anchor = this.textAlign === "center" ? "middle" : "start";
    const weight = this.font.startsWith("600") ? ` font-weight="600"` : "";
    this.parts.push(`<text x="${round(x)}" y="${round(y + 4)}" fill="${this.fillStyle}" text-anchor="${anchor}"${weight}>${escape(text)}</text>`);
  }

  beginPath() { this.path = []; }
  moveTo(x, y) { this.path.push(`M${round(x)} ${round(y)}`); }
  lineTo(x, y) { this.path.push(`L${round(x)} ${round(y)}`); }
  rect(x, y, width, height) { this.path.push(`M${round(x)} ${round(y)}h${round(width)}v${round(height)}h${round(-width)}z`); }
  stroke() { this.parts.push(`<path d="${this.path.join("")}" fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}"/>`); }
  fill() { this.parts.push(`<path d="${this.path.join("")}" fill="${this.fillStyle}"/>`); }
}

function round(value) {
  return Number(value.toFixed(2));
}

/** The timeline's visible part as an SVG file's text. */
export function svg(timeline, width) {
  const context = new SvgContext();
  timeline.layout();
  const hatches = new Map();
  const hatch = (colour) => {
    if (!hatches.has(colour)) hatches.set(colour, `h${hatches.size}`);
    return `url(#${hatches.get(colour)})`;
  };
  timeline.paint(context, width, timeline.height, 0, hatch);
  const ground = timeline.colours().ground;
  const patterns = [...hatches].map(([colour, id]) =>
    `<pattern id="${id}" width="6" height="6" patternUnits="userSpaceOnUse"><path d="M-1 1L1 -1M0 6L6 0M5 7L7 5" stroke="${colour}" stroke-width="1.4"/></pattern>`);
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${timeline.height}" viewBox="0 0 ${width} ${timeline.height}" font-family="system-ui, sans-serif" font-size="12">`
    + `<defs>${patterns.join("")}</defs><rect width="100%" height="100%" fill="${ground}"/>${context.parts.join("")}</svg>`;
}

/** Hands a file to the browser. */
export function save(name, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content]));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

