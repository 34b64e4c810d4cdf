"""The page that says what came out: ``docs/results/fidelity-what-if.md``."""

from collections.abc import Mapping, Sequence
from functools import partial

from fidelity.divergences import divergences, known
from fidelity.markdown import circumstances, left_out, listing, number, section, table
from fidelity.scatter import Dot, Picture, scatter
from fidelity.tally import WITHIN, Tally, verdict
from fidelity.whatif.collect import Collected, Pair, in_templates
from fidelity.whatif.judge import Finding, shown
from fidelity.whatif.noise import Noise
from fidelity.whatif.register import METRICS, RECORDED, Metric, Register
from schedlab.measure.similarity import likeness

_QUESTION = """\
Does a recording under one setting predict what another setting does: a knob, a policy, a
weight, a slice ([how](../guides/what-if.md))?
"""

_METRICS = """\
*recorded* is the recording itself, simulated as it was set. Filled: within tolerance. Hollow: a
known divergence or a failure. Dashed: 15 %.
"""

_DESCRIBED = """\
The workload's own description, simulated with the setting: a difference in the criteria that is
not here comes from the recording.
"""

_AGAIN = """\
The largest difference between two recordings of the same setting. Where it is above what is
stated, it is the tolerance.
"""

_NAMES: Mapping[Metric, str] = {
    "shares": "CPU shares of the tasks (%)",
    "switches": "switches",
    "p99 latency": "wake-up latency, 99th percentile (s)",
}


def page(
    register: Register,
    collected: Mapping[str, Collected | str],
    findings: Sequence[Finding],
    figures: Mapping[str, Picture],
    noise: Noise,
    *,
    whole: int,
) -> str:
    """Return the page as Markdown.

    Args:
        register: what was written down.
        collected: what there is, by place.
        findings: what became of the lines.
        figures: by the name of its file, beside the page.
        noise: the A/A intervals.
        whole: how many lines there are, of which these may be a part.
    """
    failed = [finding for finding in findings if not finding.holds]
    pinned = [finding for finding in findings if finding.diverges]
    places = [_place(place, there) for place, there in collected.items()]
    protocol = register.protocol
    changes = [
        (change.workload, change.name, _what(change.knobs, change.tasks), change.why)
        for change in register.changes
    ]
    return (
        "\n".join(
            [
                "# What-if: predictions from recordings against real settings",
                "",
                f"**{Tally.of(findings).headline()}.**",
                "",
                _QUESTION,
                f"{circumstances()} Runs of {protocol.duration}, read from {protocol.begin} to "
                f"{protocol.end}. {' '.join(places)}",
                "",
                *left_out(whole, len(findings)),
                *(f"![{one.alternative}]({name})\n" for name, one in figures.items()),
                _METRICS,
                *listing("Failures", [(one.line.about, one.failure) for one in failed]),
                *known(
                    divergences(
                        (one.line, f"{one.line.change} {one.line.metric}") for one in pinned
                    )
                ),
                "## Criteria",
                "",
                "Shares are those of the task with the largest difference.",
                "",
                *table(
                    (
                        "workload",
                        "change",
                        "place",
                        "metric",
                        "predicted / real",
                        "difference",
                        "tolerance",
                        "",
                    ),
                    [_row(finding) for finding in findings],
                ),
                "",
                "## Effects",
                "",
                "The effect of each change, real and predicted, relative to the recording.",
                "",
                *table(
                    ("workload", "change", "place", "switches", "p99 latency"),
                    _effects(collected),
                ),
                "",
                "## Without a recording",
                "",
                _DESCRIBED,
                *table(
                    ("workload", "change", "place", "shares", "switches", "p99 latency"),
                    _without(collected),
                ),
                "",
                "## Workloads and changes",
                "",
                *table(
                    ("name", "why"), [(name, work.why) for name, work in register.workloads.items()]
                ),
                "",
                *table(("workload", "change", "setting", "why"), changes),
                "",
                *section(
                    "Tolerances",
                    ("name", "derived"),
                    [(name, part.why) for name, part in register.tolerances.items()],
                ),
                "## The kernel against itself",
                "",
                _AGAIN,
                *table(("workload", "change", "place", *METRICS), _again(register, noise)),
            ]
        )
        + "\n"
    )


def _place(place: str, there: Collected | str) -> str:
    if isinstance(there, str):
        return f"{place}: {there}."
    releases = {pair.release for pair in there.pairs.values() if isinstance(pair, Pair)}
    return f"{place} is Linux {', '.join(sorted(releases))}."


def figure(collected: Mapping[str, Collected | str], findings: Sequence[Finding]) -> Picture:
    """Draw real against predicted of every line, a panel a metric, a colour a workload."""
    dots = []
    for finding in findings:
        line, there = finding.line, collected.get(finding.line.place)
        good = verdict(finding) == WITHIN
        pair = (
            None
            if there is None or isinstance(there, str)
            else there.pairs.get((line.workload, line.change))
        )
        if finding.figure is None or not isinstance(pair, Pair):
            continue
        if line.metric == "shares":
            dots += [
                Dot(
                    _NAMES["shares"],
                    line.workload,
                    100 * share,
                    100 * pair.predicted.share(task),
                    good,
                )
                for task, share in ((name, pair.real.share(name)) for name in pair.real.tasks)
                if task != "others"
            ]
        else:
            scale = 1e9 if line.metric == "p99 latency" else 1.0
            real, predicted = finding.figure.real / scale, finding.figure.simulated / scale
            dots.append(Dot(_NAMES[line.metric], line.workload, real, predicted, good))
    order = list(_NAMES.values())
    dots.sort(key=lambda dot: order.index(dot.panel))
    return scatter(dots, band=0.15)


def _what(knobs: Mapping[str, str], tasks: Mapping[str, Mapping[str, object]]) -> str:
    parts = [f"`{name}={value}`" for name, value in knobs.items()]
    for task, keys in tasks.items():
        parts += [f"`{task}`: " + ", ".join(f"{key} {value}" for key, value in keys.items())]
    return "; ".join(parts)


def _row(finding: Finding) -> tuple[str, ...]:
    line, figure = finding.line, finding.figure
    both, apart = "-", "-"
    if figure is not None:
        if line.metric == "shares":
            both = f"{figure.simulated:.1%} / {figure.real:.1%} ({figure.subject})"
        else:
            time = line.metric == "p99 latency"
            both = f"{number(figure.simulated, time=time)} / {number(figure.real, time=time)}"
        if figure.difference is not None:
            apart = shown(line.metric, figure.difference)
    return (
        line.workload,
        line.change,
        line.place,
        line.metric,
        both,
        apart,
        finding.allowed.text(partial(shown, line.metric)),
        verdict(finding),
    )


def _effects(collected: Mapping[str, Collected | str]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for place, there in collected.items():
        if isinstance(there, str):
            continue
        for (workload, change), pair in there.pairs.items():
            before = there.pairs.get((workload, RECORDED))
            if change == RECORDED or not isinstance(pair, Pair) or not isinstance(before, Pair):
                continue
            rows.append(
                (
                    workload,
                    change,
                    place,
                    _factor(
                        (pair.real.switches, before.real.switches),
                        (pair.predicted.switches, before.predicted.switches),
                    ),
                    _factor(
                        (pair.real.latency.p99_ns, before.real.latency.p99_ns),
                        (pair.predicted.latency.p99_ns, before.predicted.latency.p99_ns),
                    ),
                )
            )
    return rows


def _without(collected: Mapping[str, Collected | str]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for place, there in collected.items():
        for (workload, change), pair in {} if isinstance(there, str) else there.pairs.items():
            if isinstance(pair, str) or pair.described is None:
                continue
            real, found = pair.real, pair.described
            switches = f"{number(found.switches)} / {number(real.switches)}"
            tails = (number(at.latency.p99_ns, time=True) for at in (found, real))
            worst = likeness(in_templates(real), in_templates(found)).figures[0]
            share = f"{worst.simulated:.1%} / {worst.real:.1%} ({worst.subject})"
            rows.append((workload, change, place, share, switches, " / ".join(tails)))
    return rows


def _again(register: Register, noise: Noise) -> list[tuple[str, ...]]:
    keys = dict.fromkeys((line.place, line.workload, line.change) for line in register.lines)
    return [
        (workload, change, place, *(_shown(metric, values.get(metric)) for metric in METRICS))
        for place, workload, change in keys
        if (values := noise.get((place, workload, change))) is not None
    ]


def _shown(metric: Metric, value: float | None) -> str:
    return "-" if value is None else shown(metric, value)


def _factor(real: tuple[float, float], predicted: tuple[float, float]) -> str:
    """Say by what each was multiplied."""
    parts = [f"x {after / before:.2f}" if before else "-" for after, before in (real, predicted)]
    return f"{parts[0]} real, {parts[1]} predicted"
