"""Files and groups that killed runs left are removed, and nothing else."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from tests.family import runs

from schedlab.processes import leftovers


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    leftovers.sweep.cache_clear()


def _dead_mark() -> str:
    """Return the mark of a process that has ended."""
    code = "from schedlab.processes import leftovers; print(leftovers.mark())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_directories_of_the_dead_go_and_others_stay(tmp_path: Path) -> None:
    dead = _dead_mark()
    gone = tmp_path / f"schedlab-fio-{dead}-x"
    pid, _, namespace = dead.split("-")
    kept = [
        tmp_path / f"schedlab-fio-{leftovers.mark()}-x",
        # Not ours to judge: another PID namespace, no mark, another program's.
        tmp_path / f"schedlab-fio-{pid}-1-{int(namespace) + 1}-x",
        tmp_path / "schedlab-notes",
        tmp_path / f"other-fio-{dead}-x",
    ]
    for place in (gone, *kept):
        (place / "inner").mkdir(parents=True)
    leftovers.sweep()
    assert not gone.exists()
    assert all((place / "inner").is_dir() for place in kept)


def test_a_link_is_never_removed(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.mkdir()
    (target / "file").touch()
    (tmp_path / f"schedlab-fio-{_dead_mark()}-x").symlink_to(target)
    leftovers.sweep()
    assert (target / "file").exists()


def test_processes_of_the_dead_end_and_others_stay() -> None:
    def sleeper(mark: str) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(["sleep", "60"], env={**os.environ, leftovers.VARIABLE: mark})
        # The pipe that tells of the exec closes a moment before the environment is there.
        while mark.encode() not in Path(f"/proc/{process.pid}/environ").read_bytes():
            time.sleep(0.001)
        return process

    ours, orphan = sleeper(leftovers.mark()), sleeper(_dead_mark())
    try:
        leftovers.sweep()
        assert not runs(orphan.pid)
        assert runs(ours.pid)
    finally:
        for process in (ours, orphan):
            process.kill()
            process.wait()


def test_the_command_of_a_dead_run_does_not_end_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    # schedlab, run as the command of a schedlab that was killed, has that one's mark.
    code = "from schedlab.processes import leftovers; leftovers.sweep(); print('alive')"
    monkeypatch.setenv(leftovers.VARIABLE, _dead_mark())
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "alive\n"


def test_a_ctrl_c_while_a_directory_is_removed_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unlink, calls = os.unlink, iter(range(100))

    def interrupted(*words: Any, **named: Any) -> None:
        if next(calls) == 1:
            raise KeyboardInterrupt
        unlink(*words, **named)

    kept: list[Path] = []

    def leave() -> None:
        with leftovers.directory("example") as place:
            kept.append(place)
            for number in range(3):
                (place / str(number)).touch()
            monkeypatch.setattr(os, "unlink", interrupted)

    with pytest.raises(KeyboardInterrupt):
        leave()
    monkeypatch.undo()
    assert not kept[0].exists()
