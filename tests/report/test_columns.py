"""Tables on terminals of any width."""

import io
import os
import pty
import re
import select
import subprocess
import sys
import time

import pytest
from rich.console import Console

from schedlab.report import terminal
from schedlab.report.columns import GAP, blocks

HEADINGS = ("what is run", "longest delay", "CPUs", "change", "verdict")
ROWS = (
    ("hackbench:groups=5,loops=10,datasize=100 | policy=fifo:1", "1.235 ms", "2", "-10.0%", "same"),
    ("pipe", "75.15 us", "128", "+3.4%", "inconclusive"),
)


@pytest.mark.parametrize("width", range(30, 130, 3))
def test_every_column_is_there_once_and_fits(width: int) -> None:
    found = blocks(ROWS, HEADINGS, left=1, width=width)
    assert [column for block in found for column in block.columns if column] == [1, 2, 3, 4]
    for block in found:
        assert block.columns[0] == 0
        assert sum(block.widths) + GAP * (len(block.widths) - 1) <= width


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_nothing_of_a_cell_is_cut_off(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.StringIO()
    console = Console(file=text, width=width, force_terminal=True, color_system=None)
    monkeypatch.setattr(terminal, "out", lambda: console)
    terminal.show(ROWS, HEADINGS)
    printed = text.getvalue()
    assert "…" not in printed
    assert all(len(line.rstrip()) <= width for line in printed.splitlines())
    # Values and their units stay on a line; a folded name's letters are there, in their order.
    for row in ROWS:
        assert all(cell in printed for cell in row[1:])
    letters = iter(re.sub(r"\s", "", printed))
    assert all(letter in letters for letter in ROWS[0][0].replace(" ", ""))


def test_a_pipe_gets_whole_lines(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.show(ROWS, HEADINGS)
    assert ROWS[0][0] in capsys.readouterr().out


def _on_a_terminal(program: str, columns: int) -> str:
    """Return what a program prints on a terminal of so many columns."""
    ours, its = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "LINES": "40", "TERM": "xterm"}
    environment.pop("NO_COLOR", None)
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdin=its, stdout=its, stderr=its, env=environment
    )
    os.close(its)
    found = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if not select.select([ours], [], [], 1)[0]:
            continue
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other side was closed
            break
        if not part:
            break
        found += part
    os.close(ours)
    assert child.wait(timeout=60) == 0, found
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", found.decode()).replace("\r\n", "\n")


_RUN = """
from schedlab.cli.main import invoke
words = "hackbench:groups=1,fds=2,loops=2 --kernel 6.1 --cpus 2 --costs linsched"
raise SystemExit(invoke(["run", *words.split()]))
"""


@pytest.mark.parametrize("columns", [60, 80])
def test_run_on_a_narrow_terminal_shows_every_column(columns: int) -> None:
    printed = _on_a_terminal(_RUN, columns)
    assert "…" not in printed
    for heading in ("voluntary", "involuntary", "migrations", "delays", "avg delay", "max delay"):
        assert all(word in printed for word in heading.split())


_WAIT = """
import time
from schedlab.report.terminal import waiting
with waiting("simulating", patience={patience}):
    time.sleep({seconds})
print("done")
"""


def test_a_long_run_says_on_a_terminal_that_it_goes_on() -> None:
    assert "simulating" in _on_a_terminal(_WAIT.format(patience=0.0, seconds=0.5), 80)


def test_a_short_run_and_a_pipe_say_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    assert "simulating" not in _on_a_terminal(_WAIT.format(patience=60.0, seconds=0.0), 80)
    with terminal.waiting("simulating", patience=0.0):
        pass
    assert "simulating" not in capfd.readouterr().err
