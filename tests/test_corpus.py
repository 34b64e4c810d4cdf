"""Inputs that once made the program fail, hang or fill the memory: each is read or refused.

scripts/fuzz puts new ones into tests/corpus/PARSER/.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FILES = sorted(path for path in (TESTS / "corpus").glob("*/*") if path.is_file())


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_an_input_that_once_was_a_fault_is_read_or_refused(path: Path) -> None:
    # A process of its own: the fault may be a crash, or memory that its limit ends.
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzzing", path],
        cwd=TESTS.parent,
        env={**os.environ, "MALLOC_ARENA_MAX": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
