// Completion in the editor: the keys and values that the workload language has at this place, from its schema.

import { make } from "./controls.js";

/** Where in the text a place is: { path, key, start }: the keys above it, the key whose value it is in (null within a key), and where its string begins. Null outside of strings. */
export function placeIn(text, at) {
  const stack = [];
  let key = null;
  let wantsKey = false;
  let index = 0;
  while (index < at) {
    const letter = text[index];
    if (text.startsWith("//", index) || text.startsWith("/*", index)) {
      const ending = text[index + 1] === "/" ? "\n" : "*/";
      const end = text.indexOf(ending, index + 2);
      if (end < 0 || end >= at) return null;
      index = end + ending.length;
      continue;
    }
    if (letter === '"') {
      let end = index + 1;
      while (end < text.length && text[end] !== '"' && text[end] !== "\n") end += text[end] === "\\" ? 2 : 1;
      if (at <= end) {
        const path = stack.map((one) => one.key).filter((one) => one !== null);
        // A quote that something else than an end follows begins the next string.
        const closed = text[end] === '"' && /^\s*([:,}\]]|$)/.test(text.slice(end + 1));
        return { path, key: wantsKey ? null : key, start: index + 1, closed, end: closed ? end : at };
      }
      if (wantsKey) {
        key = text.slice(index + 1, end);
        wantsKey = false;
      }
      index = end + 1;
      continue;
    }
    if (letter === "{" || letter === "[") {
      stack.push({ key, object: letter === "{" });
      key = null;
      wantsKey = letter === "{";
    } else if (letter === "}" || letter === "]") {
      stack.pop();
      wantsKey = false;
    } else if (letter === ",") {
      wantsKey = stack.at(-1)?.object ?? false;
      if (wantsKey) key = null;
    }
    index += 1;
  }
  return null;
}

/** The words that the schema has at a place, as [word, description]. */
export function wordsAt(schema, place) {
  const follow = (one) => (one?.$ref ? schema.$defs[one.$ref.split("/").at(-1)] : one);
  let here = schema;
  for (const key of place.path) {
    here = follow(here);
    here = here?.properties?.[key] ?? matching(here, key) ?? (typeof here?.additionalProperties === "object" ? here.additionalProperties : null);
    if (!here) return [];
  }
  here = follow(here);
  if (place.key !== null) {
    const value = follow(here?.properties?.[place.key] ?? matching(here, place.key));
    return (value?.enum ?? []).filter((word) => typeof word === "string").map((word) => [word, ""]);
  }
  const plain = Object.entries(here?.properties ?? {});
  const patterns = Object.entries(here?.patternProperties ?? {}).map(([pattern, value]) => [pattern.replace(/\(\?!.*?\)|[\^$]/g, ""), value]);
  const seen = new Map([...plain, ...patterns].filter(([word]) => /^[\w-]+$/.test(word)).map(([word, value]) => [word, value.description ?? ""]));
  return [...seen];
}

function matching(here, key) {
  return Object.entries(here?.patternProperties ?? {}).find(([pattern]) => new RegExp(pattern).test(key))?.[1];
}

/** Offers words under the cursor of an editor whose text is in one typeface of one width. */
export class Completion {
  constructor(editor, list, schema) {
    Object.assign(this, { editor, list, schema, words: [], chosen: 0, place: null });
    editor.setAttribute("aria-autocomplete", "list");
    editor.setAttribute("aria-controls", list.id);
    editor.addEventListener("input", () => this.offer(false));
    editor.addEventListener("keydown", (event) => this.key(event));
    editor.addEventListener("blur", () => this.close());
    editor.addEventListener("scroll", () => { if (!list.hidden) this.show(); });
  }

  /** Shows what fits before the cursor; `always` also where nothing is typed yet. */
  offer(always) {
    const at = this.editor.selectionStart;
    const place = placeIn(this.editor.value, at);
    if (!place) return this.close();
    const typed = this.editor.value.slice(place.start, at);
    const fitting = wordsAt(this.schema, place).filter(([word]) => word.startsWith(typed) && word !== typed);
    if (!fitting.length || (!typed && !always && place.key === null && place.end > place.start)) return this.close();
    Object.assign(this, { words: fitting, chosen: 0, place });
    this.show();
    return undefined;
  }

  show() {
    const { editor, list, words, chosen } = this;
    list.replaceChildren(...words.map(([word, description], number) =>
      make("li", { id: `${list.id}-${number}`, role: "option", "aria-selected": String(number === chosen), onmousedown: (event) => {
        event.preventDefault();
        this.chosen = number;
        this.accept();
      } }, make("b", {}, word), make("span", {}, description))));
    const before = editor.value.slice(0, this.place.start).split("\n");
    const box = editor.parentElement;
    list.style.top = `${box.offsetTop + 8 + before.length * 18 - editor.scrollTop + 2}px`;
    const wide = 7.225;
    list.style.left = `${Math.min(box.offsetLeft + 40 + before.at(-1).length * wide - editor.scrollLeft, Math.max(box.clientWidth - 236, 0))}px`;
    list.hidden = false;
    editor.setAttribute("aria-activedescendant", `${list.id}-${chosen}`);
    list.children[chosen].scrollIntoView({ block: "nearest" });
  }

  close() {
    this.list.hidden = true;
    this.editor.removeAttribute("aria-activedescendant");
  }

  key(event) {
    if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      this.offer(true);
      return;
    }
    if (this.list.hidden) return;
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move) this.chosen = (this.chosen + move + this.words.length) % this.words.length;
    else if (event.key === "Escape") this.close();
    else if (event.key !== "Enter" && event.key !== "Tab") return;
    event.preventDefault();
    event.stopPropagation();
    if (move) this.show();
    else if (event.key !== "Escape") this.accept();
  }

  /** Puts the chosen word in place of what is typed of it; behind a key goes its colon. */
  accept() {
    const { editor, place } = this;
    const [word] = this.words[this.chosen];
    const colon = place.key === null && !/^\s*:/.test(editor.value.slice(place.end + Number(place.closed)));
    const text = `${word}"${colon ? ": " : ""}`;
    editor.setRangeText(text, place.start, place.end + Number(place.closed), "end");
    this.close();
    editor.dispatchEvent(new Event("input"));
    this.close();
  }
}
