"""In which order to write places that limit each other.

The kernel refuses a runtime above its period at every moment (`kernel/sched/rt.c`,
`sched_rt_global_validate`; `kernel/sched/debug.c`, `sched_fair_server_write`), so a change of both
that is right as a whole may be refused in one of the two orders.
"""

from collections.abc import Sequence

from schedlab.knobs.places import Place

_RT_RUNTIME = "sched_rt_runtime_us"

UNLIMITED = "-1"
"""By way of which the real-time pair is changed."""

_NAMES = {"sched_rt_period_us": _RT_RUNTIME, "period": "runtime"}
"""Files of periods, and of the runtimes within them."""

Write = tuple[Place, str]
"""A place and the text to write there."""


def runtime_of(place: Place) -> Place | None:
    """Return the runtime that a period limits; None for every other place.

    >>> from pathlib import Path
    >>> str(runtime_of(Place(Path("/proc/sys/kernel/sched_rt_period_us"))))
    '/proc/sys/kernel/sched_rt_runtime_us'
    """
    name = _NAMES.get(place.file.name)
    return None if name is None else Place(place.file.with_name(name))


def period_of(place: Place) -> Place | None:
    """Return the period that limits a runtime; None for every other place."""
    for period, runtime in _NAMES.items():
        if place.file.name == runtime:
            return Place(place.file.with_name(period))
    return None


def passes_unlimited(place: Place, others: Sequence[Place]) -> bool:
    """Whether `steps` may write no limit to a place that is changed together with others."""
    period = period_of(place)
    return place.file.name == _RT_RUNTIME and period is not None and period in others


def steps(writes: Sequence[Write]) -> list[Write]:
    """Return what to write, and in which order, so that the kernel accepts each step.

    What is there already is left out. The real-time pair goes by way of no limit: with
    RT_GROUP_SCHED the kernel also refuses a share below that of its groups
    (`kernel/sched/rt.c`, `tg_rt_schedulable`), which one of the two alone may well be. Of other
    pairs the period goes first where the old runtime fits in the new period; where it does not, the
    new runtime is below the old one, and fits in the old period.
    """
    remaining = {place: raw for place, raw in writes if place.present() != raw}
    result: list[Write] = []
    for place in list(remaining):
        if place not in remaining:
            continue
        runtime = runtime_of(place)
        period = place if runtime is not None else period_of(place)
        runtime = runtime if runtime is not None else place
        if period is None or period not in remaining or runtime not in remaining:
            result.append((place, remaining.pop(place)))
            continue
        first, second = (period, remaining.pop(period)), (runtime, remaining.pop(runtime))
        if runtime.file.name == _RT_RUNTIME:
            result.append((runtime, UNLIMITED))
        elif not _fits(runtime.present(), first[1]):
            first, second = second, first
        result += [first, second]
    return result


def _fits(runtime: str | None, period: str) -> bool:
    return runtime is None or int(runtime) <= int(period)
