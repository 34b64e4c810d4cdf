"""Knobs are set for a block and put back, whatever ends it."""

import errno
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from schedlab.boundary.errors import InputError, NotPermittedError, RunError, SchedlabError
from schedlab.knobs import applied, commands, operations, pending, restore, state

from .conftest import Tree

WALK = Path(__file__).with_name("walk.py")
SETTINGS = {
    "rr_timeslice": "5ms",
    "rt_runtime": "1900ms",
    "rt_period": "2s",
    "feature.PLACE_LAG": "0",
    "fair_server_runtime": "1500ms",
    "fair_server_period": "2s",
}


def _apply(settings: dict[str, str]) -> None:
    with applied(settings, "6.12", 2):
        pass


def test_settings_hold_for_the_block_and_are_put_back(tree: Tree) -> None:
    tree.file("sys/kernel/debug/sched/features").write_text("PLACE_LAG")
    before = tree.texts()
    with pytest.raises(ZeroDivisionError), applied(SETTINGS, "6.12", 2):  # noqa: PT012
        during = tree.texts()
        assert len(pending()) == 8
        _ = 1 / 0
    assert {name: text for name, text in during.items() if before[name] != text} == {
        "proc/sys/kernel/sched_rr_timeslice_ms": "5",
        "proc/sys/kernel/sched_rt_runtime_us": "1900000",
        "proc/sys/kernel/sched_rt_period_us": "2000000",
        "sys/kernel/debug/sched/features": "NO_PLACE_LAG",
        "sys/kernel/debug/sched/fair_server/cpu0/runtime": "1500000000",
        "sys/kernel/debug/sched/fair_server/cpu0/period": "2000000000",
        "sys/kernel/debug/sched/fair_server/cpu1/runtime": "1500000000",
        "sys/kernel/debug/sched/fair_server/cpu1/period": "2000000000",
    }
    assert tree.texts() == before
    assert tree.kept() == set()


@pytest.mark.usefixtures("tree")
def test_every_original_is_on_the_disk_before_anything_is_written() -> None:
    seen = []

    def before(operation: str) -> None:
        seen.append(operation)
        if " to " in operation:
            assert len(pending()) == 8

    operations.before = before
    _apply(SETTINGS)
    first = next(index for index, operation in enumerate(seen) if " to " in operation)
    assert seen[first - 3 : first] == [
        "sync the new journal",
        "rename the new journal",
        "sync the directory",
    ]


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"base_slice": "20"}, InputError, "no unit"),
        ({"base_slice": "5s"}, InputError, "100us to 1s"),
        ({"latency": "5ms"}, InputError, "base_slice"),
        ({"nonsense": "5ms"}, InputError, "known: latency"),
        ({"feature.LAST_BUDDY": "1"}, InputError, "its features are"),
        ({"rt_period": "900ms", "rt_runtime": "901ms"}, InputError, "rt_period"),
        ({"fair_server_runtime": "2s"}, InputError, "at most fair_server_period, which is 1s"),
        ({"base_slice": "3ms", "nr_migrate": "8"}, NotPermittedError, "nr_migrate"),
    ],
)
def test_what_cannot_be_set_is_refused_before_anything_is(
    tree: Tree, settings: dict[str, str], error: type[Exception], said: str
) -> None:
    before = tree.texts()
    with pytest.raises(error, match=said):
        _apply(settings)
    assert tree.texts() == before


def test_a_runtime_is_checked_against_the_present_period(tree: Tree) -> None:
    tree.file("proc/sys/kernel/sched_rt_period_us").write_text("3000000")
    _apply({"rt_runtime": "2s"})  # above the default of the period, which is 1 s
    with pytest.raises(InputError, match="at most rt_period, which is 3s"):
        _apply({"rt_runtime": "3001ms"})
    tree.file("proc/sys/kernel/sched_rt_runtime_us").write_text("-1")
    _apply({"rt_period": "1ms"})


@pytest.mark.usefixtures("tree")
def test_a_value_that_the_kernel_rounds_is_told(caplog: pytest.LogCaptureFixture) -> None:
    _apply({"rr_timeslice": "5ms"})
    assert not caplog.text
    _apply({"rr_timeslice": "1500us"})
    assert "rr_timeslice was set to 1.5ms; the kernel holds 1ms" in caplog.text


@contextmanager
def _refusing(start: str, number: int) -> Iterator[None]:
    """Have every operation whose name starts so fail."""

    def before(operation: str) -> None:
        if operation.startswith(start):
            raise OSError(number, os.strerror(number))

    operations.before = before
    yield
    operations.before = operations._nothing


def test_what_the_kernel_refuses_is_told_and_the_rest_put_back(tree: Tree) -> None:
    before = tree.texts()
    with (
        _refusing("write 1900000", errno.EBUSY),
        pytest.raises(RunError, match=r"refused 1900000 in .*runtime_us: Device or resource busy"),
    ):
        _apply(SETTINGS)
    assert tree.texts() | {"sys/kernel/debug/sched/features": ""} == before | {
        "sys/kernel/debug/sched/features": ""
    }
    assert tree.kept() == set()


@pytest.mark.parametrize(
    ("operation", "number", "error"),
    [
        ("make state", errno.EROFS, NotPermittedError),
        ("lock", errno.EACCES, NotPermittedError),
        ("open the new journal", errno.ENOSPC, RunError),
        ("write the new journal", errno.ENOSPC, RunError),
        ("sync the new journal", errno.EIO, RunError),
        ("rename the new journal", errno.EROFS, NotPermittedError),
        ("sync the directory", errno.EIO, RunError),
    ],
)
def test_without_a_journal_nothing_is_set(
    tree: Tree, operation: str, number: int, error: type[SchedlabError]
) -> None:
    before = tree.texts()
    if operation == "sync the directory":
        tree.state.mkdir()  # the sync of the journal's rename, not of the directory's making
    with _refusing(operation, number), pytest.raises(error) as refusal:
        _apply({"rr_timeslice": "5ms"})
    said = str(refusal.value)
    assert os.strerror(number) in said
    assert "nothing was set (SCHEDLAB_STATE_DIR names another directory)" in said
    assert "\n" not in said
    assert tree.texts() == before
    assert restore() == [] or operation == "sync the directory"
    assert not tree.state.exists() or tree.kept() == set()


def test_a_full_disk_leaves_the_lock_usable(tree: Tree) -> None:
    with _refusing("write the lock's pid", errno.ENOSPC):
        _apply({"rr_timeslice": "5ms"})
    assert tree.kept() == set()


def test_a_file_in_the_directorys_place_is_one_line(tree: Tree) -> None:
    tree.state.write_text("")
    with pytest.raises(RunError, match="nothing was set"):
        _apply({"rr_timeslice": "5ms"})


def test_an_original_that_cannot_be_put_back_stays_in_the_journal(tree: Tree) -> None:
    settings = {"rr_timeslice": "5ms", "autogroup": "0"}
    with (
        pytest.raises(RunError, match=r"rr_timeslice_ms to 100: Device or resource busy"),
        _refusing("write 100 ", errno.EBUSY),
    ):
        _apply(settings)
    # The others are back, and no further run begins on top of it while it stays so.
    assert (tree.sysctl("rr_timeslice_ms"), tree.sysctl("autogroup_enabled")) == ("5", "1")
    with _refusing("write 100 ", errno.EBUSY), pytest.raises(RunError, match="put back"):
        _apply({"autogroup": "0"})
    assert tree.sysctl("autogroup_enabled") == "1"
    assert {one.knob: one.original for one in restore()} == {
        "rr_timeslice": "100",
        "autogroup": "1",
    }
    assert tree.sysctl("rr_timeslice_ms") == "100"
    assert tree.kept() == set()


def test_what_cannot_be_put_back_may_be_forgotten(tree: Tree) -> None:
    with pytest.raises(RunError), _refusing("write 100 ", errno.EBUSY):
        _apply({"rr_timeslice": "5ms"})
    with _refusing("write 100 ", errno.EBUSY):
        assert restore(forget=True) == []
        assert tree.kept() == {"knobs.journal.forgotten"}
        _apply({"autogroup": "0"})


def _set_by_hand(tree: Tree, name: str, raw: str) -> None:
    tree.file(f"proc/sys/kernel/sched_{name}").write_text(raw)


def test_a_value_that_is_set_by_hand_during_the_run_stays_and_is_told(tree: Tree) -> None:
    with (
        pytest.raises(RunError, match=r"_ms is 70, which is not the 5 .* \(it was 100 before\)"),
        applied({"rr_timeslice": "5ms", "autogroup": "0"}, "6.12", 2),
    ):
        _set_by_hand(tree, "rr_timeslice_ms", "70")
    assert (tree.sysctl("rr_timeslice_ms"), tree.sysctl("autogroup_enabled")) == ("70", "1")
    assert tree.kept() == set()


def test_no_limit_set_by_hand_stays_although_we_pass_by_it(tree: Tree) -> None:
    with (
        pytest.raises(RunError, match="is -1, which is not the 1900000 that was set"),
        applied({"rt_runtime": "1900ms", "rt_period": "2s"}, "6.12", 2),
    ):
        _set_by_hand(tree, "rt_runtime_us", "-1")
    assert (tree.sysctl("rt_runtime_us"), tree.sysctl("rt_period_us")) == ("-1", "1000000")


KILLED = """
import os, signal, sys
from pathlib import Path
from schedlab.knobs import applied, operations, places
places.root = Path(sys.argv[1])
write = operations.write_setting
operations.write_setting = lambda path, text: write(path, "4" if text == "5" else text)
with applied({"rr_timeslice": "5ms"}, "6.12", 2):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def _left_by_a_killed_run(tree: Tree) -> None:
    """Kill a run that set 5 ms, of which the kernel makes one tick of 250 Hz."""
    code = subprocess.run([sys.executable, "-c", KILLED, tree.root], check=False).returncode
    assert code == -signal.SIGKILL
    assert tree.sysctl("rr_timeslice_ms") == "4"


def test_a_setting_that_the_kernel_rounded_is_ours_after_a_kill(tree: Tree) -> None:
    _left_by_a_killed_run(tree)
    assert [(one.found, one.original, one.left) for one in restore()] == [("4", "100", False)]
    assert tree.sysctl("rr_timeslice_ms") == "100"


def test_the_next_run_begins_with_what_was_set_by_hand_after_a_kill(
    tree: Tree, caplog: pytest.LogCaptureFixture
) -> None:
    _left_by_a_killed_run(tree)
    _set_by_hand(tree, "rr_timeslice_ms", "70")
    with applied({"rr_timeslice": "20ms"}, "6.12", 2):
        assert tree.sysctl("rr_timeslice_ms") == "20"
    assert tree.sysctl("rr_timeslice_ms") == "70"
    assert "is 70, which is not the 5 that was set: left as it is" in caplog.text
    assert tree.kept() == {"knobs.journal.changed"}


def test_no_other_user_can_open_the_lock_and_a_foreign_holder_is_named(tree: Tree) -> None:
    lock = tree.state / "knobs.lock"
    tree.state.mkdir()
    # An older one that all may read, and so lock, is closed too.
    lock.write_text("1\n")
    lock.chmod(0o644)
    _apply({"autogroup": "0"})
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    holder = subprocess.Popen(
        ["flock", "--no-fork", lock, "sh", "-c", "echo held; read line"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    # The file has the number of the run before, which is this process.
    assert lock.read_text() == f"{os.getpid()}\n"
    with pytest.raises(RunError, match=rf"is held by pid {holder.pid}, 'sh', which did not write"):
        _apply({"autogroup": "0"})
    holder.communicate()
    _apply({"autogroup": "0"})


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
def test_a_state_directory_that_others_may_write_is_refused(tree: Tree, mode: int) -> None:
    tree.state.mkdir()
    tree.state.chmod(mode)
    with pytest.raises(RunError, match=rf"written by others \(mode {mode:o}\); nothing was set"):
        _apply({"autogroup": "0"})
    # Nor is a journal believed that lies there.
    (tree.state / "knobs.journal").write_text("")
    for act in (restore, commands):
        with pytest.raises(RunError, match="may be written by others"):
            act()
    assert tree.sysctl("autogroup_enabled") == "1"


def test_a_state_directory_below_one_that_others_may_write_is_refused(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    above = tree.root / "above"
    above.mkdir()
    above.chmod(0o777)
    monkeypatch.setenv(state.VARIABLE, str(above / "state"))
    with pytest.raises(RunError, match=r"above'.* may be written by others \(mode 777\)"):
        _apply({"autogroup": "0"})
    # As in /tmp: what is there can be replaced by its owner alone.
    above.chmod(0o1777)
    _apply({"autogroup": "0"})


def test_a_state_directory_that_is_a_link_is_refused(tree: Tree) -> None:
    (tree.root / "target").mkdir()
    tree.state.symlink_to(tree.root / "target")
    with pytest.raises(RunError, match="is a symbolic link; nothing was set"):
        _apply({"autogroup": "0"})


@pytest.mark.skipif(os.geteuid() != 0, reason="GIVING A DIRECTORY AWAY NEEDS ROOT")
def test_a_state_directory_of_another_user_is_refused(tree: Tree) -> None:
    tree.state.mkdir()
    os.chown(tree.state, 65534, 65534)
    with pytest.raises(RunError, match="belongs to user 65534, not to 0; nothing was set"):
        _apply({"autogroup": "0"})


def test_two_runs_at_once_are_refused_and_the_first_is_named(tree: Tree) -> None:
    with applied({"autogroup": "0"}, "6.12", 2):
        script = "from schedlab.knobs import state\nwith state.locked(): pass"
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=False
        )
        assert f"another run has set knobs (pid {os.getpid()})" in done.stderr
        for again in (restore, lambda: _apply({"rr_timeslice": "5ms"})):
            with pytest.raises(RunError, match="this process"):
                again()
        assert tree.sysctl("autogroup_enabled") == "0"
    _apply({"rr_timeslice": "5ms"})


class _Ended(Exception):  # noqa: N818
    pass


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_at_any_operation_puts_everything_back(tree: Tree, number: signal.Signals) -> None:
    """Twice at each operation: the second is not impatience."""

    def handler(*_: object) -> None:
        raise _Ended

    before = tree.texts() | {"sys/kernel/debug/sched/features": "PLACE_LAG"}
    previous = signal.signal(number, handler)
    try:
        for step in range(1, 1000):
            remaining = step

            def at(_: str) -> None:
                nonlocal remaining
                remaining -= 1
                if remaining == 0:
                    os.kill(os.getpid(), number)
                    os.kill(os.getpid(), number)

            operations.before = at
            with suppress(_Ended), applied(SETTINGS, "6.12", 2):
                operations.before("run the workload")
            assert tree.texts() == before, step
            assert tree.kept() == set(), step
            assert signal.getsignal(number) is handler
            if remaining > 0:  # it has fewer operations
                break
    finally:
        signal.signal(number, previous)
    assert step > 25


SCRIPT = """
import signal, sys, time
from pathlib import Path
from schedlab.knobs import applied, places
places.root = Path(sys.argv[1])
signal.signal(signal.SIGHUP, signal.SIG_DFL)
with applied({"rr_timeslice": "5ms"}, "6.12", 2):
    print("set", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_a_program_ends_it_after_putting_back(
    tree: Tree, number: signal.Signals
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, tree.root],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "set\n"
    assert tree.sysctl("rr_timeslice_ms") == "5"
    process.send_signal(number)
    process.stdout.close()
    assert process.wait(30) == -number
    assert tree.sysctl("rr_timeslice_ms") == "100"
    assert tree.kept() == set()


def test_a_kill_at_every_operation_loses_nothing(tree: Tree) -> None:
    tree.file("sys/kernel/debug/sched/features").write_text("PLACE_LAG")
    before = tree.texts()
    done = subprocess.run(
        [
            sys.executable,
            WALK,
            tree.root,
            "6.12",
            "rt_runtime=1900ms",
            "rt_period=2s",
            "feature.PLACE_LAG=0",
            "--",
            "autogroup=0",
        ],
        env={**os.environ, state.VARIABLE: str(tree.state)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "every original is back, no journal is left" in done.stdout
    # The directory takes two operations, the lock two, the journal five; three places and the way
    # by no limit four, and four back; the workload one, the journal's end two. Since one of them
    # goes by way of no limit, the journal is written again, before the workload and after it.
    assert "walked 30 operations" in done.stdout, done.stdout
    assert tree.texts() == before
