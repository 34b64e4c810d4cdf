"""Why tasks waited: a page with its figure, and timelines in text."""

import html
from collections.abc import Sequence

from schedlab.attribution.remedies import Effect
from schedlab.attribution.waiting import Wait, Waiting
from schedlab.boundary import extras
from schedlab.model import short_time
from schedlab.report import page
from schedlab.report.charts import PALETTE, Chart, drawing, stacked
from schedlab.report.words import percent

_WIDTH = 60
"""Letters of a timeline."""

_PIXELS = 960
_LANE = 20
_LEFT = 120


def timeline_rows(wait: Wait) -> list[str]:
    """Return a wait's timeline as lines of text: what ran on its CPU, and its own causes.

    A letter stands for what ran longest within its time: the first letters of tasks are told apart
    below. ``.`` is idle; the wait is underlined.
    """
    begin, end = _window(wait)
    step = (end - begin) / _WIDTH
    runs = [run for run in wait.around if run.cpu == wait.cpu]
    names = list(dict.fromkeys(run.task for run in runs))
    letters = dict(zip(names, "ABCDEFGHIJKLMNOPQRSTUVWXYZ", strict=False))
    line = []
    for place in range(_WIDTH):
        middle = begin + (place + 0.5) * step
        ran = next((r for r in runs if r.began_ns <= middle < r.began_ns + r.length_ns), None)
        line.append("." if ran is None else letters.get(ran.task, "?"))
    first = int((wait.began_ns - begin) / step)
    last = max(first + 1, int((wait.began_ns + wait.length_ns - begin) / step))
    key = ", ".join(f"{letter} {name}" for name, letter in letters.items())
    return [
        f"  CPU {wait.cpu}  {''.join(line)}",
        f"  waits  {' ' * first}{'~' * (last - first)}",
        f"  {key}" if key else "  the CPU idled",
    ]


def chart(waiting: Waiting) -> Chart:
    """Return a figure of the waiting time by kind of task, its causes stacked, as Vega-Lite.

    In a notebook ``altair.Chart.from_dict(chart(waiting))`` shows it.
    """
    totals: dict[str, int] = {}
    for one in waiting.tasks:
        for cause in one.causes:
            totals[cause.text] = totals.get(cause.text, 0) + cause.wait_ns
    largest = sorted(totals, key=totals.__getitem__, reverse=True)
    # As many as there are colours: the smallest share the last one.
    apart = largest if len(largest) <= len(PALETTE) else largest[: len(PALETTE) - 1]
    values = [
        {
            "task": one.name,
            "cause": cause.text if cause.text in apart else "other causes",
            "seconds": cause.wait_ns / 1e9,
        }
        for one in waiting.tasks
        for cause in one.causes
    ]
    with drawing():
        return stacked(values, x="seconds", y="task", color="cause", title="waiting time (s)")


def report(waiting: Waiting, effects: Sequence[Effect], source: str) -> str:
    """Return a self-contained HTML page: the answer, its causes, the longest waits, the changes."""
    parts = [page.answers([waiting.answer])]
    if waiting.task is not None:
        parts += [_picture(waiting), _causes(waiting)]
    parts += [_wait(number, wait) for number, wait in enumerate(waiting.worst, 1)]
    if effects:
        parts.append(_effects(effects))
    parts.append(
        f"<footer>{html.escape(source)}; rules of {html.escape(waiting.release)}; "
        f"{waiting.attributed:.2%} of the waiting time has a cause</footer>"
    )
    return page.page(f"Why did {waiting.selected or 'no task'} wait?", parts)


def _picture(waiting: Waiting) -> str:
    if not extras.installed("charts"):
        return ""
    caption = "The time that each kind of task waited, by its causes."
    return page.figure(chart(waiting), caption, caption, "waiting")


def _causes(waiting: Waiting) -> str:
    task = waiting.task
    assert task is not None
    title = f"Causes from p{waiting.percentile:g} on, and of all waits"
    every = {cause.label: cause for cause in task.causes}
    rows = []
    for cause in task.tail:
        whole = every.get(cause.label)
        rows.append(
            (
                cause.label,
                f"{cause.share:.1%}",
                short_time(cause.wait_ns),
                f"{whole.share:.1%}" if whole is not None else "",
                short_time(cause.margin_ns) if cause.margin_ns else "",
            )
        )
    columns = ("cause", "share", "time", "of all waits", "mean margin")
    return page.section(title, page.table("Causes of its waits", columns, rows), "causes")


def _wait(number: int, wait: Wait) -> str:
    title = (
        f"{number}. {wait.task}: {short_time(wait.length_ns)} at {wait.began_ns / 1e9:.6f} s "
        f"on CPU {wait.cpu}"
    )
    rows = [
        (
            span.label,
            short_time(span.length_ns),
            short_time(span.margin_ns) if span.margin_ns else "",
        )
        for span in wait.spans
    ]
    table = page.table("Its parts, one after the other", ("cause", "time", "margin"), rows)
    table = page.folded("Its parts", table, f"wait-{number}")
    drawing = f'<div class="wide" tabindex="0">{_timeline(wait)}</div>'
    return f"<h3>{html.escape(title)}</h3>{drawing}{table}"


def _effects(effects: Sequence[Effect]) -> str:
    rows = [
        (
            effect.name,
            percent(effect.ratio.value),
            f"{effect.ratio.interval.low - 1:+.1%} to {effect.ratio.interval.high - 1:+.1%}",
            percent(effect.turnaround.value),
            "" if effect.hurt is None else f"{effect.hurt} +{short_time(effect.hurt_ns)}",
        )
        for effect in effects
    ]
    columns = ("change", "percentile", "95% interval", "turnaround", "waits longer")
    return page.section("What would change it", page.table("Simulated", columns, rows), "changes")


def _window(wait: Wait) -> tuple[int, int]:
    """Return from when to when a wait's timeline goes: a tenth of its length on either side."""
    room = max(wait.length_ns // 10, 1_000)
    return max(0, wait.began_ns - room), wait.began_ns + wait.length_ns + room


def _timeline(wait: Wait) -> str:
    """Return what ran on each CPU around a wait, and the wait's causes below, as SVG."""
    begin, end = _window(wait)
    scale = (_PIXELS - _LEFT) / (end - begin)
    cpus = sorted({run.cpu for run in wait.around} | {wait.cpu})
    names = list(dict.fromkeys(run.task for run in wait.around))

    def bar(lane: int, began: int, length: int, color: str, title: str) -> str:
        x, wide = _LEFT + (began - begin) * scale, max(0.5, length * scale)
        words = html.escape(f"{title}, {short_time(length)}")
        text = ""
        if wide > 60:
            shown = html.escape(title[: int(wide / 6.5)])
            text = f'<text x="{x + 3:.1f}" y="{_LANE * lane + 14}" fill="#111">{shown}</text>'
        return (
            f'<rect x="{x:.1f}" y="{_LANE * lane + 2}" width="{wide:.1f}" height="{_LANE - 4}" '
            f'fill="{color}"><title>{words}</title></rect>{text}'
        )

    parts = []
    for place, cpu in enumerate(cpus):
        parts.append(_text(place, f"CPU {cpu}"))
        parts += [
            bar(
                place,
                run.began_ns,
                run.length_ns,
                PALETTE[names.index(run.task) % len(PALETTE)],
                run.task,
            )
            for run in wait.around
            if run.cpu == cpu
        ]
    lane = len(cpus)
    parts.append(_text(lane, f"{wait.task} waits"))
    parts += [
        bar(lane, span.began_ns, span.length_ns, "#b8c2cc", span.label) for span in wait.spans
    ]
    height = _LANE * (lane + 1)
    label = html.escape(f"What ran while {wait.task} waited", quote=True)
    return (
        f'<svg viewBox="0 0 {_PIXELS} {height}" width="{_PIXELS}" height="{height}" role="img" '
        f'aria-label="{label}" font-family="sans-serif" font-size="11">{"".join(parts)}</svg>'
    )


def _text(lane: int, text: str) -> str:
    return f'<text x="0" y="{_LANE * lane + 14}">{html.escape(text[:20])}</text>'
