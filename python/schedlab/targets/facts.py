"""What the running machine is."""

import gzip
import json
import os
import platform
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from schedlab import _core
from schedlab.boundary.errors import InputError
from schedlab.model import Scheduler

_USUAL_HZ = (100, 128, 250, 300, 512, 1000, 1024)


@dataclass(frozen=True, slots=True)
class Facts:
    """This machine.

    Attributes:
        kernel: what ``uname -r`` prints.
        release: the release as schedlab names it.
        stand_in: a sentence when other rules than this very release's stand in; else None.
        cpus: the CPUs this process may use.
        cpu_model: the CPUs' name.
        hz: timer interrupts a second.
        hz_source: where ``hz`` was read.
        root: whether this user is root.
        load: the load average of the last minute when this was read.
        preempt: the kernel's preemption model, ``none`` or ``full``.
        booted: knobs that the kernel's command line set, and nothing shows later.
        known: whether the rules of the kernel's series are known.
    """

    kernel: str
    release: str
    stand_in: str | None
    cpus: int
    cpu_model: str
    hz: int
    hz_source: str
    root: bool
    load: float
    preempt: str = "full"
    booted: Mapping[str, str] = field(default_factory=dict)
    known: bool = True

    @property
    def rules(self) -> Scheduler:
        """This kernel's rules, with its timer interrupts and knobs, for a simulation.

        Raises:
            InputError: its series' rules are not known.
        """
        if not self.known:
            known = ", ".join(row["series"] for row in json.loads(_core.releases()))
            raise InputError(
                f"the rules of this kernel, {self.kernel}, are not known: simulate a known series "
                f"({known}), as with --kernel 6.18, or by the nearest one's rules, with "
                f"--kernel '{self.release}'"
            )
        return Scheduler(self.release, hz=self.hz, knobs=self.booted)

    @property
    def busy(self) -> str | None:
        """A sentence where other work disturbs measurements; else None."""
        if self.load <= self.cpus / 2:
            return None
        return (
            f"the load average is {self.load:.1f} on {self.cpus} CPUs: other work will disturb "
            "what is measured here"
        )


@cache
def facts() -> Facts:
    """Return what the running machine is; it is read once.

    >>> facts().cpus >= 1
    True
    """
    kernel = platform.release()
    found = json.loads(_core.release(kernel, nearest=True))
    hz, source = _hz(kernel)
    return Facts(
        kernel=kernel,
        release=found["release"],
        stand_in=found["note"],
        cpus=len(os.sched_getaffinity(0)),
        cpu_model=_cpu_model(),
        hz=hz,
        hz_source=source,
        root=os.geteuid() == 0,
        load=round(os.getloadavg()[0], 2),
        preempt=_preempt(kernel),
        booted=_booted(found["release"]),
        known=found["known"],
    )


BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""Where a kernel says which of its boots it is in."""


def boot() -> str | None:
    """Return the identifier of this boot; None where the kernel does not tell it."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _booted(release: str) -> dict[str, str]:
    try:
        return booted_by(Path("/proc/cmdline").read_text(encoding="utf-8"), release)
    except OSError:
        return {}


def booted_by(command_line: str, release: str) -> dict[str, str]:
    """Return the knobs that a kernel's command line sets.

    >>> booted_by("quiet sched_vcpu_pack=15 panic=1", "6.18.1")
    {'feature.VCPU_PACK': '1'}
    >>> booted_by("quiet sched_vcpu_pack=0", "6.18.1"), booted_by("sched_vcpu_pack=15", "6.12.1")
    ({}, {})
    """
    packs = re.search(r"(?:^|\s)sched_vcpu_pack=0*[1-9]", command_line)
    return {"feature.VCPU_PACK": "1"} if packs and release.startswith("6.18") else {}


def _cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    return cpu_model_of(text)


def cpu_model_of(cpuinfo: str) -> str:
    r"""Return the CPUs' name from the text of ``/proc/cpuinfo``, the machine's where it has none.

    >>> cpu_model_of("processor : 0\nmodel name : Some CPU\n")
    'Some CPU'
    """
    match = re.search(r"^(?:model name|Model|cpu model)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return match.group(1).strip() if match else platform.machine()


def _configurations(kernel: str) -> Iterator[tuple[str, bytes]]:
    """Yield the texts that say how the kernel was configured, each with its name."""
    for name in ("/proc/config.gz", f"/boot/config-{kernel}", f"/lib/modules/{kernel}/config"):
        try:
            data = Path(name).read_bytes()
        except OSError:
            continue
        yield name, gzip.decompress(data) if name.endswith(".gz") else data


def _preempt(kernel: str) -> str:
    try:
        command_line = Path("/proc/cmdline").read_text(encoding="utf-8")
    except OSError:
        command_line = ""
    return preempt_of(command_line, next((text for _, text in _configurations(kernel)), b""))


def preempt_of(command_line: str, configuration: bytes) -> str:
    r"""Return the preemption model of a kernel's command line, or else of its configuration.

    >>> preempt_of("quiet", b"CONFIG_PREEMPT_NONE=y\n"), preempt_of("quiet", b"")
    ('none', 'full')
    >>> preempt_of("preempt=lazy", b"CONFIG_PREEMPT_NONE=y\n"), preempt_of("preempt=none", b"")
    ('full', 'none')
    """
    if told := re.search(r"(?:^|\s)preempt=(\w+)", command_line):
        return "none" if told.group(1) == "none" else "full"
    configured = re.search(rb"^CONFIG_PREEMPT_NONE=y$", configuration, re.MULTILINE)
    return "none" if configured else "full"


def _hz(kernel: str) -> tuple[int, str]:
    for name, text in _configurations(kernel):
        if match := re.search(rb"^CONFIG_HZ=(\d+)$", text, re.MULTILINE):
            return int(match.group(1)), name
    return _counted_hz()


def _counted_hz() -> tuple[int, str]:
    """Count a busy CPU's timer interrupts, and take the usual rate next to that."""
    try:
        cpu, before, began = _busy_ticks()
        deadline = began + 0.2
        while time.perf_counter() < deadline:
            pass
        _, after, ended = _busy_ticks(cpu)
    except (OSError, ValueError, IndexError):
        return 250, "assumed"
    rate = (after - before) / (ended - began)
    return min(_USUAL_HZ, key=lambda usual: abs(usual - rate)), "counted in /proc/interrupts"


def _busy_ticks(cpu: int | None = None) -> tuple[int, int, float]:
    lines = Path("/proc/interrupts").read_text(encoding="ascii", errors="replace").splitlines()
    if cpu is None:
        # The 39th field of /proc/self/stat is the CPU; the name before it may hold blanks.
        stat = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
        cpu = int(stat.rpartition(")")[2].split()[36])
    for line in lines:
        label, _, rest = line.partition(":")
        if label.strip() in ("LOC", "arch_timer"):
            return cpu, int(rest.split()[cpu]), time.perf_counter()
    raise ValueError("no timer is listed in /proc/interrupts")
