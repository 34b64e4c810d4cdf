"""The page that says what came out: ``docs/results/fidelity-behaviour.md``."""

from collections.abc import Mapping, Sequence
from functools import partial

from fidelity.behaviour.collect import Collected
from fidelity.behaviour.judge import Finding, shown
from fidelity.behaviour.register import Register
from fidelity.divergences import divergences, known
from fidelity.lines import workloads
from fidelity.markdown import circumstances, left_out, listing, number, section, table
from fidelity.observation import METRICS, Metric, medians
from fidelity.scatter import Dot, Picture, scatter
from fidelity.tally import WITHIN, Tally, verdict

_QUESTION = """\
Does a simulated run have the CPU shares, switches, turnaround and latencies of the real run,
with costs that were measured separately
([how](../concepts/validation.md#behaviour-prediction-and-what-if))?
"""

_METRICS = """\
A guest has one CPU whose clock counts instructions; its disk completes each access by a timer.
Filled: within tolerance. Hollow: a known divergence or a failure. Dashed: 10 %.
"""

_NAMES: Mapping[Metric, str] = {
    "share": "CPU shares",
    "voluntary": "voluntary switches",
    "involuntary": "involuntary switches",
    "turnaround": "turnaround (s)",
    "p50": "wake-up latency, median (s)",
    "p99": "wake-up latency, 99th percentile (s)",
}
_TIMES: tuple[Metric, ...] = ("turnaround", "p50", "p99")


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
    protocol = register.protocol
    return "\n".join(
        [
            "# Behaviour: simulated runs against real runs",
            "",
            f"**{Tally.of(findings).headline()}.**",
            "",
            _QUESTION,
            f"{circumstances()} {protocol.noise} A/A and {protocol.repeats} judged runs of "
            f"each, interleaved; {protocol.simulated} simulated runs at offsets within a tick.",
            "",
            *left_out(whole, len(findings)),
            *(f"![{one.alternative}]({name})\n" for name, one in figures.items()),
            _METRICS,
            *table(
                ("metric", *register.places),
                [_summary(metric, register, findings) for metric in METRICS],
            ),
            "",
            *listing("Failures", [(one.line.about, one.failure) for one in failed]),
            *known(divergences((one.line, one.line.metric) for one in pinned)),
            "## Criteria",
            "",
            "Simulated and real medians, their difference with its interval, the tolerance.",
            "",
            *table(
                ("workload", "place", "metric", "simulated / real", "difference", "tolerance", ""),
                [_row(finding) for finding in findings],
            ),
            "",
            *section("Places", ("place", "kernel", "clock"), _places(collected)),
            *workloads(register.workloads),
            *section(
                "Tolerances",
                ("name", "derived"),
                [(name, part.why) for name, part in register.tolerances.items()],
            ),
        ]
    )


def figure(
    register: Register, collected: Mapping[str, Collected | str], findings: Sequence[Finding]
) -> Picture:
    """Draw real against simulated of every line, a panel a metric."""
    dots = []
    for finding in findings:
        line, there = finding.line, collected.get(finding.line.place)
        good = verdict(finding) == WITHIN
        if line.metric == "share":
            if isinstance(there, Collected):
                dots += _shares(there, line.workload, line.place, good)
        elif finding.real is not None and finding.simulated is not None:
            scale = 1e9 if line.metric in _TIMES else 1.0
            real, ours = finding.real / scale, finding.simulated / scale
            dots.append(Dot(_NAMES[line.metric], line.place, real, ours, good))
    order = list(_NAMES.values())
    dots.sort(key=lambda dot: (order.index(dot.panel), register.places.index(dot.group)))
    return scatter(dots, band=0.1)


def _shares(there: Collected, workload: str, place: str, good: bool) -> list[Dot]:
    real = medians(there.real.get(workload, [])).shares
    ours = medians(there.simulated.get(workload, [])).shares
    return [
        Dot(_NAMES["share"], place, share, ours[name], good)
        for name, share in real.items()
        if name in ours
    ]


def _places(collected: Mapping[str, Collected | str]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for place, there in collected.items():
        if isinstance(there, str):
            rows.append((place, f"not run: {there}", ""))
        else:
            rows.append((place, there.kernel, there.clock))
    return rows


def _summary(metric: Metric, register: Register, findings: Sequence[Finding]) -> tuple[str, ...]:
    cells = []
    for place in register.places:
        lines = [
            finding
            for finding in findings
            if finding.line.metric == metric and finding.line.place == place
        ]
        held = sum(verdict(finding) == WITHIN for finding in lines)
        cells.append(f"{held} of {len(lines)} within" if lines else "-")
    return (_NAMES[metric].removesuffix(" (s)"), *cells)


def _row(finding: Finding) -> tuple[str, ...]:
    line = finding.line
    time = line.metric in _TIMES
    both = f"{number(finding.simulated, time=time)} / {number(finding.real, time=time)}"
    apart = "-"
    if finding.value is not None:
        apart = shown(line.metric, finding.value)
        if finding.interval is not None:
            low, high = (shown(line.metric, end).split()[0] for end in finding.interval)
            apart += f" ({low} to {high})"
    return (
        line.workload,
        line.place,
        line.metric,
        "-" if line.metric == "share" else both,
        apart,
        finding.allowed.text(partial(shown, line.metric)),
        verdict(finding),
    )
