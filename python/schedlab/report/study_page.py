"""A study's report: one HTML file with everything in it, made from its summary."""

import html
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from schedlab.boundary.arguments import visible
from schedlab.boundary.extras import Lazy
from schedlab.report import timeline

if TYPE_CHECKING:
    import vl_convert
else:
    vl_convert = Lazy("vl_convert")

Values = Mapping[str, Any]

_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1f2933; background: #fff; margin: 0 auto;
       max-width: 64rem; padding: 1rem; }
h1 { font-size: 1.6rem; margin: 0 0 .5rem; } h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; }
h1, h2, p, li, figcaption { overflow-wrap: break-word; }
p.answer { border-left: 4px solid #2563a8; padding-left: .8rem; }
p.answer:first-of-type { font-size: 1.1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; margin: .5rem 0; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { text-align: right; padding: .2rem .6rem; border-bottom: 1px solid #e4e7eb;
         vertical-align: top; }
th:first-child, td:first-child, .words th, .words td { text-align: left; }
.confirmed { color: #1b6b3a; font-weight: 600; } .contradicted { color: #a11d1d; font-weight: 600; }
.not-confirmed { color: #7a5200; font-weight: 600; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; }
.timeline .lanes { overflow-x: auto; outline-offset: 2px; } .timeline svg { max-width: none; }
figcaption { font-size: .85rem; color: #52606d; max-width: 44rem; }
button { font: inherit; padding: .1rem .5rem; }
pre { font-size: .8rem; overflow-x: auto; background: #f5f7fa; padding: .6rem; }
footer { margin-top: 2rem; font-size: .8rem; color: #52606d; }
nav { font-size: .9rem; margin: 1rem 0; } nav a { margin-right: .9rem; white-space: nowrap; }
a { color: #2563a8; } :focus-visible { outline: 2px solid #2563a8; outline-offset: 2px; }
tbody tr:nth-child(even) { background: #f8f9fb; }
@media (max-width: 40rem) {
  figure svg { max-width: none; }
  .words table, .words tbody, .words tr, .words td { display: block; text-align: left; }
  .words thead { position: absolute; clip-path: inset(50%); }
  .words tr { border: 1px solid #e4e7eb; border-radius: 4px; margin: .6rem 0; }
  .words td { border: 0; }
  .words td::before { content: attr(data-label) ": "; color: #52606d; font-weight: 400; }
  .words td:first-child { font-weight: 600; } .words td:first-child::before { content: none; }
}
@media print {
  body { max-width: none; font-size: 10pt; padding: 0; } nav, .buttons { display: none; }
  .wide, .timeline .lanes, pre { overflow: visible; } pre { white-space: pre-wrap; }
  figure, tr { break-inside: avoid; } h2 { break-after: avoid; } table { font-size: 7.5pt; }
  th, td { padding: .1rem .3rem; }
  figure svg, .timeline svg { max-width: 100%; height: auto; }
}
"""


def report(summary: Values) -> str:
    """Return the report of a study's summary.

    Args:
        summary: what ``summary.json`` holds.

    Raises:
        KeyError: it is not what a study writes.
    """
    title = f"{summary['title']}"
    parts = [
        f"<h1>{_text(title)}</h1>",
        *[f'<p class="answer">{_text(sentence)}</p>' for sentence in summary["answers"]],
        _ways(summary),
        _claims(summary["claims"]),
        _figures(summary["figures"]),
        _timeline(summary.get("timeline")),
        _tables(summary["tables"]),
        _notes(summary["notes"]),
        _repeat(summary),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{_text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in parts if part)
        + f"\n</main>\n{_script(summary)}</body>\n</html>\n"
    )


def svg(chart: Values) -> str:
    """Return a Vega-Lite figure as SVG text.

    SVG has no way to write control characters, on which vl-convert ends the process: text is drawn
    as a terminal shows it.
    """
    _check_sizes(chart)
    return vl_convert.vegalite_to_svg(_visible(chart))


def _visible(part: Any) -> Any:
    if isinstance(part, str):
        return visible(part)
    if isinstance(part, Mapping):
        return {_visible(key): _visible(one) for key, one in part.items()}
    return [_visible(one) for one in part] if isinstance(part, list | tuple) else part


_SIZES = ("width", "height", "columns", "step", "spacing", "padding", "tickCount", "fontSize")
_LARGEST = 10_000
"""The most that each of these may be: a legend of a billion columns fills the memory."""


def _check_sizes(part: object, name: str = "") -> None:
    """Refuse a chart with a size that no study draws.

    Raises:
        ValueError: one is larger.
    """
    if isinstance(part, Mapping):
        for key, one in part.items():
            if key not in ("data", "datasets"):
                _check_sizes(one, key)
    elif isinstance(part, list):
        for one in part:
            _check_sizes(one, name)
    elif name in _SIZES and isinstance(part, int | float) and abs(part) > _LARGEST:
        raise ValueError(f"a chart has {name} {part:g}; allowed: at most {_LARGEST}")


def _ways(summary: Values) -> str:
    """Return the links to the parts that there are."""
    parts = {
        "claims": "Claims" if summary["claims"] else "",
        "figures": "Figures" if summary["figures"] else "",
        "run": "One run" if summary.get("timeline") else "",
        "numbers": "Numbers" if any(one["shown"] for one in summary["tables"]) else "",
        "otherwise": "What is done otherwise" if summary["notes"] else "",
        "repeat": "To repeat it",
    }
    links = " ".join(f'<a href="#{name}">{text}</a>' for name, text in parts.items() if text)
    return f'<nav aria-label="Parts of this report">{links}</nav>'


def _claims(claims: Sequence[Values]) -> str:
    if not claims:
        return ""
    counts: dict[str, int] = {}
    for one in claims:
        counts[one["verdict"]] = counts.get(one["verdict"], 0) + 1
    counted = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    rows = "".join(
        f"<tr><td>{_text(one['claim'])}</td>"
        f'<td data-label="paper">{_text(one["paper"])}</td>'
        f'<td data-label="ours">{_text(one["ours"])}{_interval(one["interval"])}</td>'
        f'<td data-label="verdict" class="{_text(one["verdict"].replace(" ", "-"))}">'
        f"{_text(one['verdict'])}</td></tr>"
        for one in claims
    )
    heads = "".join(
        f'<th scope="col">{head}</th>' for head in ("claim", "paper", "ours", "verdict")
    )
    return (
        f'<h2 id="claims">Claims</h2>\n<p>{_text(counted)}.</p>\n'
        '<div class="wide words" role="region" aria-label="Claims" tabindex="0"><table>'
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _interval(ends: Sequence[float] | None) -> str:
    return "" if ends is None else f" (95% interval {ends[0]:.4g} to {ends[1]:.4g})"


def _figures(figures: Sequence[Values]) -> str:
    if not figures:
        return ""
    drawn = [
        f'<figure id="{_text(one["name"])}"><div class="wide" role="img" tabindex="0" '
        f'aria-label="{_text(one["alternative"])}">{svg(one["chart"])}</div>'
        f"<figcaption>{_text(one['caption'])}</figcaption></figure>"
        for one in figures
    ]
    return '<h2 id="figures">Figures</h2>\n' + "\n".join(drawn)


def _timeline(data: Values | None) -> str:
    return "" if data is None else f'<h2 id="run">One run</h2>\n{timeline.section(data)}'


def _script(summary: Values) -> str:
    """Return what moves through a run's timeline, where there is one."""
    return f"<script>{timeline.SCRIPT}</script>\n" if summary.get("timeline") else ""


def _tables(tables: Sequence[Values]) -> str:
    shown = [one for one in tables if one["shown"]]
    if not shown:
        return ""
    return '<h2 id="numbers">Numbers</h2>\n' + "\n".join(_table(one) for one in shown)


def _table(table: Values) -> str:
    head = "".join(f'<th scope="col">{_text(column)}</th>' for column in table["columns"])
    body = "".join(
        "<tr>" + "".join(f"<td>{_text(_cell(cell))}</td>" for cell in row) + "</tr>"
        for row in table["rows"]
    )
    return (
        f'<div class="wide" role="region" aria-label="{_text(table["title"])}" tabindex="0">'
        f"<table><caption>{_text(table['title'])}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _notes(notes: Sequence[str]) -> str:
    if not notes:
        return ""
    items = "".join(f"<li>{_text(note)}</li>" for note in notes)
    return f'<h2 id="otherwise">What is done otherwise, and why</h2>\n<ul>{items}</ul>'


def _repeat(summary: Values) -> str:
    files = ", ".join(f"{table['name']}.csv" for table in summary["tables"])
    facts = json.dumps(summary["repeat"], indent=1, sort_keys=True)
    return (
        '<h2 id="repeat">To repeat it</h2>\n'
        f"<p>After {_text(summary['paper'])}.</p>"
        f"<pre>{_text(summary['command'])}</pre>"
        f"<p>Every number: summary.json, {_text(files)}.</p><pre>{_text(facts)}</pre>"
        f"<footer>schedlab {_text(summary['version'])}, {_text(summary['date'])}, "
        f"{_text(summary['host'])}, {summary['seconds']:.0f} s</footer>"
    )


def _text(value: object) -> str:
    return html.escape(str(value))
