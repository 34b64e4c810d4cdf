"""A kernel whose knobs are files of ours."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from schedlab.knobs import operations, places, state

BOOT = "6d0e2b2a-0000-4000-8000-000000000001"

FILES = {
    "proc/sys/kernel/random/boot_id": BOOT,
    "proc/sys/kernel/sched_rr_timeslice_ms": "100",
    "proc/sys/kernel/sched_rt_runtime_us": "950000",
    "proc/sys/kernel/sched_rt_period_us": "1000000",
    "proc/sys/kernel/sched_autogroup_enabled": "1",
    "sys/kernel/debug/sched/base_slice_ns": "1400000",
    "sys/kernel/debug/sched/features": "PLACE_LAG RUN_TO_PARITY NO_NEXT_BUDDY",
    "sys/kernel/debug/sched/fair_server/cpu0/runtime": "50000000",
    "sys/kernel/debug/sched/fair_server/cpu0/period": "1000000000",
    "sys/kernel/debug/sched/fair_server/cpu1/runtime": "50000000",
    "sys/kernel/debug/sched/fair_server/cpu1/period": "1000000000",
}


class Tree:
    """The tree: ``proc`` and ``sys`` of a kernel 6.12, and the state directory beside them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state = root / "state"
        for name, text in FILES.items():
            self.file(name).parent.mkdir(parents=True, exist_ok=True)
            self.file(name).write_text(f"{text}\n")

    def file(self, name: str) -> Path:
        return self.root / name

    def texts(self) -> dict[str, str]:
        """What every file holds."""
        return {name: self.file(name).read_text().strip() for name in FILES}

    def sysctl(self, name: str) -> str:
        return self.file(f"proc/sys/kernel/sched_{name}").read_text().strip()

    @property
    def journal(self) -> Path:
        return self.state / "knobs.journal"

    def kept(self) -> set[str]:
        """The names of what the state directory holds beside the lock."""
        return {file.name for file in self.state.iterdir()} - {"knobs.lock"}


@pytest.fixture
def tree(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tree]:
    # In memory, where syncing thousands of times costs nothing.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory, prefix="schedlab-knobs-") as directory:
        made = Tree(Path(directory))
        monkeypatch.setattr(places, "root", made.root)
        monkeypatch.setenv(state.VARIABLE, str(made.state))
        yield made
        operations.before = operations._nothing
