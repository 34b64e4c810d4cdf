"""Other programs end with us, whatever ends the wait."""

import os
import signal
import threading
from pathlib import Path

import pytest
from tests.family import runs

from schedlab import processes
from schedlab.errors import InputError, RunError


def test_output_errors_and_code_come_back() -> None:
    done = processes.run(["sh", "-c", "cat; echo bad >&2; exit 3"], text="in")
    assert (done.code, done.output, done.errors) == (3, "in", "bad\n")


def test_a_missing_program_is_bad_input() -> None:
    with pytest.raises(InputError, match="cannot run 'no-such-program'"):
        processes.run(["no-such-program"])


def test_a_program_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    # It ignores the request to end, and so does its child: both have to be killed.
    script = f"trap '' TERM; (sleep 60 & echo $! >> {pids}; wait) & echo $$ >> {pids}; wait"
    with pytest.raises(RunError, match="did not end within"):
        processes.run(["sh", "-c", script], timeout=0.5)
    assert not any(runs(int(pid)) for pid in pids.read_text().split())


def test_what_a_program_leaves_behind_has_ended_when_it_returns(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    # A killed task dies only when it gets a CPU: 20 that compute, 5 s at most, wait for each other.
    each = f"(while :; do :; done) & echo $! >> {pids}"
    script = f"ulimit -t 5; for one in $(seq 20); do {each}; done"
    processes.run(["sh", "-c", f"exec > {tmp_path}/said 2>&1; {script}"])
    left = [int(pid) for pid in pids.read_text().split()]
    assert len(left) == 20
    assert not any(runs(pid) for pid in left)


def test_an_interrupt_ends_the_program_first(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        processes.run(["sh", "-c", f"echo $$ > {pids}; exec sleep 60"])
    timer.join()
    assert not runs(int(pids.read_text()))
