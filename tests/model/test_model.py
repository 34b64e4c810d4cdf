"""The model's types: what they accept, and their errors."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import schedlab
from schedlab import model
from schedlab.boundary.errors import InputError


@given(st.integers(0, 2**64 - 1))
def test_a_time_written_is_read_back(nanoseconds: int) -> None:
    assert model.parse_time(model.format_time(nanoseconds)) == nanoseconds


def test_short_times_have_four_digits_and_the_largest_fitting_unit() -> None:
    # 999 us is below a millisecond; 1 ms is not.
    assert model.short_time(999_000) == "999.0 us"
    assert model.short_time(1_000_000) == "1.000 ms"
    assert model.short_time(12_345_678_901) == "12.35 s"
    assert model.short_time(-2_500_000) == "-2.500 ms"


def test_a_scheduler_keeps_its_settings_with_their_units() -> None:
    kernel = schedlab.Scheduler("6.1", hz=1000, latency="20ms", knobs={"feature.LAST_BUDDY": 0})
    assert kernel.knobs == {"feature.LAST_BUDDY": "0", "latency": "20ms"}
    assert kernel == kernel.with_knobs({})
    assert kernel.with_knobs({"latency": "5ms"}).knobs["latency"] == "5ms"
    assert json.loads(kernel.json)["hz"] == 1000


@pytest.mark.parametrize(
    ("release", "knobs", "said"),
    [
        ("6.1", {"latency": "20"}, "no unit"),
        ("6.1", {"latency": "1us"}, "100us to 1s"),
        ("6.1", {"latencee": "1ms"}, "known: latency"),
        ("6.12", {"latency": "20ms"}, "base_slice"),
        ("6.1", {"feature.PLACE_LAG": "1"}, "GENTLE_FAIR_SLEEPERS"),
        ("1.0", {}, "older than the oldest known"),
        ("six", {}, "major.minor"),
    ],
)
def test_a_wrong_scheduler_is_refused_with_what_is_allowed(
    release: str, knobs: dict[str, str], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        schedlab.Scheduler(release, knobs=knobs)


@pytest.mark.parametrize("hz", [0, 23, 10_001, 2**40])
def test_an_impossible_hz_is_refused(hz: int) -> None:
    with pytest.raises(InputError, match="24 to 10000"):
        schedlab.Scheduler("6.1", hz=hz)


@pytest.mark.parametrize("cpus", [-1, 0, 4097, 2**40])
def test_an_impossible_number_of_cpus_is_refused(cpus: int) -> None:
    with pytest.raises(InputError, match="1 to 4096"):
        schedlab.Machine(cpus)


def test_linsched_charges_a_jiffy_for_each_callback() -> None:
    # LinSched calls a task once a tick: writing, reading, and finding nothing and sleeping.
    times = schedlab.Machine(1, "linsched").costs.times
    charged = {name for name, value in times.items() if value}
    assert charged == {"pipe_write", "pipe_read", "socket_write", "socket_read", "block"}
    assert {times[name] for name in charged} == {1_000_000}


def test_unknown_costs_name_the_known_ones() -> None:
    with pytest.raises(InputError, match="ideal, linsched, calibrated, reference"):
        schedlab.Machine(1, "free")


@pytest.mark.parametrize(
    ("clock", "cpus", "speed"),
    [("instructions", 2, "turns"), ("instructions", 1, ""), ("host", 2, ""), ("", 2, "")],
)
def test_cpus_of_a_guest_that_counts_instructions_have_turns(
    tmp_path: Path, clock: str, cpus: int, speed: str
) -> None:
    file = tmp_path / "costs.toml"
    file.write_text(f'[machine]\ncpus = {cpus}\nclock = "{clock}"\n[costs]\nswitch = "2us"\n')
    machine = schedlab.Machine(cpus, file)
    assert machine.speed == speed
    # Said again they are the same, and what is said goes before the costs.
    assert schedlab.Machine.from_json(machine.json, machine.costs.name) == machine
    assert schedlab.Machine(cpus, file, speed="turbo=100%").speed == "turbo=100%"
    # Each of as many tasks as there are CPUs has as large a part of one CPU's work.
    found = schedlab.simulate(f"hogs:tasks={cpus},time=1ms", scheduler="6.1", machine=machine)
    work = 1_000_000 + 2_000
    assert found.elapsed_ns == (cpus * work if speed else work)


def test_calibrated_costs_of_a_machine_never_calibrated_say_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(InputError, match="schedlab calibrate"):
        schedlab.Machine(1, "calibrated")


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"policy": "fast"}, "other, batch, idle"),
        ({"policy": "rr:100"}, "1 to 99"),
        ({"nice": 20}, "-20 to 19"),
        ({"nice": -21}, "-20 to 19"),
        ({"slice": "99us"}, "100us to 100ms"),
        ({"slice": "3"}, "no unit"),
    ],
)
def test_wrong_attributes_are_refused(attributes: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        schedlab.Attributes(**attributes)  # type: ignore[arg-type]


def test_attributes_go_to_every_first_task() -> None:
    work = schedlab.Workload.parse("hackbench:groups=1,loops=1")
    rr = work.with_attributes(schedlab.Attributes("rr:7", affinity=(0,)))
    first = [task for task in json.loads(rr.json)["tasks"] if task["instances"]]
    assert [task["attributes"]["policy"] for task in first] == [{"rr": 7}]
    assert first[0]["attributes"]["affinity"] == [0]


def test_a_workload_is_read_from_its_file(tmp_path: Path) -> None:
    work = schedlab.Workload.parse("hogs:tasks=2,time=1ms")
    file = tmp_path / "work.json"
    file.write_text(work.json)
    assert schedlab.Workload.parse(str(file)) == work


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "the end of the file"),
        ('{"name": "x", "tasks": [], "colour": 1}', "unknown field `colour`"),
        ('{"name": "x", "tasks": []}', "give one at least one instance"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "wrong.json"
    file.write_text(text)
    with pytest.raises(InputError, match=said) as refusal:
        schedlab.Workload.parse(str(file))
    assert "wrong.json" in str(refusal.value)


def test_a_missing_or_binary_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        schedlab.Workload.parse(str(tmp_path / "none.json"))
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not text"):
        schedlab.Workload.parse(str(tmp_path / "binary.json"))


@pytest.mark.parametrize("pairs", [["latency"], ["=20ms"], ["latency=1ms", "latency=2ms"]], ids=str)
def test_malformed_settings_are_refused(pairs: list[str]) -> None:
    with pytest.raises(InputError):
        model.settings(pairs)
