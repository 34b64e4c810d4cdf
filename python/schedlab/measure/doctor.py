"""What can be done on this machine, and why the rest cannot."""

import json
import shutil
from dataclasses import dataclass

from schedlab import _core, programs
from schedlab.boundary.errors import SchedlabError
from schedlab.knobs import Reading, pending, read_all
from schedlab.measure import calibration
from schedlab.model import Attributes
from schedlab.targets import ext, host
from schedlab.targets.facts import Facts, facts
from schedlab.vm import initramfs, kernels
from schedlab.vm.command import PACKAGE, QEMU

POLICIES = ("other", "batch", "idle", "fifo:1", "rr:1")
"""The policies that are tried."""

_TRIAL = "hogs:tasks=1,time=1us"


@dataclass(frozen=True, slots=True)
class Permission:
    """Something a user may set or not.

    Attributes:
        name: what.
        allowed: whether this user may set it here.
        why: why not; empty where allowed.
    """

    name: str
    allowed: bool
    why: str


@dataclass(frozen=True, slots=True)
class Check:
    """Something schedlab uses.

    Attributes:
        name: what.
        present: whether it is there.
        detail: where, or what to do.
        needed: whether nothing works without it.
    """

    name: str
    present: bool
    detail: str
    needed: bool


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """This machine.

    Attributes:
        facts: kernel and CPUs.
        policies: which this user may set.
        slices: whether tasks may ask for slices.
        knobs: every knob of this kernel.
        checks: programs and files.
    """

    facts: Facts
    policies: tuple[Permission, ...]
    slices: Permission
    knobs: tuple[Reading, ...]
    checks: tuple[Check, ...]

    @property
    def sound(self) -> bool:
        """Whether everything needed is there."""
        return all(check.present for check in self.checks if check.needed)


def diagnose() -> Diagnosis:
    """Look at this machine: each policy and a slice are tried on a task of a microsecond."""
    here = facts()
    return Diagnosis(
        facts=here,
        policies=tuple(_try(policy, Attributes(policy)) for policy in POLICIES),
        slices=_slices(here),
        knobs=tuple(read_all(here.release, here.cpus)),
        checks=_checks(),
    )


def _slices(here: Facts) -> Permission:
    if not json.loads(_core.release(here.release))["eevdf"]:
        return Permission("slice", False, f"kernel {here.release} gives tasks no slices (6.12 on)")
    return _try("slice", Attributes(slice="3ms"))


def _try(name: str, attributes: Attributes) -> Permission:
    try:
        host.run(_TRIAL, attributes=attributes, timeout=10, alone=False)
    except SchedlabError as error:
        return Permission(name, False, str(error))
    return Permission(name, True, "")


def _checks() -> tuple[Check, ...]:
    runner, loader = host.native_runner(), ext.built()
    return (
        *_for_guests(),
        Check(
            "native runner",
            runner is not None,
            str(runner) if runner else "not built: run 'make native'",
            needed=True,
        ),
        Check(
            "sched_ext scheduler's loader",
            loader is not None,
            str(loader) if loader else "not built: run 'make ext'",
            needed=False,
        ),
        _calibration(),
        _originals(),
        *_programs(),
    )


def _programs() -> tuple[Check, ...]:
    """Return every benchmark that experiments can run, with its package where it is missing."""
    found = ((name, package, programs.find(name)) for name, package in programs.PACKAGES.items())
    return tuple(
        Check(
            name,
            path is not None,
            path or f"not installed: apt-get install {package}",
            needed=False,
        )
        for name, package, path in found
    )


def _for_guests() -> tuple[Check, ...]:
    qemu, busybox = shutil.which(QEMU), initramfs.busybox()
    fetched = ", ".join(kernel.release for kernel in kernels.cached())
    return (
        Check(
            "QEMU, for guests",
            qemu is not None,
            qemu or f"not installed: apt-get install {PACKAGE}",
            needed=False,
        ),
        Check(
            "static busybox, for guests",
            busybox is not None,
            str(busybox) if busybox else f"not installed: apt-get install {initramfs.PACKAGE}",
            needed=False,
        ),
        Check(
            "kernels, for guests",
            bool(fetched),
            fetched or "none in the cache: run 'schedlab kernels get SERIES'",
            needed=False,
        ),
    )


def _originals() -> Check:
    names = ", ".join(sorted({entry.knob for entry in pending()}))
    detail = f"{names}: set by a run; if it was killed: 'schedlab knobs restore'" if names else ""
    return Check("knobs as they were", not names, detail or "no run has set any", needed=False)


def _calibration() -> Check:
    try:
        found = calibration.load()
    except SchedlabError as error:
        return Check("calibration", False, str(error), needed=False)
    stale = calibration.stale(found)
    return Check("calibration", stale is None, stale or f"of {found.date}", needed=False)
