"""The tuning study: the paper's algorithms, and a small run of the whole."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedlab import Machine, Scheduler, Workload
from schedlab.report.terminal import to_json
from schedlab.search import Dimension, Space
from schedlab.studies.scheduler_tuning import scheduler_tuning as tuning
from schedlab.studies.scheduler_tuning import tuning_rare
from schedlab.studies.scheduler_tuning.tuning_summary import MEDIANS, tuning_json

MS = 1_000_000
SECOND = 1_000_000_000


def test_algorithm_1_is_figure_2() -> None:
    # Up to 200 s: latency 19.9 ms, min granularity period / 200, wakeup granularity 0.
    assert tuning.discover_1(10 * SECOND) == (19_900_000, 50 * MS, 0)
    # Beyond: what is left over 200 s is the wakeup granularity, and 200 s / 200 = 1 s remain.
    assert tuning.discover_1(200 * SECOND + 7) == (19_900_000, SECOND, 7)


def test_algorithm_2_is_figure_3() -> None:
    # Below 20 ms: latency is the period, min granularity period / 200.
    assert tuning.discover_2(19 * MS) == (19 * MS, 95_000, 0)
    # From 20 ms on it is 100 us.
    assert tuning.discover_2(20 * MS) == (20 * MS, 100_000, 0)
    # Beyond 1 s what is left is the wakeup granularity.
    assert tuning.discover_2(SECOND + 7) == (SECOND, 100_000, 7)


@given(st.integers(20 * MS, 201 * SECOND))
def test_algorithm_1_never_leaves_the_ranges_on_its_interval(period: int) -> None:
    settings = tuning.discover_1(period)
    assert tuning.clamp(settings) == settings


@given(st.integers(100_000, 2 * SECOND))
def test_algorithm_2_undercuts_min_granularity_below_20_ms_alone(period: int) -> None:
    settings = tuning.discover_2(period)
    clamped = tuning.clamp(settings)
    # period / 200 < 100 us for every whole period under 20 ms.
    assert (clamped != settings) == (period < 20 * MS)
    assert clamped == (settings[0], max(settings[1], 100_000), settings[2])


def test_clamped_executions_are_counted() -> None:
    # On a machine where nothing takes time every comparison of golden section is a tie, ties go
    # right, and so its first point, 0.382 of the way, is the leftmost: none is below 20 ms. An
    # interval that ends there has all its points below.
    objective = tuning.Turnaround(
        Workload.parse("hackbench:groups=1,fds=1,loops=1"),
        Scheduler("2.6.24", hz=1000),
        Machine(1, "ideal"),
    )
    history, clamped = tuning.golden_section(objective, tuning.PERIODS_2, tuning.discover_2)
    assert clamped == 0
    low = Space((Dimension("period", 100_000, 19 * MS, integer=True),))
    history, clamped = tuning.golden_section(objective, low, tuning.discover_2)
    assert clamped == history.evaluations > 2


def test_the_objective_is_whole_jiffies_rounded_up() -> None:
    objective = tuning.Turnaround(
        Workload.parse("hogs:tasks=1,time=1500us"),
        Scheduler("2.6.24", hz=1000),
        Machine(1, "ideal"),
    )
    position = tuning.SPACE.low[None]
    assert objective(position).tolist() == [2.0]
    assert objective.nanoseconds(position[0]) == 1_500_000


@pytest.fixture(scope="module")
def study() -> tuning.Study:
    return tuning.study(
        seeds=range(3), workload="hackbench:groups=1,fds=4,loops=1", particles=5, iterations=4
    )


def test_every_search_counts_what_it_ran(study: tuning.Study) -> None:
    assert {name: len(runs) for name, runs in study.runs.items()} == {
        "pso_optimized": 3,
        "pso_default": 3,
        "golden_section_1": 1,
        "golden_section_2": 1,
    }
    for name, runs in study.runs.items():
        for run in runs:
            assert run.executions_to_minimum <= run.executions
            assert tuning.clamp(run.settings) == run.settings
            assert -(-run.minimum_ns // MS) == run.minimum_jiffies
            if name.startswith("pso"):
                assert run.executions <= 5 * (4 + 1)
                assert 1 <= run.generation_of_minimum <= 5
    # One execution an iteration: 201 s - 20 ms shrink by 0.618 an iteration down to 1 ms.
    # ln(0.001 / 200.98) / ln(0.618) = 25.4, so 26 iterations, of which the first runs two.
    assert study.runs["golden_section_1"][0].executions == 27


def test_golden_sections_minimum_is_the_one_both_attain(study: tuning.Study) -> None:
    one = study.runs["golden_section_1"][0]
    two = study.runs["golden_section_2"][0]
    assert study.golden_minimum_jiffies == max(one.minimum_jiffies, two.minimum_jiffies)
    for run in (one, two):
        assert run.executions_to_golden_minimum is not None
        assert run.executions_to_golden_minimum <= run.executions_to_minimum


def test_the_same_seeds_give_the_same_study(study: tuning.Study) -> None:
    again = tuning.study(
        seeds=range(3), workload="hackbench:groups=1,fds=4,loops=1", particles=5, iterations=4
    )
    assert again.runs == study.runs


def test_a_sweep_says_whether_a_knob_moves_the_turnaround() -> None:
    same = tuning.Sweep("latency", (1, 2), (1_000_001, 2_000_000))
    assert not same.moves  # both are two jiffies, rounded up
    assert tuning.Sweep("latency", (1, 2), (1_000_000, 1_000_001)).moves


def test_its_json_has_every_search_with_medians_and_distribution(study: tuning.Study) -> None:
    value = json.loads(to_json(tuning_json(study)))
    for search in study.runs:
        assert set(value[search]["distribution"]) == set(MEDIANS)
        assert value[search]["minimum_turnaround_ns"] > 0
    # The paper's own numbers stand beside.
    assert value["pso_optimized"]["paper"] == {"minimum": 3028, "to_minimum": 61, "to_golden": 31}
    assert value["golden_section_2"]["paper"]["to_minimum"] == 9


def test_no_seeds_are_refused() -> None:
    with pytest.raises(ValueError, match="no seeds"):
        tuning.study(seeds=[])


def test_nothing_undercuts_the_least_possible_and_stopping_there_changes_no_figure() -> None:
    # 4 senders write to 4 receivers, once: 16 messages, each written and read, and the latch.
    word = "hackbench:groups=1,fds=4,loops=1"
    objective = tuning.Turnaround(
        Workload.parse(word), Scheduler("2.6.24", hz=1000), Machine(1, "linsched")
    )
    assert objective.least_possible() == 2 * 16 + 1
    whole = tuning.study(seeds=range(8), workload=word)
    short = tuning.study(seeds=range(8), workload=word, to_the_end=False)
    runs = [run for runs in whole.runs.values() for run in runs]
    assert min(run.minimum_jiffies for run in runs) >= objective.least_possible()
    assert whole.random_share == short.random_share
    for name, each in whole.runs.items():
        for one, other in zip(each, short.runs[name], strict=True):
            assert other.executions <= one.executions
            assert other.visited == one.visited[: len(other.visited)]
            assert replace(other, executions=one.executions, visited=one.visited) == one


def test_the_algorithms_go_by_the_tasks_of_the_workload() -> None:
    # Figure 2 with 6 tasks: 3 s are 500 ms each; what is above 6 s is the wakeup granularity.
    assert tuning.discover_1(3 * SECOND, 6) == (19_900_000, 500 * MS, 0)
    assert tuning.discover_1(6 * SECOND + 7, 6) == (19_900_000, SECOND, 7)
    # Figure 3: below 20 ms of latency a sixth of it.
    assert tuning.discover_2(18 * MS, 6) == (18 * MS, 3 * MS, 0)


def test_no_setting_undercuts_the_work_itself() -> None:
    # 3 senders and 3 receivers: 9 pairs, a message each and set. A message is a write and a read,
    # a jiffy each, and one write opens the latch: 2 * 9 + 1 on one CPU, and with five sets
    # 2 * 45 + 1 = 91 on four CPUs, of which none does more than a fourth, 22.75 rounded up.
    for workload, cpus, least in (
        ("hackbench:groups=1,fds=3,loops=1", 1, 19),
        (tuning_rare.WORKLOAD, tuning_rare.CPUS, 23),
    ):
        objective = tuning.Turnaround(
            Workload.parse(workload), Scheduler("2.6.24", hz=1000), Machine(cpus, "linsched")
        )
        assert objective.least_possible() == least
        assert (objective(tuning_rare.at_random(1, 100)) >= least).all()


def test_settings_are_told_apart_by_the_order_of_the_knobs() -> None:
    objective = tuning.Turnaround(
        Workload.parse("hackbench:groups=1,fds=3,loops=1"),
        Scheduler("2.6.24", hz=1000),
        Machine(1, "linsched"),
    )
    table = tuning_rare.orders(objective, 1, 120)
    assert len(table.rows) == 6  # three knobs have so many orders
    assert sum(int(row[1] or 0) for row in table.rows) == 120
    share, most = tuning_rare.spread(table)
    # A read finds nothing at most once a message, which takes a jiffy: 9 beyond the work's 19.
    assert 0 < share <= 1
    assert 0 <= most <= 9 / 19
