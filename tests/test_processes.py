"""Other programs end with us, whatever ends the wait."""

import os
import signal
import threading
from pathlib import Path

import pytest

from schedlab import processes
from schedlab.errors import InputError, RunError


def _gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    # A zombie of another parent still answers to signals; its state says that it ended.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


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
    assert all(_gone(int(pid)) for pid in pids.read_text().split())


def test_an_interrupt_ends_the_program_first(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        processes.run(["sh", "-c", f"echo $$ > {pids}; exec sleep 60"])
    timer.join()
    assert _gone(int(pids.read_text()))
