"""Whether guests can run on the machine's own CPUs.

That ``/dev/kvm`` opens proves nothing: there are machines, themselves guests, on which every KVM
guest hangs before its kernel starts. So a small guest is really booted, once a boot of this machine
and kernel image, and the result is remembered.
"""

import hashlib
import os
from pathlib import Path

from schedlab.boundary.files import make_directory, write_text
from schedlab.vm import kernels
from schedlab.vm.command import qemu_command
from schedlab.vm.control import answers
from schedlab.vm.initramfs import PROBE, READY, initramfs
from schedlab.vm.kernels import KernelImage
from schedlab.vm.workplace import workplace

_PATIENCE = 10.0
"""Seconds within which a guest that needs one has to be up."""

device = Path("/dev/kvm")
"""KVM's device; tests name another."""


def choose(kernel: KernelImage) -> str:
    """Return ``kvm`` where a guest with this kernel really boots under it, else ``tcg``."""
    if not os.access(device, os.R_OK | os.W_OK):
        return "tcg"
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    key = hashlib.sha256(f"{boot} {kernel.image} {os.geteuid()}".encode()).hexdigest()[:16]
    memory = make_directory(kernels.directory() / "accelerator") / key
    try:
        known = memory.read_text(encoding="ascii").strip()
    except OSError:
        known = ""
    if known in ("kvm", "tcg"):
        return known
    result = "kvm" if boots(kernel, "kvm") else "tcg"
    write_text(memory, f"{result}\n")
    return result


def boots(kernel: KernelImage, accelerator: str, timeout: float = _PATIENCE) -> bool:
    """Whether a guest that only says that it is up does so in time."""
    with workplace() as work:
        archive, console = work / "initramfs", work / "console"
        archive.write_bytes(initramfs(None))
        command = qemu_command(kernel, archive, console, accelerator=accelerator, append=PROBE)
        return answers(command, READY, timeout)
