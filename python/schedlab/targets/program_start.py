"""How a program starts under its policy, nice level, slice and affinity.

They are set between fork and exec (``sched_setattr(2)``), so that the program and all it starts
inherit them, and a policy that may not be set is told before anything runs.
"""

import ctypes
import errno
import os
from collections.abc import Callable

from schedlab.boundary.errors import InputError, NotPermittedError
from schedlab.model import Attributes, parse_time

_POLICIES = {"other": 0, "fifo": 1, "rr": 2, "batch": 3, "idle": 5}
_SYSCALL = {"x86_64": 314, "aarch64": 274}


class _SchedAttr(ctypes.Structure):
    """``struct sched_attr`` of ``include/uapi/linux/sched/types.h``, version 0."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    )


def starting(attributes: Attributes | None) -> Callable[[], None] | None:
    """Return what a child does before it becomes the program; None for nothing.

    Args:
        attributes: of the program.

    Raises:
        InputError: a policy that cannot be given to programs.
        NotPermittedError: this user may not set them; they are tried on a child first.

    >>> starting(None) is None
    True
    """
    if attributes is None:
        return None
    library = ctypes.CDLL(None, use_errno=True)
    attr, cpus = _attr(attributes), attributes.affinity
    number = _SYSCALL.get(os.uname().machine)
    if number is None:
        raise InputError(f"policies of programs cannot be set on {os.uname().machine}")

    def prepare() -> None:
        if cpus:
            os.sched_setaffinity(0, cpus)
        if library.syscall(number, 0, ctypes.byref(attr), 0) != 0:
            raise OSError(ctypes.get_errno(), "sched_setattr")

    _try(prepare, attributes)
    return prepare


def _attr(attributes: Attributes) -> _SchedAttr:
    # A sched_ext scheduler schedules the kernel's ordinary tasks.
    text = "other" if attributes.ext is not None else attributes.policy
    policy, _, priority = text.partition(":")
    if policy not in _POLICIES:
        raise InputError(
            f"a program cannot be given policy '{attributes.policy}'; allowed: "
            + ", ".join(_POLICIES)
        )
    attr = _SchedAttr(size=ctypes.sizeof(_SchedAttr), policy=_POLICIES[policy])
    attr.nice = attributes.nice
    if policy in ("fifo", "rr"):
        attr.priority = int(priority or 1)
    if attributes.slice is not None:
        attr.runtime = parse_time(attributes.slice)
    return attr


def _try(prepare: Callable[[], None], attributes: Attributes) -> None:
    """Find out in a child whether these attributes may be set."""
    child = os.fork()
    if child == 0:
        code = 0
        try:
            prepare()
        except OSError as error:
            code = error.errno or errno.EINVAL
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code in (errno.EPERM, errno.EACCES):
        raise NotPermittedError(f"this user may not start a program as {attributes}")
    if code != 0:
        raise InputError(f"a program cannot be started as {attributes}: {os.strerror(code)}")
