"""One experiment on several hosts in turn: no block is split, and their levels cancel."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schedlab.experiment import campaign
from schedlab.experiment.group_sequential import Protocol
from schedlab.experiment.plan import plan_experiment
from schedlab.experiment.settings import Setting
from schedlab.experiment.stats import Verdict
from schedlab.experiment.subjects import Conditions, Measured, Metric
from schedlab.store import Store
from schedlab.targets.target import Host, Target
from schedlab.tuning.objective import DEFAULT
from schedlab.tuning.runs import Case, Runs

BATCH, IDLE = Setting({"policy": "batch"}), Setting({"policy": "idle"})
LEVEL = {"first": 1.0, "second": 3.0}
"""The mean of a run on each host, in seconds."""


@dataclass(frozen=True, slots=True)
class Machine(Host):
    """A host that differs from another one of its kind by its boot alone."""

    boot: str = ""

    def facts(self) -> Mapping[str, Any]:
        return {"boot": self.boot, "kernel": "6.1.0", "cpus": 2}


@dataclass
class Noisy:
    """Takes its host's level with a deviation of 2 %, whatever the setting, and may be stopped.

    Attributes:
        worth: by policy, a factor that its setting makes.
        stop: runs after which Ctrl-C comes.
    """

    worth: Mapping[str, float] = field(default_factory=dict)
    stop: int = 10**6
    seed: int = 1
    name: str = "noisy"
    metrics: tuple[Metric, ...] = (Metric("time", "s", "lower"),)
    done: int = 0

    def definition(self) -> Mapping[str, Any]:
        return {"noisy": self.name}

    def measure(self, target: Target, under: Conditions) -> Measured:
        if self.done == self.stop:
            raise KeyboardInterrupt
        self.done += 1
        noise = np.random.default_rng([self.seed, self.done]).normal(0, 0.02)
        policy = under.attributes.policy if under.attributes and under.attributes.policy else ""
        level = LEVEL[str(target.facts()["boot"])]
        return Measured({"time": level * float(np.exp(noise)) * self.worth.get(policy, 1.0)}, {})


def _run(noisy: Noisy, host: str, file: Path, *, check: bool = False) -> campaign.Result:
    plan = plan_experiment(
        "compare",
        [("it", noisy)],
        [DEFAULT, BATCH, IDLE],
        [Machine(boot=host)],
        protocol=Protocol(),
        check=check,
    )
    with Store(file) as store:
        return campaign.run(plan, store)


def _boots(file: Path) -> dict[tuple[bool, int], list[tuple[str, str | None]]]:
    """Return arm and boot of each run, by whether its arm was compared with itself, and block."""
    found = defaultdict(list)
    with Store(file) as store:
        (experiment,) = store.experiments()
        for (arm, block), boot in store.boots(experiment.id).items():
            found[arm.startswith("A/A"), block].append((arm, boot))
    return found


@pytest.mark.parametrize("stop", [3, 4, 5, 16, 17, 18])
def test_a_block_that_another_host_began_is_made_anew(tmp_path: Path, stop: int) -> None:
    file = tmp_path / "runs.db"
    with pytest.raises(campaign.Interrupted):
        _run(Noisy(stop=stop), "first", file)
    second = Noisy(seed=2)
    result = _run(second, "second", file)
    blocks = _boots(file)
    assert all(len({boot for _, boot in runs}) == 1 for runs in blocks.values())
    # Three arms a block: of the first host its whole blocks are kept.
    here = [runs for runs in blocks.values() if runs[0][1] == "first"]
    assert [len(runs) for runs in here] == [3] * (stop // 3)
    assert second.done == sum(len(runs) for runs in blocks.values() if runs[0][1] == "second")
    assert any("2 boots, of one host or several" in note for note in result.notes)


def test_on_the_same_host_no_run_is_made_twice(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    with pytest.raises(campaign.Interrupted):
        _run(Noisy(stop=17), "first", file)
    again = Noisy(seed=2)
    result = _run(again, "first", file)
    assert result.stored == 17
    assert 17 + again.done == sum(len(runs) for runs in _boots(file).values())
    assert not any("boots" in note for note in result.notes)


def test_a_check_against_itself_is_split_no_more_than_a_comparison(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    with pytest.raises(campaign.Interrupted):
        _run(Noisy(stop=9), "first", file, check=True)
    result = _run(Noisy(seed=2), "second", file, check=True)
    blocks = _boots(file)
    assert all(len({boot for _, boot in runs}) == 1 for runs in blocks.values())
    # Four pairs of the first host, eight of one three times as slow, and no difference.
    assert [boot for (double, _), runs in blocks.items() if double for _, boot in runs].count(
        "first"
    ) == 8
    assert not result.suspicious


def test_levels_that_differ_threefold_between_hosts_change_no_verdict(tmp_path: Path) -> None:
    """A/A over two hosts: the interval holds 1 and is as narrow as the noise, not as the levels.

    The logarithm of a pair's ratio deviates by sqrt(2) * 2 %: with 12 blocks or more its mean by
    less than 0.9 %, and an interval ends within four of those; the levels differ by a factor of 3.
    """
    for seed in range(5):
        file = tmp_path / f"{seed}.db"
        with pytest.raises(campaign.Interrupted):
            _run(Noisy(stop=17, seed=10 + seed), "first", file)
        same = _run(Noisy(seed=20 + seed), "second", file)
        for answer in same.settled.answers:
            assert answer.judged.ratio is not None
            low, high = answer.judged.ratio.interval.low, answer.judged.ratio.interval.high
            assert 1 - 4 * 0.009 < low < high < 1 + 4 * 0.009
            assert answer.judged.verdict not in (Verdict.BETTER, Verdict.WORSE)
    # And what does differ is found: batch takes 10 % less on both.
    file = tmp_path / "differs.db"
    worth = {"batch": 0.9}
    with pytest.raises(campaign.Interrupted):
        _run(Noisy(worth, stop=17), "first", file)
    better = _run(Noisy(worth, seed=2), "second", file).settled.answers[0].judged
    assert better.verdict is Verdict.BETTER
    assert better.ratio is not None
    assert better.ratio.value == pytest.approx(0.9, abs=0.02)


def test_a_search_that_goes_on_elsewhere_warns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    noisy = Noisy()
    case = Case("it", noisy, noisy.metrics)
    with Store(tmp_path / "runs.db") as store:
        experiment = store.begin("tune", "it", {}, [])
        for host, warnings in (("first", 0), ("first", 0), ("second", 1)):
            runs = Runs(Machine(boot=host), store=store, experiment=experiment)
            runs.one(case, DEFAULT)
            assert len(caplog.messages) == warnings
    # Its one run was made on the first host alone, and taken from the store after that.
    assert noisy.done == 1
    assert "from another boot, or another host: 1; " in caplog.text
