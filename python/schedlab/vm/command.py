"""QEMU's command line for a guest."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from schedlab.boundary.errors import InputError
from schedlab.vm.initramfs import tag_of
from schedlab.vm.kernels import KernelImage

QEMU = "qemu-system-x86_64"
PACKAGE = "qemu-system-x86"


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
    kind = "q35"
    if machine == "microvm":
        # It has no timer against which the kernel could measure how fast its clock runs.
        khz = 1_000_000 if "-icount" in options else _tsc_khz()
        parameters += [f"tsc_early_khz={khz}", "no_timer_check"]
        kind = "microvm,pcie=on,acpi=on,rtc=on"
    # The kernel ends QEMU with the thread that started it, whatever becomes of that.
    command = ["setpriv", "--pdeathsig", "KILL", "--", QEMU]
    command += ["-machine", kind, "-accel", accelerator]
    command += ["-cpu", "host" if accelerator == "kvm" else "max"]
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
