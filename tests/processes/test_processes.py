"""Other programs end with us, whatever ends the wait."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.family import children, runs

from schedlab.boundary.errors import InputError, RunError
from schedlab.processes import processes


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


def test_a_session_of_its_own_does_not_outlive_a_normal_end(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    # A daemon: a session of its own, and its parent is gone, so that only adoption finds it.
    daemon = f"trap '' TERM; echo $$ >> {pids}; sleep 60"
    script = f'(setsid sh -c "{daemon}" &); while ! [ -s {pids} ]; do sleep 0.01; done'
    done = processes.run(["sh", "-c", script])
    assert done.code == 0
    assert not any(runs(int(pid)) for pid in pids.read_text().split())


def test_nothing_outlives_a_kill_of_this_process(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    # It ignores the request to end, has a session of its own, and a parent that is gone.
    stubborn = f"trap '' TERM; echo $$ >> {pids}; sleep 60; true"
    script = f'(setsid sh -c "{stubborn}" &); sh -c "{stubborn}"'
    code = f"from schedlab.processes import processes; processes.run(['sh', '-c', {script!r}])"
    caller = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 30
    while not pids.exists() or len(pids.read_text().split()) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    family = children(caller.pid)
    caller.kill()
    caller.wait()
    # Its guard asks first and kills three seconds later.
    while any(runs(pid) for pid in family) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(runs(pid) for pid in family)
    assert not any(runs(int(pid)) for pid in pids.read_text().split())


def test_a_signal_that_kills_a_program_is_its_code() -> None:
    assert processes.run(["sh", "-c", "kill -9 $$"]).code == -signal.SIGKILL
    assert processes.attend(["sh", "-c", "kill -9 $$"]) == 128 + signal.SIGKILL


def test_a_program_has_no_signal_ignored() -> None:
    # SigIgn of /proc/PID/status: Rust and Python ignore SIGPIPE, the 13th, for themselves.
    done = processes.run(["grep", "SigIgn", "/proc/self/status"])
    assert int(done.output.split()[1], 16) >> (signal.SIGPIPE - 1) & 1 == 0


def test_a_lack_of_processes_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))  # as fork(2) at the limit

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(RunError, match=r"^cannot start 'true': no further process can be made.*$"):
        processes.run(["true"])
