"""``docs/results/prediction.md``: errors as distributions, and every workload that was drawn."""

from collections.abc import Mapping, Sequence

from fidelity.held_out.collect import Found, Predicted
from fidelity.held_out.errors import Errors, error_of, errors
from fidelity.held_out.plan import Plan
from fidelity.markdown import circumstances, section
from fidelity.observation import Metric

_NAMES: dict[Metric, str] = {
    "turnaround": "turnaround",
    "share": "CPU shares",
    "voluntary": "voluntary switches",
    "involuntary": "involuntary switches",
    "wait": "waiting time",
    "p99": "p99 wake-up latency",
}

_ABOUT = """\
Workloads are drawn from seeds (`tools/fidelity/held_out/draw.py`), not chosen, and the simulator
was not changed after they were drawn. Each is run for real and simulated with costs that
were calibrated at the same place. Its error is how far the median of the simulated runs is from the
median of the real ones: of shares the largest difference of any task's, in points; of switches
relative to their number, or to a tenth of all switches where that is more; of all else relative.
*The kernel's own* is how far one real run is from the median of the others."""


def page(plan: Plan, found: Mapping[str, Found], judged: str) -> str:
    """Return the page.

    Args:
        plan: what was run.
        found: by place.
        judged: which seeds these are, as a sentence.
    """
    every = {
        place: [errors(metric, there.workloads) for metric in plan.goals]
        for place, there in found.items()
    }
    pairs = [(one, plan.goals[one.metric]) for all_of in every.values() for one in all_of]
    met = sum(one.meets(goal) for one, goal in pairs)
    lines = [
        "# Prediction of workloads drawn at random",
        "",
        f"**{met} of {len(pairs)} goals are met.** {judged} {circumstances()}",
        "",
        _ABOUT,
        "",
    ]
    for place, there in found.items():
        head = ("metric", "workloads", "median error", "90 % within", "kernel's own", "goal", "met")
        title = f"{place}: {there.kernel}, {there.cpus} CPU{'' if there.cpus == 1 else 's'}"
        lines += section(title, head, [_row(one, plan) for one in every[place]])
        lines += section(f"{place}, by kind", _kind_head(plan), _kinds(plan, there.workloads))
    lines += ["## Every workload", ""]
    for place, there in found.items():
        lines += section(f"{place}: errors", _drawn_head(plan), _draws(plan, there.workloads))
        lines += _left_out(there.workloads)
    return "\n".join(lines).rstrip() + "\n"


def _row(one: Errors, plan: Plan) -> tuple[str, ...]:
    goal = plan.goals[one.metric]
    own = sorted(one.own)
    return (
        _NAMES[one.metric],
        str(len(one.errors)),
        amount(one.metric, one.percentile(0.5)),
        amount(one.metric, one.percentile(0.9)),
        amount(one.metric, own[len(own) // 2]) if own else "-",
        f"{goal.share:.0%} within {amount(one.metric, goal.within)}",
        f"{one.within(goal.within):.0%}: {'yes' if one.meets(goal) else 'no'}"
        if one.errors
        else "-",
    )


def amount(metric: Metric, error: float | None) -> str:
    """Return an error for people.

    >>> amount("share", 0.0123), amount("wait", 0.0123), amount("wait", None)
    ('1.23 points', '1.2 %', '-')
    """
    if error is None or error != error:  # noqa: PLR0124 - not a number
        return "-"
    return f"{100 * error:.2f} points" if metric == "share" else f"{100 * error:.1f} %"


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
