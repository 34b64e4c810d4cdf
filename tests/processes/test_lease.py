"""Real runs of one command at a time: which commands wait, which do not, and what they say."""

import logging
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedlab.cli.main import invoke
from schedlab.processes import lease, processes
from schedlab.processes.locks import lock_holder
from schedlab.targets.virtual import Virtual
from schedlab.vm.kernels import KernelImage

Start = Callable[..., "subprocess.Popen[Any]"]
SCHEDLAB = Path(sys.executable).with_name("schedlab")

HOLD = """\
import time
from schedlab.processes import lease
with lease.exclusive():
    print("held", flush=True)
    time.sleep(1000)
"""

# Three blocks of two runs; each run notes its begin and its end.
BLOCKS = """\
import logging, os, sys, time
from schedlab.experiment.blocks import in_blocks
from schedlab.processes import lease
logging.basicConfig(format="%(message)s")
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def arm(block, place):
    with lease.exclusive():
        os.write(log, f"{sys.argv[2]} {block} begins\\n".encode())
        time.sleep(0.1)
        os.write(log, f"{sys.argv[2]} {block} ends\\n".encode())
list(in_blocks({"x": arm, "y": arm}, lambda at: ("x", "y") if at < 3 else (), seed=1))
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "lease"
    monkeypatch.setenv(lease.VARIABLE, str(file))
    return file


def _python(popen: Start, code: str, *words: str) -> "subprocess.Popen[str]":
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return popen([sys.executable, "-c", code, *words], text=True, **pipes)


def _holder(popen: Start) -> "subprocess.Popen[str]":
    process = _python(popen, HOLD)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def _line(process: "subprocess.Popen[str]") -> str:
    assert process.stderr is not None
    return process.stderr.readline()


def test_blocks_of_two_commands_alternate_and_are_never_mixed(popen: Start, tmp_path: Path) -> None:
    log = tmp_path / "log"
    holder = _holder(popen)
    both = [_python(popen, BLOCKS, str(log), name) for name in "ab"]
    # Both stand in line before either begins.
    assert all("waiting for the real runs" in _line(one) for one in both)
    holder.kill()
    for one in both:
        assert one.wait() == 0
        one.communicate()
    lines = [line.split() for line in log.read_text().splitlines()]
    # A block is two runs, one after the other, of one command: b e b e with one name and number.
    blocks = [lines[at : at + 4] for at in range(0, len(lines), 4)]
    assert [[word for *_, word in block] for block in blocks] == [["begins", "ends"] * 2] * 6
    names = [{(name, number) for name, number, _ in block} for block in blocks]
    assert all(len(name) == 1 for name in names)
    order = [name for ((name, _),) in names]
    assert sorted(order) == ["a"] * 3 + ["b"] * 3
    # That which ends a block finds the other one in line before itself.
    assert order[0] != order[1]


def test_a_killed_holder_holds_nothing(popen: Start) -> None:
    holder = _holder(popen)
    holder.send_signal(signal.SIGKILL)
    with lease.exclusive():
        assert lease.held()
    assert not lease.held()


def test_a_waiting_command_says_for_which_and_can_be_stopped(popen: Start) -> None:
    holder = _holder(popen)
    waiting = "import logging; logging.basicConfig(format='%(message)s')\n" + HOLD
    waiter = _python(popen, waiting)
    said = _line(waiter)
    assert f"pid {holder.pid}, {sys.executable} -c" in said
    # When the holder started: now, give or take a slow machine's minutes.
    since = time.strptime(said.split("since ")[1][:19], "%Y-%m-%d %H:%M:%S")
    assert abs(time.mktime(since) - time.time()) < 600
    assert "Ctrl-C stops waiting" in said
    waiter.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in waiter.communicate()[1]
    assert holder.poll() is None


def test_a_command_within_a_run_does_not_wait_for_it() -> None:
    inner = "from schedlab.processes import lease\nwith lease.exclusive(): print(lease.held())"
    words = [sys.executable, "-c", inner]
    with lease.exclusive():
        # By the environment, through any number of commands, and by the processes above it.
        assert processes.run(words, timeout=60).output == "False\n"
        told = (
            "from schedlab.processes import processes\n"
            f"print(processes.run({words!r}, timeout=50).output, end='')"
        )
        assert processes.run([sys.executable, "-c", told], timeout=60).output == "False\n"
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
        assert done.stdout == "False\n"
    assert processes.run(words, timeout=60).output == "True\n"


def test_a_child_keeps_no_lease_that_its_parent_gave_back(popen: Start) -> None:
    with lease.exclusive():
        child = os.fork()
        if child == 0:
            time.sleep(1000)
            os._exit(0)
    try:
        _holder(popen)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.parametrize("kind", ["link", "fifo", "directory"])
def test_what_is_no_file_is_not_touched(
    place: Path,
    tmp_path: Path,
    kind: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if kind == "link":
        place.symlink_to(tmp_path / "elsewhere")
    elif kind == "fifo":
        os.mkfifo(place)
    else:
        place.mkdir()
    before = os.lstat(place)
    monkeypatch.setattr(lease, "_lease", lease._Lease())  # one that has told of nothing yet
    with caplog.at_level(logging.WARNING), lease.exclusive():
        assert not lease.held()
    assert os.lstat(place) == before
    assert not (tmp_path / "elsewhere").exists()
    (said,) = caplog.messages
    assert f"'{place}'" in said


def test_every_user_can_lock_the_file_whatever_the_umask(place: Path) -> None:
    before = os.umask(0o777)
    try:
        with lease.exclusive():
            assert lease.held()
    finally:
        os.umask(before)
    assert stat.S_IMODE(place.stat().st_mode) == 0o444


def test_a_file_that_was_removed_is_no_lease(place: Path, popen: Start) -> None:
    code = "import logging; logging.basicConfig()\n" + HOLD
    holder = _holder(popen)
    waiter = _python(popen, code)
    assert "waiting" in _line(waiter)
    place.unlink()
    holder.kill()
    assert waiter.stdout is not None
    assert waiter.stdout.readline() == "held\n"
    # It holds the file that is there now, so this one waits.
    third = _python(popen, code)
    assert f"pid {waiter.pid}" in _line(third)


def test_all_users_have_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(lease.VARIABLE)
    monkeypatch.setenv("TMPDIR", "/nowhere")
    mode = lease.place().parent.stat().st_mode
    assert mode & stat.S_ISVTX
    assert mode & stat.S_IWOTH


def test_real_runs_wait_and_simulations_do_not(popen: Start) -> None:
    holder = _holder(popen)
    words = ["run", "hackbench:groups=1,fds=2,loops=1", "--on"]
    assert invoke([*words, "sim", "--cpus", "1", "--costs", "ideal", "--kernel", "6.1"]) == 0
    waiter = popen([SCHEDLAB, *words, "host"], text=True, stderr=subprocess.PIPE)
    said = _line(waiter)
    assert "waiting for the real runs of another schedlab command on this machine" in said
    assert f"pid {holder.pid}" in said
    assert waiter.poll() is None
    queued = popen([SCHEDLAB, *words, "host"], text=True, stderr=subprocess.PIPE)
    assert f"pid {holder.pid}" in _line(queued)
    holder.kill()
    for one in (waiter, queued):
        one.communicate()
        assert one.returncode == 0


def test_a_holder_is_named_as_its_user_typed_it(popen: Start) -> None:
    words = ["run", "hogs:tasks=1,time=30s", "--on", "host"]
    holder = popen([SCHEDLAB, *words], stderr=subprocess.DEVNULL)
    while not lease.place().exists() or lock_holder(lease.place()) is None:
        assert holder.poll() is None
        time.sleep(0.02)
    code = "import logging; logging.basicConfig(format='%(message)s')\n" + HOLD
    said = _line(_python(popen, code))
    assert f"pid {holder.pid}, schedlab run hogs:tasks=1,time=30s --on host, since " in said
    holder.send_signal(signal.SIGINT)
    assert holder.wait() == 130


def test_a_guest_whose_clock_counts_instructions_needs_no_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    image = KernelImage("6.1.0", Path("vmlinuz"), None)
    monkeypatch.setattr("schedlab.targets.virtual.find_kernel", lambda _kernel: image)
    for kernel, needs_it in (("6.1", True), ("6.1@icount", False)):
        held: list[bool] = []

        def boot(_self: Virtual, held: list[bool] = held) -> None:
            held.append(lease.held())
            raise KeyboardInterrupt

        monkeypatch.setattr(Virtual, "booted", boot)
        with pytest.raises(KeyboardInterrupt):
            Virtual(kernel).execute(["true"])
        assert held == [needs_it]
