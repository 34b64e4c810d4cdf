"""What a kernel image's file says of itself.

The fields are those of the kernel's boot protocol (``Documentation/arch/x86/boot.rst``).
"""

import platform
from pathlib import Path

from schedlab.boundary.errors import InputError

_MAGIC = 0x202
_VERSION_POINTER = 0x20E


def release_of(file: Path) -> str:
    """Return the release of a kernel image, as ``uname -r`` prints it in its guest.

    Args:
        file: a ``vmlinuz`` (a ``bzImage``).

    Raises:
        InputError: it cannot be read, or is no kernel image for this machine.
    """
    if platform.machine() != "x86_64":
        raise InputError(f"guests run on x86_64 machines; this is {platform.machine()}")
    try:
        with file.open("rb") as stream:
            data = stream.read(1 << 16)
    except OSError as error:
        raise InputError(f"cannot read the kernel '{file}': {error.strerror}") from None
    if data[_MAGIC : _MAGIC + 4] != b"HdrS":
        raise InputError(f"'{file}' is no Linux kernel: a vmlinuz (bzImage) is needed")
    # The pointer counts from the end of the boot sector.
    start = int.from_bytes(data[_VERSION_POINTER : _VERSION_POINTER + 2], "little") + 0x200
    words = data[start : start + 128].partition(b"\0")[0].decode("ascii", errors="replace").split()
    if not words or not words[0][:1].isdigit():
        raise InputError(f"'{file}' does not say which kernel it is: a vmlinuz is needed")
    return words[0]
