"""Runs that fail: by chance, which is made good, and each time, which costs their setting alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests import needs

from schedlab.boundary.errors import RunError
from schedlab.experiment import campaign
from schedlab.experiment.group_sequential import Protocol
from schedlab.experiment.plan import plan_experiment
from schedlab.experiment.sequential_experiment import Question, UnanswerableError, Values, settle
from schedlab.experiment.settings import Setting
from schedlab.experiment.stats import Verdict
from schedlab.experiment.subjects import Conditions, Measured, Metric
from schedlab.programs.apache import Apache, read_wrk
from schedlab.store import Store
from schedlab.targets.target import Host, Target
from schedlab.tuning.aims import parse_aims
from schedlab.tuning.objective import DEFAULT, Raced
from schedlab.tuning.runs import Case, Runs

BATCH, IDLE = Setting({"policy": "batch"}), Setting({"policy": "idle"})
TIME = Metric("time", "s", "lower")


class Place(Host):
    """A real place in name."""


@dataclass
class Failing:
    """Takes 2 s, 1 s under batch and 3 s under idle, and fails at some of its runs.

    Attributes:
        fails: numbers of runs that fail, from 0, by policy; the present one has no name.
        runs: of each policy so far.
    """

    fails: Mapping[str, frozenset[int]]
    name: str = "failing"
    metrics: tuple[Metric, ...] = (TIME,)
    runs: dict[str, int] = field(default_factory=dict)

    def definition(self) -> Mapping[str, Any]:
        return {"failing": self.name}

    def measure(self, target: Target, under: Conditions) -> Measured:
        del target
        policy = under.attributes.policy if under.attributes and under.attributes.policy else ""
        number = self.runs.get(policy, 0)
        self.runs[policy] = number + 1
        if number in self.fails.get(policy, ()):
            raise RunError("a bad moment")
        return Measured({"time": {"batch": 1.0, "idle": 3.0}.get(policy, 2.0)}, {})


def _compare(one: Failing, file: Path) -> campaign.Result:
    plan = plan_experiment(
        "compare", [("it", one)], [DEFAULT, BATCH], [Place()], protocol=Protocol(), check=False
    )
    with Store(file) as store:
        return campaign.run(plan, store)


def test_a_run_that_fails_once_is_made_again_and_told_of(tmp_path: Path) -> None:
    one = Failing({"batch": frozenset({4})})
    result = _compare(one, tmp_path / "runs.db")
    # The first look is after 12 blocks, and one run was made twice.
    assert one.runs == {"": 12, "batch": 13}
    assert result.settled.answers[0].judged.verdict is Verdict.BETTER
    assert result.settled.failures == {}
    assert result.notes[0] == "a run failed and succeeded when made again: a bad moment"
    with Store(tmp_path / "runs.db") as store:
        assert campaign.recall(store.experiment(result.id), store).notes == result.notes


def test_a_run_that_failed_twice_is_made_again_by_the_same_command(tmp_path: Path) -> None:
    one = Failing({"batch": frozenset({4, 5})})
    with pytest.raises(RunError, match="a bad moment"):
        _compare(one, tmp_path / "runs.db")
    # Blocks 0 to 3 are kept, of block 4 what ran before the failure or nothing.
    result = _compare(one, tmp_path / "runs.db")
    assert one.runs == {"": 12, "batch": 14}
    assert result.settled.answers[0].judged.verdict is Verdict.BETTER


def test_what_was_judged_before_an_arm_failed_stands() -> None:
    def after(block: int, _place: int) -> Values:
        if block == 6:
            raise RunError("a bad moment")
        return {"time": 1.0 + block % 2}

    arms = {"a": lambda block, _place: {"time": 1.0 + (block + 1) % 2}, "b": after}
    questions = [Question("a", "b", "time")]
    settled = settle(arms, questions, Protocol((6, 12)))
    # Three ratios of 2 and three of 1/2: the first look shows nothing, and there is no second.
    assert [answer.judged.verdict for answer in settled.answers] == [Verdict.INCONCLUSIVE]
    assert (settled.failures, settled.complete) == ({"b": "a bad moment"}, True)
    with pytest.raises(UnanswerableError, match="a bad moment") as caught:
        settle(arms, questions, Protocol((8,)))
    assert caught.value.settled.failures == {"b": "a bad moment"}


def _raced(one: Failing, store: Store) -> Raced:
    aims = parse_aims([("it", one)], (), ())
    experiment = store.begin("tune", "a title", {}, [])
    runs = Runs(Place(), store=store, experiment=experiment)
    return Raced([Case("it", one, (TIME,))], aims, runs)


def test_a_setting_that_fails_in_a_duel_loses_it(tmp_path: Path) -> None:
    # It looks better in its first run, and the duel cannot run it.
    one = Failing({"batch": frozenset({1, 2})})
    with Store(tmp_path / "runs.db") as store:
        raced = _raced(one, store)
        assert raced.rows([BATCH])[0][0] == float("inf")
        assert (raced.duels, raced.incumbent) == (1, DEFAULT)
        # Gone on with, it is not run again: the search went on without it.
        made = dict(one.runs)
        again = _raced(one, store)
        assert again.rows([BATCH])[0][0] == float("inf")
        assert one.runs["batch"] == made["batch"]


def test_a_failure_that_ended_a_search_is_not_repeated_from_the_store(tmp_path: Path) -> None:
    # Batch runs once, then eight times in the duel that it wins; then it fails, twice.
    one = Failing({"batch": frozenset({9, 10})})
    with Store(tmp_path / "runs.db") as store:
        raced = _raced(one, store)
        raced.rows([BATCH])
        assert (raced.incumbent, one.runs["batch"]) == (BATCH, 9)
        with pytest.raises(RunError, match="a bad moment"):
            raced.rows([IDLE])
        again = _raced(one, store)
        again.rows([BATCH])
        assert one.runs["batch"] == 11
        again.rows([IDLE])
        assert one.runs["batch"] == 12
        assert again.looks.worth(IDLE) == pytest.approx(3.0 / 2.0)


@needs.debian("wrk")
def test_an_answer_later_than_the_time_to_measure_is_no_failure() -> None:
    # wrk.c, response_complete: an answer that takes longer than --timeout counts as a timeout. A
    # thread looks every 100 ms, when it runs, whether it is to stop: in a guest beside other work
    # a window of 2 s lasted 2.2 s, and some answers took longer than 2 s.
    words = Apache.parse("apache:concurrency=20,time=2s")._wrk("http://127.0.0.1/")
    assert words[words.index("-d") + 1] == "2s"
    assert words[words.index("--timeout") + 1] == "12s"
    # 8 bytes a microsecond: an hour of them is more than a machine has.
    long = Apache.parse("apache:time=3600s")._wrk("http://127.0.0.1/")
    assert long[long.index("--timeout") + 1] == "70s"


def test_what_failed_of_requests_is_told_by_kind() -> None:
    text = (
        "  17 requests in 2.24s, 20.00KB read\n"
        "  Socket errors: connect 0, read 1, write 0, timeout 2\nRequests/sec:      7.59\n"
    )
    said = r"of 17 requests 3 failed \(connect 0, read 1, write 0, timeout 2\) and 0 were refused"
    with pytest.raises(RunError, match=said):
        read_wrk(text)
