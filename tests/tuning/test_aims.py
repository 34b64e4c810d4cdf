"""Tuning for several aims: floors, a front, certificates of its points and one recommendation."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schedlab import Machine, Scheduler, tuning
from schedlab.boundary.errors import InputError, RunError
from schedlab.cli.main import invoke
from schedlab.experiment import campaign, execution, sequential_experiment
from schedlab.experiment.group_sequential import Judged, Protocol
from schedlab.experiment.sequential_experiment import LimitedQuestion, Question
from schedlab.experiment.settings import Setting
from schedlab.experiment.stats import Estimate, Interval, Verdict, judge
from schedlab.experiment.subjects import Conditions, Measured, Metric, Subject
from schedlab.programs import subject
from schedlab.programs.command import Command
from schedlab.report.tuning_result import trade
from schedlab.store import Store
from schedlab.targets.target import Host, Simulated
from schedlab.tuning.aims import Aim, Aims, Floor, Part

Capture = pytest.CaptureFixture[str]

P99 = Metric("p99", "s", "lower")
THROUGHPUT = Metric("throughput", "1/s", "higher")

PLACE = Simulated(Scheduler("6.1"), Machine(1, "ideal"))

# What a policy does to both metrics: batch trades, idle trades too much, fifo loses in both, rr
# gains a little in both, and is dominated by nothing.
CHANGES = {
    "other": (1.0, 1.0),
    "batch": (0.69, 0.988),
    "idle": (0.60, 0.75),
    "fifo:1": (1.20, 0.90),
    "rr:1": (0.95, 1.02),
}


class Trading:
    """A service whose p99 and throughput depend on the policy, by `CHANGES`, and on the seed."""

    name = "service"
    metrics = (P99, THROUGHPUT)

    def __init__(self, noise: float = 0.0) -> None:
        self.noise = noise
        self.runs = 0

    def definition(self) -> Mapping[str, Any]:
        return {"noise": self.noise}

    def measure(self, target: object, under: Conditions) -> Measured:
        del target
        self.runs += 1
        policy = under.attributes.policy if under.attributes else "other"
        p99, throughput = CHANGES[policy]
        drawn = np.random.default_rng(under.seed)
        shared, own = self.noise * drawn.standard_normal(2)
        values = {"p99": 0.01 * p99 * math.exp(shared), "throughput": 500 * throughput}
        values["throughput"] *= math.exp(own)
        return Measured(values, {})


def _tune(one: Subject, store: Store | None = None, **options: Any) -> tuning.Tuning:
    searched = tuning.parameters(PLACE, policies=list(CHANGES))
    given: dict[str, Any] = {"metrics": ["p99", "throughput"], "executions": 40}
    given |= options
    return tuning.tune_subjects([(one.name, one)], searched, PLACE, store=store, **given)


def _front(found: tuning.Tuning) -> dict[str, tuple[float, ...]]:
    return {point.setting.values.get("policy", ""): point.aims for point in found.front}


@pytest.mark.parametrize("by", ["nsga2", "tpe", "random"])
def test_a_front_of_trades_is_found(by: tuning.By) -> None:
    found = _tune(Trading(), by=by)
    # Ratios with higher throughput turned round: batch (0.69, 1 / 0.988), idle (0.6, 1 / 0.75), rr
    # (0.95, 1 / 1.02). None of them dominates another; the default, (1, 1), is dominated by rr.
    assert found.plot().to_dict()["mark"]["interpolate"] == "step-after"
    assert _front(found) == {
        policy: pytest.approx((CHANGES[policy][0], 1 / CHANGES[policy][1]))
        for policy in ("batch", "idle", "rr:1")
    }
    # The aims weigh the same: sqrt(0.69 / 0.988) = 0.836, idle has 0.894, rr 0.965.
    assert found.best == Setting({"policy": "batch"})
    assert found.effect == pytest.approx(math.sqrt(0.69 / 0.988))
    assert [gain.change for gain in found.gains] == pytest.approx([-0.31, -0.012])


def test_a_run_serves_all_aims() -> None:
    one = Trading()
    found = _tune(one)
    # Both metrics are of one run: each of the 5 policies and the default has one.
    assert found.runs == one.runs == len(CHANGES) + 1


@pytest.mark.parametrize(
    ("keep", "left", "best"),
    [
        # idle loses 25 %, batch 1.2 %.
        (["throughput>=-2%"], {"batch", "rr:1"}, "batch"),
        (["throughput>=-1%"], {"rr:1"}, "rr:1"),
        (["throughput>=-1.2%"], {"batch", "rr:1"}, "batch"),
        (["throughput>=0%", "p99<=+0%"], {"rr:1"}, "rr:1"),
    ],
)
def test_a_floor_leaves_out_what_breaks_it(keep: list[str], left: set[str], best: str) -> None:
    found = _tune(Trading(), keep=keep)
    assert set(_front(found)) == left
    assert found.best == Setting({"policy": best})


def test_a_floor_holds_for_one_aim_as_well() -> None:
    # p99 alone: idle has the least, which the floor forbids; PSO is told that it cannot be run.
    assert _tune(Trading(), metrics=["p99"]).best == Setting({"policy": "idle"})
    floored = _tune(Trading(), metrics=["p99"], keep=["throughput>=-2%"])
    assert floored.best == Setting({"policy": "batch"})
    assert [gain.metric for gain in floored.gains] == ["p99", "throughput"]
    assert len(floored.front) == 1


def test_where_every_setting_breaks_a_floor_the_default_stays() -> None:
    searched = tuning.parameters(PLACE, policies=["idle", "fifo:1"])
    one = Trading()
    found = tuning.tune_subjects(
        [(one.name, one)], searched, PLACE, metrics=["p99"], keep=["throughput>=-2%"], executions=8
    )
    assert found.best == Setting({})
    assert tuning.candidates(found) == []


def test_where_no_trade_gains_the_nearest_is_compared() -> None:
    # fifo loses in both aims, and `other` is what is set now.
    searched = tuning.parameters(PLACE, policies=["fifo:1", "other"])
    one = Trading()
    found = tuning.tune_subjects(
        [(one.name, one)], searched, PLACE, metrics=["p99", "throughput"], executions=8
    )
    # Only the default is on the front: `other` is worth as much, and the default comes first.
    assert [point.setting for point in found.front] == [Setting({})]
    assert tuning.candidates(found) == [Setting({"policy": "other"})]


def test_two_workloads_are_two_aims() -> None:
    # Together, one aim: the compromise. Apart: a front between them.
    works = [("A", subject("hackbench:groups=1,fds=2,loops=1")), ("B", subject("pipe:loops=10"))]
    assert len(tuning.parse_aims(works).aims) == 1
    assert len(tuning.parse_aims(works, ["turnaround"]).aims[0].parts) == 2
    apart = tuning.parse_aims(works, ["turnaround of A", "delay of B"])
    assert [[str(part) for part in aim.parts] for aim in apart.aims] == [
        ["turnaround of A"],
        ["delay of B"],
    ]
    assert Aims.from_data(json.loads(json.dumps(apart.as_data()))) == apart
    with pytest.raises(InputError, match="'B' has no aim"):
        tuning.parse_aims(works, ["turnaround of A"])
    with pytest.raises(InputError, match="turnaround of A is given twice"):
        tuning.parse_aims(works, ["turnaround", "turnaround of A"])
    (floor,) = tuning.parse_aims(works, ["turnaround"], ["delay of B<=+5%"]).floors
    assert (str(floor), floor.limit) == ("delay of B<=+5%", 1.05)


def test_points_worth_choosing_stand_for_the_front() -> None:
    found = _tune(Trading())
    chosen = [one.values["policy"] for one in tuning.candidates(found, 3)]
    assert chosen[0] == "batch"
    assert set(chosen) == {"batch", "idle", "rr:1"}
    assert [one.values["policy"] for one in tuning.candidates(found, 1)] == ["batch"]
    # rr's 5 % and 2 % are within a band of 10 %.
    assert len(tuning.candidates(found, 3, band=0.1)) == 2


def test_fresh_seeds_certify_a_trade_and_say_it(tmp_path: Path) -> None:
    one = Trading(noise=0.01)
    with Store(tmp_path / "runs.db") as store:
        found = _tune(one, store)
        settings = tuning.candidates(found)
        result = tuning.certify(
            settings, [(one.name, one)], PLACE, store, metrics=["p99", "throughput"],
            seed=found.fresh_seed,
        )  # fmt: skip
    # Both arms of a pair draw the same noise, so every ratio is exactly that of `CHANGES`.
    judged = {
        str(each.setting): each for each in tuning.certificates([result], settings, found.aims)
    }
    batch = judged["policy=batch"]
    assert batch.certified
    assert batch.worth == pytest.approx(math.sqrt(0.69 / 0.988))
    assert trade(batch, found.aims) == "p99 -31.0% for throughput -1.2%"
    assert trade(judged["policy=rr:1"], found.aims) == "p99 -5.0% and throughput +2.0%"
    best = tuning.recommended(list(judged.values()))
    assert best is not None
    assert best.setting == Setting({"policy": "batch"})
    # Every verdict of the family has its share of the 5 %: 3 settings, 2 metrics.
    assert len(result.settled.answers) == 6


def test_a_metric_that_a_place_has_not_is_said_at_once() -> None:
    class WithoutP99(Trading):
        def measure(self, target: object, under: Conditions) -> Measured:
            whole = super().measure(target, under)
            return Measured({"throughput": whole.values["throughput"]}, {})

    one = WithoutP99()
    with pytest.raises(RunError, match="'service on sim' came to no p99"):
        tuning.certify(
            Setting({"policy": "batch"}), [(one.name, one)], PLACE, metrics=["p99", "throughput"]
        )
    # One run of each setting, and none of the blocks that would answer nothing.
    assert one.runs == 2


@pytest.mark.parametrize("moving", ["p99", "throughput"])
@pytest.mark.parametrize("keep", [[], ["throughput>=-2%"]])
def test_a_baseline_that_differs_from_itself_in_any_aim_or_floor_certifies_nothing(
    moving: str, keep: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unsteady(Trading):
        """A service of which one metric is 5 % higher whenever the baseline runs again."""

        def measure(self, target: object, under: Conditions) -> Measured:
            values = dict(super().measure(target, under).values)
            values[moving] *= 1.05 if again else 1.0
            return Measured(values, {})

    again = False
    stored = execution.stored

    def told(name: str, *given: Any, **options: Any) -> Any:
        arm = stored(name, *given, **options)

        def run(block: int, place: int) -> Any:
            nonlocal again
            again = name.startswith("A/A: again")
            return arm(block, place)

        return run

    monkeypatch.setattr(execution, "stored", told)
    one = Unsteady(noise=0.002)
    metrics = ["p99"] if keep else ["p99", "throughput"]
    batch = Setting({"policy": "batch"})
    subjects = [(one.name, one)]
    result = tuning.certify(batch, subjects, Host(), metrics=metrics, keep=keep)
    # 5 % against a scatter of 0.3 % of a pair: certain in the 12 blocks of the check.
    assert result.suspicious == [f"{moving}: service on host | default"]
    other = "throughput" if moving == "p99" else "p99"
    assert result.checks[f"{other}: service on host | default"].verdict is not Verdict.WORSE
    judged_by = tuning.parse_aims(subjects, metrics, keep)
    assert not tuning.certified([result], batch, judged_by)
    # Nothing else stands against it: p99 is 31 % lower, and throughput has a verdict.
    assert tuning.certified([replace(result, checks={})], batch, judged_by)


def test_an_export_is_refused_where_the_gain_did_not_last(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # From the certification on the service is the same under every policy.
    certify = tuning.certify

    def later(*given: Any, **options: Any) -> campaign.Result:
        (tmp_path / "service").write_text("#!/bin/sh\necho p99 100 us; echo throughput 1000\n")
        return certify(*given, **options)

    monkeypatch.setattr(tuning, "certify", later)
    (tmp_path / "service").write_text(f"#!/bin/sh\n{SERVICE}\n")
    (tmp_path / "service").chmod(0o755)
    unit = tmp_path / "service.conf"
    line = [*SEARCH, *BOTH, "--store", str(tmp_path / "runs.db"), "--export", f"systemd:{unit}"]
    assert invoke([*line, f"--command={tmp_path / 'service'}"]) == 1
    captured = capsys.readouterr()
    assert "policy=batch is not certified as better" in captured.err
    assert captured.out.splitlines()[-1].startswith("recommended: none")
    assert not unit.exists()


def test_a_stopped_search_goes_on(tmp_path: Path) -> None:
    class Stopping(Trading):
        def measure(self, target: object, under: Conditions) -> Measured:
            if self.runs == 3:
                raise KeyboardInterrupt
            return super().measure(target, under)

    with Store(tmp_path / "runs.db") as store:
        with pytest.raises(tuning.Stopped):
            _tune(Stopping(), store)
        again = Trading()
        found = _tune(again, store)
    whole = _tune(Trading())
    assert (found.stored, again.runs) == (3, whole.runs - 3)
    assert (found.best, _front(found)) == (whole.best, _front(whole))


@pytest.mark.parametrize(
    ("ends", "verdict"),
    [
        # The floor allows 0.98 and more.
        ((0.985, 0.995), Verdict.KEPT),
        ((0.985, 1.005), Verdict.KEPT),
        ((0.98, 0.99), Verdict.KEPT),
        ((0.975, 0.99), Verdict.INCONCLUSIVE),
        ((0.96, 0.979), Verdict.WORSE),
        ((1.001, 1.005), Verdict.KEPT),  # within the band of what is the same
        ((1.005, 1.03), Verdict.BETTER),
    ],
)
def test_a_floor_is_judged_by_the_whole_interval(
    ends: tuple[float, float], verdict: Verdict
) -> None:
    ratio = Estimate(math.sqrt(ends[0] * ends[1]), Interval(*ends, 0.95), 20)
    assert judge(ratio, better="higher", limit=0.98) is verdict
    turned = Estimate(1 / ratio.value, Interval(1 / ends[1], 1 / ends[0], 0.95), 20)
    assert judge(turned, better="lower", limit=1 / 0.98) is verdict


TWO = Aims((Aim("p99", (Part("service", P99),)), Aim("throughput", (Part("service", THROUGHPUT),))))
FLOORED = Aims(TWO.aims[:1], (Floor(Part("service", THROUGHPUT), 0.98),))


def _judged(verdicts: tuple[Verdict, Verdict], limit: float | None) -> campaign.Result:
    """Return a comparison of the service in which its two metrics came to these verdicts."""
    cells = [
        {"name": name, "group": "service on host", "target": "host", "values": values}
        | {"simulated": None, "setting": str(Setting(values))}
        for name, values in (("old", {}), ("new", {"policy": "batch"}))
    ]
    questions = [
        Question("old", "new", "p99"),
        Question("old", "new", "throughput", "higher")
        if limit is None
        else LimitedQuestion("old", "new", "throughput", "higher", limit=limit),
    ]
    answers = [
        sequential_experiment.Answer(
            question, Judged(Estimate(0.9, Interval(0.8, 0.95, 0.95), 12), verdict, 0.01), 12
        )
        for question, verdict in zip(questions, verdicts, strict=True)
    ]
    settled = sequential_experiment.Settled({}, answers)
    return campaign.Result("", {"cells": cells}, settled, {}, 0, "done")


def test_a_price_is_certified_where_it_is_known_and_allowed() -> None:
    better, worse, same, kept, unknown = (
        Verdict.BETTER, Verdict.WORSE, Verdict.SAME, Verdict.KEPT, Verdict.INCONCLUSIVE,
    )  # fmt: skip
    batch = Setting({"policy": "batch"})

    def ok(verdicts: tuple[Verdict, Verdict], judged_by: Aims) -> bool:
        limit = judged_by.floors[0].limit if judged_by.floors else None
        return tuning.certified([_judged(verdicts, limit)], batch, judged_by)

    assert ok((better, worse), TWO)
    assert ok((same, better), TWO)
    assert not ok((better, unknown), TWO)
    assert not ok((same, same), TWO)
    assert not ok((worse, same), TWO)
    assert ok((better, kept), FLOORED)
    # A metric that is only to be kept makes no winner.
    for refused in ((better, worse), (better, unknown), (same, better), (same, kept)):
        assert not ok(refused, FLOORED)


def test_equal_settings_are_seldom_told_apart() -> None:
    # Three settings that change nothing, by two metrics: with a band of 0 nothing is the same, and
    # any verdict is wrong. The family is wrong with probability 5 % at most: of 300 that is 15, and
    # four standard deviations above it 30.
    arms = ["default", "a", "b", "c"]
    rng = np.random.default_rng(31)

    def draw(block: int, place: int) -> dict[str, float]:
        del block, place
        return dict(zip(("p99", "throughput"), np.exp(0.03 * rng.standard_normal(2)), strict=True))

    questions = [
        Question("default", arm, metric.name, metric.better)
        for arm in arms[1:]
        for metric in (P99, THROUGHPUT)
    ]
    protocol = Protocol((12, 20), band=0.0, resamples=1000)
    wrong = 0
    for _ in range(300):
        settled = sequential_experiment.settle(dict.fromkeys(arms, draw), questions, protocol)
        wrong += any(one.judged.decided for one in settled.answers)
    assert wrong <= 30


SERVICE = (
    'case "$(chrt -p $$)" in *BATCH*) echo p99 69 us; echo throughput 988;;'
    " *IDLE*) echo p99 60 us; echo throughput 750;; *) echo p99 100 us; echo throughput 1000;; esac"
)
SEARCH = [
    *("tune", "--on", "host", "--policy", "other,batch,idle", "--by", "random"),
    *("--executions", "8", "--metric", r"p99 (?P<p99>\d+) us"),
]
BOTH = ["--metric", r"throughput (?P<throughput>\d+)"]


def _run(words: list[str], tmp_path: Path, capsys: Capture) -> str:
    script = tmp_path / "service"
    script.write_text(f"#!/bin/sh\n{SERVICE}\n")
    script.chmod(0o755)
    line = [*words, "--store", str(tmp_path / "runs.db"), f"--command={script}"]
    assert invoke(line) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_the_command_recommends_a_trade_and_exports_it(tmp_path: Path, capsys: Capture) -> None:
    unit = tmp_path / "service.conf"
    export = ["--export", f"systemd:{unit}"]
    told = _run([*SEARCH, *BOTH, *export], tmp_path, capsys)
    assert told.splitlines()[-1] == "recommended: policy=batch: p99 -31.0% for throughput -1.2%"
    assert "all 4 verdicts are right together with 95% confidence" in told
    assert "CPUSchedulingPolicy=batch" in unit.read_text()
    assert "UNCERTIFIED" not in unit.read_text()
    # What is exported is about the setting alone.
    assert "idle" not in unit.read_text()
    value = json.loads(_run([*SEARCH, *BOTH, "--json"], tmp_path, capsys))
    assert value["stored"] == value["runs"]
    assert value["recommended"] == {"policy": "batch"}
    assert value["family"] == {"verdicts": 4, "confidence": 0.95}
    assert [aim["name"] for aim in value["aims"]] == ["p99", "throughput"]
    points = {one["setting"]["policy"]: one for one in value["points"]}
    assert points["idle"]["trade"] == "p99 -40.0% for throughput -25.0%"
    assert all(one["certified"] for one in points.values())
    for ending in ("md", "html"):
        page = tmp_path / f"page.{ending}"
        line = ["report", value["experiment"], "--store", str(tmp_path / "runs.db")]
        assert invoke([*line, "--output", str(page)]) == 0
        text = page.read_text()
        assert "Recommended: policy=batch: p99 -31.0% for throughput -1.2%" in text
        assert "The Pareto front" in text
        assert ("The front of p99 and throughput" in text) == (ending == "html")
    assert invoke(line) == 0
    assert "recommended: policy=batch: p99 -31.0%" in capsys.readouterr().out


def test_a_pattern_that_is_only_to_be_kept(tmp_path: Path, capsys: Capture) -> None:
    # One aim: its floor's pattern is measured beside it, and idle, better and cheaper, is left out.
    floor = ["--keep", r"throughput (?P<throughput>\d+)>=-2%"]
    value = json.loads(_run([*SEARCH, *floor, "--json"], tmp_path, capsys))
    assert value["best"] == value["recommended"] == {"policy": "batch"}
    assert [one["judged"]["verdict"] for one in value["verified"]["answers"]] == ["better", "kept"]
    assert value["verified"]["answers"][1]["question"]["limit"] == 0.98
    strict = ["--keep", r"throughput (?P<throughput>\d+)>=-1%"]
    value = json.loads(_run([*SEARCH, *strict, "--json"], tmp_path, capsys))
    assert (value["best"], value["recommended"]) == ({}, None)


def test_metrics_of_a_command_are_named_by_their_groups() -> None:
    one = Command(("true",), r"p99 (?P<p99>\d+) us", None, ((r"frames (\d+)", "higher"),))
    named = [(metric.name, metric.better) for metric in one.metrics[:3]]
    assert named == [("p99", "lower"), ("metric 2", "higher"), ("seconds", "lower")]
    assert one.definition()["also"] == [{"pattern": r"frames (\d+)", "better": "higher"}]
    with pytest.raises(InputError, match="'p99' is there twice"):
        Command(("true",), r"p99 (?P<p99>\d+) us", None, ((r"99th (?P<p99>\d+) us", None),))
    with pytest.raises(InputError, match="cannot be searched together"):
        Command(("true",), r"(?i)time (.*)", None, ((r"(?i)latency (.*)", None),))
