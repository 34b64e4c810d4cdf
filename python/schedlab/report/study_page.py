"""A study's report: one HTML file with everything in it, made from its summary."""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from schedlab.live import runs
from schedlab.report import page, timeline
from schedlab.report.page import svg, text

__all__ = ["report", "svg"]

Values = Mapping[str, Any]


def report(summary: Values, *, beside: bool = False) -> str:
    """Return the report of a study's summary.

    Args:
        summary: what ``summary.json`` holds.
        beside: whether the live page is beside the report.

    Raises:
        KeyError: it is not what a study writes.
    """
    why, line = after(summary)
    following = f"<p>{text(why)}</p>{page.command(line)}{_live(summary, beside)}"
    parts = [
        page.answers(summary["answers"]),
        _ways(summary),
        page.section("Figures", _figures(summary["figures"]), "figures"),
        page.section("One run", _timeline(summary.get("timeline")), "run"),
        page.section("How sure that is", _sure(summary), "claims"),
        page.section("What to do next", following, "next"),
        page.folded("Numbers", _tables(summary["tables"]), "numbers"),
        page.folded("Limits: what is done otherwise", page.items(summary["notes"]), "otherwise"),
        page.folded("To repeat it", _repeat(summary), "repeat"),
        _footer(summary),
    ]
    script = timeline.SCRIPT if summary.get("timeline") else ""
    return page.page(summary["title"], parts, script)


def after(summary: Values) -> tuple[str, str]:
    """Return why a command is the next one after a study, and the command.

    >>> after({"command": "schedlab study thread_fairness --quick"})[1]
    'schedlab study thread_fairness'
    >>> after({"command": "schedlab study thread_fairness"})[1]
    'schedlab study thread_fairness --on host'
    """
    if "next" in summary:
        return summary["next"]["why"], summary["next"]["command"]
    try:
        words = shlex.split(summary["command"])
    except ValueError:
        words = [summary["command"]]
    if "--quick" in words:
        shorter = [word for word in words if word != "--quick"]
        return "This was the small version: run the study in full.", shlex.join(shorter)
    if "--on" not in words:
        return "This is a simulation: verify it on the running kernel.", shlex.join(
            [*words, "--on", "host"]
        )
    return "The same command repeats it, and continues from the stored runs.", shlex.join(words)


def _ways(summary: Values) -> str:
    """Return the links to the parts that there are."""
    parts = {
        "figures": "Figures" if summary["figures"] else "",
        "run": "One run" if summary.get("timeline") else "",
        "claims": "Claims" if summary["claims"] else "How sure" if _sure(summary) else "",
        "next": "What to do next",
        "numbers": "Numbers" if any(one["shown"] for one in summary["tables"]) else "",
        "otherwise": "Limits" if summary["notes"] else "",
        "repeat": "To repeat it",
    }
    links = " ".join(f'<a href="#{name}">{said}</a>' for name, said in parts.items() if said)
    return f'<nav aria-label="Parts of this report">{links}</nav>'


def _sure(summary: Values) -> str:
    """Return what the answers rest on: the paper's claims beside ours, and sentences."""
    return "\n".join([_claims(summary["claims"]), page.items(summary.get("sure", ()))]).strip()


def _claims(claims: Sequence[Values]) -> str:
    if not claims:
        return ""
    counts: dict[str, int] = {}
    for one in claims:
        counts[one["verdict"]] = counts.get(one["verdict"], 0) + 1
    counted = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    rows = "".join(
        f"<tr><td>{text(one['claim'])}</td>"
        f'<td data-label="paper">{text(one["paper"])}</td>'
        f'<td data-label="ours">{text(one["ours"])}{_interval(one["interval"])}</td>'
        f'<td data-label="verdict" class="{text(one["verdict"].replace(" ", "-"))}">'
        f"{text(one['verdict'])}</td></tr>"
        for one in claims
    )
    heads = "".join(
        f'<th scope="col">{head}</th>' for head in ("claim", "paper", "ours", "verdict")
    )
    return (
        f"<p>Of the paper's claims: {text(counted)}.</p>\n"
        '<div class="wide words" role="region" aria-label="Claims" tabindex="0"><table>'
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _interval(ends: Sequence[float] | None) -> str:
    return "" if ends is None else f" (95% interval {ends[0]:.4g} to {ends[1]:.4g})"


def _figures(figures: Sequence[Values]) -> str:
    return "\n".join(
        page.figure(one["chart"], one["caption"], one["alternative"], one["name"])
        for one in figures
    )


def _live(summary: Values, beside: bool) -> str:
    """Return the link to the study's run in the live page, where it has one."""
    data = summary.get("timeline") or {}
    shown = {data["title"]: data["live"]} if "live" in data else {}
    return runs.links(shown, ("schedlab", "live", "report.html"), beside=beside)


def _timeline(data: Values | None) -> str:
    return "" if data is None else timeline.section(data)


def _tables(tables: Sequence[Values]) -> str:
    return "\n".join(
        page.table(one["title"], one["columns"], [map(_cell, row) for row in one["rows"]])
        for one in tables
        if one["shown"]
    )


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _repeat(summary: Values) -> str:
    files = ", ".join(f"{table['name']}.csv" for table in summary["tables"])
    facts = json.dumps(summary["repeat"], indent=1, sort_keys=True)
    return (
        f"<p>After {text(summary['paper'])}.</p>{page.command(summary['command'])}"
        f"<p>Every number: summary.json, {text(files)}.</p><pre>{text(facts)}</pre>"
    )


def _footer(summary: Values) -> str:
    return (
        f"<footer>schedlab {text(summary['version'])}, {text(summary['date'])}, "
        f"{text(summary['host'])}, {summary['seconds']:.0f} s</footer>"
    )
