"""Broken and hostile recordings: one line that says what is wrong, and nothing else."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from schedlab.cli.main import invoke

RECORDING = Path(__file__).parent.parent / "crates/replay/tests/fixtures/hogs-6.1.txt.gz"

Lines = list[str]


def _backwards(lines: Lines) -> Lines:
    head = [line for line in lines if line.startswith("#") and not line.startswith("# end")]
    return [*head, *reversed([line for line in lines if not line.startswith("#")]), lines[-1]]


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (lambda _: [], "no event"),
        (lambda lines: lines[:-1], "last line"),
        (lambda lines: [*lines[:-1], "# end: events=7"], "as many events"),
        (lambda lines: ["# schedlab recording 9", *lines[1:]], "'# schedlab recording 1'"),
        (lambda lines: [*lines[:-9], "CPU:0 [LOST 5 EVENTS]", *lines[-9:]], "lost events"),
        (lambda lines: [*lines[:-9], "x" * 100_000, *lines[-9:]], "at most 65536 bytes"),
        (lambda lines: [line.replace("next_pid=", "next_pid=9999999999") for line in lines], "pid"),
        (_backwards, "no earlier time"),
    ],
)
def test_a_broken_recording_is_refused_in_a_line(
    broken: Callable[[Lines], Lines],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = gzip.decompress(RECORDING.read_bytes()).decode().splitlines()
    file = tmp_path / "trace.txt"
    file.write_text("\n".join(broken(lines)) + "\n")
    _refused(file, words, capsys)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("noise.txt", bytes(range(128, 256)) * 9, "UTF-8"),
        ("noise.txt.gz", bytes(range(256)) * 9, "noise.txt.gz"),
        ("cut.txt.gz", RECORDING.read_bytes()[:20_000], "reading the trace"),
    ],
)
def test_what_is_no_recording_is_refused_in_a_line(
    name: str, content: bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    _refused(file, words, capsys)
    _refused(tmp_path, "directory", capsys)
    _refused(tmp_path / "none.txt", "No such file", capsys)


def _refused(file: Path, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["replay", str(file)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert words in said.err
    assert file.name in said.err
