"""The frame of every HTML report: one file, for a desktop, a phone, dark screens and paper.

A report has its answer first, then what shows it, how sure it is and the next command; limits,
costs and all else that is looked up stand last and folded.
"""

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from schedlab.boundary.arguments import visible
from schedlab.boundary.extras import Lazy
from schedlab.report.charts import DARK, PALETTE

if TYPE_CHECKING:
    import vl_convert
else:
    vl_convert = Lazy("vl_convert")

DESK, PHONE = 960, 350
"""Widths in pixels that a figure is drawn in: on a desktop and on paper, and on a phone."""

_COLUMN = 170
"""The least width in pixels of a panel or of a legend's column."""

_LIGHT = """ --ink: #1f2933; --paper: #fff; --pale: #52606d; --line: #e4e7eb; --box: #f5f7fa;
 --stripe: #f8f9fb; --mark: #2563a8; --good: #1b6b3a; --bad: #a11d1d; --unsure: #7a5200; """
_DARK = """ --ink: #e6eaee; --paper: #14181d; --pale: #a8b3bf; --line: #39424c; --box: #1d242c;
 --stripe: #1a2027; --mark: #7db3ee; --good: #6fd09a; --bad: #ff9a90; --unsure: #e7bd6a; """


def dark_marks(within: str = "") -> str:
    """Return the CSS that gives a drawing's marks the colours for a dark ground.

    Args:
        within: selector of what the drawings are in, with a space behind it.

    >>> dark_marks().split("}")[0]
    '[fill="#2563a8"]{fill:#6aa9e9'
    """
    return "\n".join(
        f'{within}[fill="{light}"]{{fill:{dark}}} {within}[stroke="{light}"]{{stroke:{dark}}}'
        for light, dark in zip(PALETTE, DARK, strict=True)
    )


_STYLE = f"""
:root {{ color-scheme: light dark;{_LIGHT}}}
@media screen and (prefers-color-scheme: dark) {{ :root {{{_DARK}}}
{dark_marks("figure ")} }}
* {{ box-sizing: border-box; }}
body {{ font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
       margin: 0 auto; max-width: 64rem; padding: 1rem; overflow-wrap: break-word; }}
h1 {{ font-size: 1.6rem; margin: 0 0 .5rem; }} h2 {{ font-size: 1.2rem; margin: 2rem 0 .5rem; }}
h3 {{ font-size: 1rem; margin: 1.5rem 0 .5rem; }}
p.answer {{ border-left: 4px solid var(--mark); padding-left: .8rem; }}
p.answer:first-of-type {{ font-size: 1.1rem; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-size: .85rem; margin: .5rem 0; }}
caption {{ text-align: left; font-weight: 600; padding: .3rem 0; }}
th, td {{ text-align: right; padding: .2rem .6rem; border-bottom: 1px solid var(--line);
         vertical-align: top; }}
th:first-child, td:first-child, .words th, .words td {{ text-align: left; }}
tbody tr:nth-child(even) {{ background: var(--stripe); }}
.confirmed {{ color: var(--good); font-weight: 600; }}
.contradicted {{ color: var(--bad); font-weight: 600; }}
.not-confirmed {{ color: var(--unsure); font-weight: 600; }}
figure {{ margin: 1rem 0; }} figure svg {{ max-width: 100%; height: auto; }}
figure .phone {{ display: none; }}
figcaption {{ font-size: .85rem; color: var(--pale); max-width: 44rem; }}
.chart text, svg text:not([fill]) {{ fill: var(--ink); }}
.chart .role-axis-grid line, .chart .role-axis-domain line, .chart .role-axis-tick line
  {{ stroke: var(--line); }}
.chart path.background {{ stroke: var(--line); }}
.chart .role-legend path.background {{ stroke: none; }} .chart svg {{ overflow: visible; }}
.timeline .lanes {{ overflow-x: auto; outline-offset: 2px; }}
.timeline svg {{ max-width: none; color: var(--ink); }}
button, select {{ font: inherit; padding: .1rem .5rem; }}
pre {{ font-size: .85rem; white-space: pre-wrap; overflow-wrap: anywhere; background: var(--box);
       padding: .6rem; }}
details {{ margin: .8rem 0; }} summary {{ cursor: pointer; font-weight: 600; }}
footer {{ margin-top: 2rem; font-size: .8rem; color: var(--pale); }}
nav {{ font-size: .9rem; margin: 1rem 0; }} nav a {{ margin-right: .9rem; white-space: nowrap; }}
a {{ color: var(--mark); }}
:focus-visible {{ outline: 2px solid var(--mark); outline-offset: 2px; }}
@media screen and (max-width: 40rem) {{
  figure .desk {{ display: none; }} figure .phone {{ display: block; }}
  .words table, .words tbody, .words tr, .words td {{ display: block; text-align: left; }}
  .words thead {{ position: absolute; clip-path: inset(50%); }}
  .words tr {{ border: 1px solid var(--line); border-radius: 4px; margin: .6rem 0; }}
  .words td {{ border: 0; }}
  .words td::before {{ content: attr(data-label) ": "; color: var(--pale); font-weight: 400; }}
  .words td:first-child {{ font-weight: 600; }} .words td:first-child::before {{ content: none; }}
}}
@media print {{
  body {{ max-width: none; font-size: 10pt; padding: 0; }} nav, .buttons {{ display: none; }}
  .wide, .timeline .lanes {{ overflow: visible; }}
  figure, tr {{ break-inside: avoid; }} h2 {{ break-after: avoid; }} table {{ font-size: 7.5pt; }}
  th, td {{ padding: .1rem .3rem; }} .timeline svg {{ max-width: 100%; height: auto; }}
  details::details-content {{ content-visibility: visible; block-size: auto; }}
}}
"""


def page(title: str, parts: Iterable[str], script: str = "") -> str:
    """Return a report as one HTML file that needs no other.

    Args:
        title: of the page and its first heading, as text.
        parts: of the page, as markup; empty ones are left out.
        script: what the page runs, if anything.

    >>> page("a < b", ["<p>c</p>"]).count("a &lt; b")
    2
    """
    body = "\n".join([f"<h1>{text(title)}</h1>", *(part for part in parts if part)])
    running = f"<script>{script}</script>\n" if script else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="data:,">\n<title>{text(title)}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        f"{running}</body>\n</html>\n"
    )


def text(value: object) -> str:
    """Return a value as text within markup.

    >>> text("<b>")
    '&lt;b&gt;'
    """
    return html.escape(str(value))


def answers(sentences: Iterable[str]) -> str:
    """Return what came out, a paragraph a sentence."""
    return "\n".join(f'<p class="answer">{text(sentence)}</p>' for sentence in sentences)


def section(title: str, body: str, name: str) -> str:
    """Return a part of a page under a heading, or nothing where its body is empty."""
    return f'<h2 id="{text(name)}">{text(title)}</h2>\n{body}' if body else ""


def folded(title: str, body: str, name: str) -> str:
    """Return a part of a page that is opened on demand, or nothing where its body is empty."""
    return (
        f'<details id="{text(name)}"><summary>{text(title)}</summary>\n{body}\n</details>'
        if body
        else ""
    )


def command(line: str) -> str:
    """Return a command as it is typed."""
    return f"<pre>$ {text(line)}</pre>"


def items(sentences: Sequence[str]) -> str:
    """Return a list of sentences; an empty text for none."""
    listed = "".join(f"<li>{text(sentence)}</li>" for sentence in sentences)
    return f"<ul>{listed}</ul>" if listed else ""


def table(title: str, columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table that scrolls by itself where the screen is narrower."""
    head = "".join(f'<th scope="col">{text(column)}</th>' for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{text(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f'<div class="wide" role="region" aria-label="{text(title)}" tabindex="0">'
        f"<table><caption>{text(title)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def figure(chart: Mapping[str, Any], caption: str, alternative: str, name: str) -> str:
    """Return a Vega-Lite figure, drawn for a desktop and for a phone.

    Args:
        chart: its specification.
        caption: below it.
        alternative: its alternative text.
        name: its place in the page; letters, digits and ``_``.
    """
    drawn = "".join(
        f'<div class="{kind}">{_apart(svg(sized(chart, width)), f"{name}-{kind}-")}</div>'
        for kind, width in (("desk", DESK), ("phone", PHONE))
    )
    return (
        f'<figure id="{text(name)}"><div class="wide chart" role="img" tabindex="0" '
        f'aria-label="{text(alternative)}">{drawn}</div>'
        f"<figcaption>{text(caption)}</figcaption></figure>"
    )


def _apart(drawing: str, prefix: str) -> str:
    """Return a drawing whose parts have unique names in a page of several drawings."""
    safe = re.sub(r"[^A-Za-z0-9_-]", "_", prefix)
    return re.sub(r'(\bid="|url\(#|href="#)', lambda found: found[1] + safe, drawing)


def svg(chart: Mapping[str, Any]) -> str:
    """Return a Vega-Lite figure as SVG text.

    SVG has no way to write control characters, on which vl-convert ends the process: text is drawn
    as a terminal shows it.

    Raises:
        ValueError: the figure has a size that no report draws.
    """
    _check_sizes(chart)
    return vl_convert.vegalite_to_svg(_visible(chart))


FILE = 760
"""Width in pixels of a figure in a separate file."""

_FILE_INKS = {"#000": "#e6eaee", "#888": "#a8b3bf", "#ddd": "#39424c"}
"""The library's black and greys, each with the colour for a dark ground."""


def file(chart: Mapping[str, Any]) -> str:
    """Return a figure as an SVG file, which follows its reader's light or dark screen."""
    return follows_screen(svg(sized(chart, FILE)))


def follows_screen(drawing: str) -> str:
    """Return a drawing of the library's with the colours of a dark screen beside its own."""
    inks = "".join(
        f'[fill="{light}"]{{fill:{dark}}}[stroke="{light}"]{{stroke:{dark}}}'
        for light, dark in _FILE_INKS.items()
    )
    place = drawing.index(">") + 1
    style = f"<style>@media (prefers-color-scheme:dark){{{inks}{dark_marks()}}}</style>"
    return drawing[:place] + style + drawing[place:]


def sized(chart: Mapping[str, Any], width: int) -> dict[str, Any]:
    """Return a Vega-Lite figure that is so many pixels wide.

    A figure of one view takes the width with its axes. One of panels has as many columns as there
    is room for, at most those that it asks for; so has a legend.

    >>> sized({"mark": "bar", "width": 300}, 900)["width"]
    900
    >>> sized({"facet": {}, "columns": 3, "spec": {"width": 200}}, 350)["columns"]
    2
    """
    columns = max(1, width // _COLUMN)
    made: dict[str, Any] = _legends(chart, columns)
    if "facet" in made and isinstance(made.get("spec"), Mapping):
        asked = made.get("columns")
        wanted = [columns, _panels(made), *([asked] if isinstance(asked, int) else [])]
        made["columns"] = max(1, min(wanted))
        resolve = made.get("resolve")
        own = isinstance(resolve, Mapping) and "y" in resolve.get("scale", {})
        # An axis with its title takes some 45 to 60 pixels, the space between panels 20.
        room = width // made["columns"] - 65 if own else (width - 60) // made["columns"] - 20
        made["spec"] = {**made["spec"], "width": room}
        height = made["spec"].get("height")
        if isinstance(height, int | float):
            made["spec"]["height"] = max(height, min(240, room // 3))
        return made
    # Labels are measured in a font that is narrower than some browsers'.
    frame: dict[str, Any] = {
        "autosize": {"type": "fit", "contains": "padding"},
        "padding": _PADDING,
    }
    height = made.get("height")
    if isinstance(height, int | float):
        # Axis, its title and the legend are within, too.
        frame["height"] = height + _AROUND
    return {**made, "width": width, **frame}


_AROUND = 70


_PADDING = {"left": 36, "right": 16, "top": 5, "bottom": 5}


def _panels(chart: Mapping[str, Any]) -> int:
    """Return how many panels a figure has, or a number that limits nothing."""
    order = chart["facet"].get("sort") if isinstance(chart["facet"], Mapping) else None
    return len(order) if isinstance(order, list) else _LARGEST


def _legends(part: Any, columns: int) -> Any:
    """Return a part of a figure whose legends have at most so many columns."""
    if isinstance(part, list):
        return [_legends(one, columns) for one in part]
    if not isinstance(part, Mapping):
        return part
    made = {
        key: one if key in ("data", "datasets") else _legends(one, columns)
        for key, one in part.items()
    }
    legend = made.get("legend")
    if isinstance(legend, Mapping) and isinstance(legend.get("columns"), int):
        made["legend"] = {**legend, "columns": min(columns, legend["columns"])}
    return made


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
    """Refuse a figure with a size that no report draws.

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
