"""The kernel modules that a guest needs before it has a file system.

Dependencies are read from the modules themselves (``modinfo``'s field ``depends``), so a kernel
that was unpacked and never installed, without ``modules.dep``, will do.
"""

import lzma
import re
from collections.abc import Sequence
from pathlib import Path

from schedlab.boundary.errors import InputError

NEEDED = ("virtio_pci", "9p", "9pnet_virtio", "overlay")
"""What the guest's devices and file systems are driven by."""

_DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")


def load_order(
    directory: Path | None, needed: Sequence[str] = NEEDED, *, where_there: Sequence[str] = ()
) -> list[tuple[str, bytes]]:
    """Return the modules to be loaded, each after those it depends on, as file name and content.

    Args:
        directory: the kernel's modules; None for a kernel with everything built in.
        needed: what is wanted.
        where_there: what is wanted if the kernel has it.

    Raises:
        InputError: the kernel has one of them neither as a module nor built in.
    """
    if directory is None:
        return []
    files = {_name(path): path for path in (directory / "kernel").rglob("*.ko*")}
    built_in = {
        _name(Path(line))
        for line in (directory / "modules.builtin").read_text(encoding="ascii").splitlines()
    }
    done: dict[str, bytes] = {}

    def add(name: str, wanted_by: str) -> None:
        if name in done or name in built_in:
            return
        if name not in files:
            raise InputError(f"kernel {directory.name} has no module '{name}', needed {wanted_by}")
        data = _content(files[name])
        match = _DEPENDS.search(data)
        for dependency in match.group(1).decode("ascii").split(",") if match else ():
            if dependency:
                add(dependency.replace("-", "_"), f"by '{name}'")
        done[name] = data

    for name in (*(one for one in where_there if one in files), *needed):
        add(name, "in a guest")
    return [(f"{name}.ko", data) for name, data in done.items()]


def _name(path: Path) -> str:
    return path.name.partition(".")[0].replace("-", "_")


def _content(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix == ".ko":
        return data
    if path.suffix == ".xz":
        return lzma.decompress(data)
    raise InputError(f"'{path}' is compressed in a way that is not read here: .ko and .ko.xz are")
