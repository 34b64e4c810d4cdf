"""A full disk: one line, and everything that was finished before is kept."""

import json
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import needs

from schedlab import _core
from schedlab.cli.main import invoke
from schedlab.store import Store
from schedlab.targets.facts import facts

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 300 KiB."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("MAKING A SMALL FILE SYSTEM NEEDS ROOT")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def _fill(place: Path) -> None:
    with (place / "filling").open("ab", buffering=0) as file:
        for size in (4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


def _one_line(capsys: Capture) -> str:
    error = capsys.readouterr().err
    lines = [line for line in error.splitlines() if not line.startswith("note:")]
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    return lines[0]


def test_a_tuning_ends_with_what_it_has(small: Path, capsys: Capture) -> None:
    script = "echo v 7; head -c 3000 /dev/zero | tr '\\0' x"
    line = ["tune", "--by", "random", "--executions", "60", "--policy", "other,batch,idle"]
    line += ["--slice", "1ms..50ms", "--on", "host", "--metric", "v (.*)", "--better", "lower"]
    if not json.loads(_core.release(facts().kernel))["eevdf"]:
        pytest.skip(f"KERNEL {facts().release} GIVES TASKS NO SLICES (6.12 on)")
    file = small / "runs.db"
    assert invoke([*line, "--store", str(file), "--", "sh", "-c", script]) == 1
    assert "the runs that were finished before are kept" in _one_line(capsys)
    with sqlite3.connect(file) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with Store(file, create=False) as store:
        (stored,) = store.experiments()
        assert stored.runs == len(store.values(stored.id)) > 0


@needs.debian("apache2", "wrk")
def test_what_is_written_is_there_whole_or_not_at_all(
    small: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "runs.db"
    line = "compare pipe --policy other,fifo --kernel 6.1 --costs linsched --cpus 1"
    assert invoke([*line.split(), "--store", str(store)]) == 0
    with Store(store, create=False) as kept:
        identity = kept.experiments()[0].id
    capsys.readouterr()
    _fill(small)
    before = sorted(small.iterdir())
    page = small / "page.md"
    assert invoke(["report", identity, "--output", str(page), "--store", str(store)]) == 1
    assert f"cannot write '{page}': No space left on device" in _one_line(capsys)
    # A benchmark's own files are on the full disk.
    monkeypatch.setattr("tempfile.tempdir", str(small))
    run = ["tune", "apache:time=1s", "--policy", "other,batch", "--on", "host"]
    assert invoke([*run, "--store", str(store)]) == 1
    assert "No space left on device" in _one_line(capsys)
    assert sorted(small.iterdir()) == before
