"""The page that says what came out: ``docs/results/fidelity.md``."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fidelity.collect import Collected
from fidelity.judge import Finding, Judgement, Report, upper_bound
from fidelity.markdown import table
from fidelity.register import Goal, Line, Register
from fidelity.tally import Tally, verdict

_QUESTION = """\
Would our rules have decided as the kernel did, at each recorded pick, tick, wake-up and
placement ([how](../concepts/validation.md#decisions))?
"""

_KEPT = """\
Replayed from kept recordings (`--kept`).
"""

_ALTERNATIVE = "Decisions compared and differing, by kind"
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
        "# Decisions: our rules against real kernels'",
        "",
        f"**{Tally.of(findings).headline('criteria')}.** {_compared(judgement)}",
        "",
        _QUESTION,
        f"{where.date}, commit {where.commit}, {where.cpu_model}, in {where.seconds / 60:.0f} min.",
        *([_KEPT] if where.kept else []),
        "",
        f"![{_ALTERNATIVE}](fidelity.svg)",
        "",
        "## Criteria by release",
        "",
        "All decisions of a release together: differing / compared; in brackets the share of",
        "differing decisions at 95 % confidence at most (Clopper and Pearson); *in italics* how",
        "many the recording leaves open.",
        "",
        *table(
            ("criterion", "series", "level", *OF_GOALS, "largest errors", "verdict"),
            [_goal_row(finding) for finding in judgement.goals],
        ),
        "",
        "## By scenario",
        "",
        "A naive rule picks the leftmost task (EEVDF: the earliest deadline), preempts for it,",
        "places tasks at the queue's minimum (EEVDF: average) and leaves a woken task on its CPU.",
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
        *_drawn(collected),
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
        "## Kernels",
        "",
        *table(
            ("series", "kernel", "guest", "recorded"),
            [
                (series, kernel, collected.accelerators.get(series, ""), _days(collected, series))
                for series, kernel in collected.kernels.items()
            ],
        ),
        "",
        *where.host,
    ]
    return "\n".join(parts) + "\n"


def _days(collected: Collected, series: str) -> str:
    days = sorted(collected.days.get(series, ()))
    return " to ".join(dict.fromkeys([*days[:1], *days[-1:]]))


_CERTAIN = ("pick", "tick", "wakeup", "placement")


def _compared(judgement: Judgement) -> str:
    """Say how many decisions were compared and differ, by what is recorded."""
    full = _sum((one for one in judgement.lines if one.what.level == "L1"), _CERTAIN)
    less = _sum((one for one in judgement.lines if one.what.level != "L1"), _CERTAIN)
    select = _sum(judgement.lines, ("select",))
    return (
        f"With all probes {full} picks, ticks, wake-up preemptions and placements differ, and "
        f"{select} CPU selections; with fewer probes {less}."
    )


def _sum(findings: Iterable[Finding], kinds: Iterable[str]) -> str:
    compared = differing = 0
    for finding in findings:
        for kind in kinds:
            numbers = _numbers(finding.report, kind)
            compared += numbers.get("compared", 0)
            differing += numbers.get("compared", 0) - numbers.get("equal", 0)
    return f"{differing:,} of {compared:,}"


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


def _drawn(collected: Collected) -> list[str]:
    if not collected.drawn:
        return []
    return [
        "## Random workloads",
        "",
        "Drawn from the hash of the commit whose rules were compared, so that they were unknown",
        "before the code was final.",
        "",
        *table(
            ("scenario", "series", "workload"),
            [(scenario, series, what) for (scenario, series), what in collected.drawn.items()],
        ),
        "",
    ]


def _failures(findings: Iterable[Finding]) -> list[str]:
    failed = [
        f"* {_name(finding)}: {'; '.join(finding.failures)}"
        for finding in findings
        if not finding.holds
    ]
    return ["## Failures", "", *failed, ""] if failed else []


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
