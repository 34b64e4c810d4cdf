"""The knob table as Python sees it, and knobs on a pretended kernel."""

import dataclasses
from pathlib import Path

import pytest

from schedlab.errors import InputError, NotPermittedError
from schedlab.knobs import find, host, table
from schedlab.knobs.table import Knob


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
    for release in ("2.6.24", "5.10", "6.1", "6.12", "6.18", "7.2"):
        for knob in table(release, 4):
            assert knob.exists == (knob.path is not None) == (knob.default is not None)
            if knob.default is not None:
                assert knob.low <= knob.default <= knob.high, (release, knob)


def _moved(knob: Knob, directory: Path) -> Knob:
    return dataclasses.replace(knob, path=str(directory / knob.name))


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kernel 6.1 whose knobs are files of ours."""

    def moved(name: str, release: str, cpus: int) -> Knob:
        return _moved(find(name, release, cpus), tmp_path)

    monkeypatch.setattr(host, "find", moved)
    (tmp_path / "latency").write_text("6000000\n")
    (tmp_path / "rr_timeslice").write_text("100\n")
    (tmp_path / "rt_runtime").write_text("-1\n")
    (tmp_path / "feature.LAST_BUDDY").write_text("GENTLE_FAIR_SLEEPERS NO_LAST_BUDDY\n")
    return tmp_path


def test_values_are_read_with_their_units(kernel: Path) -> None:
    values = {
        name: host.read(_moved(find(name, "6.1"), kernel)).value
        for name in ("latency", "rr_timeslice", "rt_runtime", "feature.LAST_BUDDY")
    }
    assert values == {
        "latency": "6ms",
        "rr_timeslice": "100ms",
        "rt_runtime": "unlimited",
        "feature.LAST_BUDDY": "0",
    }


def test_settings_hold_for_the_block_and_are_put_back(kernel: Path) -> None:
    settings = {"latency": "20ms", "rr_timeslice": "5ms", "feature.LAST_BUDDY": "1"}
    with pytest.raises(ZeroDivisionError), host.applied(settings, "6.1", 1):  # noqa: PT012
        assert (kernel / "latency").read_text() == "20000000"
        assert (kernel / "rr_timeslice").read_text() == "5"
        assert (kernel / "feature.LAST_BUDDY").read_text() == "LAST_BUDDY"
        _ = 1 / 0
    assert (kernel / "latency").read_text() == "6000000"
    assert (kernel / "rr_timeslice").read_text() == "100"
    assert (kernel / "feature.LAST_BUDDY").read_text() == "NO_LAST_BUDDY"


def test_nothing_is_changed_where_one_knob_cannot_be_set(kernel: Path) -> None:
    (kernel / "rr_timeslice").unlink()
    settings = {"latency": "20ms", "rr_timeslice": "5ms"}
    with pytest.raises(NotPermittedError, match="rr_timeslice"), host.applied(settings, "6.1", 1):
        pass
    assert (kernel / "latency").read_text() == "6000000\n"


def test_the_host_gets_values_of_the_right_form_only(kernel: Path) -> None:
    for wrong in ("20", "5s", "nonsense"):
        with pytest.raises(InputError), host.applied({"latency": wrong}, "6.1", 1):
            pass
    assert (kernel / "latency").read_text() == "6000000\n"
