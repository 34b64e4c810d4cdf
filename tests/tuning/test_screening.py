"""Screening by simulation, and the race that begins with its order, from the command line."""

import json
import re
from pathlib import Path

import pytest

from schedlab.cli.main import invoke
from schedlab.experiment.subjects import Described
from schedlab.model import Machine, Workload
from schedlab.store import Store
from schedlab.targets.target import Host
from schedlab.tuning import parameters
from schedlab.tuning.screened import counterpart

Capture = pytest.CaptureFixture[str]


TUNE = (
    "tune hackbench:groups=1,fds=2,loops=2 --on host --policy other,batch,fifo:1 --by random "
    "--executions 6 --blocks 12"
)


def test_a_real_place_is_screened_and_raced(tmp_path: Path, capsys: Capture) -> None:
    line = [*TUNE.split(), "--store", str(tmp_path / "runs.db")]
    assert invoke([*line, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    ranked, race = value["screened"]["ranked"], value["race"]
    # Three policies, of which one may stand for the present setting.
    assert (len(ranked), value["screened"]["failed"]) == (3, 0)
    # Single runs first, 60 at most; then heats of one, two, and what is left: each of 12 blocks, in
    # which a setting runs beside the present one until it has a verdict.
    assert 1 <= race["explored"] <= 60
    assert 1 <= len(race["heats"]) <= 3
    assert race["runs"] >= race["explored"] + 2 * 12 * len(race["heats"])
    assert race["runs"] <= race["explored"] + 12 * (2 + 3 + 4)
    assert value["target"] == "sim"
    assert value["verified"]["target"] == "host"
    assert value["certified"] == bool(race["winner"])
    with Store(tmp_path / "runs.db", create=False) as store:
        kinds = sorted(one.kind for one in store.experiments())
        (tuned,) = (one for one in store.experiments() if one.kind == "tune")
        single = [arm for arm, _ in store.values(tuned.id) if " on host | " in arm]
    assert kinds == ["compare"] * len(race["heats"]) + ["tune"]
    # They are kept with the tuning.
    assert len(single) == race["explored"]
    # The same command makes no further run, and says the same.
    assert invoke([*line, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["race"], again["screened"]) == (race, value["screened"])


def test_a_place_is_simulated_with_the_costs_that_are_given() -> None:
    searched = parameters(Host(), policies=["other", "batch"])
    subjects = [("pipe", Described(Workload.parse("pipe")))]
    for costs in ("ideal", "reference"):
        place = counterpart(Host(), subjects, searched, costs=costs)
        assert place.machine == Machine(Host().cpus, costs)
        assert place.machine != Machine(Host().cpus, "linsched")


def test_the_output_says_what_was_screened_out(tmp_path: Path, capsys: Capture) -> None:
    assert invoke([*TUNE.split(), "--store", str(tmp_path / "runs.db")]) == 0
    said = capsys.readouterr().out
    assert "simulation ranked 3 candidates" in said
    assert re.search(r"exploration: [0-9]+ real runs?", said)
    assert re.search(r"race: [123] of them in [123] heats?, [0-9]+ real runs; ", said)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (
            "tune hackbench --policy other,batch --costs reference --screen",
            "--on sim is simulated as a whole",
        ),
        (
            "tune --policy other,batch --on host --screen --command=true",
            "'true' is a program or command: only workloads are simulated",
        ),
        ("tune pipe --policy other,batch --on host --screen --verify none", "asks for no verdict"),
        (
            "tune schbench --policy other,batch --on host --screen --metric p99 --metric p50",
            "ranks candidates by one aim, and there are 2",
        ),
        (
            "tune pipe --policy other,batch --on host --no-screen --costs ideal",
            "--costs: --no-screen simulates nothing: leave it out",
        ),
        (
            "tune --policy other,batch --on host --costs ideal --command=true",
            "--costs: 'true' is a program or command: only workloads are simulated",
        ),
        ("tune pipe --policy other,batch --on host --costs nowhere.toml", "nowhere.toml"),
    ],
)
def test_what_cannot_be_screened_is_refused(
    line: str, why: str, tmp_path: Path, capsys: Capture
) -> None:
    assert invoke([*line.split(), "--store", str(tmp_path / "runs.db")]) == 2
    error = capsys.readouterr().err
    assert why in error
    assert error.count("\n") == 1


def test_a_command_is_searched_for_real_and_the_output_says_why(
    tmp_path: Path, capsys: Capture
) -> None:
    line = "tune --policy other,batch --on host --by random --executions 2 --blocks 2"
    words = [*line.split(), "--command=true", "--store", str(tmp_path / "runs.db")]
    assert invoke(words) == 0
    said = capsys.readouterr().out
    assert "no simulation screened the candidates: 'true' is a program or command" in said
    assert invoke([*words, "--json"]) == 0
    assert "screened" not in json.loads(capsys.readouterr().out)
