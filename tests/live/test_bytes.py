"""The live page's module gives the same bytes as the native simulator."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests import needs

ROOT = Path(__file__).parents[2]
MODULE = ROOT / ".make" / "web.wasm"


@needs.debian("nodejs")
@pytest.mark.skipif(not MODULE.is_file(), reason="the live page was not built: make live")
def test_webassembly_answers_as_the_native_simulator_does() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "compare-web", "--workloads", "12"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    # 12 workloads under 7 series, each run and explained; most of them are no refusals.
    total, refused = (int(word) for word in done.stdout.split()[:3:2])
    assert total == 12 * 7 * 2
    assert refused < total / 3
