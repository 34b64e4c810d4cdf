"""The criteria of rankings, and that each of their bounds can fail."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import numpy as np
import pytest

from fidelity import places
from fidelity.observation import FloatArray, Observation
from fidelity.prediction import Finding, Line, Register, judge
from fidelity.prediction import collect as collecting
from fidelity.prediction.collect import Collected, jobs
from fidelity.prediction.judge import find
from fidelity.prediction.page import figures, page
from fidelity.prediction.ranking import ranks
from fidelity.run_store import RunStore
from fidelity.scatter import Picture
from schedlab.boundary.errors import InputError, RunError
from schedlab.measure.calibration import Calibration
from schedlab.model import Costs, Scheduler, Workload

FILE = Path(__file__).parents[2] / "validation" / "prediction.toml"
SMALL = """
[protocol]
repeats = 3
simulated = 3
[rules]
why = "Settings that differ by less than a fiftieth are not worth a choice."
correlation = 0.8
difference = 0.02
best = 0.1
[workloads.pi]
run = "pi:tasks=2"
why = "computing and nothing besides it"
[places."vm:6.1"]
settings = [{}, { policy = "batch" }, { knobs = { latency = "1ms" } }]
[[lines]]
workloads = ["pi"]
places = ["vm:6.1"]
measures = ["turnaround", "switches"]
"""


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILE.parent.parent)


def _register() -> Register:
    return Register.read(FILE)


def _runs(medians: list[float]) -> FloatArray:
    """Return three runs of each setting, without any noise."""
    return np.repeat(np.array(medians)[:, None], 3, axis=1)


def _held(real: list[float], simulated: list[float], line: Line | None = None) -> Finding:
    names = [f"setting {number}" for number in range(len(real))]
    what = line or Line(workload="pi", place="vm:6.1", measure="turnaround")
    return find(what, _register().rules, names, _runs(real), _runs(simulated))


UP = [100.0 + 10 * number for number in range(20)]


def test_the_file_is_as_the_issue_asks() -> None:
    register = _register()
    assert register.rules.correlation == 0.8
    assert register.rules.best == 0.1
    for place, release in (("vm:6.1", "6.1"), ("vm:6.12", "6.12"), ("host", "7.2")):
        assert len(register.settings(place)) >= 20
        assert len(register.at(place)) >= 4
        # Every setting is one of that kernel's.
        for setting in register.settings(place):
            if setting.knobs:
                Scheduler(release, knobs=setting.knobs)
            assert setting.name
    for part in register.workloads.values():
        assert part.workload.json


def test_runs_are_recorded_where_waiting_times_are_ranked_and_as_often_as_a_place_asks() -> None:
    other = """
[places."vm:6.12"]
repeats = 5
settings = [{}, { policy = "batch" }]
[[lines]]
workloads = ["pi"]
places = ["vm:6.12"]
measures = ["p99"]
"""
    register = Register.parse(SMALL + other)
    here, there = jobs(register, "vm:6.1"), jobs(register, "vm:6.12")
    # Three settings three times as the protocol has it, and two five times as the place has it.
    assert (len(here), len(there)) == (9, 10)
    assert not any(job.recorded for job in here)
    assert all(job.recorded for job in there)
    assert [len(jobs(register.repeating(2), place)) for place in register.places] == [6, 4]
    # Of three settings the first and the third; of two the first alone, which has no ranking.
    first = register.places[0]
    settings = register.settings(first)
    assert register.of([first], []).thinned(2).settings(first) == (settings[0], settings[2])
    with pytest.raises(InputError, match="--every 2 leaves one setting"):
        register.thinned(2)


def test_a_run_that_fails_is_left_out_and_the_others_are_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    boots: list[object] = []
    register = Register.parse(SMALL)

    class Place:
        kernel, clock = "6.1.0", "instructions"

        def __init__(self) -> None:
            boots.append(self)

        def knobs(self, _wanted: object) -> AbstractContextManager[None]:
            return nullcontext()

        def run(self, workload: Workload, *, seed: int) -> Observation:
            assert seed > 0
            if "batch" in workload.json:
                raise RunError("it hangs")
            return Observation({}, {"turnaround": 1.0})

    @contextmanager
    def at(_place: str) -> Iterator[object]:
        yield Place()

    monkeypatch.setattr(collecting, "at", at)
    told: list[str] = []
    kept = RunStore(tmp_path, "vm:6.1")
    todo = jobs(register, "vm:6.1")
    collecting._run("vm:6.1", kept, todo, told.append)
    # Three runs of each setting but of the one that hangs, after each of which it boots again.
    assert sum(kept.find(job.key) is not None for job in todo) == 6
    assert len(boots) == 4
    assert sum("it hangs" in line for line in told) == 3
    monkeypatch.setattr(collecting, "FAILURES", 3)
    with pytest.raises(RunError, match="it hangs"):
        collecting._run("vm:6.1", kept, todo, told.append)


def test_costs_are_medians_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    switches = [3000, 1000, 2000, 9000]

    class Place:
        def calibrate(self, *, recorded: str | None, quick: bool) -> Calibration:
            assert (recorded, quick) == (places.WAITS, False)
            return Calibration(Costs("measured", {"switch": switches.pop()}))

    @contextmanager
    def at(_place: str) -> Iterator[object]:
        yield Place()

    monkeypatch.setattr(places, "at", at)
    kept = RunStore(tmp_path, "vm:6.1")
    with pytest.raises(InputError, match="never measured"):
        kept.costs(recorded=True, anew=None)
    # Of 9, 2 and 1 us, the last three of the list.
    assert kept.costs(recorded=True, anew=places.Anew(3)).costs.times["switch"] == 2000
    # Found again: the fourth of the list is still there.
    assert kept.costs(recorded=True, anew=places.Anew(3)).costs.times["switch"] == 2000
    assert switches == [3000]


def test_rankings_that_agree_hold_and_others_fail() -> None:
    agrees = _held(UP, [2 * value for value in UP])
    assert agrees.holds
    assert agrees.correlation == pytest.approx(1.0)
    assert agrees.rank == 1
    # Upside down, the best one in simulation is the worst really.
    reverse = _held(UP, UP[::-1])
    assert reverse.correlation == pytest.approx(-1.0)
    assert "rank correlation -1.00" in reverse.failure
    assert "really 20, not 2" in reverse.failure


def test_a_correlation_just_below_the_bound_fails() -> None:
    # Spearman's is 1 - 6 sum(d^2) / (n (n^2 - 1)): with 20 settings, of which the last k come in
    # reverse, sum(d^2) is k (k^2 - 1) / 3. For 11 that is 440, and 1 - 2640 / 7980 is 0.669; for 9
    # 240, and 0.820.
    ours = list(UP)
    assert _held(UP, ours[:9] + ours[9:][::-1]).failure.startswith("rank correlation 0.67")
    assert _held(UP, ours[:11] + ours[11:][::-1]).holds


# Six settings of their own, and eighteen that are within half a per cent of each other.
CLOSE = [100.0 + 20 * number for number in range(6)] + [300 + 0.05 * x for x in range(18)]


def test_settings_as_good_as_each_other_are_not_ranked_by_chance() -> None:
    # The eighteen come in reverse in simulation. By Spearman's formula, in which sum(d^2) is then
    # 18 (18^2 - 1) / 3 = 1938, that is 1 - 6 * 1938 / (24 * 575) = 0.157; but no user would choose
    # between them, and all else agrees.
    found = _held(CLOSE, CLOSE[:6] + CLOSE[6:][::-1])
    assert found.plain == pytest.approx(1 - 6 * 1938 / (24 * 575))
    assert found.correlation == 1.0
    assert found.holds
    assert not found.holds_untied
    # The same runs over again agree with themselves whatever chance does.
    assert found.own == 1.0


def test_a_simulation_that_sees_differences_where_there_are_none_fails() -> None:
    # The eighteen are far apart in simulation. Their real rank is the mean of their simulated ones,
    # so the correlation is the root of the ratio of both sums of squares: all of them,
    # (24^3 - 24) / 12 = 1150, less those of the eighteen, (18^3 - 18) / 12 = 484.5.
    found = _held(CLOSE, CLOSE[:6] + [300 + 20.0 * number for number in range(18)])
    assert found.correlation == pytest.approx(((1150 - 484.5) / 1150) ** 0.5)
    assert "rank correlation 0.76" in found.failure


def test_a_simulation_that_sees_no_difference_fails() -> None:
    # As before, with what is real and what is simulated exchanged; all equal agree with nothing.
    spread = CLOSE[:6] + [300 + 20.0 * number for number in range(18)]
    assert "rank correlation 0.76" in _held(spread, CLOSE).failure
    assert "rank correlation 0.00" in _held(spread, [100.0] * 24).failure


def test_a_setting_near_two_that_differ_is_between_them() -> None:
    # 100 and 103 differ, 101.5 is near both: it has one clearly less or more, and two it is near.
    assert ranks(np.array([100.0, 101.5, 103.0]), 0.02).tolist() == [1.5, 2.0, 2.5]


def test_the_best_in_simulation_must_be_among_the_best_tenth() -> None:
    # Of 20 settings two are allowed: the third best fails, though the ranks agree otherwise.
    third = list(UP)
    third[2] = 50.0
    assert "really 3, not 2" in _held(UP, third).failure
    second = list(UP)
    second[1] = 50.0
    assert _held(UP, second).holds


def test_settings_as_good_as_the_best_count_as_the_best() -> None:
    # The first ten are within one per cent of each other.
    real = [100 + 0.1 * number for number in range(10)] + [200.0 + number for number in range(10)]
    ours = list(real)
    ours[9] = 50.0
    assert _held(real, ours).rank == 1


def test_where_real_settings_do_not_differ_simulated_ones_may_not() -> None:
    flat = [100.0 + 0.01 * number for number in range(20)]
    assert _held(flat, flat[::-1]).holds
    assert "simulated settings differ by" in _held(flat, UP).failure


def test_noise_is_no_difference() -> None:
    generator = np.random.default_rng(1)
    noisy = 100 * np.exp(generator.normal(0, 0.3, size=(20, 3)))
    line = Line(workload="pi", place="vm:6.1", measure="turnaround")
    names = [str(number) for number in range(20)]
    found = find(line, _register().rules, names, noisy, _runs([100.0] * 20))
    assert found.noise > 0.3
    if found.correlation is None:
        assert found.holds


def test_a_known_divergence_fails_when_it_goes() -> None:
    line = Line(
        workload="pi",
        place="vm:6.1",
        measure="turnaround",
        correlation=(-1.0, 0.5),
        cause="something",
    )
    assert _held(UP, UP[::-1], line).holds
    assert not _held(UP, UP, line).holds


def _observed(value: float) -> Observation:
    return Observation({}, {"turnaround": value, "voluntary": value, "involuntary": 0.0})


def _waiting(voluntary: float, **values: float) -> Observation:
    return Observation({"a": 0.5, "b": 0.5}, {"voluntary": voluntary, **values})


@pytest.mark.parametrize(
    ("real", "simulated", "unranked"),
    [
        # Two tasks, each woken once to begin, and no task woken in simulation: nothing to rank.
        (_waiting(2, p99=5.0), _waiting(0), ("batch",)),
        (_waiting(0), _waiting(2, p99=5.0), ("batch",)),
        (_waiting(0), _waiting(0), ("batch",)),
        (_waiting(2, p99=5.0), _waiting(2, p99=5.0), ("batch",)),
        # Woken again and again on one side, and never on the other: that is no ranking.
        (_waiting(3, p99=5.0), _waiting(0), ()),
        (_waiting(0), _waiting(3, p99=5.0), ()),
    ],
)
def test_settings_without_wakeups_are_not_ranked(
    real: Observation, simulated: Observation, unranked: tuple[str, ...]
) -> None:
    register = Register.parse(SMALL.replace('"turnaround", "switches"', '"p99"'))
    others = {
        ("pi", name): [_waiting(500, p99=value)] * 3
        for name, value in (("defaults", 3e6), ("latency=1ms", 1e6))
    }
    key = ("pi", "batch")
    there = Collected(
        "6.1", "instructions", {**others, key: [real] * 3}, {**others, key: [simulated] * 3}
    )
    (finding,) = judge(register, {"vm:6.1": there})
    assert finding.unranked == unranked
    if unranked:
        assert finding.holds
        assert finding.settings == ("defaults", "latency=1ms")
        text = page(register, {"vm:6.1": there}, [finding], {}, whole=1)
        assert "* pi, vm:6.1, p99: `batch`" in text
    else:
        assert finding.failure == "runs are missing, or have no such data"


def test_the_page_tells_of_every_ranking() -> None:
    register = Register.parse(SMALL)
    names = [setting.name for setting in register.settings("vm:6.1")]
    assert names == ["defaults", "batch", "latency=1ms"]
    runs = {
        ("pi", name): [_observed(100.0 * number)] * 3 for number, name in enumerate(names, start=1)
    }
    there = Collected("6.1.0-50-amd64", "instructions", runs, runs)
    findings = judge(register, {"vm:6.1": there})
    assert all(finding.holds for finding in findings)
    text = page(
        register, {"vm:6.1": there}, findings, {"a.svg": Picture("", "a panel a workload")}, whole=2
    )
    assert "no part" not in text
    assert "**2 of 2 rankings within tolerance, 0 known to diverge, 0 fail.**" in text
    assert "0 would fail." in text
    assert "| pi | vm:6.1 | turnaround | 200.0% | 0.0% | 1.00" in text
    assert "turnaround" in figures(findings)["vm:6.1"].svg
    # Without runs nothing holds.
    short = Collected("", "", {key: value[:2] for key, value in runs.items()}, runs)
    failures = {finding.failure for finding in judge(register, {"vm:6.1": short})}
    assert failures == {"runs are missing, or have no such data"}
    assert not any(finding.holds for finding in judge(register, {"vm:6.1": "no QEMU"}))


def test_each_setting_runs_once_a_block_under_its_own_attributes() -> None:
    register = Register.parse(SMALL)
    todo = jobs(register, "vm:6.1")
    assert [job.block for job in todo] == [0] * 3 + [1] * 3 + [2] * 3
    assert len({job.key for job in todo}) == 9
    assert any("batch" in job.workload.json for job in todo)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('places = ["vm:6.1"]', 'places = ["host"]', "no settings of place 'host'"),
        ('workloads = ["pi"]', 'workloads = ["po"]', "no workload 'po'"),
        ('policy = "batch"', 'policy = "other"', "a setting is there twice"),
        ('"switches"]', '"switches"]\ncause = "x"', "a correlation and a cause"),
        ("repeats = 3", "repeats = 1", "protocol.repeats"),
    ],
)
def test_what_is_wrong_in_the_file_is_said(old: str, new: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Register.parse(SMALL.replace(old, new))
