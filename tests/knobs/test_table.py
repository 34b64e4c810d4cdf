"""The knob table as Python sees it."""

import pytest

from schedlab.boundary.errors import InputError
from schedlab.knobs import find, table


def test_defaults_scale_as_the_kernels_do() -> None:
    # kernel/sched/fair.c, get_update_sysctl_factor: 1 + ilog2(cpus), cpus counted as at most 8.
    defaults = {cpus: find("latency", "6.1", cpus).default for cpus in (1, 2, 4, 8, 64)}
    assert defaults == {
        1: 6_000_000,
        2: 12_000_000,
        4: 18_000_000,
        8: 24_000_000,
        64: 24_000_000,
    }


def test_each_kernel_keeps_its_knobs_in_its_own_place() -> None:
    assert find("latency", "5.10").path == "/proc/sys/kernel/sched_latency_ns"
    assert find("latency", "6.1").path == "/sys/kernel/debug/sched/latency_ns"
    rr = find("rr_timeslice", "6.12")
    assert (rr.path, rr.unit) == ("/proc/sys/kernel/sched_rr_timeslice_ms", 1_000_000)


def test_a_knob_of_another_kernel_says_what_took_its_place() -> None:
    with pytest.raises(InputError, match="base_slice"):
        find("latency", "6.12")
    with pytest.raises(InputError, match="did you mean 'latency'"):
        find("sched_latency_ns", "6.1")


def test_every_knob_that_exists_has_a_place_and_a_default_in_its_range() -> None:
    for release in ("2.6.24", "5.10", "6.1", "6.12", "6.18", "7.2", "7.3"):
        for knob in table(release, 4):
            assert knob.exists == (knob.path is not None) == (knob.default is not None)
            if knob.default is not None:
                assert knob.low <= knob.default <= knob.high, (release, knob)


def test_every_knob_and_feature_says_what_it_does() -> None:
    meanings = {knob.name: knob.summary for knob in table("7.2", 4)}
    assert len(set(meanings.values())) == len(meanings)
    # kernel/sched/features.h: "Allow wakeup-time preemption of the current task".
    assert meanings["feature.WAKEUP_PREEMPTION"] == "wake-ups may preempt"
