"""The package's build backend (PEP 517): maturin's, with the static programs and all sources.

maturin packs the extension module alone, and of the sources what that one needs. The native runner
and the sched_ext scheduler's loader are built by the Makefile's targets first. What is built says
nothing of where: two builds of the same sources with the same tools give the same bytes.
"""

import gzip
import io
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import maturin
from maturin import (
    build_editable,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

Settings = Mapping[str, Any] | None

_LEFT_OUT = (".ci/", ".github/", "docs/results/series/", "benches/")
"""Tracked files that are of no use in an sdist."""


class UnsupportedOperation(Exception):  # noqa: N818 - the name is PEP 517's
    """What this directory cannot give."""


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build the programs, then the wheel, and return its file's name."""
    with _reproducible():
        subprocess.run(["make", "--no-print-directory", "native", "ext", "live"], check=True)
        return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Pack what git tracks, as it is in the work tree, and return the file's name."""
    del config_settings
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z"], check=True, capture_output=True, text=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        raise UnsupportedOperation("an sdist is made in a git checkout") from None
    with tempfile.TemporaryDirectory() as directory:
        info = Path(directory, prepare_metadata_for_build_wheel(directory), "METADATA").read_bytes()
    version = next(
        line.split(": ")[1] for line in info.decode().splitlines() if line.startswith("Version: ")
    )
    name = f"schedlab-{version}"
    files = {
        file: Path(file).read_bytes()
        for file in listed.split("\0")
        if file and not file.startswith(_LEFT_OUT) and Path(file).is_file()
    }
    files["PKG-INFO"] = info
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", filename="", mtime=epoch) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for file, content in sorted(files.items()):
            entry = tarfile.TarInfo(f"{name}/{file}")
            entry.size, entry.mtime = len(content), epoch
            entry.mode = 0o755 if os.access(file, os.X_OK) else 0o644
            archive.addfile(entry, io.BytesIO(content))
    target = Path(sdist_directory, f"{name}.tar.gz")
    target.write_bytes(packed.getvalue())
    return target.name


@contextmanager
def _reproducible() -> Iterator[None]:
    """Have compilers write no path of this machine, and no time, into what they make."""
    here, home = Path.cwd(), Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    target = Path(os.environ.get("CARGO_TARGET_DIR", here / "target")).absolute()
    # The later of two that match counts: the target directory may be in the sources'.
    places = ((home, "/cargo"), (here, "/schedlab"), (target, "/target"))
    rust = " ".join(f"--remap-path-prefix={place}={name}" for place, name in places)
    c = " ".join(f"-ffile-prefix-map={place}={name}" for place, name in places)
    changed = {
        "RUSTFLAGS": f"{os.environ.get('RUSTFLAGS', '')} {rust}".strip(),
        "CFLAGS": f"{os.environ.get('CFLAGS', '')} {c}".strip(),
        "CARGO_INCREMENTAL": "0",
        "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", "315532800"),
    }
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
