"""The timeline of a run: lanes of CPUs and of tasks, drawn in the page and zoomed there."""

import html
import json
from collections.abc import Mapping, Sequence
from typing import Any

from schedlab.measure.trace_spans import Spans
from schedlab.report.charts import PALETTE

MOST = 5_000
"""Spans of a timeline at the most; a longer run is cut there."""

_WIDTH = 960
_LANE = 22
_LEFT = 110


Standing = tuple[int, int, int, int | None]
"""A task's pid, when, its vruntime and, under EEVDF, its lag, in nanoseconds."""


def timeline(
    run: Spans, title: str, *, until_ns: int | None = None, standings: Sequence[Standing] = ()
) -> dict[str, Any]:
    """Return a run's timeline as plain data.

    Each span is ``[lane, task, start, end, state]`` in nanoseconds; the first lanes are CPUs, then
    one a task. A task's lane shows it running, or runnable and waiting for a CPU.

    Args:
        run: which task ran when.
        title: what is shown.
        until_ns: where it ends at the latest; the run's end otherwise.
        standings: where fair tasks stood in virtual time as they came to a CPU or left it; what
            may be shown on demand. A task's vruntime is given from its first on.
    """
    limit = run.end_ns if until_ns is None else min(until_ns, run.end_ns)
    within = [span for span in run.spans if span.end_ns <= limit]
    spans = within[:MOST]
    end = limit if len(spans) == len(within) else spans[-1].end_ns
    cpus = sorted({span.cpu for span in spans})
    pids = list(dict.fromkeys(span.pid for span in sorted(spans, key=lambda one: one.start_ns)))
    rows: list[tuple[int, int, int, int, str]] = [
        (cpus.index(span.cpu), pids.index(span.pid), span.start_ns, span.end_ns, "running")
        for span in spans
    ]
    for place, pid in enumerate(pids):
        lane = len(cpus) + place
        rows += [(lane, place, *times) for times in _states(run, pid, end)]
    wakeups = [
        (cpus.index(one.cpu), pids.index(one.pid), one.time_ns)
        for one in run.wakeups
        if one.pid in pids and one.cpu in cpus and one.time_ns <= end
    ]
    found: dict[str, Any] = {
        "title": title,
        "lanes": [f"CPU {cpu}" for cpu in cpus] + [run.names[pid] for pid in pids],
        "tasks": [run.names[pid] for pid in pids],
        "cpus": len(cpus),
        "end_ns": end,
        "spans": rows,
        "wakeups": wakeups[:MOST],
    }
    if standings:
        found["standings"] = _standings(standings, pids, end)
    return found


def _standings(
    standings: Sequence[Standing], pids: Sequence[int], end: int
) -> list[tuple[int, int, int, int | None]]:
    """Return task, time, vruntime since the task's first and lag, at most `MOST` of them."""
    first: dict[int, int] = {}
    rows = []
    for pid, time, vruntime, lag in standings:
        if pid in pids and time <= end:
            start = first.setdefault(pid, vruntime)
            rows.append((pids.index(pid), time, vruntime - start, lag))
    return rows[:MOST]


def _states(run: Spans, pid: int, end: int) -> list[tuple[int, int, str]]:
    """Return what a task did: running, or waiting (preempted, or woken and not yet picked)."""
    found: list[tuple[int, int, str]] = []
    wakes = [one.time_ns for one in run.wakeups if one.pid == pid]
    waits_from = wakes[0] if wakes else None
    place = 0
    for span in (one for one in run.spans if one.pid == pid and one.start_ns < end):
        if waits_from is not None and waits_from < span.start_ns:
            found.append((waits_from, span.start_ns, "waiting"))
        found.append((span.start_ns, min(span.end_ns, end), "running"))
        if span.preempted:
            waits_from = span.end_ns
            continue
        while place < len(wakes) and wakes[place] < span.end_ns:
            place += 1
        waits_from = wakes[place] if place < len(wakes) else None
    return found


def section(data: Mapping[str, Any]) -> str:
    """Return the timeline as a part of a page: a drawing that needs no script, and one that zooms.

    Names come from workloads and recordings: they are escaped in the markup, and in the data that
    the script reads.
    """
    text = json.dumps(data, separators=(",", ":"), sort_keys=True)
    # Within <script> only "</" and "<!--" could end it.
    safe = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    seconds = data["end_ns"] / 1e9
    words = (
        f"{len(data['tasks'])} tasks on {data['cpus']} CPUs over {seconds:.3f} s, a lane a CPU and "
        "a lane a task"
    )
    label = html.escape(f"{data['title']}: {words}")
    return (
        f'<figure class="timeline" id="timeline"><div class="buttons" hidden>'
        '<button type="button" data-act="in">Zoom in</button> '
        '<button type="button" data-act="out">Zoom out</button> '
        '<button type="button" data-act="left">Earlier</button> '
        '<button type="button" data-act="right">Later</button> '
        '<button type="button" data-act="all">All</button> '
        f"{_choice(data)}"
        '<output class="where"></output></div>'
        f'<div class="lanes" role="img" tabindex="0" aria-label="{label}">{_drawing(data)}</div>'
        f"<figcaption>{html.escape(data['title'])}: {words}. Dark: running; pale: runnable and "
        f"waiting. With the keyboard: arrows move, + and - zoom, 0 shows all.{_explained(data)}"
        "</figcaption>"
        f'<script type="application/json" class="data">{safe}</script></figure>'
    )


def _choice(data: Mapping[str, Any]) -> str:
    """Return what asks for vruntime or lag, where they are known."""
    if not data.get("standings"):
        return ""
    kinds = ["vruntime"]
    if any(lag is not None for *_, lag in data["standings"]):
        kinds.append("lag")
    options = "".join(f'<option value="{kind}">{kind}</option>' for kind in kinds)
    return (
        '<label>Draw <select class="curve"><option value="">nothing more</option>'
        f'{options}</select></label> <output class="range"></output> '
    )


def _explained(data: Mapping[str, Any]) -> str:
    if not data.get("standings"):
        return ""
    return (
        " On demand each task's lane shows its vruntime since its first (the steeper, the lighter "
        "the task) or, under EEVDF, its lag: how much virtual time it is owed."
    )


def _drawing(data: Mapping[str, Any]) -> str:
    """Return the whole run as SVG, for readers without scripts and for paper."""
    lanes: Sequence[str] = data["lanes"]
    height = _LANE * len(lanes) + 24
    scale = (_WIDTH - _LEFT) / max(1, data["end_ns"])
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        'xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="11">'
    ]
    for place, name in enumerate(lanes):
        parts.append(f'<text x="0" y="{_LANE * place + 15}">{html.escape(_short(name))}</text>')
    for lane, task, start, end, state in data["spans"]:
        opacity = "" if state == "running" else ' opacity=".25"'
        parts.append(
            f'<rect x="{_LEFT + start * scale:.1f}" y="{_LANE * lane + 3}" '
            f'width="{max(0.3, (end - start) * scale):.2f}" height="{_LANE - 6}" '
            f'fill="{PALETTE[task % len(PALETTE)]}"{opacity}/>'
        )
    bottom = _LANE * len(lanes) + 14
    parts.append(f'<text x="{_LEFT}" y="{bottom}">0</text>')
    parts.append(
        f'<text x="{_WIDTH}" y="{bottom}" text-anchor="end">{data["end_ns"] / 1e6:.3f} ms</text>'
    )
    return "".join([*parts, "</svg>"])


def _short(name: str) -> str:
    return name if len(name) <= 16 else name[:15] + "…"


SCRIPT = """
(() => {
  const figure = document.getElementById("timeline");
  if (!figure) return;
  const data = JSON.parse(figure.querySelector(".data").textContent);
  const box = figure.querySelector(".lanes"), where = figure.querySelector(".where");
  const NS = "http://www.w3.org/2000/svg", LEFT = %(left)d, LANE = %(lane)d;
  const colors = %(colors)s;
  let from = 0, to = data.end_ns;
  const make = (name, attributes, text) => {
    const node = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const time = (ns) => (ns / 1e6).toFixed(to - from < 1e6 ? 6 : 3) + " ms";
  const curve = figure.querySelector(".curve"), range = figure.querySelector(".range");
  // One scale for all lanes, of what is in view: with the point before and the one after it.
  const draw_curve = (svg, scale) => {
    const column = curve.value === "lag" ? 3 : 2, lines = data.tasks.map(() => []);
    for (const row of data.standings) if (row[column] !== null) lines[row[0]].push(row);
    let low = Infinity, high = -Infinity;
    const seen = lines.map((rows) => rows.filter((row, place) =>
      (place + 1 >= rows.length ? row[1] : rows[place + 1][1]) >= from &&
      (place === 0 ? row[1] : rows[place - 1][1]) <= to));
    for (const row of seen.flat()) {
      low = Math.min(low, row[column]); high = Math.max(high, row[column]);
    }
    if (low > high) { range.textContent = "none in view"; return; }
    const x = (at) => LEFT + (Math.min(Math.max(at, from), to) - from) * scale;
    const y = (task, value) => LANE * (data.cpus + task + 1) - 2 -
      (LANE - 4) * (high > low ? (value - low) / (high - low) : 0.5);
    seen.forEach((rows, task) => {
      const between = (one, other, at) => one[1] === other[1] ? other[column] : one[column] +
        (other[column] - one[column]) * (at - one[1]) / (other[1] - one[1]);
      const points = rows.map((row, place) => {
        let value = row[column];
        if (row[1] < from && rows[place + 1]) value = between(row, rows[place + 1], from);
        if (row[1] > to && rows[place - 1]) value = between(rows[place - 1], row, to);
        return `${x(row[1]).toFixed(1)},${y(task, value).toFixed(1)}`;
      });
      const line = make("polyline", {points: points.join(" "), fill: "none", stroke: "currentColor",
        "stroke-width": 1.5, class: "standing"});
      line.appendChild(make("title", {}, `${curve.value} of ${data.tasks[task]}`));
      svg.appendChild(line);
    });
    const ms = (ns) => (ns / 1e6).toFixed(3);
    range.textContent = `${curve.value}: ${ms(low)} to ${ms(high)} ms`;
  };
  const draw = () => {
    const width = Math.max(320, box.clientWidth || 900), height = LANE * data.lanes.length + 24;
    const scale = (width - LEFT) / (to - from);
    const svg = make("svg", {viewBox: `0 0 ${width} ${height}`, width, height,
      "font-family": "sans-serif", "font-size": 11});
    data.lanes.forEach((name, place) => {
      const label = make("text", {x: 0, y: LANE * place + 15},
        name.length > 16 ? name.slice(0, 15) + "\\u2026" : name);
      label.appendChild(make("title", {}, name));
      svg.appendChild(label);
    });
    for (const [lane, task, start, end, state] of data.spans) {
      if (end < from || start > to) continue;
      const x = LEFT + (Math.max(start, from) - from) * scale;
      const wide = Math.max(0.4, (Math.min(end, to) - Math.max(start, from)) * scale);
      const bar = make("rect", {x, y: LANE * lane + 3, width: wide, height: LANE - 6,
        fill: colors[task %% colors.length], opacity: state === "running" ? 1 : 0.25});
      bar.appendChild(make("title", {},
        `${data.tasks[task]} ${state}, ${time(start)} to ${time(end)}`));
      svg.appendChild(bar);
      if (lane < data.cpus && wide > 60) {
        svg.appendChild(make("text", {x: x + 3, y: LANE * lane + 15, fill: "#fff"},
          data.tasks[task].slice(0, Math.floor(wide / 7))));
      }
    }
    for (const [lane, task, at] of data.wakeups) {
      if (at < from || at > to || data.wakeups.length > 3000 && to - from > data.end_ns / 4)
        continue;
      const x = LEFT + (at - from) * scale, y = LANE * lane + 1;
      const mark = make("path", {d: `M${x - 3} ${y}h6l-3 5z`, fill: "currentColor"});
      mark.appendChild(make("title", {}, `${data.tasks[task]} woken at ${time(at)}`));
      svg.appendChild(mark);
    }
    if (curve && curve.value) draw_curve(svg, scale);
    else if (range) range.textContent = "";
    const bottom = LANE * data.lanes.length + 14;
    svg.appendChild(make("text", {x: LEFT, y: bottom}, time(from)));
    svg.appendChild(make("text", {x: width, y: bottom, "text-anchor": "end"}, time(to)));
    box.replaceChildren(svg);
    where.textContent = `${time(from)} to ${time(to)}`;
  };
  const show = (start, length) => {
    const long = Math.min(data.end_ns, Math.max(1000, length));
    from = Math.min(Math.max(0, start), data.end_ns - long);
    to = from + long;
    draw();
  };
  const zoom = (factor, at) => {
    const middle = at === undefined ? (from + to) / 2 : at, long = (to - from) * factor;
    show(middle - long * (middle - from) / (to - from), long);
  };
  const acts = {in: () => zoom(0.5), out: () => zoom(2), all: () => show(0, data.end_ns),
    left: () => show(from - (to - from) / 4, to - from),
    right: () => show(from + (to - from) / 4, to - from)};
  figure.querySelector(".buttons").hidden = false;
  for (const button of figure.querySelectorAll("button"))
    button.addEventListener("click", acts[button.dataset.act]);
  if (curve) curve.addEventListener("change", draw);
  const keys = {"+": "in", "=": "in", "-": "out", "0": "all",
    ArrowLeft: "left", ArrowRight: "right"};
  box.addEventListener("keydown", (event) => {
    if (keys[event.key]) { event.preventDefault(); acts[keys[event.key]](); }
  });
  box.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    const place = (event.offsetX - LEFT) / Math.max(1, box.clientWidth - LEFT);
    zoom(event.deltaY > 0 ? 1.25 : 0.8, from + place * (to - from));
  }, {passive: false});
  window.addEventListener("resize", draw);
  draw();
})();
""" % {"left": _LEFT, "lane": _LANE, "colors": json.dumps(list(PALETTE))}  # noqa: UP031
"""What makes the timeline zoom; a page with one has it once."""
