"""What every test of the package shares."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

# The same examples on every run and machine, and no limit on time: a slow machine is no failure.
settings.register_profile("schedlab", derandomize=True, deadline=None)
settings.load_profile("schedlab")


@pytest.fixture(autouse=True, scope="session")
def _own_data_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep whoever runs the tests their own calibration, and it out of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield
