"""The page that says what came out: ``docs/concepts/fidelity-what-if.md``."""

from collections.abc import Mapping, Sequence
from functools import partial

from fidelity.markdown import circumstances, left_out, listing, number, section, table
from fidelity.scatter import Dot, scatter
from fidelity.tally import WITHIN, Tally, verdict
from fidelity.whatif.collect import Collected, Pair, in_templates
from fidelity.whatif.judge import Finding, shown
from fidelity.whatif.noise import Noise
from fidelity.whatif.register import METRICS, RECORDED, Metric, Register
from schedlab.measure.similarity import likeness

_INTRODUCTION = """\
Written by `make fidelity-what-if`. Each workload of `validation/what-if.toml` is recorded on a real
kernel as it is set by default. From that recording alone ([how](../guides/what-if.md)) it is
predicted what another setting would make of it: a knob, a policy, a weight. Then that is really
set, and the workload is recorded again. *recorded* is the recording itself, simulated as it was.
What is allowed was written down before: a line fails when it leaves its tolerance, when nothing was
compared, and, where a divergence is known, when that moves or disappears.

The guest has one CPU, and its clock is the number of its instructions, so that this machine's load
changes nothing. What the simulator charges for by itself was measured there by other workloads
(`schedlab calibrate`) while it was recorded, too.
"""

_DESCRIBED = """\
The workload's own description, simulated as it was really set, beside what was real: what is off
above and not here was lost on the way through the recording.
"""

_AGAIN = """\
How far recordings of the same are from each other on the kernel itself: the furthest two of the A/A
recordings, which were made and fixed first. Where that is more than what is stated, it is the
tolerance.
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
    figures: Sequence[str],
    noise: Noise,
    *,
    whole: int,
) -> str:
    """Return the page as Markdown.

    Args:
        register: what was written down.
        collected: what there is, by place.
        findings: what became of the lines.
        figures: the names of the figures' files.
        noise: the A/A intervals.
        whole: how many lines there are, of which these may be a part.
    """
    failed = [finding for finding in findings if not finding.holds]
    known = [finding for finding in findings if finding.diverges]
    places = [_place(place, there) for place, there in collected.items()]
    protocol = register.protocol
    changes = [
        (change.workload, change.name, _what(change.knobs, change.tasks), change.why)
        for change in register.changes
    ]
    return (
        "\n".join(
            [
                "# Fidelity: what-if on a recording",
                "",
                _INTRODUCTION,
                circumstances(),
                f"Runs of {protocol.duration}, looked at from {protocol.begin} to {protocol.end}.",
                *places,
                "",
                f"**{Tally.of(findings).headline()}.**",
                "",
                *left_out(whole, len(findings)),
                *(f"![real against predicted]({name})\n" for name in figures),
                "Filled: within the tolerance. Hollow: outside, or known to diverge. Dashed: 15 %.",
                "",
                *listing("What fails", [(one.line.about, one.failure) for one in failed]),
                *listing("Known divergences", [(one.line.about, one.line.cause) for one in known]),
                "## Lines",
                "",
                "Of shares the task that is furthest off.",
                "",
                *table(
                    (
                        "workload",
                        "change",
                        "place",
                        "metric",
                        "predicted / real",
                        "apart",
                        "allowed",
                        "",
                    ),
                    [_row(finding) for finding in findings],
                ),
                "",
                "## Effects",
                "",
                "What the change really did, and what was predicted, against the recording.",
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
                *table(("workload", "change", "what is set", "why"), changes),
                "",
                *section(
                    "Tolerances",
                    ("name", "derived"),
                    [(name, part.why) for name, part in register.tolerances.items()],
                ),
                "## The kernel and itself",
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


def figure(collected: Mapping[str, Collected | str], findings: Sequence[Finding]) -> str:
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
