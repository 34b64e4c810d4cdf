"""The criteria of what-if predictions, and that every bound can fail."""

import dataclasses
import gzip
import itertools
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest

from fidelity.scatter import Picture
from fidelity.whatif import collect as collecting
from fidelity.whatif import noise
from fidelity.whatif.collect import Collected, Pair, in_roles, predict, roles
from fidelity.whatif.judge import find, judge
from fidelity.whatif.page import figure, page
from fidelity.whatif.register import METRICS, Line, Metric, Register
from schedlab.boundary.errors import InputError
from schedlab.measure.inference import Behaviour, Inferred, Latency, TaskBehaviour
from schedlab.model import Costs, Scheduler

DRAWN = Picture("", "three panels")
ROOT = Path(__file__).parents[2]
REGISTER = Register.read(ROOT / "validation/what-if.toml")


def _behaviour(shares: dict[str, float], switches: int, p99: int, count: int = 100) -> Behaviour:
    latency = Latency(count, p99 // 2, p99, p99)
    tasks = {
        name: TaskBehaviour(name, round(share * 1e9), 0, 0, 0, 0, latency)
        for name, share in shares.items()
    }
    return Behaviour(10**9, switches, 0, latency, tasks)


REAL = _behaviour({"a": 0.5, "b": 0.3}, 1000, 1_000_000)


def _line(metric: Metric, size: tuple[float, float] | None = None) -> Line:
    limit = {"shares": 2.0, "switches": 0.15, "p99 latency": 0.3}[metric]
    cause = "" if size is None else "a reason"
    return Line(
        workload="w",
        change="c",
        place="vm:6.1",
        metric=metric,
        limit=limit,
        size=size,
        cause=cause,
    )


# Just inside and just outside: 0.5 + 2 points; 1000 + 15 %; 1 ms + 30 %.
EDGES: list[tuple[Metric, Behaviour, Behaviour]] = [
    (
        "shares",
        _behaviour({"a": 0.5199, "b": 0.3}, 0, 0),
        _behaviour({"a": 0.5, "b": 0.3201}, 0, 0),
    ),
    ("switches", _behaviour({}, 1150, 0), _behaviour({}, 849, 0)),
    ("p99 latency", _behaviour({}, 0, 1_300_000), _behaviour({}, 0, 699_999)),
]


@pytest.mark.parametrize(("metric", "inside", "outside"), EDGES)
def test_every_bound_can_fail(metric: Metric, inside: Behaviour, outside: Behaviour) -> None:
    assert find(_line(metric), Pair(REAL, inside), 0.0).holds
    found = find(_line(metric), Pair(REAL, outside), 0.0)
    assert not found.holds
    assert "allowed" in found.failure


@pytest.mark.parametrize(
    ("metric", "within", "beyond"),
    [
        (
            "shares",
            _behaviour({"a": 0.5299, "b": 0.3}, 0, 0),
            _behaviour({"a": 0.5301, "b": 0.3}, 0, 0),
        ),
        ("switches", _behaviour({}, 1250, 0), _behaviour({}, 1251, 0)),
        ("p99 latency", _behaviour({}, 0, 1_400_000), _behaviour({}, 0, 1_400_001)),
    ],
)
def test_where_the_kernel_is_further_from_itself_that_is_the_bound(
    metric: Metric, within: Behaviour, beyond: Behaviour
) -> None:
    noise = {"shares": 3.0, "switches": 0.25, "p99 latency": 0.4}[metric]
    assert not find(_line(metric), Pair(REAL, within), 0.0).holds
    assert find(_line(metric), Pair(REAL, within), noise).holds
    assert not find(_line(metric), Pair(REAL, beyond), noise).holds
    # Less than what is stated changes nothing, and a pinned divergence is as it was pinned.
    assert find(_line(metric), Pair(REAL, within), 0.01).allowed.high == _line(metric).limit
    assert find(_line(metric, (0.01, 0.02)), Pair(REAL, within), noise).allowed.high == 0.02


def test_the_kernel_is_as_far_from_itself_as_the_furthest_two() -> None:
    # Of 1000, 1100 and 1200 switches the furthest are 200 apart: of 1000 that is a fifth.
    runs = [_behaviour({"a": 0.5, "b": 0.3}, count, 1_000_000) for count in (1000, 1200, 1100)]
    runs[1] = dataclasses.replace(runs[1], tasks=_behaviour({"a": 0.45, "b": 0.32}, 0, 0).tasks)
    found = noise.apart(runs)
    assert found == pytest.approx({"shares": 5.0, "switches": 0.2, "p99 latency": 0.0})
    assert noise.apart(runs[:1]) == {}


def test_what_is_fixed_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "noise.toml"
    assert noise.read(path) == {}
    fixed: noise.Noise = {("vm:6.12", "stages", "policy"): {"switches": 0.125, "p99 latency": 0.5}}
    noise.write(path, fixed)
    assert noise.read(path) == fixed
    path.write_text("a = 1")
    with pytest.raises(InputError, match=r"noise\.toml"):
        noise.read(path)


class _Visited:
    """A place that records nothing but what it was asked for."""

    def __init__(self, asked: list[str]) -> None:
        self._asked = asked

    def knobs(self, wanted: object) -> AbstractContextManager[None]:
        self._asked.append(str(wanted))
        return nullcontext()

    def record_to(self, path: Path, _workload: object) -> None:
        path.write_text(path.name)


def test_what_is_not_fixed_is_recorded_several_times_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []
    switches = iter([1000, 1100, 1300])

    @contextmanager
    def at(_place: str) -> Iterator[_Visited]:
        yield _Visited(asked)

    def look(_protocol: object, path: Path, _costs: object) -> Inferred:
        assert path.name.startswith("vm-6.12-stages-policy-again-")
        found = _behaviour({"a": 0.5}, next(switches), 10)
        return Inferred("", {}, "time", None, None, 0, found)

    monkeypatch.setattr(collecting, "at", at)
    monkeypatch.setattr(collecting, "_look", look)
    known: noise.Noise = {
        (line.place, line.workload, line.change): {}
        for line in REGISTER.lines
        if (line.workload, line.change) != ("stages", "policy")
    }
    found = collecting.fix(REGISTER, "vm:6.12", tmp_path, known, lambda _: None)
    assert len(asked) == REGISTER.protocol.noise == 3
    # 300 of 1000.
    assert found["vm:6.12", "stages", "policy"]["switches"] == pytest.approx(0.3)
    # Once fixed it is not measured again.
    assert collecting.fix(REGISTER, "vm:6.12", tmp_path, found, lambda _: None) == found
    assert len(asked) == 3


@pytest.mark.parametrize("metric", METRICS)
def test_nothing_holds_by_being_empty(metric: Metric) -> None:
    nothing = dataclasses.replace(_behaviour({}, 0, 0, count=0), elapsed_ns=0)
    assert find(_line(metric), Pair(nothing, nothing), 0.0).failure == "nothing was compared"
    assert find(_line(metric), "no guest", 0.0).failure == "no guest"
    findings = judge(REGISTER, {}, {})
    assert findings
    assert not any(finding.holds for finding in findings)


def test_a_known_divergence_fails_when_it_moves_and_when_it_is_gone() -> None:
    line = _line("switches", (0.2, 0.3))
    for switches, holds in ((1250, True), (1310, False), (1100, False)):
        assert find(line, Pair(REAL, _behaviour({}, switches, 0)), 0.0).holds == holds
    assert "is gone" in find(line, Pair(REAL, _behaviour({}, 1100, 0)), 0.0).failure


def test_the_file_has_what_is_asked_for() -> None:
    """Three workloads, each with a knob, a policy and a weight, under the stated tolerances.

    And guests of two, four and eight CPUs.
    """
    stated = {"shares": 2.0, "switches": 0.15, "p99 latency": 0.3}
    assert REGISTER.at("vm:6.1") == REGISTER.at("vm:6.12") == ("serving", "locks", "stages")
    for cpus, name in ((2, "serving"), (4, "crowded"), (8, "crowded")):
        assert REGISTER.at(f"vm:6.12:cpus={cpus}") == (name,)
    for name, (place, knob) in itertools.product(
        REGISTER.at("vm:6.1"), (("vm:6.1", "knob"), ("vm:6.12", "slice"))
    ):
        asked = {
            (line.change, line.metric): line.limit
            for line in REGISTER.lines
            if (line.workload, line.place) == (name, place)
        }
        changes = ("recorded", knob, "policy", "weight")
        assert asked == {(c, m): stated[m] for c in changes for m in METRICS}
    # On 6.1 known divergences are of latencies that are the kernel's own path alone.
    pinned = {
        (line.workload, line.metric)
        for line in REGISTER.lines
        if line.size is not None and line.place == "vm:6.1"
    }
    assert pinned == {("stages", "p99 latency")}
    for change in REGISTER.changes:
        assert bool(change.knobs) != bool(change.tasks)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('tolerance = "stated"', 'toleranc = "stated"', "toleranc"),
        ('tolerance = "stated"', 'tolerance = "loose"', "no tolerance 'loose'"),
        ('"recorded", "knob"', '"recorded", "knobs"', "no change 'knobs' of serving"),
        ('["serving", "locks"', '["servings", "locks"', "no workload 'servings'"),
        ('"knob", "policy"', '"knob", "knob", "policy"', "is there twice"),
        ('tolerance = "stated"', 'tolerance = "stated"\nsize = [0.1, 0.2]', "a size and a cause"),
        ("[protocol]", "[protocol", "no TOML"),
    ],
)
def test_what_is_written_wrong_is_refused(old: str, new: str, words: str) -> None:
    text = (ROOT / "validation/what-if.toml").read_text("utf-8")
    with pytest.raises(InputError, match=words.replace("[", r"\[")):
        Register.parse(text.replace(old, new, 1))


def test_the_runners_tasks_are_known_in_their_order() -> None:
    work = REGISTER.workloads["serving"]
    assert work.roles == ("hog[0]", "hog[1]", "server[0]", "server[1]", "server[2]", "server[3]")
    names = ["rcu_preempt-15", *(f"schedlab_native-{pid}" for pid in range(98, 106))]
    behaviour = _behaviour(dict.fromkeys(names, 0.1), 5, 5)
    named = roles(behaviour, work)
    # 98 and 99 are the runner's own.
    assert named["schedlab_native-100"] == "hog[0]"
    assert named["schedlab_native-105"] == "server[3]"
    merged = in_roles(behaviour, work)
    assert set(merged.tasks) == {*work.roles, "others"}
    assert merged.share("others") == pytest.approx(0.3)


def test_tasks_that_have_the_names_of_their_kinds_are_known_as_well() -> None:
    work = REGISTER.workloads["serving"]
    kinds = ["schedlab_native", "hog", "hog", "server", "server", "server", "server"]
    names = [f"{kind}-{pid}" for pid, kind in enumerate(kinds, 99)]
    named = roles(_behaviour(dict.fromkeys(names, 0.1), 5, 5), work)
    assert tuple(named.values()) == work.roles
    assert named["hog-100"] == "hog[0]"


def test_a_workload_begins_with_its_last_fork(tmp_path: Path) -> None:
    """Forks of others do not count; the recorder's child, 121, becomes the command."""
    fork = (
        " x-1 0..... {time}: sched_process_fork: comm=x pid={pid} child_comm={name} "
        "child_pid={child}"
    )
    forks = [
        ("1.000002000", 121, "schedlab-native", 122),
        ("1.000005000", 122, "main", 123),
        ("1.000009000", 7, "schedlab-native", 130),
    ]
    lines = [
        "# recorder: 120 121",
        " x-120 0..... 1.000000000: tracing_mark_write: schedlab: begin",
        *(fork.format(time=at, pid=pid, name=name, child=new) for at, pid, name, new in forks),
    ]
    trace = tmp_path / "trace.txt.gz"
    trace.write_bytes(gzip.compress("\n".join(lines).encode()))
    assert collecting._began(trace) == 5_000


def test_a_change_is_made_in_the_file_and_the_knobs() -> None:
    """Two that compute share a CPU: 335 to 1024 at nice 5 and 0 (sched_prio_to_weight)."""
    work = REGISTER.workloads["serving"]
    names = [f"schedlab_native-{pid}" for pid in range(100, 106)]
    hogs = {name: {"kind": "process", "loop": -1, "run": 5000} for name in (names[0], names[2])}
    sleepers = {
        name: {"kind": "process", "loop": -1, "sleep": 900_000}
        for name in names
        if name not in hogs
    }
    text = json.dumps({"global": {"duration": 5}, "tasks": {**hogs, **sleepers}})
    inferred = Inferred(
        text=text,
        counts={},
        ending="time",
        scheduler=Scheduler("6.1"),
        cpus=1,
        phase_ns=0,
        behaviour=_behaviour(dict.fromkeys(names, 0.1), 5, 5),
    )
    change = next(c for c in REGISTER.changes if (c.workload, c.name) == ("serving", "weight"))
    costs = Costs.load("ideal")
    before, after = (predict(inferred, work, what, costs) for what in (None, change))
    assert before.share("hog[0]") == pytest.approx(0.5, abs=0.01)
    # hog[0] weighs 335 from now on, server[0], which computes here, 1024.
    assert after.share("hog[0]") == pytest.approx(335 / (335 + 1024), abs=0.01)


def test_the_page_and_its_figure_are_written() -> None:
    agreeing = tuple(line for line in REGISTER.lines if line.size is None)
    register = REGISTER.model_copy(update={"lines": agreeing})
    near = _behaviour({"a": 0.51, "b": 0.3}, 1100, 1_100_000)
    pair = Pair(REAL, near, described=near)
    keys = {(line.workload, line.change) for line in agreeing}
    places = dict.fromkeys(line.place for line in agreeing)
    collected = dict.fromkeys(places, Collected(dict.fromkeys(keys, pair)))
    findings = judge(register, collected, {})
    assert all(finding.holds for finding in findings)
    known: noise.Noise = {("vm:6.1", "serving", "knob"): {"shares": 1.5, "switches": 0.05}}
    count = len(findings)
    text = page(register, collected, findings, {"figure.svg": DRAWN}, known, whole=count)
    assert "| serving | knob | vm:6.1 | 1.50 points | 5.0 % | - |" in text
    assert "no part" not in text
    assert "2 of all" in page(register, collected, findings, {}, known, whole=count + 2)
    assert f"**{count} of {count} criteria within tolerance, 0 known to diverge, 0 fail.**" in text
    assert (
        "| serving | knob | vm:6.1 | switches | 1100 / 1000 | 10.0 % | 15.0 % | within tolerance |"
        in text
    )
    assert (
        "| serving | knob | vm:6.1 | 51.0% / 50.0% (a) | 1100 / 1000 | 1.10 ms / 1.00 ms |" in text
    )
    assert figure(collected, findings).svg.startswith("<svg")
    # The same numbers where a divergence is known: it is gone.
    findings = judge(REGISTER, collected, {})
    text = page(REGISTER, collected, findings, {"figure.svg": DRAWN}, {}, whole=len(findings))
    gone = len(REGISTER.lines) - len(agreeing)
    whole = f"{len(agreeing)} of {len(REGISTER.lines)} criteria within tolerance"
    assert f"**{whole}, 0 known to diverge, {gone} fail.**" in text
