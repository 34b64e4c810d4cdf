"""Screening by simulation: how many ranks are kept, and what is never dropped."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedlab.cli.main import invoke
from schedlab.experiment.settings import Setting
from schedlab.experiment.subjects import Described
from schedlab.model import Machine, Workload
from schedlab.store import Store
from schedlab.targets.target import Host
from schedlab.tuning import parameters
from schedlab.tuning.screened import counterpart
from schedlab.tuning.screening import DIFFERENCE, ERROR, cut, screen

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("candidates", [6, 24, 100])
@pytest.mark.parametrize("ranking", [0.5, 0.8, 0.95])
def test_the_best_is_beyond_the_cut_as_seldom_as_stated(candidates: int, ranking: float) -> None:
    # Rankings are drawn from the definition: two normal scores a candidate whose correlation gives
    # Spearman's (Pearson, 1907: rho = 6 / pi * asin(r / 2)). The rank in the one of the least in
    # the other is beyond the cut in ERROR of the draws at most, but for three standard errors.
    draws, random = 4_000, np.random.default_rng(candidates)
    r = 2 * math.sin(math.pi * ranking / 6)
    real = random.standard_normal((draws, candidates))
    simulated = r * real + math.sqrt(1 - r * r) * random.standard_normal(real.shape)
    best = simulated[np.arange(draws), real.argmin(axis=1)]
    ranks = 1 + (simulated < best[:, None]).sum(axis=1)
    missed = (ranks > cut(candidates, ranking=ranking)).mean()
    assert missed <= ERROR + 3 * math.sqrt(ERROR * (1 - ERROR) / draws)


def test_a_perfect_ranking_keeps_few_and_a_poor_one_nearly_all() -> None:
    # At r = 1 the score is the least of 100, below the share 1 - 0.05^(1/100) of all scores with
    # 95 %: that is rank 2.95. The best itself is then rank 1; the bound is careful.
    assert cut(100, ranking=0.99999) == 3
    assert cut(100, ranking=0.01) >= 94  # of a ranking by chance the first 95 of 100
    assert [cut(number) for number in (0, 1)] == [0, 1]


def _settings(count: int) -> list[Setting]:
    return [Setting({"slice": f"{number + 1}ms"}) for number in range(count)]


@given(
    st.lists(
        st.lists(st.floats(-1, 1), min_size=4, max_size=4),
        min_size=1,
        max_size=30,
    )
)
def test_no_candidate_inside_the_bound_is_dropped(rows: list[list[float]]) -> None:
    costs = np.array(rows)
    settings = _settings(len(rows))
    found = screen(settings, costs)
    assert sorted(map(str, (*found.kept, *found.out))) == sorted(map(str, settings))
    order = np.argsort(costs.mean(axis=1), kind="stable")
    bound = cut(len(rows))
    assert found.ranks == bound
    # The first ranks are kept, in their order.
    assert list(found.kept[:bound]) == [settings[place] for place in order[:bound]]
    # And whatever is worse than the last of them by no more than what counts as a difference.
    last = costs[order[bound - 1]]
    for place in order[bound:]:
        if (costs[place] - last).mean() <= math.log1p(DIFFERENCE):
            assert settings[place] in found.kept


def test_what_chance_could_have_ranked_is_kept() -> None:
    # 20 settings in steps of 10 %: the last ones are far behind. With noise of 200 % a seed, four
    # seeds tell nothing, and all are kept.
    means = 0.1 * np.arange(20)[:, None]
    noise = np.random.default_rng(1).normal(0, 2, (20, 4))
    assert len(screen(_settings(20), means + 0 * noise).kept) == cut(20)
    assert len(screen(_settings(20), means + noise).kept) > 15


def test_what_cannot_be_run_is_told_apart() -> None:
    costs = np.array([[0.1, 0.1], [np.inf, np.inf], [0.0, 0.0]])
    found = screen(_settings(3), costs)
    assert [str(one) for one in found.kept] == ["slice=3ms", "slice=1ms"]
    assert [str(one) for one in found.failed] == ["slice=2ms"]
    assert screen(_settings(1), np.array([[np.inf, np.inf]])).kept == ()
    with pytest.raises(ValueError, match="two seeds at least"):
        screen(_settings(1), np.array([[0.0]]))


TUNE = (
    "tune hackbench:groups=1,fds=2,loops=2 --on host --policy other,batch,fifo:1 --by random "
    "--executions 6 --blocks 12"
)


def test_a_real_place_is_screened_and_raced(tmp_path: Path, capsys: Capture) -> None:
    line = [*TUNE.split(), "--store", str(tmp_path / "runs.db")]
    assert invoke([*line, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    kept, race = value["screened"]["kept"], value["race"]
    # Three policies, of which one may stand for the present setting: with so few all are ranked
    # within the bound.
    assert len(kept) == 3
    assert value["screened"]["screened_out"] == 0
    # One, then two: in blocks with the present setting, twelve of them. The leader, if there is
    # one after the first heat, runs in the second, too.
    assert len(race["heats"]) == 2
    assert race["runs"] in (12 * 2 + 12 * 3, 12 * 2 + 12 * 4)
    assert value["target"] == "sim"
    assert value["verified"]["target"] == "host"
    assert value["certified"] == bool(race["winner"])
    with Store(tmp_path / "runs.db", create=False) as store:
        kinds = sorted(one.kind for one in store.experiments())
    assert kinds == ["compare", "compare", "tune"]
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
    assert "simulation screened out 0 of 3 candidates" in said
    assert "race: 3 of 3 in 2 heats" in said


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
