"""Kernel releases whose rules are not known: refused, or named where another release stands in."""

import json
import platform
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import schedlab
from schedlab.boundary.errors import InputError
from schedlab.cli.main import invoke
from schedlab.targets.facts import facts
from schedlab.vm.knobs import rules_of

Capture = pytest.CaptureFixture[str]
KNOWN = "2.6.24, 5.10, 6.1, 6.12, 6.18, 7.2, 7.3"
MACHINE = schedlab.Machine(2, "ideal")
FIXTURES = Path(__file__).parents[1] / "crates/replay/tests/fixtures"
WORK = "hackbench:groups=1,fds=2,loops=2"


@pytest.fixture
def unknown_host(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the running kernel be of a series whose rules are not known."""
    monkeypatch.setattr(platform, "release", lambda: "6.8.0-45-generic")
    facts.cache_clear()
    yield
    facts.cache_clear()


@pytest.mark.parametrize("release", ["6.6", "6.8.12", "5.15.0-91-generic", "8.1"])
def test_an_unknown_series_is_refused_with_the_known_ones(release: str, capsys: Capture) -> None:
    with pytest.raises(InputError, match=KNOWN):
        schedlab.Scheduler(release)
    assert invoke(["run", WORK, "--kernel", release, "--costs", "ideal"]) == 2
    error = capsys.readouterr().err
    assert KNOWN in error
    assert "~" in error


@pytest.mark.parametrize("release", ["6.1; rm", "6.1\n", "6.1 -x", "$(id)", "6.1/../6.12", "6.1'"])
def test_what_uname_never_prints_is_refused(release: str, capsys: Capture) -> None:
    with pytest.raises(InputError):
        schedlab.Scheduler(release)
    for words in (["run", WORK, "--costs", "ideal"], ["knobs"]):
        assert invoke([*words, "--kernel", release]) == 2
    assert invoke(["run", WORK, "--on", f"vm:{release}"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 3


def test_a_stand_in_runs_as_its_series_and_says_so() -> None:
    # 6.8 is nearest to 6.12 of the kernels with EEVDF: the schedules are the same.
    found = schedlab.simulate(WORK, scheduler="~6.8", machine=MACHINE)
    own = schedlab.simulate(WORK, scheduler="6.12", machine=MACHINE)
    assert (found.turnaround_ns, found.tasks) == (own.turnaround_ns, own.tasks)
    assert found.release == "~6.8.0"
    assert "6.12" in found.notes[0]
    assert own.notes == ()
    # What comes out can be given back.
    assert schedlab.Scheduler(found.release).notes == found.notes


@pytest.mark.parametrize(("release", "said"), [("6.1.999", "newer"), ("6.12.30", "older")])
def test_another_point_release_says_which_rules_it_takes(release: str, said: str) -> None:
    (note,) = schedlab.simulate(WORK, scheduler=release, machine=MACHINE).notes
    assert said in note


def test_commands_name_the_release_used_instead(capsys: Capture) -> None:
    run = ["run", WORK, "--kernel", "~6.8", "--cpus", "2", "--costs", "ideal"]
    assert invoke(run) == 0
    said = capsys.readouterr()
    assert "note: kernel 6.8.0" in said.err
    assert "~6.8.0" in said.out
    assert invoke([*run, "--json"]) == 0
    assert "6.12" in json.loads(capsys.readouterr().out)["notes"][0]
    assert invoke(["knobs", "--kernel", "~6.8", "--json"]) == 0
    assert "6.12" in json.loads(capsys.readouterr().out)["notes"][0]
    assert invoke(["knobs", "--kernel", "~6.8"]) == 0
    assert "note: kernel 6.8.0" in capsys.readouterr().err


def test_a_tuning_names_the_release_used_instead() -> None:
    found = schedlab.tune(
        WORK,
        knobs=["base_slice=1ms..3ms"],
        by="random",
        executions=2,
        scheduler="~6.8",
        machine=schedlab.Machine(2, "linsched"),
    )
    assert "6.12" in found.notes[0]


@pytest.mark.usefixtures("unknown_host")
def test_a_kernel_of_an_unknown_series_is_simulated_only_when_asked_for(capsys: Capture) -> None:
    assert (facts().known, facts().release) == (False, "~6.8.0")
    with pytest.raises(InputError, match=re.escape("--kernel '~6.8.0'")):
        schedlab.simulate(WORK, machine=MACHINE)
    assert invoke(["run", WORK, "--costs", "ideal"]) == 2
    assert "--kernel 6.18" in capsys.readouterr().err
    assert invoke(["run", WORK, "--costs", "ideal", "--kernel", "~6.8"]) == 0
    capsys.readouterr()
    # Its own knobs are listed, by the nearest series' table.
    assert invoke(["knobs", "--json"]) == 0
    assert "6.12" in json.loads(capsys.readouterr().out)["notes"][0]
    assert invoke(["kernels", "--here", "--json"]) == 0
    this = json.loads(capsys.readouterr().out)["this"]
    assert (this["kernel"], this["release"]) == ("6.8.0-45-generic", "~6.8.0")


@pytest.mark.usefixtures("unknown_host")
def test_a_kernel_of_an_unknown_series_runs_workloads(capsys: Capture) -> None:
    assert invoke(["run", "pipe:loops=10", "--on", "host", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == []


def test_a_guest_of_an_unknown_series_takes_the_nearest_knobs() -> None:
    assert rules_of("6.8.0-45-generic") == "~6.8.0"


@pytest.mark.parametrize("asked", [[], ["--kernel", "6.1"]])
def test_a_recording_of_eevdf_is_not_replayed_under_cfs(asked: list[str], capsys: Capture) -> None:
    # It has no head; its probes alone tell which fair class it is of.
    recording = FIXTURES / "k612-hogs.txt.gz"
    assert invoke(["replay", str(recording), *asked]) == 2
    assert "EEVDF" in capsys.readouterr().err


def test_a_replay_says_what_it_assumes(capsys: Capture) -> None:
    recording = FIXTURES / "k61-hackbench.txt.gz"
    assert invoke(["replay", str(recording)]) == 0
    assert "does not say its kernel" in capsys.readouterr().err
    assert invoke(["replay", str(recording), "--json"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert any("does not say its kernel" in note for note in notes)
