"""``docs/results/prediction.md``: errors as distributions, and every workload that was drawn."""

from collections.abc import Mapping, Sequence

from fidelity.behaviour.register import Line
from fidelity.held_out.collect import Found, Predicted
from fidelity.held_out.errors import Errors, error_of, errors
from fidelity.held_out.plan import Goal, Plan
from fidelity.markdown import circumstances, section
from fidelity.observation import Metric, medians
from fidelity.scatter import Dot, Picture, scatter

_NAMES: dict[Metric, str] = {
    "turnaround": "turnaround",
    "share": "CPU shares",
    "voluntary": "voluntary switches",
    "involuntary": "involuntary switches",
    "wait": "waiting time",
    "p99": "p99 wake-up latency",
}

_TIMES = {"turnaround", "wait", "p99"}

_ABOUT = """\
Workloads are drawn from seeds (`tools/fidelity/held_out/draw.py`), not chosen, and the simulator
was not changed after they were drawn. Each is run for real and simulated with costs that
were calibrated at the same place. Its error is how far the median of the simulated runs is from the
median of the real ones: of shares the largest difference of any task's, in points; of switches
relative to their number, or to a tenth of all switches where that is more; of all else relative.
*The kernel's own* is how far one real run is from the median of the others, in the middle. *By the
kernel* says whether such runs meet the goal; where they do not, chance alone exceeds it."""

_TURNS = """\
Several CPUs of a guest have turns in one thread of QEMU's, and its clock is the number of their
instructions, so that no load disturbs them. With N CPUs busy each of the kernel's operations takes
N times as long as with one, which is simulated ([how](../concepts/hardware.md#turns)). Turns are
not equal, which is not simulated: which CPUs are fast follows from which of them are busy, and the
fastest of four has more than twice the slowest's instructions. Nor is a turn's length: a wake-up on
another CPU comes up to a round late, and shorter work takes less or more than N times as long by
where in a round it begins. Ticks, slices and computing for a time keep theirs. Single decisions of
2 and 4 CPUs are in [decisions](fidelity.md)."""

_SEVERAL = """\
Guests of several CPUs run in this machine's time where QEMU is older than 8.1, the first that
counts the instructions of several. Each guest CPU is a thread of this machine, so that with
more of them than it has CPUs they also wait for one another. The column of the kernel's own
says what is chance: where that is beyond the goal, the place cannot show whether the goal is
met. But all runs of a guest are held up alike, so that a small spread does not say that a
larger guest runs as a machine of its own would: with four CPUs on a machine of two, periods of
sleeping tasks are missed, and with eight most of them. Guests with no more CPUs than the
machine show shares, sleeps and waits; larger ones none of these. Times and preemptions are
judged on one CPU and on this machine, and single decisions of 2 and 4 CPUs, which no disturbed
time changes, in [decisions](fidelity.md)."""


def page(
    plan: Plan,
    found: Mapping[str, Found],
    judged: str,
    drawn: Mapping[str, Picture],
    *,
    lines_of_behaviour: Sequence[Line] = (),
    programs: Sequence[str] = (),
) -> str:
    """Return the page.

    Args:
        plan: what was run.
        found: by place.
        judged: which seeds these are, as a sentence.
        drawn: the picture, by the name of its file.
        lines_of_behaviour: the hand-picked criteria, whose known divergences are counted apart.
        programs: the section about real programs.
    """
    every = {
        place: [errors(metric, there.workloads) for metric in plan.goals]
        for place, there in found.items()
    }
    pairs = [(one, plan.goals[one.metric]) for all_of in every.values() for one in all_of]
    met = sum(one.meets(goal) for one, goal in pairs)
    beyond = sum(not one.meets(goal) and not _own(one).meets(goal) for one, goal in pairs)
    lines = [
        "# Prediction of workloads drawn at random",
        "",
        f"**{met} of {len(pairs)} goals are met.** Of the other {len(pairs) - met} the kernel's",
        f"own runs miss {beyond}, too. {judged}",
        f"Each is simulated {plan.simulations} times, with what else runs on the machine as",
        "calibration measured it, and run for real as often as said below.",
        "",
        circumstances(),
        "",
        *(f"![{one.alternative}]({name})" for name, one in drawn.items()),
        "",
        "Filled: the error is within the goal's. Dashed: 10 %.",
        "",
        _ABOUT,
        "",
    ]
    for place, there in found.items():
        head = (
            "metric",
            "workloads",
            *("median error", "80 % within", "90 % within", "largest"),
            *("kernel's own, median", "90 % within"),
            *("goal", "met", "by the kernel"),
        )
        cpus = f"{there.cpus} CPU{'' if there.cpus == 1 else 's'}"
        often = max((len(one.real) for one in there.workloads), default=0)
        title = f"{place}: {there.kernel}, {cpus}, {often} real runs"
        lines += section(title, head, [_row(one, plan) for one in every[place]])
        lines += section(f"{place}, by kind", _kind_head(plan), _kinds(plan, there.workloads))
    said = dict.fromkeys(
        _TURNS if there.clock == "instructions" else _SEVERAL
        for place, there in found.items()
        if place.startswith("vm:") and there.cpus > 1
    )
    if said:
        lines += ["## What guests of several CPUs can show", "", "\n\n".join(said), ""]
    if plan.missed:
        lines += ["## Why goals are missed", "", *(f"* {one}" for one in plan.missed), ""]
    lines += programs
    lines += _apart(lines_of_behaviour)
    if plan.others:
        lines += ["## Other draws", "", *(f"* {one}" for one in plan.others), ""]
    lines += ["## Every workload", ""]
    for place, there in found.items():
        lines += section(f"{place}: errors", _drawn_head(plan), _draws(plan, there.workloads))
        lines += _left_out(there.workloads)
    return "\n".join(lines).rstrip() + "\n"


def _own(one: Errors) -> Errors:
    """Return how far the kernel's runs are from each other, as errors."""
    return Errors(one.metric, one.own, one.own)


def _row(one: Errors, plan: Plan) -> tuple[str, ...]:
    goal = plan.goals[one.metric]
    own = _own(one)
    return (
        _NAMES[one.metric],
        str(len(one.errors)),
        *(amount(one.metric, one.percentile(share)) for share in (0.5, 0.8, 0.9, 1.0)),
        *(amount(one.metric, own.percentile(share)) for share in (0.5, 0.9)),
        f"{goal.share:.0%} within {amount(one.metric, goal.within)}",
        _met(one, goal),
        _met(own, goal),
    )


def _met(one: Errors, goal: Goal) -> str:
    """Say how many of the workloads are within a goal's limit, and whether these are enough."""
    if not one.errors:
        return "-"
    return f"{one.within(goal.within):.0%}: {'yes' if one.meets(goal) else 'no'}"


def amount(metric: Metric, error: float | None) -> str:
    """Return an error for people.

    >>> amount("share", 0.0123), amount("wait", 0.0123), amount("wait", None)
    ('1.23 points', '1.2 %', '-')
    """
    if error is None or error != error:  # noqa: PLR0124 - not a number
        return "-"
    return f"{100 * error:.2f} points" if metric == "share" else f"{100 * error:.1f} %"


def figure(plan: Plan, found: Mapping[str, Found]) -> Picture:
    """Draw the medians of real runs against those of simulated ones, a panel a metric."""
    dots = []
    for metric, goal in plan.goals.items():
        scale = 1e9 if metric in _TIMES else 1.0
        name = f"{_NAMES[metric]} (s)" if metric in _TIMES else _NAMES[metric]
        for place, there in found.items():
            for one in there.workloads:
                error = error_of(metric, one)
                if error is None:
                    continue
                real, ours = medians(one.real), medians(one.simulated)
                pairs = [(real.values.get(metric), ours.values.get(metric))]
                if metric == "share":
                    pairs = [(part, ours.shares.get(task)) for task, part in real.shares.items()]
                dots += [
                    Dot(name, place, theirs / scale, our / scale, error <= goal.within)
                    for theirs, our in pairs
                    if theirs is not None and our is not None
                ]
    return scatter(dots, band=0.1)


def _apart(lines: Sequence[Line]) -> list[str]:
    """Count the known divergences of the hand-picked criteria, by place."""
    if not lines:
        return []
    known = [line for line in lines if line.cause]
    rows = []
    for place in dict.fromkeys(line.place for line in lines):
        whole = sum(line.place == place for line in lines)
        rows.append((place, str(whole), str(sum(line.place == place for line in known))))
    text = (
        f"No draw is left out as a known divergence. Of the {len(lines)} hand-picked criteria of "
        f"[behaviour](fidelity-behaviour.md) {len(known)} hold only as known divergences "
        "([causes](fidelity-causes.md))."
    )
    head = ("place", "criteria", "known divergences")
    title, blank, *table = section("Known divergences", head, rows)
    return [title, blank, text, blank, *table]


def _kind_head(plan: Plan) -> tuple[str, ...]:
    return ("kind", "workloads", *(f"{_NAMES[metric]}, median" for metric in plan.goals))


def _kinds(plan: Plan, workloads: Sequence[Predicted]) -> list[tuple[str, ...]]:
    rows = []
    for kind in dict.fromkeys(one.drawn.kind for one in workloads):
        these = [one for one in workloads if one.drawn.kind == kind]
        middle = [amount(metric, errors(metric, these).percentile(0.5)) for metric in plan.goals]
        rows.append((kind, str(len(these)), *middle))
    return sorted(rows)


def _drawn_head(plan: Plan) -> tuple[str, ...]:
    return ("seed", "kind", *(_NAMES[metric] for metric in plan.goals))


def _draws(plan: Plan, workloads: Sequence[Predicted]) -> list[tuple[str, ...]]:
    return [
        (
            str(one.drawn.seed),
            one.drawn.kind,
            *(amount(metric, error_of(metric, one)) for metric in plan.goals),
        )
        for one in workloads
    ]


def _left_out(workloads: Sequence[Predicted]) -> list[str]:
    rows = [
        f"* seed {one.drawn.seed}, {one.drawn.kind}: {one.why_not}"
        for one in workloads
        if one.why_not
    ]
    return ["Without a result:", "", *rows, ""] if rows else []
