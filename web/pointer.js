// Wheel, mouse and fingers on the timeline: they scale it, move it, and point at a moment.

import { LEFT } from "./lanes.js";

/** Follows what is done on `frame`; `acts` has `zoom(factor, time)`, `pan(part)`, `show(from, to)`, `end()` and `point(event)`. */
export function follow(frame, timeline, { zoom, pan, show, end, point }) {
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
}
