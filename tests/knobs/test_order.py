"""No step of a change of runtime and period is one that the kernel refuses."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedlab.knobs import order
from schedlab.knobs.places import Place

SYSCTL = Path("/proc/sys/kernel")
RUNTIME, PERIOD = (Place(SYSCTL / f"sched_rt_{name}_us") for name in ("runtime", "period"))
SERVER = Path("/sys/kernel/debug/sched/fair_server/cpu3")
SERVER_RUNTIME, SERVER_PERIOD = Place(SERVER / "runtime"), Place(SERVER / "period")

PAIRS = st.integers(1, 20).flatmap(
    lambda period: st.tuples(st.integers(0, period), st.just(period))
)


def _holding(monkeypatch: pytest.MonkeyPatch, values: dict[Place, str]) -> None:
    monkeypatch.setattr(Place, "read", lambda place: values[place])


@given(present=PAIRS, wanted=PAIRS, group=PAIRS, unlimited=st.tuples(st.booleans(), st.booleans()))
def test_real_time_bandwidth(
    present: tuple[int, int],
    wanted: tuple[int, int],
    group: tuple[int, int],
    unlimited: tuple[bool, bool],
) -> None:
    # kernel/sched/rt.c: runtime at most period (sched_rt_global_validate), and with RT_GROUP_SCHED
    # no group's share above the whole's (tg_rt_schedulable). Both ends of a change are right.
    def right(runtime: int, period: int) -> bool:
        return runtime == -1 or (runtime <= period and runtime * group[1] >= group[0] * period)

    def limited(pair: tuple[int, int], free: bool) -> tuple[int, int]:
        return (-1, pair[1]) if free else pair

    start, end = limited(present, unlimited[0]), limited(wanted, unlimited[1])
    if not right(*start) or not right(*end):
        return
    values = {RUNTIME: str(start[0]), PERIOD: str(start[1])}
    with pytest.MonkeyPatch.context() as patch:
        _holding(patch, values)
        for place, raw in order.steps([(RUNTIME, str(end[0])), (PERIOD, str(end[1]))]):
            values[place] = raw
            assert right(int(values[RUNTIME]), int(values[PERIOD]))
    assert values == {RUNTIME: str(end[0]), PERIOD: str(end[1])}


@given(present=PAIRS, wanted=PAIRS)
def test_fair_server(present: tuple[int, int], wanted: tuple[int, int]) -> None:
    # kernel/sched/debug.c, sched_fair_server_write: runtime at most period; -1 is no value.
    values = {SERVER_RUNTIME: str(present[0]), SERVER_PERIOD: str(present[1])}
    settings = [(SERVER_RUNTIME, str(wanted[0])), (SERVER_PERIOD, str(wanted[1]))]
    with pytest.MonkeyPatch.context() as patch:
        _holding(patch, values)
        for place, raw in order.steps(settings):
            values[place] = raw
            assert 0 <= int(values[SERVER_RUNTIME]) <= int(values[SERVER_PERIOD])
    assert values == dict(settings)
