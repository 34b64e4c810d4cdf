"""One guest, from its boot to its end."""

import os
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from schedlab.errors import InputError, RunError
from schedlab.files import make_directory
from schedlab.processes import Completed
from schedlab.vm import disk, kernels
from schedlab.vm.accelerator import choose
from schedlab.vm.command import qemu_command
from schedlab.vm.control import Control
from schedlab.vm.initramfs import READY, SHARED, initramfs
from schedlab.vm.kernels import KernelImage, find_kernel
from schedlab.vm.workplace import workplace

MOST_CPUS = 64
"""CPUs a guest may have."""

CLOCKS = ("host", "instructions")
"""What a guest's clock may go by."""

INSTRUCTION_NS = 2
"""Nanoseconds an instruction takes in a guest whose clock counts them."""

_OWN = "/dev/shm/schedlab-programs"  # noqa: S108
"""Where a guest keeps programs in its own memory."""

# Time passes by instructions alone: an idle guest goes on to its next timer at once.
_COUNTED = ("-icount", f"shift={INSTRUCTION_NS.bit_length() - 1},sleep=off")


class Guest:
    """A booted guest; made by `Guest.boot`, which also ends it.

    Attributes:
        kernel: the kernel that runs in it.
        cpus: its CPUs.
        accelerator: ``kvm``, or ``tcg`` where every instruction is translated.
        clock: ``host``, or ``instructions`` where its clock counts them.
        shared: the directory here that the guest has as ``$OUT``.
    """

    def __init__(
        self,
        kernel: KernelImage,
        cpus: int,
        accelerator: str,
        *,
        clock: str,
        shared: Path,
        control: Control,
        console: Path,
    ) -> None:
        self.kernel = kernel
        self.cpus = cpus
        self.accelerator = accelerator
        self.clock = clock
        self.shared = shared
        self._control = control
        self._console = console
        self._jobs = 0
        self._inside: dict[Path, str] = {}
        self._has_disk = False

    @classmethod
    @contextmanager
    def boot(
        cls,
        kernel: KernelImage | str,
        *,
        cpus: int = 1,
        memory: int = 1024,
        append: str = "",
        options: Sequence[str] = (),
        machine: str = "q35",
        accelerator: str | None = None,
        clock: str = "host",
        timeout: float = 120.0,
    ) -> "Iterator[Guest]":
        """Boot a guest for the time of a block.

        Call it in the thread that lives as long as the guest shall: the guest ends with it.

        Args:
            kernel: a kernel, or what `find_kernel` takes.
            cpus: CPUs of the guest.
            memory: its memory in MiB.
            append: further kernel parameters, such as ``noautogroup``.
            options: further options of QEMU's, such as ``("-icount", "shift=1")``, with which a
                guest's clock is the number of its instructions.
            machine: QEMU's type of machine: ``q35``, or ``microvm``, which has fewer devices.
            accelerator: ``kvm`` or ``tcg``; without it KVM where a probe guest really boots.
            clock: ``host``, or ``instructions`` for a guest of one CPU in which each instruction
                takes `INSTRUCTION_NS` and nothing else any time: what is timed there does not hang
                on how busy this machine is. Caches and devices take no time in it.
            timeout: seconds within which it has to be up.

        Raises:
            InputError: no such kernel, or QEMU or busybox is missing.
            RunError: it did not come up; the message names the file of its console.
        """
        image = find_kernel(kernel) if isinstance(kernel, str) else kernel
        if not 1 <= cpus <= MOST_CPUS:
            raise InputError(f"a guest has 1 to {MOST_CPUS} CPUs, not {cpus}")
        if machine not in ("q35", "microvm"):
            raise InputError(f"machine type '{machine}': allowed are q35 and microvm")
        if clock not in CLOCKS:
            raise InputError(f"clock '{clock}': allowed are {' and '.join(CLOCKS)}")
        if clock == "instructions":
            if cpus != 1 or accelerator == "kvm":
                raise InputError("a guest whose clock counts instructions has one CPU and no KVM")
            options = (*options, *_COUNTED)
        if timeout <= 0:
            raise InputError(f"timeout is {timeout:g} s; allowed: above 0")
        start = initramfs(image.modules)
        if accelerator is None:
            accelerator = "tcg" if "-icount" in options else choose(image)
        with workplace() as work:
            shared = work / "shared"
            shared.mkdir()
            archive = work / "initramfs"
            console = work / "console"
            console.touch()
            try:
                archive.write_bytes(start)
            except OSError as error:
                raise RunError(f"cannot write '{archive}': {error.strerror}") from None
            command = qemu_command(
                image,
                archive,
                console,
                accelerator=accelerator,
                cpus=cpus,
                memory=memory,
                machine=machine,
                append=append,
                options=options,
                shared=shared,
            )
            with Control.start(command) as control:
                guest = cls(
                    image,
                    cpus,
                    accelerator,
                    clock=clock,
                    shared=shared,
                    control=control,
                    console=console,
                )
                guest._await(READY, timeout, "booting")
                yield guest

    @property
    def up(self) -> bool:
        """Whether it can take another command."""
        return self._control.running

    def run(
        self,
        command: Sequence[str],
        *,
        text: str = "",
        timeout: float = 60.0,
        environment: dict[str, str] | None = None,
    ) -> Completed:
        """Run a command in the guest to its end.

        Args:
            command: the program, by path or as found on our ``PATH``, and its arguments.
            text: its standard input.
            timeout: seconds after which the guest is ended.
            environment: further variables; ``HOME``, ``PATH`` and ``OUT`` are there, and
                ``TMPDIR`` is the guest's disk if it has one.

        Returns:
            What came of it; a command that is not there has code 127 as in a shell.

        Raises:
            InputError: the time limit is none.
            RunError: the guest died or did not answer in time; it is ended then, and the message
                names the file of its console.
        """
        if timeout <= 0:
            raise InputError(f"timeout is {timeout:g} s; allowed: above 0")
        self._jobs += 1
        place = self.shared / f".{self._jobs}"
        variables = {
            "HOME": "/root",
            "PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
            **({"TMPDIR": disk.PLACE} if self._has_disk else {}),
            **(environment or {}),
            "OUT": SHARED,
        }
        lines = [f"cd {shlex.quote(str(Path.cwd()))} || cd /"]
        lines += [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
        lines.append(shlex.join(command))
        try:
            place.mkdir()
            (place / "job").write_text("\n".join(lines) + "\n", "utf-8", "surrogateescape")
            (place / "input").write_text(text, encoding="utf-8")
            self._control.send(f"{self._jobs}\n")
            answer = self._await(f"{self._jobs} ", timeout, f"running '{command[0]}'")
            return Completed(int(answer), _text(place / "output"), _text(place / "errors"))
        except OSError as error:
            raise RunError(f"cannot hand a command to the guest: {error.strerror}") from None
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def inside(self, program: Path) -> str:
        """Return where the guest has a copy of a program in its own memory.

        Pages of files of ours are fetched from this machine when they are first used, which takes
        as long as it takes.

        Raises:
            RunError: it cannot be copied.
        """
        place = self._inside.get(program)
        if place is None:
            place = f"{_OWN}/{len(self._inside)}/{program.name}"
            script = 'mkdir -p "$(dirname "$1")" && cp "$0" "$1"'
            done = self.run(["sh", "-c", script, str(program), place])
            if done.code != 0:
                raise RunError(f"the guest cannot copy '{program}': {done.errors.strip()}")
            self._inside[program] = place
        return place

    def need_disk(self, mebibytes: int) -> None:
        """Give the guest a disk of its own, see `schedlab.vm.disk`, unless it has it already.

        Raises:
            InputError: its kernel has no such module.
            RunError: the guest could not make it.
        """
        if not self._has_disk:
            disk.make(self, mebibytes)
            self._has_disk = True

    def _await(self, beginning: str, timeout: float, what: str) -> str:
        """Return the rest of the line that begins so; end the guest and keep its console if not."""
        deadline = time.monotonic() + timeout
        while True:
            line = self._control.line(deadline)
            if line is None:
                break
            if line.startswith(beginning):
                return line.removeprefix(beginning).strip()
        died = self._control.ended
        self._control.end()
        if died:
            how = f"ended while {what}"
            said = self._control.complaint
            reason = f" ({said})" if said else _panic(self._console)
        else:
            how, reason = f"was ended: {what} took more than {timeout:g} s", ""
        raise RunError(
            f"the guest with kernel {self.kernel.release} {how}{reason}; "
            f"its console: {self._keep_console()}"
        )

    def _keep_console(self) -> Path:
        directory = make_directory(kernels.directory() / "consoles")
        now = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        handle, name = tempfile.mkstemp(
            dir=directory, prefix=f"{now}-{self.kernel.release}-", suffix=".log"
        )
        os.close(handle)
        shutil.copyfile(self._console, name)
        return Path(name)


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""


def _panic(console: Path) -> str:
    for line in _text(console).splitlines():
        if "Kernel panic" in line or line.startswith("schedlab: "):
            return f" ({line.partition('] ')[2] or line.removeprefix('schedlab: ')})"
    return ""
