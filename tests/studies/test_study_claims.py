"""The studies' statements follow from the papers' numbers and from the rules."""

import math
import random
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from schedlab.studies import papers, policies
from schedlab.studies.cfs_parameters import (
    cfs_parameters,
    parameters,
    parameters_cause,
    parameters_measured,
    parameters_simulated,
    parameters_table,
)
from schedlab.studies.cfs_parameters.parameters import KNOBS
from schedlab.studies.machines import typical
from schedlab.studies.rt_runtime import rt_fio, rt_writes
from schedlab.studies.scheduler_tuning.meta_optimization import analyse, printed
from schedlab.studies.study import Request
from schedlab.studies.thread_fairness import thread_fairness, thread_weighed


def test_the_printed_design_has_its_published_saddle() -> None:
    # DESIGN: omega = 0.4365, phi_g = 3.0195, eigenvalues +700.8 and -74.4.
    found = analyse(printed())
    assert found.stationary == pytest.approx((0.4365, 3.0195), abs=1e-4)
    assert list(found.found.eigenvalues) == pytest.approx([700.8, -74.4], abs=0.05)


@pytest.mark.parametrize("release", thread_fairness.RELEASES)
@pytest.mark.parametrize(("name", "threads", "rule", "drawn"), thread_fairness.FIGURES)
def test_figures_1_to_3_follow_from_every_releases_rules(
    release: str, name: str, threads: tuple[int, ...], rule: str, drawn: tuple[float, ...]
) -> None:
    # Ten seconds of turns of some milliseconds each: within a hundredth.
    found = thread_fairness.shares(threads, release, rule)
    assert found == pytest.approx(drawn, abs=0.01), name


@pytest.mark.parametrize("release", ["6.1", "7.2"])
@pytest.mark.parametrize("threads", thread_weighed.THREADS)
def test_weights_of_four_cpus_on_one_end_programs_when_they_should(
    release: str, threads: int
) -> None:
    # Equation (5) with four CPUs is 39.6 / (n + 32) from four threads on: 1.1 and 0.61875. Each of
    # B's threads weighs f times the one of A, so B's second of work takes 1 + 1 / (f n).
    factors = {"CFS": 1.0, "PFS": 1 / threads, "DW-CFS": 39.6 / (threads + 32)}
    for rule, factor in factors.items():
        found = thread_weighed.predicted(f"vm:{release}@icount", rule, threads)
        # Turns of some milliseconds at the end, of more than a second.
        assert found == pytest.approx(1 + 1 / (factor * threads), rel=0.01), rule


def test_all_of_the_policy_papers_rows_are_there() -> None:
    rows = policies.printed()
    assert len(rows) == 27
    assert all(len(runs) == 3 for runs in rows.values())


def test_one_default_row_serves_all_of_the_parameter_papers_tables() -> None:
    speeds = cfs_parameters.printed()
    for concurrency in parameters.CONCURRENCIES:
        defaults = {speeds[knob, value, concurrency] for knob, value in parameters.DEFAULTS.items()}
        assert len(defaults) == 1


def test_the_three_noisiest_rows_of_the_real_time_report_are_its_lowest() -> None:
    rows = papers.table("aio_stress_rt_runtime")
    noisy = {row["sched_rt_runtime_us"] for row in rows if float(row["standard_error"]) > 3}
    lowest = sorted(rows, key=lambda row: float(row["aio_stress_mb_per_s"]))[:3]
    assert noisy == {row["sched_rt_runtime_us"] for row in lowest}


def test_throttling_leaves_the_writers_what_is_left_of_each_period() -> None:
    # Beside a FIFO task that never sleeps they have the CPU for 1 s - rt_runtime of each second:
    # 0.9 s against 0.5 s. They need 60 us and some 5 us of system time for a write of 64 KiB: far
    # less than the disk could take, so that bandwidth goes as their time. The task's jobs go as
    # what it has: 0.1 s against 0.5 s.
    found = [
        rt_writes.simulated("6.1", {"rt_runtime": value}, 1.0, 4, typical(1))
        for value in ("100ms", "500ms")
    ]
    assert found[0].bandwidth / found[1].bandwidth == pytest.approx(0.9 / 0.5, rel=0.05)
    # A job of 10 ms: within one of 10 or 50 a second, and a tick (4 ms) of each of four periods.
    assert found[0].jobs == pytest.approx(0.1, abs=0.02)
    assert found[1].jobs == pytest.approx(0.5, abs=0.02)


def test_a_limit_costs_a_task_that_asks_for_more_its_jobs() -> None:
    # A task of 60 % that may run for half a second of each does 50 of its 60 ms x 10 a second.
    limited, free = (
        rt_writes.simulated("6.1", {"rt_runtime": value}, 0.6, 4, typical(1))
        for value in ("500ms", "950ms")
    )
    assert limited.jobs == pytest.approx(0.5 / 0.6, abs=0.02)
    assert free.jobs == pytest.approx(1.0, abs=0.01)
    # It is ever more behind, so that it runs without a pause until its half second is used up, and
    # then waits for the other half: a job of 6 ms in between takes 506 ms.
    assert limited.longest == pytest.approx(0.506, abs=0.005)


def _beside(
    speeds: Mapping[rt_writes.Key, float], jobs: Mapping[rt_writes.Key, float]
) -> dict[rt_writes.Key, list[dict[str, float]]]:
    """Return made-up runs, six of each setting, that scatter by 1 %."""
    rng = random.Random(1)
    return {
        key: [
            {
                "bandwidth": speed * math.exp(rng.gauss(0, 0.01)),
                "jobs": jobs.get(key, 1.0),
                "longest": 0.01,
            }
            for _ in range(6)
        ]
        for key, speed in speeds.items()
    }


def _limited(gains: float) -> dict[rt_writes.Key, list[dict[str, float]]]:
    keys = rt_writes.settings(throttles=True, little=True)
    speeds = dict.fromkeys(keys, 20.0)
    speeds["rt_runtime", "100ms", 1.0] *= gains
    speeds["rt_runtime", "500ms", 1.0] *= gains**0.5
    speeds["rt_runtime", "500ms", 0.6] *= gains**0.2
    return _beside(speeds, {("rt_runtime", "500ms", 0.6): 0.5 / 0.6 if gains > 1 else 1.0})


def test_what_a_limit_gives_real_writers_is_found() -> None:
    verdicts = [str(one.verdict) for one in rt_writes.claims("vm", _limited(10))]
    assert verdicts == ["confirmed", "confirmed", "confirmed"]


def test_a_limit_that_does_nothing_is_found() -> None:
    left, costs, idle = rt_writes.claims("vm", _limited(1))
    assert str(left.verdict) != "confirmed"
    assert str(costs.verdict) != "confirmed"
    assert str(idle.verdict) == "confirmed"


def test_a_kernel_that_serves_fair_tasks_is_judged_by_the_server() -> None:
    keys = rt_writes.settings(throttles=False, little=True)
    speeds = dict.fromkeys(keys, 20.0)
    speeds["fair_server_runtime", "50ms", 1.0] = 2.0
    unlimited, served = rt_writes.claims("vm", _beside(speeds, {}))
    assert str(unlimited.verdict) == "confirmed"
    assert str(served.verdict) == "confirmed"
    # Where the limit still throttles, the task loses jobs, and the claim does not hold.
    lost = {key: 0.2 for key in keys if key[:2] == ("rt_runtime", "100ms")}
    assert str(rt_writes.claims("vm", _beside(speeds, lost))[0].verdict) != "confirmed"


def test_what_a_kernel_refuses_is_not_judged() -> None:
    # With real-time groups no limit below the root group's is taken; without debugfs no server.
    keys = rt_writes.settings(throttles=False, little=True)
    runs = _beside(dict.fromkeys(keys, 20.0), {})
    no_limit = {key: one for key, one in runs.items() if key[1] != "100ms"}
    assert [one.claim for one in rt_writes.claims("host", no_limit)] == [
        "host: beside a FIFO task that never sleeps the fair server's runtime decides"
    ]
    neither = {key: one for key, one in no_limit.items() if key[0] == "rt_runtime"}
    assert rt_writes.claims("host", neither) == []


def _fio(effect: float, again: float = 1.0) -> dict[str, list[float]]:
    rng = random.Random(1)
    names = {**dict.fromkeys(rt_fio.VALUES, 1.0), "300ms": effect, "A/A": again}
    return {
        name: [100 * ratio * math.exp(rng.gauss(0, 0.005)) for _ in range(15)]
        for name, ratio in names.items()
    }


def test_fio_that_one_value_moves_is_told_from_noise() -> None:
    def varies(runs: dict[str, list[float]]) -> str:
        return str(rt_fio.claims({"vm": runs})[0].verdict)

    assert varies(_fio(1.2)) == "confirmed"
    # Everything is within 5 % of the default.
    assert varies(_fio(1.0)) == "contradicted"
    # The default differs as much from itself.
    assert varies(_fio(1.2, 1.2)) == "not confirmed"


def test_the_page_of_papers_has_the_claims_of_the_studies() -> None:
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, str(root / "scripts" / "papers"), "--print"]
    page = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert page == (root / "docs" / "results" / "papers.md").read_text(), "run scripts/papers"


def test_the_parameter_reports_tables_are_printed_as_there() -> None:
    # Its Table 1 at 4 connections: 100 % (0.1 %), 98.58 % (2.1 %), 99.28 % (0.8 %), 32.45 % (0.6 %)
    # for 150, 10, 50 ms and the default.
    speeds = cfs_parameters.printed()
    percent = cfs_parameters.printed("standard_deviation_percent")
    deviations = {key: value / 100 for key, value in percent.items()}
    table = parameters_table.side_by_side({"paper": (speeds, deviations)})
    at_4 = {row[2]: row[3] for row in table.rows if row[0] == "rr_timeslice"}
    assert at_4 == {
        "150ms": "13451: 100.0 %, ±0.1 %, best",
        "10ms": "13260: 98.6 %, ±2.1 %",
        "50ms": "13352: 99.3 %, ±0.8 %",
        "100ms": "4365: 32.5 %, ±0.6 %, worst",
    }


def _runs(
    effects: dict[tuple[str, str], float], noise: float, blocks: int = 8
) -> dict[tuple[str, str, int], list[float]]:
    """Return made-up runs at 4 and 20 connections: each setting's throughput, and its noise."""
    rng = random.Random(1)
    keys = [("default", ""), ("A/A", "")]
    keys += [(knob, value) for knob, values in KNOBS.items() for value in values[1:]]
    return {
        (*key, concurrency): [
            1000.0 * effects.get(key, 1.0) * math.exp(rng.gauss(0, noise)) for _ in range(blocks)
        ]
        for concurrency in (4, 20)
        for key in keys
    }


def _judged(runs: parameters_measured.Runs) -> dict[str, str]:
    paper = {name: "" for knob in KNOBS for name in (knob, f"default {knob}")}
    found = parameters_measured.claims("vm", runs, paper)
    return {claim.claim.removeprefix("vm: "): str(claim.verdict) for claim in found}


def test_a_value_that_leads_on_a_real_kernel_is_found() -> None:
    # 20 ms is 5 % above all others, at a noise of 0.2 % a run.
    verdicts = _judged(_runs({("latency", "20ms"): 1.05}, 0.002))
    assert verdicts["latency = 20ms has the highest throughput"] == "confirmed"
    # One value of four at either concurrency differs from the default: not most of them.
    assert verdicts["latency changes Apache's throughput"] == "not confirmed"
    # All others are within 1 % of one another.
    assert verdicts["wakeup_granularity = 1ms has the highest throughput"] == "contradicted"
    assert verdicts["rt_runtime changes Apache's throughput"] == "contradicted"


def test_another_value_that_leads_contradicts() -> None:
    verdicts = _judged(_runs({("rt_runtime", "100ms"): 1.05}, 0.002))
    assert verdicts["rt_runtime = 500ms has the highest throughput"] == "contradicted"


def test_the_worst_default_is_found() -> None:
    slower = {(knob, ""): 0.95 for knob in ("default", "A/A")}
    verdicts = _judged(_runs(slower, 0.002))
    for knob in KNOBS:
        assert verdicts[f"the default of {knob} performs worst"] == "confirmed"
        assert verdicts[f"{knob} changes Apache's throughput"] == "confirmed"


def test_a_peak_between_the_ends_is_found() -> None:
    # 5 ms is the best, 1 ms is worse than it, as 20 ms is.
    peaked = {("latency", "5ms"): 1.1, ("latency", "10ms"): 1.06, ("latency", "1ms"): 0.98}
    words = "with smaller {} throughput improves up to a threshold, then declines"
    assert _judged(_runs(peaked, 0.002))[words.format("latency")] == "confirmed"
    # The smaller the better: no decline; the larger the better: the contrary.
    assert _judged(_runs({("latency", "1ms"): 1.1}, 0.002))[words.format("latency")] != "confirmed"
    grown = _judged(_runs({("latency", "20ms"): 1.1}, 0.002))
    assert grown[words.format("latency")] == "contradicted"


def test_what_latency_acts_by_is_judged_by_settings_that_should_do_the_same() -> None:
    base = np.array([450.0, 455.0, 460.0, 452.0, 458.0, 456.0])
    default, short, coarse, fine = parameters_cause.SETTINGS
    runs = {
        (default, 1): base,
        (short, 1): base * 1.15,
        (coarse, 1): base * 1.14,
        (fine, 1): base * 1.01,
    }
    assert parameters_cause.claim("vm", runs).verdict == "confirmed"
    # A granularity that changes nothing: then wake-up preemption is not the cause.
    runs[coarse, 1] = base * 0.95
    assert parameters_cause.claim("vm", runs).verdict == "contradicted"
    # Or a small granularity that undoes nothing.
    runs[coarse, 1], runs[fine, 1] = base * 1.14, base * 1.12
    assert parameters_cause.claim("vm", runs).verdict == "not confirmed"


def test_few_runs_are_judged_over_all_concurrencies() -> None:
    # Two runs at each of two concurrencies are no verdict; their four pairs together are none
    # either, but three at each are six pairs, which may be one.
    effects = {("latency", value): 1.05 for value in KNOBS["latency"][1:]}
    verdicts = _judged(_runs(effects, 0.002, blocks=3))
    assert verdicts["latency changes Apache's throughput"] == "confirmed"
    assert verdicts["rr_timeslice changes Apache's throughput"] == "contradicted"


def test_the_answer_names_what_is_no_more_than_noise() -> None:
    words = parameters_measured.answer("vm", _runs({("latency", "1ms"): 1.1}, 0.002))
    assert "latency 1ms +10." in words or "latency 1ms +9." in words
    assert "latency 1ms +10.0%, no more" not in words
    assert words.count("no more than noise") == 3


def test_a_simulated_setting_is_run_several_times_and_the_default_once_more() -> None:
    runs = parameters_simulated.simulated(Request(quick=True))
    # Every value but the four defaults, the default and its A/A, at 4 and 100 connections.
    settings = sum(map(len, KNOBS.values())) - len(KNOBS) + 2
    assert len(runs) == 2 * settings
    assert {len(speeds) for speeds in runs.values()} == {2}
    for concurrency in (4, 100):
        default = runs["default", "", concurrency]
        # All its tasks are SCHED_OTHER, on which these two cannot act: the runs are the same.
        for knob in ("rr_timeslice", "rt_runtime"):
            assert all(runs[knob, value, concurrency] == default for value in KNOBS[knob][1:])
        # The default's other runs are others, or there would be no noise to be told from. That
        # shows in what tasks got: by their answers alone, a whole number, runs can be alike.
        once, again = (
            parameters_simulated.served(concurrency, "100ms", {}, quick=True, again=again)
            for again in (False, True)
        )
        assert not {one.tasks for one in once} & {one.tasks for one in again}
    verdicts = _judged(runs)
    for knob in ("rr_timeslice", "rt_runtime"):
        assert verdicts[f"{knob} changes Apache's throughput"] == "contradicted"
        assert verdicts[f"the default of {knob} performs worst"] == "contradicted"


def test_noise_confirms_nothing() -> None:
    # No setting does anything, and runs scatter by 10 %: neither a claim nor its contrary is seen.
    verdicts = _judged(_runs({}, 0.1))
    assert "confirmed" not in verdicts.values()


def test_a_difference_that_the_default_has_from_itself_is_none() -> None:
    # The second run of the default is 5 % off as well: such a shift is the machine's.
    runs = _runs({("latency", "20ms"): 1.05, ("A/A", ""): 1.06}, 0.002)
    assert _judged(runs)["latency = 20ms has the highest throughput"] != "confirmed"


def test_a_policy_that_wins_by_less_than_runs_differ_wins_not_clearly() -> None:
    # FIFO's median is the least in both; only of the second kind each of its runs is.
    wall = {
        ("cpu", "SCHED_OTHER"): [1.0, 1.1, 1.2],
        ("cpu", "SCHED_FIFO"): [0.9, 1.0, 1.05],
        ("cpu", "SCHED_RR"): [1.1, 1.2, 1.3],
        ("io", "SCHED_OTHER"): [1.0, 1.1, 1.2],
        ("io", "SCHED_FIFO"): [0.7, 0.8, 0.9],
        ("io", "SCHED_RR"): [1.1, 1.2, 1.3],
    }
    rows = {
        (kind, policy, "light"): [{"wall_s": one} for one in runs]
        for (kind, policy), runs in wall.items()
    }
    assert policies.won(rows, "wall_s", "SCHED_FIFO") == 2
    assert policies.clearly_won(rows, "wall_s", "SCHED_FIFO") == 1
    assert policies.shared(rows, "wall_s", "SCHED_FIFO") == 0
    # Where RR is as fast to the nanosecond, as in simulation if no slice ends, neither wins alone.
    rows["io", "SCHED_RR", "light"] = rows["io", "SCHED_FIFO", "light"]
    assert policies.won(rows, "wall_s", "SCHED_FIFO") == 1
    assert policies.shared(rows, "wall_s", "SCHED_FIFO") == 1
