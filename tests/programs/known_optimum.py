"""A program whose run time depends on the policy and slice it is started with.

It sleeps for UNIT seconds at best, under SCHED_BATCH with a slice of 20 ms: twice as long under
another policy, and longer by half a UNIT for every factor of two between its slice and the best. It
prints how long it took by its own clock, which leaves out the interpreter's start. With the
argument ``flat`` it prints a number instead that nothing but noise of 0.3 % changes; with
``default`` one that is least where nothing is asked for.
"""

import ctypes
import math
import os
import random
import sys
import time

UNIT = 0.05
BEST_SLICE = 20e6
SYSTEM_CALL = {"x86_64": 315, "aarch64": 275}


class SchedAttr(ctypes.Structure):
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


def attributes() -> SchedAttr:
    """Return this process's own attributes."""
    attr = SchedAttr()
    number = SYSTEM_CALL[os.uname().machine]
    size = ctypes.sizeof(attr)
    if ctypes.CDLL(None).syscall(number, 0, ctypes.byref(attr), size, 0) != 0:
        raise SystemExit("sched_getattr failed")
    return attr


if __name__ == "__main__":
    mine = attributes()
    kind = sys.argv[1] if len(sys.argv) > 1 else ""
    if kind:
        asked = kind == "default" and mine.policy != 0
        sys.stdout.write(f"cost {(7 + asked) * math.exp(random.gauss(0, 0.003))}\n")
    else:
        octaves = abs(math.log2((mine.runtime or 1e6) / BEST_SLICE))
        began = time.monotonic()
        time.sleep(UNIT * (1 + (mine.policy != 3) + octaves / 2))
        sys.stdout.write(f"took {time.monotonic() - began}\n")
