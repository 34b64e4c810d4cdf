"""The criteria of decisions, and that each of their bounds can fail."""

import math
from pathlib import Path
from typing import Any

import pytest

from fidelity import Line, Register, collect, judge
from fidelity.collect import Collected, how_it_ran, what_runs
from fidelity.judge import Bound, Key, add_up, bounds_of_goal, bounds_of_line, upper_bound
from fidelity.page import Circumstances, page
from schedlab import Machine, Workload, simulate
from schedlab.boundary.errors import InputError

FILE = Path(__file__).parents[2] / "validation" / "decisions.toml"
REGISTER = Register.read(FILE)
KINDS = ("pick", "tick", "wakeup", "placement")
PELT = ("pelt", "pelt_shown")
AGREEMENTS = ("load", "throttling", "time_slice", "group_weight")
IN_STATE = ("error", "disagreeing", "mean error", "largest error")

SMALL = """
[scenarios.hogs]
play = "hogs"
[scenarios.forks]
play = "forks"
[tolerances.exact]
why = "Everything that decides is recorded, so that nothing may differ at all."
errors_ns = { vruntime = 0 }
disagreeing = { load = 0.1 }
[[lines]]
scenarios = ["hogs", "forks"]
releases = ["6.12"]
level = "L1"
kinds = ["pick"]
tolerance = "exact"
[[lines]]
scenarios = ["hogs"]
releases = ["6.12"]
level = "L0"
kinds = ["pick", "tick"]
tolerance = "exact"
verdict = "known divergence"
sizes = { pick = [0.1, 0.2] }
cause = "no tracepoint tells the lag of a sleeping task"
[[goals]]
name = "all"
releases = ["6.12"]
scenarios = ["hogs", "forks"]
level = "L1"
least = { pick = 1500 }
tolerance = "exact"
"""


def _report(compared: int = 1000, differing: int = 0) -> dict[str, Any]:
    """Return a replay's numbers as `schedlab replay --json` has them."""
    score = {
        "compared": compared,
        "equal": compared - differing,
        "naive_equal": compared // 2,
        "unverifiable": 0,
    }
    names = ("vruntime", "min_vruntime", "deadline", "lag", "budgets")
    kinds = (*KINDS, "select", "newidle", "balance", "push")
    return {
        "decisions": {kind: dict(score) for kind in kinds},
        "state": {
            **{name: {"compared": 5, "mean_error": 0.0, "max_error": 0.0} for name in PELT},
            **{name: {"compared": 5, "max_error_ns": 0} for name in names},
            **{name: {"compared": 10, "equal": 10} for name in AGREEMENTS},
        },
        "resynchronisations": 0,
    }


def _with(report: dict[str, Any], bound: Bound, value: float) -> dict[str, Any]:
    """Give the number that a bound is about a value, as near as whole decisions allow."""
    many = 1_000_000
    if bound.measure == "resynchronisations":
        report["resynchronisations"] = round(value)
    elif bound.measure == "error":
        report["state"][bound.subject] = {"compared": 5, "max_error_ns": round(value)}
    elif bound.measure in ("mean error", "largest error"):
        key = {"mean error": "mean_error", "largest error": "max_error"}[bound.measure]
        report["state"][bound.subject][key] = value
    elif bound.measure == "equal beyond the naive rule's":
        report["decisions"][bound.subject] |= {"equal": 500 + round(value), "naive_equal": 500}
    elif bound.measure == "disagreeing":
        report["state"][bound.subject] = {"compared": many, "equal": many - round(value * many)}
    elif bound.measure == "compared":
        score = {"compared": round(value), "equal": round(value)}
        report["decisions"][bound.subject] |= score
    elif bound.measure == "differing":
        score = {"compared": many, "equal": many - round(value * many)}
        report["decisions"][bound.subject] |= score
    else:
        left_open = round(value * many)
        report["decisions"] = {"pick": {"compared": many - left_open, "unverifiable": left_open}}
    return report


def _bounds() -> list[tuple[str, Bound]]:
    """Return every bound of every line and goal of the file, each with a name."""
    tolerances = REGISTER.tolerances
    found = []
    for line in REGISTER.lines:
        name = f"{line.scenario}-{line.release}-{line.level}"
        found += [(name, bound) for bound in bounds_of_line(line, tolerances[line.tolerance])]
    for goal in REGISTER.goals:
        name = f"{goal.name}-{goal.release}"
        found += [(name, bound) for bound in bounds_of_goal(goal, tolerances[goal.tolerance])]
    return found


def test_every_bound_of_the_file_can_fail() -> None:
    bounds = _bounds()
    assert len(bounds) > 500
    for name, bound in bounds:
        # A step is one decision of a million, one nanosecond or one count.
        counted = ("error", "compared", "resynchronisations", "equal beyond the naive rule's")
        step = 1 if bound.measure in counted else 1e-6
        inside = bound.low if math.isinf(bound.high) else bound.high
        assert bound.failure(_with(_report(), bound, inside)) is None, (name, bound)
        if not math.isinf(bound.high):
            beyond = _with(_report(), bound, bound.high + step)
            assert bound.failure(beyond) is not None, (name, bound)
        if bound.low > 0:
            assert bound.failure(_with(_report(), bound, bound.low - step)) is not None
        if bound.measure != "resynchronisations":
            empty = _report()
            part = empty["state" if bound.measure in IN_STATE else "decisions"]
            for numbers in part.values():
                numbers["compared"] = 0
            assert "nothing was compared" in str(bound.failure(empty)), (name, bound)
            part.clear()
            assert "nothing was compared" in str(bound.failure(empty)), (name, bound)


def _judged(reports: dict[Key, dict[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Return what fails of the small file's lines and goals, by name."""
    judgement = judge(Register.parse(SMALL), reports)
    lines = {}
    for found in judgement.lines:
        assert isinstance(found.what, Line)
        lines[f"{found.what.scenario} {found.what.level}"] = found.failures
    return lines | {"all": judgement.goals[0].failures}


def _holding() -> dict[Key, dict[str, Any]]:
    return {
        ("hogs", "6.12", "L1"): _report(),
        ("forks", "6.12", "L1"): _report(),
        ("hogs", "6.12", "L0"): _report()
        | {"decisions": _report(1000, 150)["decisions"] | {"tick": _report()["decisions"]["tick"]}},
    }


def test_lines_and_goals_hold_where_everything_is_as_written() -> None:
    assert not any(_judged(_holding()).values())


def test_a_line_fails_alone_and_takes_its_goal_with_it() -> None:
    reports = _holding()
    reports["forks", "6.12", "L1"]["decisions"]["pick"]["equal"] -= 1
    failed = _judged(reports)
    assert failed["hogs L1"] == failed["hogs L0"] == ()
    assert failed["forks L1"] == ("pick: 0.100% differing, allowed 0.000% to 0.000%",)
    assert failed["all"] == ("pick: 0.050% differing, allowed 0.000% to 0.000%",)


@pytest.mark.parametrize("differing", [0, 50, 250])
def test_a_known_divergence_that_moves_or_disappears_fails(differing: int) -> None:
    reports = _holding()
    reports["hogs", "6.12", "L0"]["decisions"]["pick"]["equal"] = 1000 - differing
    assert "allowed 10.000% to 20.000%" in _judged(reports)["hogs L0"][0]


def test_what_was_not_recorded_fails() -> None:
    reports = _holding()
    del reports["hogs", "6.12", "L1"]
    failed = _judged(reports)
    assert failed["hogs L1"] == ("it was not recorded",)
    assert failed["all"] == ("not all of its scenarios were recorded",)
    assert all(_judged({}).values())


def test_counts_are_added_and_the_largest_error_is_taken() -> None:
    one, other = _report(1000, 3), _report(500, 1)
    one["state"]["lag"]["max_error_ns"] = 7
    other["resynchronisations"] = 2
    total = add_up([one, other])
    assert total["decisions"]["pick"]["compared"] == 1500
    assert total["decisions"]["pick"]["equal"] == 1496
    assert total["state"]["lag"] == {"compared": 10, "max_error_ns": 7}
    assert total["resynchronisations"] == 2


def test_means_are_weighed_by_how_much_was_compared() -> None:
    one, other = _report(), _report()
    one["state"]["pelt"] = {"compared": 30, "equal": 20, "mean_error": 0.01, "max_error": 0.5}
    other["state"]["pelt"] = {"compared": 10, "equal": 10, "mean_error": 0.0, "max_error": 0.1}
    # 30 · 0.01 over 40.
    total = add_up([one, other])["state"]["pelt"]
    assert total == {"compared": 40, "equal": 30, "mean_error": 0.0075, "max_error": 0.5}


def test_what_balancing_leaves_open_is_not_the_recordings_fault() -> None:
    """Of 1000 picks and 1000 pulls each, 500 more of the latter are open: none of what counts."""
    report = _report()
    report["decisions"]["newidle"]["unverifiable"] = 500
    bound = Bound("unverifiable", "decisions", 0, 0.01)
    assert bound.value(report) == 0
    report["decisions"]["pick"]["unverifiable"] = 500
    # Five kinds of 1000 each, and 500.
    assert bound.value(report) == 500 / 5500


def test_sockets_part_the_cpus_equally() -> None:
    text = SMALL.replace('play = "hogs"', 'play = "hogs"\ncpus = 4\nsockets = 3', 1)
    with pytest.raises(InputError, match="4 CPUs cannot be parted into 3 equal sockets"):
        Register.parse(text)


def test_the_upper_bound_is_clopper_and_pearsons() -> None:
    # No failure: the p with (1 - p)^n = 0.05. All but none: every share is possible.
    assert upper_bound(0, 20_000) == pytest.approx(1 - 0.05 ** (1 / 20_000))
    assert upper_bound(5, 5) == 1
    # The p at which up to 2 of 10 have a probability of 5 %.
    p = upper_bound(2, 10)
    tail = sum(math.comb(10, k) * p**k * (1 - p) ** (10 - k) for k in range(3))
    assert tail == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('play = "hogs"', 'play = "hogs"\nrun = "pipe"', "scenarios.hogs"),
        ('play = "hogs"', 'play = "hogs"\nrandom = 1', "scenarios.hogs"),
        ('level = "L0"', 'level = "L2"', "lines.1.level"),
        ('level = "L0"', 'level = "L1"', "hogs 6.12 L1 is there twice"),
        ("pick = [0.1, 0.2]", "pick = [0.0, 0.2]", "from above 0"),
        ("pick = [0.1, 0.2]", "wakeup = [0.1, 0.2]", "not among the line's kinds"),
        ('cause = "no tracepoint tells the lag of a sleeping task"', "", "has sizes and a cause"),
        ('"hogs", "forks"]\nreleases', '"hogs", "knots"]\nreleases', "no scenario 'knots'"),
        ('tolerance = "exact"', 'tolerance = "rough"', "no tolerance 'rough'"),
        ("errors_ns", "errors_us", "tolerances.exact.errors_us"),
        ("least = { pick = 1500 }", "least = { pick = 0 }", "goals.0.least.pick"),
        ("[scenarios.hogs]", "[scenarios.hogs", "no TOML"),
    ],
)
def test_what_is_wrong_in_the_file_is_told_with_its_place(old: str, new: str, words: str) -> None:
    assert old in SMALL
    with pytest.raises(InputError, match=words.replace(".", r"\.")) as raised:
        Register.parse(SMALL.replace(old, new, 1))
    assert "\n" not in str(raised.value)


def test_no_divergence_is_allowed_for_cfs_with_all_probes() -> None:
    text = SMALL.replace('"6.12"', '"6.1"').replace('level = "L0"', 'level = "L1"', 1)
    text = text.replace('scenarios = ["hogs", "forks"]', 'scenarios = ["forks"]', 1)
    with pytest.raises(InputError, match="no divergence is allowed for CFS"):
        Register.parse(text)


def test_the_file_covers_what_it_has_to() -> None:
    covered = {(line.scenario, line.release) for line in REGISTER.lines if line.level == "L1"}
    scenarios = (
        "hogs sleepers hackbench forks changes batch-idle realtime deadline reservations starved "
        "autogroup groups random-1 random-2 random-3"
    )
    releases = ("5.10", "6.1", "6.12", "6.18", "7.2", "7.3")
    assert {(name, release) for name in scenarios.split() for release in releases} <= covered
    assert REGISTER.releases == releases
    machines = {
        (scenario.cpus, scenario.sockets, line.release)
        for line in REGISTER.lines
        for scenario in (REGISTER.scenarios[line.scenario],)
        if line.tolerance == "several-cpus"
    }
    several = ("6.1", "6.12", "6.18", "7.3")
    assert machines == {(n, s, r) for n in (2, 4) for s in (1, 2) for r in several}
    exact = [goal for goal in REGISTER.goals if goal.tolerance in ("cfs", "eevdf")]
    assert {goal.release for goal in exact} == set(releases)
    for goal in exact:
        assert goal.least == dict.fromkeys(KINDS, 20_000)
        tolerance = REGISTER.tolerances[goal.tolerance]
        assert tolerance.differing == 0
        assert set(tolerance.errors_ns.values()) == {0}


def test_a_page_says_what_holds_what_fails_and_where() -> None:
    register = Register.parse(SMALL)
    reports = _holding()
    days = {"6.12": {"2026-01-02", "2026-01-01"}}
    collected = Collected({"6.12": "6.12.107"}, {"6.12": "tcg"}, days)
    where = Circumstances("2026-01-02", "abc1234", "a CPU", "6.18", 90.0, False, ("own",))
    whole = page(register, collected, judge(register, reports), where)
    assert "2026-01-02, commit abc1234, a CPU" in whole
    assert "| 6.12 | 6.12.107 | tcg | 2026-01-01 to 2026-01-02 |" in whole
    # The goal and two lines; the third is a known divergence, and that is no agreement.
    headline = "**3 of 4 criteria within tolerance, 1 known to diverge, 0 fail.**"
    assert headline in whole
    # 1 - 0.05 ** (1 / 2000)
    assert "| all | 6.12 | L1 | 0 / 2000 (0.150%) |" in whole
    assert "known divergence" in whole
    del reports["forks", "6.12", "L1"]
    part = page(register, collected, judge(register, reports), where)
    assert "1 of 4 criteria within tolerance, 1 known to diverge, 2 fail" in part
    assert "* forks, 6.12, L1: it was not recorded" in part


def test_random_workloads_follow_from_the_commit_and_the_series(tmp_path: Path) -> None:
    scenario = REGISTER.scenarios["random-2"]
    beside = tmp_path / "random-2.drawn"

    def drawn(commit: str, series: str) -> tuple[object, str]:
        what = what_runs(scenario, series, commit, tmp_path / "random-2.txt.gz")
        return what, beside.read_text(encoding="utf-8")

    first = drawn("a" * 40, "6.12")
    assert first == drawn("a" * 40, "6.12")
    assert first[1].endswith(f", commit {'a' * 40}\n")
    others = [drawn("b" * 40, "6.12"), drawn("a" * 40, "7.3")]
    # Two seeds of 48 bits are equal once in 2 ** 48 times.
    assert len({text for _, text in (first, *others)}) == 3


def test_a_random_workload_too_large_to_record_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "random-1.txt.gz"

    def first() -> object:
        return what_runs(REGISTER.scenarios["random-1"], "6.12", "a" * 40, path)

    def size(work: object) -> int:
        assert isinstance(work, Workload)
        run = simulate(work, scheduler="6.12", machine=Machine(1, "reference"))
        return run.switches + run.messages

    largest = size(first())
    monkeypatch.setattr(collect, "LARGEST", largest - 1)
    assert size(first()) < largest


def test_a_page_says_which_random_workloads_there_were() -> None:
    register = Register.parse(SMALL)
    where = Circumstances("2026-01-02", "abc1234", "a CPU", "6.18", 90.0, False, ("own",))
    reports = _holding()
    drawn = {("hogs", "6.12"): "nice, seed 7, commit abc"}
    for collected, said in ((Collected(), False), (Collected(drawn=drawn), True)):
        whole = page(register, collected, judge(register, reports), where)
        assert ("## Random workloads" in whole) == said
        assert ("| hogs | 6.12 | nice, seed 7, commit abc |" in whole) == said


def test_a_series_guests_of_one_and_of_several_cpus_are_both_told(tmp_path: Path) -> None:
    assert how_it_ran(tmp_path) == ""
    (tmp_path / "accelerator-several").write_text("tcg", encoding="utf-8")
    assert how_it_ran(tmp_path) == "several CPUs: tcg"
    (tmp_path / "accelerator").write_text("tcg, -icount shift=5", encoding="utf-8")
    assert how_it_ran(tmp_path) == "tcg, -icount shift=5; several CPUs: tcg"
