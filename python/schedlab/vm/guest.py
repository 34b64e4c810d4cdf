"""One guest, from its boot to its end."""

import os
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from schedlab.boundary.errors import InputError, RunError
from schedlab.boundary.files import make_directory
from schedlab.processes.processes import Completed
from schedlab.vm import disk, kernels, shares
from schedlab.vm.accelerator import choose
from schedlab.vm.command import counting, qemu_command
from schedlab.vm.control import Control
from schedlab.vm.exchange import Exchange, tail
from schedlab.vm.initramfs import READY, SHARED, initramfs
from schedlab.vm.kernels import KernelImage, find_kernel
from schedlab.vm.workplace import workplace

MOST_CPUS = 64
"""CPUs a guest may have."""

BOOTS = 3
"""How often a guest is booted that dies before it takes a command."""

CLOCKS = ("host", "instructions")
"""What a guest's clock may go by."""

_DIGITS = 3
"""Digits of an exit code."""

_OURS = "schedlab: "
"""What schedlab's own lines begin with on a guest's console."""

_FUNCTION = re.compile(r"RIP: \w+:(\w+)\+")

_OWN = "/dev/shm/schedlab-programs"  # noqa: S108
"""Where a guest keeps programs in its own memory."""


class Guest:
    """A booted guest; made by `Guest.boot`, which also ends it.

    Attributes:
        kernel: the kernel that runs in it.
        cpus: its CPUs.
        accelerator: ``kvm``, or ``tcg`` where every instruction is translated.
        clock: ``host``, or ``instructions`` where its clock counts them.
        shared: the directory here that the guest has as ``$OUT``.
        files: what reads and writes there without trusting the guest.
        sees: the directories of this machine that it has, read-only.
        notes: a sentence for each time that it died while booting and was booted again.
    """

    def __init__(
        self,
        kernel: KernelImage,
        cpus: int,
        accelerator: str,
        *,
        clock: str,
        shared: Path,
        sees: Sequence[Path],
        control: Control,
        console: Path,
    ) -> None:
        self.kernel = kernel
        self.cpus = cpus
        self.accelerator = accelerator
        self.clock = clock
        self.shared = shared
        self.sees = tuple(sees)
        self.files = Exchange(shared)
        self.notes: tuple[str, ...] = ()
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
        boots: int = BOOTS,
    ) -> "Iterator[Guest]":
        """Boot a guest for the time of a block.

        A CPU that QEMU emulates may lose the race with another one that changes the kernel's code,
        as a kernel does while it boots: an Oops (``int3``) that no machine has. So a guest that
        dies before it takes a command is booted again; `notes` say so.

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
            clock: ``host``, or ``instructions`` for a guest in which each instruction takes
                `INSTRUCTION_NS` and nothing else any time: load on this machine does not change
                what is timed there. Caches and devices take no time in it. Several CPUs, which
                need QEMU 8.1, have turns, see `counting`.
            timeout: seconds within which it has to be up, each time.
            boots: how often it is booted at most.

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
            if accelerator == "kvm":
                raise InputError("a guest whose clock counts instructions has no KVM")
            options = (*options, *counting(cpus))
        if timeout <= 0:
            raise InputError(f"timeout is {timeout:g} s; allowed: above 0")
        offered = shares.directories()
        start = initramfs(image.modules, offered)
        if accelerator is None:
            accelerator = "tcg" if "-icount" in options else choose(image)
        with workplace() as work:
            archive = work / "initramfs"
            console = work / "console"
            console.touch()
            try:
                archive.write_bytes(start)
            except OSError as error:
                raise RunError(f"cannot write '{archive}': {error.strerror}") from None
            notes: list[str] = []
            for number in range(1, boots + 1):
                # What a dead one left is none of the next one's.
                shared = work / f"shared{number}"
                shared.mkdir()
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
                    offered=offered,
                    shared=shared,
                )
                with Control.start(command) as control:
                    guest = cls(
                        image,
                        cpus,
                        accelerator,
                        clock=clock,
                        shared=shared,
                        sees=offered,
                        control=control,
                        console=console,
                    )
                    try:
                        guest._await(READY, timeout, "booting")
                    except _DiedError as error:
                        if number == boots:
                            raise
                        notes.append(f"{error}; it was booted again")
                        continue
                    guest.notes = tuple(notes)
                    yield guest
                    return

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
            The result; a command that is not there has code 127 as in a shell.

        Raises:
            InputError: the time limit is none.
            RunError: the guest died or did not answer in time; it is ended then, and the message
                names the file of its console.
        """
        if timeout <= 0:
            raise InputError(f"timeout is {timeout:g} s; allowed: above 0")
        self._jobs += 1
        place = f".{self._jobs}"
        variables = {
            "HOME": "/root",
            "PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
            **({"TMPDIR": disk.PLACE} if self._has_disk else {}),
            **(environment or {}),
            "OUT": SHARED,
        }
        here = shares.working_directory() or Path("/")
        lines = [f"cd {shlex.quote(str(here))} 2> /dev/null || cd /"]
        lines += [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
        lines.append(shlex.join(command))
        job = "\n".join([*lines, ""])
        try:
            self.files.make(place)
            self.files.write(f"{place}/job", job.encode("utf-8", "surrogateescape"))
            self.files.write(f"{place}/input", text.encode("utf-8"))
            self._control.send(f"{self._jobs}\n")
            answer = self._await(f"{self._jobs} ", timeout, f"running '{command[0]}'")
            if not answer.isdecimal() or len(answer) > _DIGITS:
                raise RunError(f"the guest ended '{command[0]}' with '{answer[:40]}', no exit code")
            output, errors = (self.files.text(f"{place}/{name}") for name in ("output", "errors"))
            return Completed(int(answer), output, errors)
        except OSError as error:
            raise RunError(f"cannot hand a command to the guest: {error.strerror}") from None
        finally:
            shutil.rmtree(self.shared / place, ignore_errors=True)

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
            disk.make(self.run, self.files, self.kernel.modules, mebibytes)
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
        kind: type[RunError] = RunError
        if died:
            how = f"ended while {what}"
            said = self._control.complaint or _refusal(self._console)
            # What QEMU or our own start complains of is the same next time.
            kind = RunError if said else _DiedError
            said = said or _cause(self._console)
            reason = f" ({said})" if said else ""
        else:
            how, reason = f"was ended: {what} took more than {timeout:g} s", ""
        raise kind(
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
        Path(name).write_text(tail(self._console), encoding="utf-8")
        return Path(name)


class _DiedError(RunError):
    """A guest ended by itself, for no reason that we know to come again."""


def _refusal(console: Path) -> str:
    """Return what our own start of the guest complained of; empty if it did not."""
    for line in tail(console).splitlines():
        if line.startswith(_OURS):
            return line.removeprefix(_OURS)
    return ""


def _cause(console: Path) -> str:
    """Return the kernel's first line on why it ended, and the function in which it was."""
    said = ""
    for line in tail(console).splitlines():
        words = line.partition("] ")[2] or line
        if not said and ("Kernel panic" in words or words.startswith("Oops")):
            said = words.strip()
        elif said and (match := _FUNCTION.match(words)):
            return f"{said} in {match.group(1)}"
    return said
