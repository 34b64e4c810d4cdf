"""The page that says what came out: ``docs/results/fidelity-prediction.md``."""

from collections.abc import Mapping, Sequence

from fidelity.divergences import divergences, known
from fidelity.lines import workloads
from fidelity.markdown import circumstances, left_out, listing, number, section, table
from fidelity.prediction.collect import Collected
from fidelity.prediction.judge import Finding
from fidelity.prediction.register import Measure, Register
from fidelity.scatter import Dot, Picture, scatter
from fidelity.tally import WITHIN, Tally, verdict

_QUESTION = """\
Do settings rank in simulation as they do on the kernel, and is the setting that is best in
simulation among the best there
([how](../concepts/validation.md#behaviour-prediction-and-what-if))?
"""

_COLUMNS = """\
*spread*: the worst real setting above the best. *noise*: how far two sets of runs of one
setting differ, 95 times in 100. *correlation*: Spearman's, with its bootstrap interval;
settings that differ by no more than the noise or 2 % share a rank. *untied*: the same without
shared ranks. *kernel itself*: the first half of the kernel's runs against the second. *real
rank* leaves out settings that are better by no more than the noise. Lower is better of every
measure.
"""

_NAMES: Mapping[Measure, str] = {
    "turnaround": "turnaround (s)",
    "p99": "wake-up latency, 99th percentile (s)",
    "switches": "switches",
}


def page(
    register: Register,
    collected: Mapping[str, Collected | str],
    findings: Sequence[Finding],
    figures: Mapping[str, Picture],
    *,
    whole: int,
) -> str:
    """Return the page as Markdown.

    Args:
        register: what was written down.
        collected: the runs by place.
        findings: what became of the lines.
        figures: by the name of its file, beside the page.
        whole: how many lines there are, of which these may be a part.
    """
    failed = [finding for finding in findings if not finding.holds]
    pinned = [finding for finding in findings if finding.diverges]
    untied = sum(not finding.holds_untied for finding in findings)
    shown = []
    for name, drawn in figures.items():
        shown += [f"![{drawn.alternative}]({name})", ""]
    return (
        "\n".join(
            [
                "# Prediction: simulated rankings against real rankings",
                "",
                f"**{Tally.of(findings).headline('rankings')}.** If settings that differ by no "
                f"more than noise were ranked, too, {untied} would fail.",
                "",
                _QUESTION,
                f"{circumstances()} {register.protocol.simulated} simulated runs a setting; real "
                "runs interleaved.",
                "",
                *left_out(whole, len(findings)),
                *shown,
                _COLUMNS,
                *table(
                    (
                        "workload",
                        "place",
                        "measure",
                        "spread",
                        "noise",
                        "correlation",
                        "untied",
                        "kernel itself",
                        "best in simulation",
                        "real rank",
                        "",
                    ),
                    [_row(finding) for finding in findings],
                ),
                "",
                *listing("Failures", [(one.line.about, one.failure) for one in failed]),
                *known(divergences((one.line, one.line.measure) for one in pinned)),
                *listing(
                    "Not ranked: no task is woken except to start",
                    [(one.line.about, f"`{name}`") for one in findings for name in one.unranked],
                ),
                *section(
                    "Places",
                    ("place", "kernel", "clock", "settings", "real runs of each"),
                    [_place(register, name, there) for name, there in collected.items()],
                ),
                "## Rules",
                "",
                register.rules.why,
                "",
                *workloads(register.workloads),
                *_settings(register),
            ]
        )
        + "\n"
    )


def figures(findings: Sequence[Finding]) -> dict[str, Picture]:
    """Draw real against simulated of each setting, a panel a workload and measure, by place."""
    found: dict[str, list[Dot]] = {}
    for finding in findings:
        line = finding.line
        scale = 1.0 if line.measure == "switches" else 1e9
        found.setdefault(line.place, []).extend(
            Dot(
                f"{line.workload}: {_NAMES[line.measure]}",
                line.workload,
                real / scale,
                simulated / scale,
                verdict(finding) == WITHIN,
            )
            for real, simulated in zip(finding.real, finding.simulated, strict=True)
        )
    return {place: scatter(dots) for place, dots in found.items() if dots}


def _place(register: Register, name: str, there: Collected | str) -> tuple[str, ...]:
    count, repeats = str(len(register.settings(name))), str(register.repeats(name))
    if isinstance(there, str):
        return (name, f"not run: {there}", "", count, repeats)
    return (name, there.kernel, there.clock, count, repeats)


def _row(finding: Finding) -> tuple[str, ...]:
    line = finding.line
    correlation = "-"
    if finding.correlation is not None:
        correlation = f"{finding.correlation:.2f}"
        if finding.interval is not None:
            correlation += f" ({finding.interval[0]:.2f} to {finding.interval[1]:.2f})"
    elif finding.settings:
        correlation = "no difference"
    others = (finding.plain, finding.own) if finding.correlation is not None else ()
    rank = f"{finding.rank} of {len(finding.settings)}" if finding.settings else "-"
    return (
        line.workload,
        line.place,
        line.measure,
        f"{finding.effect:.1%}" if finding.settings else "-",
        f"{finding.noise:.1%}" if finding.settings else "-",
        correlation,
        *([f"{other:.2f}" for other in others] or ("-", "-")),
        _chosen(finding),
        rank,
        verdict(finding),
    )


def _chosen(finding: Finding) -> str:
    if not finding.chosen:
        return "-"
    at = finding.settings.index(finding.chosen)
    time = finding.line.measure != "switches"
    both = (number(value[at], time=time) for value in (finding.simulated, finding.real))
    return f"{finding.chosen}: {' / '.join(both)}"


def _settings(register: Register) -> list[str]:
    lines = ["## Settings", ""]
    for place in register.places:
        names = ", ".join(f"`{setting.name}`" for setting in register.settings(place))
        lines.append(f"- {place}: {names}")
    return lines
