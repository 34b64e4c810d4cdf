// The timeline: both schedules on one axis, drawn from spans where they are wide and from densities where they are not.

import { moment, span } from "./units.js";

/**
 * Six of Okabe and Ito's colours, which colour-blind people tell apart. Violet and light green take the place of their black and yellow,
 * which a dark and a white ground swallow.
 */
export const PALETTE = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a3ffc", "#b4d884"];
const THROTTLED = "#8a8a8a";

const HEAD = 24;
const AXIS = 22;
export const LEFT = 104;

/** The colour of a task: its kind's, its instances by lightness. */
export function colourOf(run, task) {
  return SHADES[run.arrays.task_kind[task] % PALETTE.length][run.instance[task] % 3];
}

function mix(one, other, part) {
  const channel = (text, at) => parseInt(text.slice(at, at + 2), 16);
  const mixed = [1, 3, 5].map((at) => Math.round(channel(one, at) * (1 - part) + channel(other, at) * part));
  return `#${mixed.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}

const SHADES = PALETTE.map((base) => [0, 0.18, 0.36].map((part) => mix(base, "#ffffff", part)));

/** The shades on which dark text reads better than white: relative luminance above 0.35. */
const DARK_TEXT = new Set(SHADES.flat().filter((colour) => {
  const [red, green, blue] = [1, 3, 5].map((at) => (parseInt(colour.slice(at, at + 2), 16) / 255) ** 2.2);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.35;
}));

/** Completes a run's answer with what drawing needs. */
export function prepare(answer) {
  const seen = new Map();
  answer.names = answer.head.outcome.tasks.map((task) => task.name);
  answer.instance = answer.names.map((_, task) => {
    const kind = answer.arrays.task_kind[task];
    seen.set(kind, (seen.get(kind) ?? -1) + 1);
    return seen.get(kind);
  });
  answer.end = answer.head.outcome.elapsed_ns;
  return answer;
}

/** The first span of [from, to) that ends after `time`. */
export function firstAfter(ends, from, to, time) {
  while (from < to) {
    const middle = (from + to) >> 1;
    if (ends[middle] > time) to = middle;
    else from = middle + 1;
  }
  return from;
}

/** Draws lanes onto anything that has a canvas' fillRect, strokes and texts. */
export class Timeline {
  constructor(canvas) {
    this.canvas = canvas;
    this.runs = { a: null, b: null };
    this.view = { from: 0, to: 1e6 };
    this.mode = "cpu";
    this.only = false;
    this.cursor = null;
    this.filter = "";
    this.hatches = new Map();
  }

  /** The lanes from top to bottom: { side, kind: head | cpu | task | differs, number, top, height }. */
  layout() {
    const lanes = [];
    let top = AXIS;
    const add = (side, kind, number, height, label) => {
      lanes.push({ side, kind, number, top, height, label });
      top += height;
    };
    const { a, b } = this.runs;
    for (const side of ["a", "b"]) {
      const run = this.runs[side];
      if (!run || (this.only && a && b && side === "a")) continue;
      add(side, "head", 0, HEAD, `${side.toUpperCase()}  ${run.head.label} ${run.head.eevdf ? "EEVDF" : "CFS"}`);
      if (this.mode === "cpu") {
        const count = run.head.outcome.cpus;
        for (let cpu = 0; cpu < count; cpu++) add(side, "cpu", cpu, count > 16 ? 16 : 32, `CPU ${cpu}`);
      } else {
        const shown = run.names.map((_, task) => task).filter((task) => run.names[task].includes(this.filter));
        for (const task of shown) add(side, "task", task, shown.length > 24 ? 12 : 28, run.names[task]);
      }
      if (side === "b" && a) add("b", "differs", 0, 20, "A ≠ B");
    }
    this.height = top + 4;
    return lanes;
  }

  x(time, width) {
    return LEFT + ((time - this.view.from) / (this.view.to - this.view.from)) * (width - LEFT);
  }

  time(x, width) {
    return this.view.from + ((x - LEFT) / (width - LEFT)) * (this.view.to - this.view.from);
  }

  colours() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(name).trim();
    return { text: read("--text"), dim: read("--dim"), line: read("--line"), ground: read("--ground"), mark: read("--mark") };
  }

  /** A hatch of a colour, for what waits. */
  hatch(context, colour, scale) {
    const key = `${colour} ${scale}`;
    if (!this.hatches.has(key)) {
      const tile = document.createElement("canvas");
      tile.width = tile.height = Math.round(6 * scale);
      const inner = tile.getContext("2d");
      inner.scale(scale, scale);
      inner.strokeStyle = colour;
      inner.lineWidth = 1.4;
      for (const shift of [-6, 0, 6]) {
        inner.beginPath();
        inner.moveTo(shift, 6);
        inner.lineTo(shift + 6, 0);
        inner.stroke();
      }
      const pattern = context.createPattern(tile, "repeat");
      pattern.setTransform?.(new DOMMatrix().scale(1 / scale));
      this.hatches.set(key, pattern);
    }
    return this.hatches.get(key);
  }

  /** Draws the visible part; `scroll` and `tall` are in lanes' pixels. */
  draw(width, tall, scroll, scale) {
    const context = this.canvas.getContext("2d");
    const began = performance.now();
    if (this.canvas.width !== Math.round(width * scale) || this.canvas.height !== Math.round(tall * scale)) {
      this.canvas.width = Math.round(width * scale);
      this.canvas.height = Math.round(tall * scale);
    }
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, tall);
    this.paint(context, width, tall, scroll, (colour) => this.hatch(context, colour, scale));
    this.frame = performance.now() - began;
  }

  paint(context, width, tall, scroll, hatch) {
    const colours = this.colours();
    this.lanes = this.layout();
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (const lane of this.lanes) {
      const top = lane.top - scroll;
      if (top + lane.height < 0 || top > tall) continue;
      this.paintLane(context, lane, top, width, colours, hatch);
    }
    this.paintWakeups(context, width, scroll, colours);
    this.paintAxis(context, width, colours);
    if (this.cursor) this.paintCursor(context, width, tall, scroll, colours);
  }

  paintLane(context, lane, top, width, colours, hatch) {
    const run = this.runs[lane.side];
    context.fillStyle = lane.kind === "head" ? colours.text : colours.dim;
    context.textAlign = "left";
    if (lane.kind === "head") {
      context.font = "600 12px system-ui, sans-serif";
      context.fillText(lane.label, 0, top + HEAD / 2 + 2);
      context.font = "12px system-ui, sans-serif";
      return;
    }
    if (lane.height >= 12) context.fillText(fit(lane.label, lane.height < 16 ? 15 : 14), 8, top + lane.height / 2);
    context.fillStyle = colours.line;
    context.fillRect(LEFT, top + lane.height - 1, width - LEFT, 1);
    if (lane.kind === "differs") this.paintDifference(context, top, lane.height, width, colours);
    else if (lane.kind === "cpu") this.paintSpans(context, run, "slice", lane.number, top, lane.height, width, colours, hatch);
    else this.paintSpans(context, run, "segment", lane.number, top, lane.height, width, colours, hatch);
  }

  /** One lane's spans: exactly where they are wide, by density where there are several a pixel. */
  paintSpans(context, run, name, lane, top, height, width, colours, hatch) {
    const { arrays } = run;
    const offset = arrays[`${name}_offset`];
    const [starts, ends] = [arrays[`${name}_start`], arrays[`${name}_end`]];
    const { from, to } = this.view;
    const first = firstAfter(ends, offset[lane], offset[lane + 1], from);
    let last = firstAfter(starts, first, offset[lane + 1], to);
    const pixel = (to - from) / (width - LEFT);
    if (last - first > width - LEFT && this.paintDensity(context, run, name, lane, top, height, width, hatch)) return;
    const inner = height >= 16 ? 3 : 1;
    // A canvas parses each colour that it is given, so an unchanged one is not set again.
    let filled = null;
    const fill = (style) => {
      if (style !== filled) context.fillStyle = filled = style;
    };
    for (let at = first; at < last; at++) {
      const start = Math.max(this.x(starts[at], width), LEFT);
      const end = Math.min(this.x(ends[at], width), width);
      // What is narrower than a pixel is still seen.
      const wide = Math.max(end - start, 0.6);
      const task = name === "slice" ? arrays.slice_task[at] : lane;
      const state = name === "slice" ? 0 : arrays.segment_state[at];
      const colour = colourOf(run, task);
      if (state === 0) {
        fill(colour);
        context.fillRect(start, top + inner, wide, height - 2 * inner);
        if (wide > 48 && name === "slice" && height >= 24) {
          fill(DARK_TEXT.has(colour) ? "#15191c" : "#fff");
          context.fillText(fit(run.names[task], (wide - 12) / 7), start + 6, top + height / 2);
        }
      } else if (state === 1) {
        fill(hatch(colour));
        context.fillRect(start, top + inner + 2, wide, height - 2 * inner - 4);
      } else {
        fill(THROTTLED);
        context.globalAlpha = 0.4;
        context.fillRect(start, top + inner + 2, wide, height - 2 * inner - 4);
        context.globalAlpha = 1;
        context.fillRect(start, top + height / 2 - 1, wide, 2);
      }
    }
    // A preemption is a notch: what ran goes on waiting at once.
    if (name === "segment" && pixel < 40e3) {
      context.fillStyle = colours.ground;
      for (let at = first; at + 1 < last; at++) {
        if (arrays.segment_state[at] === 0 && arrays.segment_state[at + 1] === 1 && starts[at + 1] === ends[at]) {
          const x = this.x(ends[at], width);
          if (x > LEFT) context.fillRect(x - 2, top + inner, 2, height / 3);
        }
      }
    }
  }

  /** A column a pixel, from the level whose bins are not wider than it; false where the lane has none so fine. */
  paintDensity(context, run, name, lane, top, height, width, hatch) {
    const prefix = name === "slice" ? "cpu_density" : "task_density";
    const { arrays } = run;
    const channels = name === "slice" ? run.head.kinds.length : 3;
    let bins = arrays[`${prefix}_bins`][lane];
    let at = arrays[`${prefix}_at`][lane];
    if (!bins) return false;
    const { from, to } = this.view;
    const columns = Math.floor(width - LEFT);
    const pixel = (to - from) / columns;
    if (run.end / bins > pixel) return false;
    while (bins > 1 && (2 * run.end) / bins <= pixel) {
      at += bins * channels;
      bins >>= 1;
    }
    const shares = arrays[`${prefix}_share`];
    const binWidth = run.end / bins;
    const colours = name === "slice" ? PALETTE : [colourOf(run, lane), hatch(colourOf(run, lane)), THROTTLED];
    const inner = height >= 16 ? 3 : 1;
    const tall = height - 2 * inner;
    // Neighbouring columns of equal height are one rectangle, and each colour is set once.
    for (let channel = 0; channel < channels; channel++) {
      context.fillStyle = colours[channel % colours.length];
      context.beginPath();
      let begun = -1, high = 0, low = 0;
      for (let column = 0; column <= columns; column++) {
        let base = 0, part = 0;
        if (column < columns) {
          const bin = Math.floor((from + (column + 0.5) * pixel) / binWidth);
          if (bin >= 0 && bin < bins) {
            const place = at + bin * channels;
            for (let below = 0; below < channel; below++) base += shares[place + below];
            part = shares[place + channel];
          }
        }
        const bottom = Math.round(tall * (1 - base / 255));
        const upper = Math.round(tall * (1 - Math.min(base + part, 255) / 255));
        if (bottom !== low || upper !== high || column === columns) {
          if (begun >= 0 && low > high) context.rect(LEFT + begun, top + inner + high, column - begun, low - high);
          [begun, high, low] = [column, upper, bottom];
        }
      }
      context.fill();
    }
    return true;
  }

  /** Marks where A and B differ: the tasks that run on a CPU have different names, read once a pixel. */
  paintDifference(context, top, height, width, colours) {
    const { a, b } = this.runs;
    const cpus = Math.min(a.head.outcome.cpus, b.head.outcome.cpus);
    context.fillStyle = colours.mark;
    const columns = Math.floor(width - LEFT);
    const differing = new Uint16Array(columns + 1);
    for (let cpu = 0; cpu < cpus; cpu++) {
      const [one, other] = [nameWalk(a, cpu), nameWalk(b, cpu)];
      for (let column = 0; column < columns; column++) {
        const time = this.time(LEFT + column + 0.5, width);
        if (one(time) !== other(time)) differing[column] += 1;
      }
    }
    // Neighbouring columns of equal height are one rectangle.
    for (let begun = 0, column = 1; column <= columns; column++) {
      if (column < columns && differing[column] === differing[begun]) continue;
      if (differing[begun]) {
        const tall = Math.max(2, ((height - 8) * differing[begun]) / cpus);
        context.fillRect(LEFT + begun, top + height - 4 - tall, column - begun, tall);
      }
      begun = column;
    }
  }

  /** Wake-ups as arrows and migrations as lines, where there is room for them. */
  paintWakeups(context, width, scroll, colours) {
    for (const side of ["a", "b"]) {
      const run = this.runs[side];
      if (!run) continue;
      const { arrays } = run;
      const count = arrays.wakeup_time.length;
      const first = firstAfter(arrays.wakeup_time, 0, count, this.view.from);
      const last = firstAfter(arrays.wakeup_time, first, count, this.view.to);
      if (last - first > (width - LEFT) / 8) continue;
      const lanes = new Map(this.lanes.filter((lane) => lane.side === side && (lane.kind === "cpu" || lane.kind === "task"))
        .map((lane) => [lane.number, lane]));
      context.strokeStyle = context.fillStyle = colours.text;
      context.lineWidth = 1;
      for (let at = first; at < last; at++) {
        const x = this.x(arrays.wakeup_time[at], width);
        const to = lanes.get(this.mode === "cpu" ? arrays.wakeup_to[at] : arrays.wakeup_task[at]);
        if (!to || x < LEFT) continue;
        const from = lanes.get(this.mode === "cpu" ? arrays.wakeup_from[at] : arrays.wakeup_waker[at]);
        const tip = to.top - scroll + 3;
        if (from && from !== to) {
          const start = from.top - scroll + (from.top < to.top ? from.height - 3 : 3);
          const end = from.top < to.top ? tip : to.top - scroll + to.height - 3;
          context.beginPath();
          context.moveTo(x, start);
          context.lineTo(x, end);
          context.stroke();
          arrow(context, x, end, from.top < to.top);
        } else {
          arrow(context, x, tip + 2, true);
        }
      }
    }
  }

  paintAxis(context, width, colours) {
    context.fillStyle = colours.ground;
    context.fillRect(0, 0, width, AXIS);
    const room = this.view.to - this.view.from;
    let step = 10 ** Math.floor(Math.log10(room / ((width - LEFT) / 90)));
    while (room / step > (width - LEFT) / 60) step *= step.toString()[0] === "2" ? 2.5 : 2;
    context.textAlign = "center";
    for (let at = Math.ceil(this.view.from / step) * step; at <= this.view.to; at += step) {
      const x = this.x(at, width);
      context.fillStyle = colours.line;
      context.fillRect(x, AXIS - 5, 1, 5);
      context.fillStyle = colours.dim;
      const text = at === 0 ? "0" : span(at);
      if (x + 28 < width && x > LEFT + 4) context.fillText(text, x, 8);
    }
    context.textAlign = "left";
  }

  paintCursor(context, width, tall, scroll, colours) {
    const x = this.x(this.cursor.time, width);
    if (x >= LEFT && x <= width) {
      context.fillStyle = colours.text;
      context.fillRect(x, AXIS - 5, 1, tall);
      context.fillText(moment(this.cursor.time), Math.min(x + 5, width - 90), AXIS - 5);
    }
    const lane = this.lanes.find((lane) => lane.side === this.cursor.side && lane.kind === this.cursor.kind && lane.number === this.cursor.number);
    if (lane) {
      context.strokeStyle = colours.text;
      context.strokeRect(LEFT + 0.5, lane.top - scroll + 0.5, width - LEFT - 1, lane.height - 2);
    }
  }
}

function arrow(context, x, y, down) {
  const tall = down ? -5 : 5;
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(x - 3, y + tall);
  context.lineTo(x + 3, y + tall);
  context.fill();
}

function fit(text, letters) {
  const most = Math.floor(letters);
  if (text.length <= most) return text;
  // An instance's number stays: it tells the task from its neighbours.
  const tail = /\[\d+\]$/.exec(text)?.[0] ?? "";
  const kept = most > tail.length + 3 ? tail : "";
  return most < 3 ? "" : `${text.slice(0, most - 1 - kept.length)}…${kept}`;
}

/** The task that runs on a CPU at a time; −1 if it idles. */
export function running(run, cpu, time) {
  const { slice_offset: offset, slice_start: starts, slice_end: ends, slice_task: tasks } = run.arrays;
  const at = firstAfter(ends, offset[cpu], offset[cpu + 1], time);
  return at < offset[cpu + 1] && starts[at] <= time ? tasks[at] : -1;
}

/** Returns a function from a time to the name of the task that runs on a CPU; an idle CPU's is empty. Times must not decrease. */
function nameWalk(run, cpu) {
  const { slice_offset: offset, slice_start: starts, slice_end: ends, slice_task: tasks } = run.arrays;
  const last = offset[cpu + 1];
  let at = offset[cpu];
  return (time) => {
    if (at < last && ends[at] <= time) {
      // Doubled steps, then bisection: cheap for the next slice, and for one that is a million further.
      let step = 1;
      while (at + step < last && ends[at + step] <= time) step *= 2;
      at = firstAfter(ends, at, Math.min(at + step, last), time);
    }
    return at < last && starts[at] <= time ? run.names[tasks[at]] : "";
  };
}

/** What a task does at a time: its segment's number; −1 if it sleeps. */
export function segmentAt(run, task, time) {
  const { segment_offset: offset, segment_start: starts, segment_end: ends } = run.arrays;
  const at = firstAfter(ends, offset[task], offset[task + 1], time);
  return at < offset[task + 1] && starts[at] <= time ? at : -1;
}
