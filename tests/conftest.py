"""What every test of the package shares."""

import signal
from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings

from schedlab.errors import SchedlabError
from schedlab.vm import archive, cached
from schedlab.vm.kernels import KernelImage

# The same examples on every run and machine, and no limit on time: a slow machine is no failure.
settings.register_profile("schedlab", derandomize=True, deadline=None)
settings.load_profile("schedlab")

# A shell has what it starts in the background ignore interrupts, and so would what tests start.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def _own_data_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep whoever runs the tests their own calibration, and it out of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(scope="session")
def fetched() -> Callable[[str], KernelImage]:
    """Return what gives the kernel of a series, or skips the test, saying why there is none."""

    def find(series: str) -> KernelImage:
        found = [kernel for kernel in cached() if kernel.series == series]
        if found:
            return found[-1]
        try:
            return archive.get(series, [])
        except SchedlabError as error:
            pytest.skip(f"NO KERNEL {series} TO BOOT: {error}")

    return find
