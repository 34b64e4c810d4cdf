// The controls on the left, made from the engine's catalogue.

import { exactTime, parseTime, span } from "./units.js";

/** The page's element of a name. */
export const at = (id) => document.getElementById(id);

/** Makes an element. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** A list to choose from. */
export function choice(label, options, value, change) {
  const list = make("select", { "aria-label": label, onchange: () => change(list.value) },
    ...options.map(([text, name]) => make("option", { value: name, selected: name === value }, text)));
  return list;
}

const STEPS = 1000;

/** A slider by the logarithm of what it sets, with a field that takes units, and back to the default by a double click. */
export function slider({ label, title, kind, low, high, value, normal, suffix = "", change }) {
  const bottom = Math.max(low, kind === "time" ? 1e3 : 0);
  const shift = kind === "time" ? 0 : 1 - bottom;
  const [least, most] = [Math.log(bottom + shift), Math.log(high + shift)];
  const place = (number) => Math.round((STEPS * (Math.log(Math.min(Math.max(number, bottom), high) + shift) - least)) / (most - least || 1));
  const round = (number) => {
    if (kind !== "time") return Math.round(number);
    const digit = 10 ** Math.max(Math.floor(Math.log10(number)) - 1, 3);
    return Math.min(Math.max(Math.round(number / digit) * digit, low), high);
  };
  const text = (number) => (kind === "time" ? exactTime(number) : String(number));
  const shown = value ?? normal;
  const range = make("input", { type: "range", min: 0, max: STEPS, value: place(shown ?? bottom), "aria-label": label, title });
  const field = make("input", { type: "text", class: "value", value: shown === undefined || shown === null ? "" : text(shown), "aria-label": `${label}, value`, spellcheck: "false" });
  const fault = make("span", { class: "fault", role: "alert" });
  const row = make("div", { class: value === undefined ? "knob" : "knob changed", title }, make("label", {}, label), range, field, fault);
  const describe = (number) => range.setAttribute("aria-valuetext", kind === "time" ? span(number) : String(number));
  describe(shown);
  const set = (number) => {
    row.classList.toggle("changed", number !== normal);
    fault.textContent = "";
    describe(number);
    change(number === normal ? null : text(number) + suffix);
  };
  range.addEventListener("input", () => {
    const number = round(Math.exp(least + (Number(range.value) / STEPS) * (most - least)) - shift);
    field.value = text(number);
    set(number);
  });
  field.addEventListener("change", () => {
    const number = kind === "time" ? parseTime(field.value) : /^\d+$/.test(field.value.trim()) ? Number(field.value) : NaN;
    if (!(number >= low && number <= high)) {
      fault.textContent = `allowed: ${text(low)} to ${text(high)}`;
      return;
    }
    range.value = place(number);
    set(number);
  });
  row.addEventListener("dblclick", () => {
    if (normal === undefined || normal === null) return;
    range.value = place(normal);
    field.value = text(normal);
    set(normal);
  });
  if (normal !== undefined && normal !== null) {
    const mark = make("i", { class: "default", title: `default ${text(normal)}` });
    mark.style.setProperty("--at", place(normal) / STEPS);
    row.append(mark);
  }
  return row;
}

/** A switch with its name. */
export function toggle(label, title, on, changed, change) {
  const box = make("input", { type: "checkbox", onchange: () => change(box.checked) });
  box.checked = on;
  return make("label", { class: changed ? "toggle changed" : "toggle", title }, box, label);
}

/** A field with its name. */
export function field(label, value, hint, change, width = "") {
  const input = make("input", { type: "text", value: value ?? "", placeholder: hint, "aria-label": label, spellcheck: "false", class: width });
  input.addEventListener("change", () => change(input.value.trim()));
  return input;
}

/** A workload's word with one key changed; a key at its default is left out. */
export function withKey(word, builder, name, value) {
  const keys = readKeys(word);
  if (value === null || value === builder.keys.find((key) => key.name === name)?.default) delete keys[name];
  else keys[name] = value;
  const parts = Object.entries(keys).map(([key, text]) => `${key}=${text}`);
  return parts.length ? `${builder.name}:${parts.join(",")}` : builder.name;
}

/** The keys that a workload's word gives. */
export function readKeys(word) {
  const rest = word.split(/:(.*)/s)[1] ?? "";
  return Object.fromEntries(rest.split(",").filter(Boolean).map((part) => {
    const [key, value] = part.split("=");
    return [key, value ?? "1"];
  }));
}
