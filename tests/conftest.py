"""What every test of the package shares."""

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from tests import needs

from schedlab.boundary.errors import SchedlabError
from schedlab.processes import lease
from schedlab.vm import archive, cached
from schedlab.vm.kernels import KernelImage

# The same examples on every run and machine, and no limit on time: a slow machine is no failure.
settings.register_profile("schedlab", derandomize=True, deadline=None)
settings.load_profile("schedlab")

# A shell has what it starts in the background ignore interrupts, and nohup a closed terminal; so
# would what tests start.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

_SKIPPED = Path(__file__).parents[1] / ".make" / "skipped"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Keep for the last lines of `make test` what was skipped (scripts/run-parts prints it)."""
    reasons = [
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.getreports("skipped")
        if isinstance(report.longrepr, tuple)
    ]
    if _SKIPPED.parent.is_dir():
        with _SKIPPED.open("a") as skipped:
            skipped.writelines(f"{line}\n" for line in needs.skipped_lines(reasons))


@pytest.fixture(autouse=True, scope="session")
def _own_data_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the user's calibration as it is, and out of the tests; and wait for no other command."""
    with pytest.MonkeyPatch.context() as patch:
        data = tmp_path_factory.mktemp("data")
        patch.setenv("XDG_DATA_HOME", str(data))
        patch.setenv(lease.VARIABLE, str(data / "lease"))
        yield


def _end(process: subprocess.Popen[Any]) -> None:
    if process.poll() is None:
        process.kill()


@pytest.fixture
def popen() -> Iterator[Callable[..., subprocess.Popen[Any]]]:
    """Return what starts a process, which ends with the test even if that fails.

    What a failed test left open would be told as a ResourceWarning of another one.
    """
    with ExitStack() as stack:

        def start(*arguments: Any, **options: Any) -> subprocess.Popen[Any]:
            process = stack.enter_context(subprocess.Popen(*arguments, **options))
            stack.callback(_end, process)
            return process

        yield start


@pytest.fixture(scope="session")
def fetched() -> Callable[[str], KernelImage]:
    """Return what gives the kernel of a series, or skips the test, saying why there is none."""

    def find(series: str) -> KernelImage:
        needs.require(*needs.GUEST)
        found = [kernel for kernel in cached() if kernel.series == series]
        if found:
            return found[-1]
        try:
            return archive.get(series, [])
        except SchedlabError as error:
            pytest.skip(f"NO KERNEL {series} TO BOOT: {error}")

    return find
