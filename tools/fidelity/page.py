"""The page that says what came out: ``docs/concepts/fidelity.md``."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fidelity.collect import Collected
from fidelity.judge import Finding, Judgement, Report, upper_bound
from fidelity.markdown import table
from fidelity.register import Goal, Line, Register
from fidelity.tally import Tally, verdict

_INTRODUCTION = """\
Whether runs come out as real ones do, and rank settings as they do, each page with its release,
CPU, date and commit: [behaviour](fidelity-behaviour.md), [prediction](fidelity-prediction.md) and
[what-if on a recording](fidelity-what-if.md).

![behaviour, real against simulated](fidelity-behaviour.svg)
![rankings on 6.1](fidelity-prediction-vm-6.1.svg)
![rankings on 6.12](fidelity-prediction-vm-6.12.svg)
![rankings on the host](fidelity-prediction-host.svg)
![what-if, predicted against done](fidelity-what-if.svg)

Written by `make fidelity-decisions`: every scenario of `validation/decisions.toml` recorded on real
kernels, and every recorded decision compared with our rules' ([how](validation.md)).
What is allowed was written down before. A line fails when it leaves its tolerance, when nothing
was compared, and, where a divergence is known, when that moves or disappears. Replay is forced:
after each comparison the kernel's choice stands.
"""

_KEPT = """\
This run replayed recordings that were there (`--kept`).
"""

KINDS = ("pick", "tick", "wakeup", "placement", "select")
OF_GOALS = (*KINDS, "newidle", "balance", "push")


@dataclass(frozen=True, slots=True)
class Circumstances:
    """When and where.

    Attributes:
        date: the day.
        commit: the commit whose rules were compared.
        cpu_model: the CPU's name.
        kernel: this machine's kernel.
        seconds: how long everything took.
        kept: whether recordings were replayed that had been there, of whatever length.
        host: what could be recorded of this machine's own kernel, a line each.
    """

    date: str
    commit: str
    cpu_model: str
    kernel: str
    seconds: float
    kept: bool
    host: tuple[str, ...]


def page(
    register: Register, collected: Collected, judgement: Judgement, where: Circumstances
) -> str:
    """Return the page as Markdown."""
    findings = (*judgement.goals, *judgement.lines)
    parts = [
        "# Fidelity, decision by decision",
        "",
        _INTRODUCTION,
        f"{where.date}, commit {where.commit}, {where.cpu_model}, in {where.seconds / 60:.0f} min.",
        *([_KEPT] if where.kept else []),
        f"{len(judgement.goals)} goals and {len(judgement.lines)} lines. "
        f"**{Tally.of(findings).headline('goals and lines')}.**",
        "",
        *table(
            ("series", "kernel", "guest"),
            [
                (series, kernel, collected.accelerators.get(series, ""))
                for series, kernel in collected.kernels.items()
            ],
        ),
        "",
        "## Goals",
        "",
        "Decisions of all lines of a release together: differing / compared, and in brackets the",
        "share of differing ones that is not exceeded with 95 % confidence (Clopper and Pearson).",
        "",
        *table(
            ("goal", "series", "level", *OF_GOALS, "largest errors", "verdict"),
            [_goal_row(finding) for finding in judgement.goals],
        ),
        "",
        "## Lines",
        "",
        "Differing / compared, and *in italics* how many the recording leaves open. A naive rule",
        "picks whoever comes first in virtual time (EEVDF: by deadline), preempts for them, and",
        "places tasks at the queue's minimum (EEVDF: average), and on several CPUs selects the one",
        "where a woken task was; its share that differs is beside.",
        "",
        *table(
            (
                "scenario",
                "series",
                "level",
                *KINDS,
                "a naive rule differs",
                "largest errors",
                "verdict",
            ),
            [_line_row(finding) for finding in judgement.lines],
        ),
        "",
        *_failures(findings),
        *_known(judgement.lines),
        "## Tolerances",
        "",
        *table(
            ("name", "differing", "derived"),
            [
                (name, f"{part.differing:.2%}", part.why)
                for name, part in register.tolerances.items()
            ],
        ),
        "",
        "## This machine's own kernel",
        "",
        *where.host,
    ]
    return "\n".join(parts) + "\n"


def _goal_row(finding: Finding) -> tuple[str, ...]:
    goal = finding.what
    assert isinstance(goal, Goal)
    cells = [_score(finding.report, kind, bounded=kind in goal.least) for kind in OF_GOALS]
    return (goal.name, goal.release, goal.level, *cells, _errors(finding.report), verdict(finding))


def _line_row(finding: Finding) -> tuple[str, ...]:
    line = finding.what
    assert isinstance(line, Line)
    cells = [_score(finding.report, kind, bounded=False) for kind in KINDS]
    return (
        line.scenario,
        line.release,
        line.level,
        *cells,
        _naive(finding.report),
        _errors(finding.report),
        verdict(finding),
    )


def _numbers(report: Report | None, kind: str) -> Mapping[str, int]:
    return report["decisions"].get(kind, {}) if report is not None else {}


def _score(report: Report | None, kind: str, *, bounded: bool) -> str:
    numbers = _numbers(report, kind)
    compared = numbers.get("compared", 0)
    if compared == 0:
        return "-"
    differing = compared - numbers["equal"]
    text = f"{differing} / {compared}"
    if bounded:
        text += f" ({upper_bound(differing, compared):.3%})"
    unverifiable = numbers.get("unverifiable", 0)
    return f"{text} *{unverifiable}*" if unverifiable else text


def _naive(report: Report | None) -> str:
    shares = []
    for kind in KINDS:
        numbers = _numbers(report, kind)
        if numbers.get("compared", 0):
            shares.append(f"{1 - numbers['naive_equal'] / numbers['compared']:.1%}")
        else:
            shares.append("-")
    return " ".join(shares)


def _errors(report: Report | None) -> str:
    if report is None:
        return ""
    parts = []
    for name, numbers in report["state"].items():
        if numbers.get("compared", 0) == 0:
            continue
        if "max_error" in numbers:
            mean, largest = numbers["mean_error"], numbers["max_error"]
            parts.append((name, largest, f"{name} {mean:.4%} mean, {largest:.2%} largest"))
        elif "max_error_ns" in numbers:
            parts.append((name, numbers["max_error_ns"], f"{name} {numbers['max_error_ns']} ns"))
        else:
            wrong = numbers["compared"] - numbers["equal"]
            parts.append((name, wrong, f"{name} {wrong} times"))
    wrong_parts = [text for _, number, text in parts if number]
    shown = wrong_parts or [f"0 in {len(parts)} states"]
    times = report["resynchronisations"]
    return ", ".join(shown) + (f"; resynchronised {times} times" if times else "")


def _name(finding: Finding) -> str:
    what = finding.what
    name = what.scenario if isinstance(what, Line) else what.name
    return f"{name}, {what.release}, {what.level}"


def _failures(findings: Iterable[Finding]) -> list[str]:
    failed = [
        f"* {_name(finding)}: {'; '.join(finding.failures)}"
        for finding in findings
        if not finding.holds
    ]
    return ["## What fails", "", *failed, ""] if failed else []


def _known(findings: Iterable[Finding]) -> list[str]:
    known = []
    for finding in findings:
        line = finding.what
        if finding.diverges and isinstance(line, Line):
            sizes = ", ".join(
                f"{kind} {low:.2%} to {high:.2%}" for kind, (low, high) in line.sizes.items()
            )
            known.append(f"* {_name(finding)} ({sizes}): {line.cause}")
    return ["## Known divergences", "", *known, ""] if known else []
