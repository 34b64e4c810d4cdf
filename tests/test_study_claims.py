"""What the studies say follows from the papers' numbers and from the rules."""

import subprocess
import sys
from pathlib import Path

import pytest

from schedlab import Scheduler, simulate
from schedlab.studies import cfs_parameters, papers, policies, programs, rt_runtime, thread_fairness
from schedlab.studies.machines import typical
from schedlab.studies.meta_optimization import analyse, printed


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


def test_all_of_the_policy_papers_rows_are_there() -> None:
    rows = policies.printed()
    assert len(rows) == 27
    assert all(len(runs) == 3 for runs in rows.values())


def test_one_default_row_serves_all_of_the_parameter_papers_tables() -> None:
    speeds = cfs_parameters.printed()
    for concurrency in cfs_parameters.CONCURRENCIES:
        defaults = {
            speeds[knob, value, concurrency] for knob, value in cfs_parameters.DEFAULTS.items()
        }
        assert len(defaults) == 1


def test_the_three_noisiest_rows_of_the_real_time_report_are_its_lowest() -> None:
    rows = papers.table("aio_stress_rt_runtime")
    noisy = {row["sched_rt_runtime_us"] for row in rows if float(row["standard_error"]) > 3}
    lowest = sorted(rows, key=lambda row: float(row["aio_stress_mb_per_s"]))[:3]
    assert noisy == {row["sched_rt_runtime_us"] for row in lowest}


def test_throttling_leaves_the_writers_what_is_left_of_each_period() -> None:
    # Beside a FIFO task that never sleeps they have the CPU for 1 s - rt_runtime of each second:
    # 0.9 s against 0.5 s. They need 60 us and some 5 us of system time for a write of 64 KiB: far
    # less than the disk could take, so that bandwidth goes as their time.
    machine = typical(1)
    writes = 40_000
    speeds = [
        rt_runtime.bandwidth(
            simulate(
                programs.writing(writes, programs.real_time_load(1.0)),
                scheduler=Scheduler("6.1", knobs={"rt_runtime": value}),
                machine=machine,
            ),
            writes,
        )
        for value in ("100ms", "500ms")
    ]
    # The last period is cut where the writes end: of some three periods and of five.
    assert speeds[0] / speeds[1] == pytest.approx(0.9 / 0.5, rel=0.05)


def test_the_readme_has_the_claims_of_the_pages() -> None:
    root = Path(__file__).resolve().parent.parent
    command = [sys.executable, str(root / "scripts" / "readme-claims"), "--print"]
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert table in (root / "README.md").read_text()
