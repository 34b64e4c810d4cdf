"""What tests need that not every machine has: without it they are skipped, and it is named."""

import os
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from schedlab.targets import ext
from schedlab.vm import initramfs

_LIST = Path(__file__).parents[1] / "scripts" / "debian-packages.list"
_TRACEFS = [Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing")]
_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])


REASON = "NEEDS DEBIAN'S "
"""The beginning of the reason of a test skipped because packages are missing."""


def _probes() -> dict[str, tuple[str, ...]]:
    lines = _LIST.read_text(encoding="utf-8").splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return {package: tuple(probes) for _, package, *probes in rows}


PROBES = _probes()
"""What shows that a Debian package is there: programs and files."""


def missing(*packages: str) -> list[str]:
    """Return the packages of these that are not installed."""

    def there(probe: str) -> bool:
        if probe.startswith("/"):
            return Path(probe).exists()
        if probe.startswith("python:"):
            return True  # this Python is in an environment that was made
        if probe == "busybox":  # another package has one that is not static
            return initramfs.busybox() is not None
        return shutil.which(probe, path=_PATH) is not None

    return [one for one in packages if not all(there(probe) for probe in PROBES[one])]


def reason(packages: list[str]) -> str:
    """Return why a test is skipped that needs packages; tests/conftest.py counts these."""
    return REASON + " ".join(packages)


def skipped_lines(reasons: Iterable[str]) -> list[str]:
    """Return how many tests were skipped and why, with the command that installs what they need."""
    counts = Counter(reasons)
    lines = [f"== {counts.total()} tests were skipped"] if counts else []
    packages: set[str] = set()
    for why, count in counts.most_common():
        lines.append(f"{count:5} {why}")
        if why.startswith(REASON):
            packages.update(why.removeprefix(REASON).split())
    if packages:
        line = " ".join(sorted(packages))
        lines.append(f"to run those: apt-get install --no-install-recommends {line}")
    return lines


def debian(*packages: str) -> pytest.MarkDecorator:
    """Skip a test where one of these packages is not installed."""
    lacking = missing(*packages)
    return pytest.mark.skipif(bool(lacking), reason=reason(lacking))


def require(*packages: str) -> None:
    """Skip the running test where one of these packages is not installed."""
    if lacking := missing(*packages):
        pytest.skip(reason(lacking))


UNPACKED = Path(__file__).parents[1] / ".make" / "unpacked"
"""Where scripts/unpack-packages puts packages that are not installed."""


def _unpacked() -> bool:
    """Whether all that scripts/unpack-packages unpacks is there."""
    root = _LIST.parents[1]
    found = [probe for probes in PROBES.values() for probe in probes if probe.startswith(".make/")]
    return all((root / probe).exists() for probe in found)


tuned = pytest.mark.skipif(not _unpacked(), reason="TUNED IS NOT UNPACKED: scripts/unpack-packages")

unshare = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None,
    reason="MOUNTING IN A NAMESPACE NEEDS ROOT",
)

GUEST = ("qemu-system-x86", "busybox-static")
"""The packages that boot a guest."""

guest = debian(*GUEST)

recordable = pytest.mark.skipif(
    os.geteuid() != 0 or not any((place / "instances").is_dir() for place in _TRACEFS),
    reason="RECORDING NEEDS ROOT AND TRACEFS",
)

rt_app_examples = debian("rt-app")

ext_loader = pytest.mark.skipif(
    ext.built() is None,
    reason=reason(["libelf-dev", "zlib1g-dev", "pkg-config"])
    if missing("libelf-dev", "zlib1g-dev", "pkg-config")
    else "the sched_ext scheduler's loader was not built: make ext",
)
