// The small charts under the timeline: where tasks stand in virtual time, and how long they waited.

import { LEFT, colourOf, firstAfter } from "./lanes.js";
import { span } from "./units.js";

function prepareCanvas(canvas, tall) {
  const scale = devicePixelRatio || 1;
  const width = canvas.parentElement.clientWidth;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${tall}px`;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(tall * scale);
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, tall);
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  return [context, width];
}

const places = new WeakMap();

/** Where each task's standings are in a run's arrays, in the order of time; found once a run. */
function placesOf(tasks) {
  if (!places.has(tasks)) {
    const counts = new Map();
    for (const task of tasks) counts.set(task, (counts.get(task) ?? 0) + 1);
    const found = new Map([...counts].map(([task, count]) => [task, new Uint32Array(count)]));
    const filled = new Map();
    for (let at = 0; at < tasks.length; at++) {
      const place = filled.get(tasks[at]) ?? 0;
      found.get(tasks[at])[place] = at;
      filled.set(tasks[at], place + 1);
    }
    places.set(tasks, found);
  }
  return places.get(tasks);
}

/** The curves of one quantity, A above B, on the timeline's axis. */
export function drawCurves(canvas, timeline, quantity) {
  const pane = 88;
  const sides = ["a", "b"].filter((side) => timeline.runs[side]);
  const [context, width] = prepareCanvas(canvas, sides.length * pane);
  const colours = timeline.colours();
  for (const [place, side] of sides.entries()) {
    const run = timeline.runs[side];
    const top = place * pane;
    context.fillStyle = colours.dim;
    context.fillText(`${side.toUpperCase()} ${quantity}`, 8, top + 12);
    context.fillStyle = colours.line;
    context.fillRect(LEFT, top + pane - 1, width - LEFT, 1);
    const { standing_time: times, standing_task: tasks } = run.arrays;
    const values = run.arrays[`standing_${quantity}`];
    const first = Math.max(firstAfter(times, 0, times.length, timeline.view.from) - 1, 0);
    const last = Math.min(firstAfter(times, first, times.length, timeline.view.to) + 1, times.length);
    let [low, high] = [Infinity, -Infinity];
    for (let at = first; at < last; at++) {
      if (values[at] < low) low = values[at];
      if (values[at] > high) high = values[at];
    }
    if (!(high >= low)) {
      const why = run.head.eevdf || quantity === "vruntime" ? "no fair task is switched here" : `CFS keeps no ${quantity}`;
      context.fillStyle = colours.dim;
      context.fillText(why, LEFT + 8, top + pane / 2);
      continue;
    }
    const y = (value) => top + 10 + (pane - 22) * (1 - (value - low) / Math.max(high - low, 1));
    context.fillStyle = colours.dim;
    const shown = quantity === "lag" ? [span(high), span(low)] : [`+${span(high - low)}`, "0"];
    context.fillText(shown[0], 8, top + 32);
    context.fillText(shown[1], 8, top + pane - 14);
    if (quantity === "lag" && low < 0 && high > 0) {
      context.fillStyle = colours.line;
      context.fillRect(LEFT, y(0), width - LEFT, 1);
    }
    context.save();
    context.beginPath();
    context.rect(LEFT, top, width - LEFT, pane);
    context.clip();
    for (const [number, [task, own]] of [...placesOf(tasks)].entries()) {
      context.strokeStyle = colourOf(run, task);
      context.setLineDash(number % 2 ? [5, 3] : []);
      context.lineWidth = 1.6;
      context.beginPath();
      let begun = false;
      let before = -1;
      const end = firstAfter(own, 0, own.length, last - 1);
      for (let place = firstAfter(own, 0, end, first - 1); place < end; place++) {
        if (begun) {
          // Past what is nearer than 0.3 pixels to the point before: doubled steps, then bisection.
          const near = (at) => timeline.x(times[own[at]], width) - before < 0.3;
          let [low, step] = [place, 1];
          while (low + step < end && near(low + step)) step *= 2;
          let high = Math.min(low + step, end);
          while (low < high) {
            const middle = (low + high) >> 1;
            if (near(middle)) low = middle + 1;
            else high = middle;
          }
          place = low;
          if (place >= end) break;
        }
        const at = own[place];
        if (Number.isNaN(values[at])) continue;
        const x = timeline.x(times[at], width);
        before = x;
        if (begun) context.lineTo(x, y(values[at]));
        else context.moveTo(x, y(values[at]));
        begun = true;
      }
      context.stroke();
    }
    context.restore();
    context.setLineDash([]);
  }
}

/** The delays of A and B from becoming runnable to running, by their logarithm. */
export function drawDelays(canvas, runs, kind, colours) {
  const tall = 120;
  const [context, width] = prepareCanvas(canvas, tall);
  const of = (run) => run?.head.delays[kind] ?? run?.head.delays.at(-1);
  const both = [of(runs.a), of(runs.b)];
  const most = Math.max(1, ...both.flatMap((one) => one?.bins ?? []));
  const bins = both[0]?.bins.length ?? both[1]?.bins.length ?? 56;
  const room = (width - 16) / bins;
  for (const [place, one] of both.entries()) {
    if (!one) continue;
    context.fillStyle = place ? "#d55e00" : "#0072b2";
    for (const [bin, count] of one.bins.entries()) {
      if (!count) continue;
      const high = Math.max(2, ((tall - 28) * Math.log1p(count)) / Math.log1p(most));
      context.fillRect(8 + bin * room + (place * room) / 2, tall - 18 - high, Math.max(room / 2 - 1, 1), high);
    }
  }
  context.fillStyle = colours.dim;
  context.textAlign = "center";
  for (const [decade, text] of ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s"].entries()) {
    context.fillText(text, Math.max(8 + decade * 8 * room, 20), tall - 7);
  }
  context.textAlign = "left";
}
