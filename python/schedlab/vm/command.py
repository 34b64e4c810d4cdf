"""QEMU's command line for a guest."""

import math
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from schedlab.boundary.errors import InputError, RunError
from schedlab.processes import processes
from schedlab.vm.initramfs import tag_of
from schedlab.vm.kernels import KernelImage

QEMU = "qemu-system-x86_64"
PACKAGE = "qemu-system-x86"

INSTRUCTION_NS = 2
"""Nanoseconds an instruction takes in a guest whose clock counts them."""

TURN_US = 2.5
"""Microseconds of a turn on average, where all CPUs of such a guest are busy.

No longer than a wake-up takes: the shorter turns are, the nearer CPUs come to going on all at once,
and the longer the guest takes.
"""

_TURNS = (8, 1)
"""QEMU's first version in which each CPU has a turn between two timers."""

_BYTEWISE = ("erms", "fsrm", "fzrm", "fsrs", "fsrc")
"""Features of a processor with which kernels move and clear memory by single bytes."""


def counting(cpus: int) -> tuple[str, ...]:
    """Return QEMU's options for a guest whose clock is the number of its instructions.

    Time passes by instructions alone: an idle guest goes on to its next timer at once. One thread
    runs all CPUs, each for a part of the time that is left to the next timer; so there is one every
    `TURN_US` for each CPU, of a filter for a network that has no packets. By no more than such a
    round is a CPU ahead of another, and with N of them busy an instruction takes N times as long on
    average. Turns are not equal: once a timer has expired QEMU begins anew for each CPU, and the
    first that it comes to has the largest part.

    Raises:
        InputError: QEMU is older than 8.1 and several CPUs are asked for.
    """
    options = ("-icount", f"shift={INSTRUCTION_NS.bit_length() - 1},sleep=off")
    if cpus == 1:
        return options
    if not counts_several():
        number = ".".join(map(str, _version()))
        raise InputError(
            f"QEMU counts the instructions of several CPUs from 8.1 on, this one is {number}: "
            f"have a newer '{QEMU}' in PATH, or a guest of one CPU, or the clock 'host'"
        )
    round_of_turns = f"filter-buffer,id=round,netdev=nothing,interval={_round_us(cpus)}"
    return (*options, "-netdev", "hubport,id=nothing,hubid=0", "-object", round_of_turns)


def _round_us(cpus: int) -> int:
    """Return the microseconds in which each of the CPUs has a turn."""
    return math.ceil(cpus * TURN_US)


def counts_several() -> bool:
    """Return whether this machine's QEMU can count the instructions of several CPUs."""
    return _version() >= _TURNS


def _processor(accelerator: str, *, counted: bool) -> str:
    """Return which processor a guest's CPUs are.

    QEMU counts each byte that a string instruction moves as an instruction. Where instructions are
    the clock, kernels are to move eight bytes at a time: without these features they do.
    """
    if accelerator == "kvm":
        return "host"
    if not counted:
        return "max"
    known = processes.run([QEMU, "-cpu", "help"]).output.split()
    return ",".join(["max", *(f"-{feature}" for feature in _BYTEWISE if feature in known)])


def _version() -> tuple[int, ...]:
    """Return QEMU's version; (0,) where there is none."""
    try:
        said = processes.run([QEMU, "--version"]).output
    except (InputError, RunError):
        return (0,)
    found = re.search(r"version (\d+)\.(\d+)", said)
    return tuple(map(int, found.groups())) if found else (0,)


def qemu_command(
    kernel: KernelImage,
    archive: Path,
    console: Path,
    *,
    accelerator: str,
    cpus: int = 1,
    memory: int = 256,
    machine: str = "q35",
    append: str = "",
    options: Sequence[str] = (),
    offered: Sequence[Path] = (),
    shared: Path | None = None,
) -> list[str]:
    """Return the command that runs a guest, which speaks with us over its standard streams.

    The second serial line carries the jobs, the first the console. The guest may read the
    directories ``offered``, and write in the one that is ``shared``: what it makes there are plain
    files here, whatever modes, owners and links it sees. Without them it has no file system but its
    archive.

    Raises:
        InputError: QEMU is not installed.
    """
    if shutil.which(QEMU) is None:
        raise InputError(f"'{QEMU}' is not installed: apt-get install {PACKAGE}")
    parameters = ["console=ttyS0", "panic=-1", "oops=panic", "loglevel=5", "nokaslr"]
    # Algorithms are tested as the kernel has booted, for a second among the first job's tasks.
    parameters.append("cryptomgr.notests")
    if "-icount" in options and cpus > 1:
        # The native runner computes by a clock that goes on in other CPUs' turns.
        parameters.append(f"schedlab.round={_round_us(cpus)}")
    kind = "q35"
    if machine == "microvm":
        # It has no timer against which the kernel could measure how fast its clock runs.
        khz = 1_000_000 if "-icount" in options else _tsc_khz()
        parameters += [f"tsc_early_khz={khz}", "no_timer_check"]
        kind = "microvm,pcie=on,acpi=on,rtc=on"
    # The kernel ends QEMU with the thread that started it, whatever becomes of that.
    command = ["setpriv", "--pdeathsig", "KILL", "--", QEMU]
    command += ["-machine", kind, "-accel", accelerator]
    command += ["-cpu", _processor(accelerator, counted="-icount" in options)]
    command += ["-smp", str(cpus), "-m", f"{memory}M", "-nodefaults", "-no-reboot"]
    command += ["-display", "none", "-serial", f"file:{_quoted(console)}"]
    command += ["-chardev", "stdio,id=control,signal=off"]
    if machine == "microvm":
        # It has one serial line of its own; further ones are devices.
        command += ["-device", "isa-serial,index=1,chardev=control"]
    else:
        command += ["-serial", "chardev:control"]
    command += ["-kernel", str(kernel.image), "-initrd", str(archive)]
    places = [
        (tag_of(number), place, "security_model=none,readonly=on,multidevs=remap")
        for number, place in enumerate(offered)
    ]
    if shared is not None:
        places.append(("shared", shared, "security_model=mapped-file"))
    for tag, place, how in places:
        command += ["-fsdev", f"local,id={tag},path={_quoted(place)},{how}"]
        command += ["-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
    return [*command, *options, "-append", " ".join([*parameters, append]).strip()]


def _quoted(path: Path) -> str:
    """Return a path as QEMU's lists of options want it."""
    return str(path).replace(",", ",,")


def _tsc_khz() -> int:
    """Return how fast the CPUs' time stamp counter runs, in kHz, as ``/proc/cpuinfo`` has it."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    match = re.search(r"^cpu MHz\s*:\s*([0-9.]+)$", text, re.MULTILINE)
    return round(float(match.group(1)) * 1000) if match else 1_000_000
