"""The criteria of behaviour, and that each of its bounds can fail."""

import tomllib
from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.needs import recordable

from fidelity import noise
from fidelity.behaviour import Line, Register, judge
from fidelity.behaviour import collect as collecting
from fidelity.behaviour.__main__ import main
from fidelity.behaviour.collect import Collected, jobs
from fidelity.behaviour.judge import Finding, find
from fidelity.behaviour.page import figure, page
from fidelity.observation import METRICS, RECORDED, Metric, Observation, distance, medians
from fidelity.places import Anew
from fidelity.scatter import Picture
from schedlab.boundary.errors import InputError
from schedlab.measure.calibration import Calibration
from schedlab.model import Costs

VALIDATION = Path(__file__).parents[2] / "validation"
REGISTER = Register.read(VALIDATION / "behaviour.toml")

SMALL = """
[protocol]
repeats = 3
simulated = 3
noise = 6
[workloads.pi]
run = "pi:tasks=2"
why = "computing and nothing besides it"
[tolerances.stated]
why = "As far apart as a user would notice, which is a tenth."
limits = { share = 0.01, turnaround = 0.1 }
[[lines]]
workloads = ["pi"]
places = ["vm:6.1", "host"]
metrics = ["share", "turnaround"]
tolerance = "stated"
"""

PINNED = """tolerance = "stated"
verdict = "known divergence"
size = { share = [0.1, 0.2], turnaround = [0.3, 0.4] }
cause = "something that was seen"
"""


def _observed(value: float = 100.0, share: float = 0.5) -> Observation:
    """Return a run in which every metric but the shares has one value."""
    values: dict[str, float] = {metric: value for metric in METRICS if metric != "share"}
    return Observation({"a": share, "b": 1 - share}, values)


def _apart(metric: Metric, by: float) -> Observation:
    """Return a run that is so far from `_observed()`."""
    return _observed(share=0.5 + by) if metric == "share" else _observed(100.0 * (1 + by))


def _held(line: Line, by: float, noise: float = 0.0) -> Finding:
    return find(line, noise, [_observed()] * 3, [_apart(line.metric, by)] * 3, draws=1)


@pytest.mark.parametrize("line", REGISTER.lines, ids=lambda line: str(line.metric) + line.place)
def test_each_line_of_the_file_can_hold_and_fail(line: Line) -> None:
    low, high = line.size or (0.0, line.limit)
    assert _held(line, (low + high) / 2).holds
    assert not _held(line, high + 0.001).holds
    if line.size is not None:
        assert "is gone" in _held(line, max(0.0, low - 0.001)).failure
    # Nothing that was compared is nothing that agrees.
    assert find(line, 0.0, [], []).failure == "nothing was compared"
    assert find(line, 0.0, [_observed()] * 3, [Observation({}, {})] * 3).failure
    assert find(line, 0.0, [Observation({}, {})] * 3, [_observed()] * 3).failure


def test_the_file_is_as_the_issue_asks() -> None:
    limits = REGISTER.tolerances["stated"].limits
    assert limits == {
        "share": 0.01,
        "voluntary": 0.1,
        "involuntary": 0.1,
        "turnaround": 0.1,
        "p50": 0.2,
        "p99": 0.2,
    }
    for line in REGISTER.lines:
        assert line.limit == limits[line.metric]
        # What is known to diverge lies outside of what would agree.
        assert line.size is None or line.size[1] > line.limit
    # Every workload can be built; rt-app's examples where that is installed.
    for part in REGISTER.workloads.values():
        example = Path(part.run)
        assert not example.is_absolute() or example.is_relative_to("/usr/share/doc/rt-app/examples")
        if not example.is_absolute() or example.exists():
            assert part.workload.json


def test_every_program_of_the_issue_has_lines_on_every_kernel() -> None:
    programs = ("hackbench", "pi", "copy", "mixed", "schbench", "http", "aio", "pipe")
    examples = {name for name, part in REGISTER.workloads.items() if "rt-app" in part.run}
    assert len(examples) >= 7
    # Three of them run on this machine, too.
    here = {"mp3", "browser", "memory"}
    for place in ("vm:5.10", "vm:6.1", "vm:6.12", "vm:7.2", "host"):
        there = {(line.workload, line.metric) for line in REGISTER.lines if line.place == place}
        for name in (*programs, *(here if place == "host" else examples)):
            # No task is woken where none sleeps.
            metrics = [metric for metric in METRICS if name != "pi" or metric not in RECORDED]
            assert all((name, metric) in there for metric in metrics), (name, place)


def test_a_kernel_that_is_noisier_than_the_tolerance_widens_it() -> None:
    line = Line(workload="pi", place="host", metric="turnaround", limit=0.1)
    assert not _held(line, 0.15).holds
    assert _held(line, 0.15, noise=0.2).holds
    # A quieter one narrows nothing.
    assert _held(line, 0.09, noise=0.01).holds
    # What is known to diverge has its own range.
    pinned = line.model_copy(update={"size": (0.3, 0.4), "cause": "something"})
    assert not _held(pinned, 0.15, noise=0.2).holds


def test_shares_differ_by_points_and_all_else_by_parts() -> None:
    real = Observation({"a": 0.6, "b": 0.4}, {"turnaround": 200.0, "p50": 10.0})
    ours = Observation({"a": 0.57, "b": 0.43}, {"turnaround": 190.0, "p50": 13.0})
    assert distance("share", ours, real) == pytest.approx(0.03)
    assert distance("turnaround", ours, real) == pytest.approx(0.05)
    assert distance("p50", ours, real) == pytest.approx(0.3)
    assert distance("p99", ours, real) is None
    # Other tasks cannot be compared.
    assert distance("share", Observation({"a": 1.0}, {}), real) is None


def test_few_switches_of_a_kind_are_related_to_all() -> None:
    real = Observation({}, {"voluntary": 990.0, "involuntary": 10.0})
    ours = Observation({}, {"voluntary": 990.0, "involuntary": 25.0})
    # 15 more of 10, but a tenth of all 1000 is 100.
    assert distance("involuntary", ours, real) == pytest.approx(0.15)
    assert distance("voluntary", ours, real) == 0.0
    assert distance("voluntary", ours, Observation({}, {"voluntary": 0, "involuntary": 0})) is None


def test_medians_leave_out_what_a_run_has_not() -> None:
    runs = [_observed(1.0), _observed(5.0), Observation({"a": 1.0}, {"turnaround": 9.0})]
    middle = medians(runs)
    assert middle.values == {"turnaround": 5.0}
    assert middle.shares == {"a": 0.5}


def test_the_kernels_own_interval_is_what_two_sets_differ_by() -> None:
    # Of one run each, drawn from 100 and 110 in equal numbers, half of the pairs differ: by 10 of
    # 110 or of 100.
    runs = [_observed(value) for value in (100.0, 110.0) * 3]
    assert noise.interval("turnaround", runs, 1) == pytest.approx(0.1)
    assert noise.interval("p50", [Observation({}, {})] * 6, 3) is None


def test_what_was_fixed_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "noise.toml"
    assert noise.read(path) == {}
    fixed: noise.Noise = {("vm:6.1", "pi"): {"share": 0.01, "p99": 0.25}}
    noise.write(path, fixed)
    assert noise.read(path) == fixed
    path.write_text("[[", encoding="utf-8")
    with pytest.raises(InputError, match=r"noise\.toml"):
        noise.read(path)


def test_what_is_fixed_belongs_to_lines_of_the_file() -> None:
    lines = {(line.place, line.workload) for line in REGISTER.lines}
    for key in noise.read(VALIDATION / "behaviour-noise.toml"):
        assert key in lines


def test_a_and_a_runs_come_before_those_that_are_judged() -> None:
    register = Register.parse(SMALL)
    todo = jobs(register, "vm:6.1", noise=2, judged=1)
    assert [job.block for job in todo] == ["noise 0", "noise 1", "judged 0"]
    # Nothing of it needs a recording, and no two are one.
    assert not any(job.recorded for job in todo)
    assert len({job.key for job in todo}) == 3
    # What is fixed already is not measured again, and the others' runs stay what they were.
    left = jobs(register, "vm:6.1", noise=2, judged=1, fixed=["pi"])
    assert left == todo[2:]
    assert jobs(register, "vm:6.1", noise=2, judged=1, fixed=["other"]) == todo


class _WithHoles:
    """A place whose recordings have holes."""

    name = "host"
    kernel = "6.1.0-50-amd64"
    clock = "host"

    def calibrate(self, **_: object) -> Calibration:
        return Calibration(Costs.load("ideal"), kernel=self.kernel, cpus=1, hz=250)

    def pause(self, _: float) -> None:
        pass

    def run(self, *_: object, **__: object) -> Observation:
        return Observation({"ping": 0.5, "pong": 0.5}, {"turnaround": 100.0})

    def record(self, *_: object, **__: object) -> Observation:
        raise InputError("the kernel lost events")


@recordable
def test_where_recordings_are_refused_the_rest_is_still_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = SMALL.replace("pi:tasks=2", "pipe:loops=1").replace('"share"', '"p50"')
    text = text.replace("limits = { share", "limits = { p50")
    register = Register.parse(text).of(["host"])
    monkeypatch.setattr(collecting, "at", lambda _: nullcontext(_WithHoles()))
    told: list[str] = []
    there = collecting.collect(register, "host", tmp_path, told.append, anew=Anew(1, quick=True))
    assert isinstance(there, Collected)
    assert len([line for line in told if "not recorded: the kernel lost events" in line]) == 9
    assert len(there.real["pi"]) == 3
    failures = {
        finding.line.metric: finding.failure for finding in judge(register, {"host": there}, {})
    }
    assert failures["p50"] == "nothing was compared"
    assert "apart" in failures["turnaround"]


@recordable
def test_the_kernels_own_intervals_are_fixed_before_anything_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, intervals = tmp_path / "lines.toml", tmp_path / "noise.toml"
    file.write_text(SMALL, encoding="utf-8")
    monkeypatch.setattr(collecting, "at", lambda _: nullcontext(_WithHoles()))
    arguments = [str(file), "--noise", str(intervals), "--directory", str(tmp_path)]
    arguments += ["--calibrations", "1", "--quick"]
    assert main([*arguments, "--place", "host", "--fix"]) == 0
    # All its runs are the same, and none of them is one that is judged.
    assert noise.read(intervals) == {("host", "pi"): {"share": 0.0, "turnaround": 0.0}}
    assert len((tmp_path / "host.jsonl").read_text(encoding="utf-8").splitlines()) == 6
    # Afterwards only those are made.
    fixed = intervals.read_text(encoding="utf-8")
    main([*arguments, "--place", "host"])
    assert len((tmp_path / "host.jsonl").read_text(encoding="utf-8").splitlines()) == 6 + 3
    assert intervals.read_text(encoding="utf-8") == fixed


def test_the_page_tells_what_fails_and_what_was_not_run() -> None:
    register = Register.parse(SMALL)
    there = Collected(
        kernel="6.1.0-50-amd64",
        clock="instructions",
        costs=Calibration(Costs.load("ideal")),
        noise={},
        real={"pi": [_observed()] * 3},
        simulated={"pi": [_observed(150.0)] * 3},
    )
    collected: dict[str, Collected | str] = {"vm:6.1": there, "host": "no root"}
    findings = judge(register, collected, {})
    assert [finding.holds for finding in findings] == [True, False, False, False]
    text = page(register, collected, findings, {"figure.svg": Picture("", "six panels")}, whole=9)
    assert "5 of all 9 lines" in text
    assert "**1 of 4 criteria within tolerance, 0 known to diverge, 3 fail.**" in text
    assert "turnaround: 50.0 % apart, allowed 10.0 %" in text
    assert "not run: no root" in text
    drawn = figure(register, collected, findings)
    assert "CPU shares" in drawn.svg
    assert "CPU shares" in drawn.alternative


def test_too_few_real_runs_are_no_data() -> None:
    register = Register.parse(SMALL).of(["vm:6.1"])
    there = Collected(
        kernel="",
        clock="",
        costs=Calibration(Costs.load("ideal")),
        noise={},
        real={"pi": [_observed()] * 2},
        simulated={"pi": [_observed()] * 3},
    )
    failures = {finding.failure for finding in judge(register, {"vm:6.1": there}, {})}
    assert failures == {"2 of 3 real runs"}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('places = ["vm:6.1", "host"]', 'places = ["moon"]', "allowed: host, vm:SERIES"),
        ('workloads = ["pi"]', 'workloads = ["po"]', "no workload 'po'"),
        ('tolerance = "stated"', 'tolerance = "loose"', "no tolerance 'loose'"),
        ('"turnaround"]', '"p50"]', "has no limit of p50"),
        ("repeats = 3", "repeats = 1", "protocol.repeats"),
        ('tolerance = "stated"', 'tolerance = "stated"\nsize = [0.1, 0.2]', "a size and a cause"),
        ('tolerance = "stated"', PINNED.replace("share = [0.1, 0.2], ", ""), "sizes by metric"),
        ('tolerance = "stated"', PINNED.replace("0.3, 0.4", "0.4, 0.3"), "from above 0 to no less"),
    ],
)
def test_what_is_wrong_in_the_file_is_said(old: str, new: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Register.parse(SMALL.replace(old, new))


def test_a_cause_that_lines_share_may_make_each_as_far_apart_as_its_own_size_says() -> None:
    lines = Register.parse(SMALL.replace('tolerance = "stated"', PINNED)).lines
    sizes = {(line.place, line.metric): line.size for line in lines}
    for place in ("vm:6.1", "host"):
        assert sizes[place, "share"] == (0.1, 0.2)
        assert sizes[place, "turnaround"] == (0.3, 0.4)
    assert {line.cause for line in lines} == {"something that was seen"}


def test_a_line_that_is_there_twice_is_refused() -> None:
    lines = SMALL[SMALL.index("[[lines]]") :]
    with pytest.raises(InputError, match="twice"):
        Register.parse(SMALL + lines)
    assert tomllib.loads(SMALL)
