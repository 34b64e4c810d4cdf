// From a rule's name to the page that explains it. The pages of docs/concepts are in the file, so that they open without a network.

import { make } from "./controls.js";

/** The page about a decision: by its kind, the release's fair class, and the class that the reason speaks of. */
export function conceptOf(kind, said, eevdf) {
  if (/real-time priority/.test(said)) return "rules-realtime";
  if (/deadline class/.test(said)) return "rules-deadline";
  const fair = eevdf ? "rules-eevdf" : "rules-cfs";
  return { pick: fair, wakeup: fair, turn: fair, place: fair, select: "balancing", newidle: "balancing", balance: "balancing",
    throttle: "rules-bandwidth", unthrottle: "rules-bandwidth" }[kind];
}

/** A line's text with its code, emphasis and links' names. */
function inline(text) {
  const parts = text.replace(/!\[[^\]]*\]\([^)]*\)/g, "").replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").split(/(`[^`]+`|\*\*[^*]+\*\*|\*[^*]+\*)/);
  return parts.filter(Boolean).map((part) => {
    if (part.startsWith("`")) return make("code", {}, part.slice(1, -1));
    if (part.startsWith("**")) return make("b", {}, part.slice(2, -2));
    return /^\*[^*]+\*$/.test(part) ? make("em", {}, part.slice(1, -1)) : part;
  });
}

/** The elements of a page: headings, paragraphs, lists, tables and code, which is what the concept pages have. */
export function rendered(markdown) {
  const found = [];
  for (const block of markdown.split(/\n\n+/)) {
    const lines = block.split("\n").filter((line) => line.trim());
    if (!lines.length || /^!\[/.test(block)) continue;
    const heading = /^(#+) (.*)/.exec(lines[0]);
    if (heading) found.push(make(`h${Math.min(heading[1].length + 1, 4)}`, {}, ...inline(heading[2])));
    else if (lines[0].startsWith("|")) found.push(table(lines));
    else if (/^(```| {4})/.test(lines[0])) found.push(make("pre", {}, lines.filter((line) => !line.startsWith("```")).join("\n")));
    else if (/^- /.test(lines[0])) {
      const items = lines.join("\n").split(/\n(?=- )/).map((item) => item.replace(/^- /, "").replaceAll(/\n\s*/g, " "));
      found.push(make("ul", {}, ...items.map((item) => make("li", {}, ...inline(item)))));
    } else found.push(make("p", {}, ...inline(lines.join(" "))));
  }
  return found;
}

function table(lines) {
  const cells = (line) => line.replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim());
  const [head, , ...rows] = lines;
  return make("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "table" }, make("table", {},
    make("tr", {}, ...cells(head).map((cell) => make("th", { scope: "col" }, ...inline(cell)))),
    ...rows.map((row) => make("tr", {}, ...cells(row).map((cell) => make("td", {}, ...inline(cell)))))));
}
