"""What tests of this machine's kernel need, where not every machine has it."""

import os
from pathlib import Path

import pytest

_TRACEFS = [Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing")]

recordable = pytest.mark.skipif(
    os.geteuid() != 0 or not any((place / "instances").is_dir() for place in _TRACEFS),
    reason="RECORDING NEEDS ROOT AND TRACEFS",
)

rt_app_examples = pytest.mark.skipif(
    not Path("/usr/share/doc/rt-app/examples").is_dir(),
    reason="THE LINES OF BEHAVIOUR NEED THE EXAMPLES OF DEBIAN'S RT-APP",
)
