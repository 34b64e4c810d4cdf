"""Workers that simulate: any number comes to the same, and a killed one costs its chunk."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schedlab import Machine, Scheduler, Workload, simulate_many
from schedlab.boundary.errors import InputError, RunError
from schedlab.boundary.extras import load
from schedlab.experiment.subjects import Described
from schedlab.targets import workers
from schedlab.targets.target import Simulated
from schedlab.targets.workers import Workers, opened
from schedlab.tuning.parameters import parameters
from schedlab.tuning.tuner import tune_subjects

ROOT = Path(__file__).parents[2]
WORKLOAD = "hackbench:groups=2,loops=5"
LATENCIES = np.arange(1_000_000, 61_000_000, 1_000_000)[:, np.newaxis]


def _many(given: Workers | None) -> list[int]:
    machine = Machine(2, "reference")
    found = simulate_many(
        WORKLOAD, ["latency"], LATENCIES, scheduler="6.1", machine=machine, workers=given
    )
    return [int(one) for one in found]


@pytest.fixture(autouse=True)
def found_by_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let worker processes find the functions of this file: they take this process's path."""
    monkeypatch.syspath_prepend(str(ROOT))


@pytest.fixture
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give out chunks of a few simulations, so that each worker has many."""
    monkeypatch.setattr(workers, "CHUNK_SECONDS", 0.001)
    monkeypatch.setattr(workers, "CHUNKS_A_SECOND", 100_000)


@pytest.mark.usefixtures("short_chunks")
@pytest.mark.parametrize("count", ["1", "3"])
def test_any_number_of_workers_comes_to_the_same(count: str) -> None:
    with opened(count) as given:
        assert given is not None
        assert _many(given) == _many(None)


def test_chunks_keep_their_order_whatever_ends_first() -> None:
    # The first chunks take longest: their results come last.
    def square(number: int) -> int:
        time.sleep((10 - number) / 200)
        return number * number

    with ThreadPoolExecutor(4) as pool:
        found = Workers([pool] * 4).map(square, list(range(10)))
    assert found == [number * number for number in range(10)]


def _once_killed(chunk: tuple[int, str]) -> int:
    """Kill this process when a chunk comes for the first time."""
    number, mark = chunk
    if number == 3 and not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number * 10


def _always_killed(chunk: tuple[int, str]) -> int:
    number, _ = chunk
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_a_killed_worker_costs_its_chunk_alone(tmp_path: Path) -> None:
    chunks = [(number, str(tmp_path / "killed")) for number in range(8)]
    with opened("2") as given:
        assert given is not None
        assert given.map(_once_killed, chunks) == [number * 10 for number in range(8)]
        # Beside the chunk that it was simulating a lane has one that waits.
        assert 1 <= given.lost <= 2
        assert given.map(_once_killed, chunks) == [number * 10 for number in range(8)]


def test_a_chunk_that_kills_every_worker_ends_the_run(tmp_path: Path) -> None:
    chunks = [(number, str(tmp_path)) for number in range(5)]
    with opened("2") as given:
        assert given is not None
        with pytest.raises(RunError, match="3 workers ended during the same chunk"):
            given.map(_always_killed, chunks)


def _fails(number: int) -> int:
    raise InputError(f"number {number} is not allowed")


def test_what_a_worker_refuses_is_refused_here() -> None:
    with opened("1") as given:
        assert given is not None
        with pytest.raises(InputError, match="number 7 is not allowed"):
            given.map(_fails, [7])


def _sleeps(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def test_no_process_is_left_after_an_error() -> None:
    found: list[int] = []

    def interrupted() -> None:
        with opened("2") as given:
            assert given is not None
            found.extend(given.map(_sleeps, [0.01, 0.01, 0.01]))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert found
    for pid in set(found):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_workers_end_with_a_process_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "import time\n"
        "from schedlab.targets import workers\n"
        "from tests.targets.test_workers import _sleeps\n"
        "if __name__ == '__main__':\n"
        "    with workers.opened('1') as given:\n"
        "        print(given.map(_sleeps, [0.0])[0], flush=True)\n"
        "        time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        text=True,
    ) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        parent.kill()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            os.kill(worker, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail(f"worker {worker} goes on without its parent")


@pytest.mark.parametrize("text", ["0", "-1", "two", "10001", "dask:/x", "1.5", ""])
def test_what_names_no_workers_is_refused(text: str) -> None:
    with (
        pytest.raises(InputError, match="allowed: a number from 1 to 10000, or dask://HOST:PORT"),
        opened(text),
    ):
        pass


class _Counting(Executor):
    """Does everything at once, and counts."""

    def __init__(self) -> None:
        self.chunks: list[Any] = []

    def submit(self, function: Any, /, *args: Any, **rest: Any) -> "Future[Any]":
        del rest
        self.chunks.append(args)
        done: Future[Any] = Future()
        done.set_result(function(*args))
        return done


def test_any_executor_serves_and_short_work_stays_here() -> None:
    # 60 simulations of some milliseconds are less than two chunks of a second.
    lane = _Counting()
    assert _many(Workers([lane])) == _many(None)
    assert not lane.chunks


@pytest.mark.usefixtures("short_chunks")
def test_chunks_have_several_simulations_and_all_together_each_once() -> None:
    lane = _Counting()
    assert _many(Workers([lane])) == _many(None)
    rows = np.concatenate([chunk[4] for (chunk,) in lane.chunks])
    # The first ones were made here, to see how long they take.
    assert 0 < len(rows) <= len(LATENCIES) - 2
    assert rows.tolist() == LATENCIES[-len(rows) :].tolist()


def test_chunks_take_the_time_of_many_items_and_not_that_of_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The first call takes 10 s, as loading does, each one 1 s, and an item 1 ms: trials of 1, 1, 4,
    # ... items take 1.001, 1.004, ... s. Chunks of 40 s have to be 39,000 items, were it not for
    # the 1 s; the first trial that takes 2 s, a twentieth of it, has 1,024 items: 2.024 s, so that
    # 40 s are 20,238 items.
    clock = [0.0]
    monkeypatch.setattr("schedlab.targets.workers.time.perf_counter", lambda: clock[0])
    monkeypatch.setattr(workers, "CHUNK_SECONDS", 40.0)
    seen: list[int] = []

    def work(items: range) -> int:
        clock[0] += (10.0 if not seen else 1.0) + 0.001 * len(items)
        seen.append(len(items))
        return len(items)

    lane = _Counting()
    assert sum(Workers([lane]).spread(work, 100_000, range, work)) == 100_000
    trials = [1, 1, 4, 16, 64, 256, 1024]
    assert seen == [*trials, *[20_238] * 4, 100_000 - sum(trials) - 4 * 20_238]
    assert len(lane.chunks) == 5


@pytest.mark.usefixtures("short_chunks")
@pytest.mark.parametrize("metric", ["turnaround", "voluntary"])
def test_a_tuning_by_workers_is_the_tuning_without(metric: str) -> None:
    work = Workload.parse(WORKLOAD)
    target = Simulated(Scheduler("6.1"), Machine(2, "reference"))
    searched = parameters(target, knobs=["latency"])

    def tuned(given: Workers | None) -> object:
        found = tune_subjects(
            [(work.name, Described(work))],
            searched,
            target,
            by="random",
            metrics=[metric],
            executions=24,
            workers=given,
        )
        return found.best, found.effect, found.gains, found.minima, found.runs

    lane = _Counting()
    assert tuned(Workers([lane, lane])) == tuned(None)
    assert lane.chunks


@contextmanager
def _cluster() -> Iterator[str]:
    """Run a Dask scheduler and two workers as its documentation says, on loopback."""
    dask = str(Path(sys.executable).with_name("dask"))
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [dask, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"],
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
    ) as scheduler:
        assert scheduler.stderr is not None
        lines = (line for line in scheduler.stderr if "Scheduler at:" in line)
        address = next(lines).rsplit("tcp://", 1)[1].strip()
        workers_of_dask = [
            subprocess.Popen(
                [dask, "worker", f"tcp://{address}", "--nthreads", "1", "--no-dashboard"],
                stderr=subprocess.DEVNULL,
                env=environment,
            )
            for _ in range(2)
        ]
        try:
            yield address
        finally:
            # While the scheduler is there, a worker takes its leave at once.
            for one in workers_of_dask:
                one.terminate()
                one.wait(30)
            scheduler.terminate()


@contextmanager
def _both(address: str) -> Iterator[Workers]:
    """Give a cluster's workers as soon as both are there."""
    deadline = time.monotonic() + 60
    while True:
        with suppress(InputError), opened(f"dask://{address}") as given:
            if given is not None and given.count == 2:
                yield given
                return
        assert time.monotonic() < deadline, "the workers did not come"
        time.sleep(0.2)


@pytest.mark.usefixtures("short_chunks")
def test_the_workers_of_a_dask_scheduler_come_to_the_same() -> None:
    with _cluster() as address, _both(address) as given:
        assert _many(given) == _many(None)


@pytest.mark.usefixtures("short_chunks")
def test_a_cluster_that_dask_starts_itself_comes_to_the_same() -> None:
    with load("distributed").LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
    ) as cluster:
        address = cluster.scheduler_address.removeprefix("tcp://")
        with opened(f"dask://{address}") as given:
            assert given is not None
            assert given.count == 2
            assert _many(given) == _many(None)


def test_a_dask_worker_that_is_killed_costs_its_chunk(tmp_path: Path) -> None:
    chunks = [(number, str(tmp_path / "killed")) for number in range(8)]
    with _cluster() as address, _both(address) as given:
        assert given.map(_once_killed, chunks) == [number * 10 for number in range(8)]
    assert (tmp_path / "killed").exists()


def test_a_dask_scheduler_that_does_not_answer_is_told_in_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers, "_CONNECT_SECONDS", 1)
    opening = opened("dask://127.0.0.1:1")
    with pytest.raises(InputError, match=r"no Dask scheduler answers at 127\.0\.0\.1:1 "):
        opening.__enter__()
