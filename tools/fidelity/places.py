"""Where workloads really run: a guest whose clock counts instructions, or this machine."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import gettempdir

from fidelity.observation import Observation
from fidelity.recorded_costs import Waits, as_seen, woken
from schedlab.boundary.errors import InputError, RunError
from schedlab.knobs import applied
from schedlab.measure import calibration
from schedlab.measure.calibration import Calibration
from schedlab.measure.recording import Recording, record
from schedlab.model import Machine, Scheduler, Workload
from schedlab.model.outcome import Outcome
from schedlab.processes import leftovers, processes
from schedlab.targets import host, vm
from schedlab.targets.facts import facts
from schedlab.vm import Guest
from schedlab.vm import knobs as guest_knobs
from schedlab.vm.command import counts_several
from schedlab.vm.disk import PLACE

BUFFER = 16_384
"""KiB of a CPU's buffer while a run is recorded."""
WAITS = "switches"
"""The level of a recording of which only waiting times are read."""
KEPT = "L0"
"""The level of a recording that is kept."""

ATTEMPTS = 4
"""Of a recording, where one that lost anything is refused, and of a run that others disturb."""

MEMORY = 1_536
"""MiB of a guest."""

_MEMORY = "/dev/shm"  # noqa: S108

_AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")

DISK = 256
"""MiB of a guest's disk, where files of workloads are; a host has them among temporary ones."""


@dataclass(frozen=True, slots=True)
class Anew:
    """That what is not kept yet is made: runs, and costs; None in its place makes nothing.

    Attributes:
        calibrations: whose median costs are simulated with: where a process's memory comes to lie
            is chance.
        quick: measure fewer batches of each cost.
    """

    calibrations: int = 5
    quick: bool = False


class Place:
    """A kernel that is there for the time of a block; made by `at`.

    Attributes:
        name: ``host``, or ``vm:`` and a series, with ``:cpus=N`` behind it if it has several CPUs.
        kernel: its release.
        clock: what its time goes by.
        scheduler: the rules that stand for it.
        memory: a directory for files in memory.
        disk: one for files on a disk.
    """

    def __init__(
        self, name: str, guest: Guest | None, *, memory: str = _MEMORY, disk: str = PLACE
    ) -> None:
        self.name = name
        self.memory = memory
        self.disk = disk
        self._guest = guest
        here = facts()
        self.kernel = here.kernel if guest is None else guest.kernel.release
        self.clock = "host" if guest is None else guest.clock
        self.cpus = here.cpus if guest is None else guest.cpus
        self.scheduler = rules_at(name, self.kernel, here.hz if guest is None else 250)

    @property
    def up(self) -> bool:
        """Whether commands can be run there: a guest may have been ended."""
        return self._guest is None or self._guest.up

    def calibrate(self, *, recorded: str | None, quick: bool = False) -> Calibration:
        """Measure what operations cost there, left alone or while a level of events is recorded.

        Raises:
            RunError: it failed, or other work took more than a fifth of the CPU time meanwhile.
        """
        disk = gettempdir() if self._guest is None else PLACE
        if recorded is None:
            alone = calibration.calibrate(quick=quick, disk=Path(disk), guest=self._guest)
            calibration.check_calm([alone])
            return alone
        fewer = ["--quick"] if quick else []
        measure = [self._runner(), "calibrate", *fewer, "--disk", disk]
        # Without a file nothing is kept of what is recorded.
        options = [f"--level={recorded}", "--timeout=1800s"]
        recorder = [self._runner(), "record", *options, "--", *measure]
        said, _, _ = host.printed(self._run(recorder, timeout=1900)).rstrip("\n").rpartition("\n")
        found = calibration.calibrated(said, self._guest)
        waits = {
            name: self.record(workload, seed=1, level=recorded).values["p50"]
            for name, workload in woken(found.hz).items()
        }
        return replace(found, costs=as_seen(found.costs, Waits(**waits)))

    def machine(self, costs: Calibration) -> Machine:
        """Return the machine that is simulated in its place."""
        return Machine(self.cpus, costs.costs)

    @contextmanager
    def knobs(self, wanted: Mapping[str, str]) -> Iterator[None]:
        """Set knobs for the time of a block."""
        if not wanted:
            yield
        elif self._guest is None:
            with applied(wanted, self.scheduler.release, self.cpus):
                yield
        else:
            with guest_knobs.applied(self._guest, wanted):
                yield

    def run(
        self, workload: Workload, *, seed: int, timeout: float = 300.0, delays: bool = False
    ) -> Observation:
        """Run a workload for real; with ``delays`` each task's waiting time is measured, too.

        Raises:
            RunError: it failed, or other work disturbed it each time.
        """
        if self._guest is None:
            return Observation.of(
                undisturbed(lambda: host.run(workload, seed=seed, timeout=timeout, delays=delays))
            )
        return Observation.of(
            vm.run(workload, self._guest, seed=seed, timeout=timeout, delays=delays)
        )

    def record(
        self, workload: Workload, *, seed: int, timeout: float = 300.0, level: str = WAITS
    ) -> Observation:
        """Run a workload for real while its wake-ups are recorded, and read all from that."""
        with leftovers.directory("recording") as directory:
            path = directory / "trace.txt"
            made = self._recorded(path, workload, level, seed=seed, timeout=timeout)
            outcome = Outcome.from_json(made.output)
            begun, duration = outcome.begun, workload.duration_ns
            end = None
            if begun is not None and duration is not None:
                end = begun.monotonic_ns + duration
            return Observation.of(outcome).recorded.beside(Observation.of_trace(path, end))

    def _recorded(
        self, path: Path, workload: Workload, level: str, *, seed: int, timeout: float
    ) -> Recording:
        """Record which task runs, again where the kernel lost something."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return record(
                    path,
                    workload,
                    guest=self._guest,
                    level=level,
                    buffer=BUFFER,
                    seed=seed,
                    timeout=timeout,
                )
            except InputError:
                if attempt == ATTEMPTS:
                    raise
        raise AssertionError

    def record_to(
        self, path: Path, what: Workload | Sequence[str], *, timeout: float = 600.0
    ) -> None:
        """Run a workload or a command for real and keep all tracepoints in a file."""
        record(path, what, guest=self._guest, level=KEPT, buffer=BUFFER, timeout=timeout)

    def command(self, command: Sequence[str], *, timeout: float = 300.0) -> None:
        """Run a command to its end.

        Raises:
            RunError: it failed, or did not end in time.
        """
        done = self._run(command, timeout=timeout)
        if done.code != 0:
            said = (done.errors.strip() or done.output.strip()).splitlines()
            raise RunError(
                f"a command ended with {done.code}: {said[-1] if said else 'no message'}"
            )

    @contextmanager
    def prepared(self, script: str, *, timeout: float = 300.0) -> Iterator[None]:
        """Run a shell's script, whose servers go on for the time of a block.

        Raises:
            RunError: it failed, or did not end in time.
        """
        if self._guest is not None:
            self.command(["sh", "-eu", "-c", script], timeout=timeout)
            yield
            return
        # All that a command of this machine has started is ended with it.
        ready = Path(self.memory, "ready")
        ready.unlink(missing_ok=True)
        stays = ["sh", "-eu", "-c", f"{script}\ntouch {ready}\nexec sleep infinity"]
        with processes.serving(stays, ready.exists, patience=timeout):
            yield

    def pause(self, seconds: float) -> None:
        """Let time pass there, so that what follows begins elsewhere in the kernel's rhythm."""
        self._run(["sleep", f"{seconds:.6f}"], timeout=60 + seconds)

    def _runner(self) -> str:
        return str(host.runner()) if self._guest is None else self._guest.inside(host.runner())

    def _run(self, command: Sequence[str], *, timeout: float) -> processes.Completed:
        if self._guest is None:
            return processes.run(command, timeout=timeout)
        return self._guest.run(command, timeout=timeout)


def undisturbed(measure: Callable[[], Outcome]) -> Outcome:
    """Measure until others do not disturb it, at most `ATTEMPTS` times.

    Raises:
        RunError: they did each time.
    """
    share = 0.0
    for _ in range(ATTEMPTS):
        outcome = measure()
        if outcome.disturbance is None or not outcome.disturbance.disturbed:
            return outcome
        share = outcome.disturbance.share
    raise RunError(
        f"other work took {share:.0%} of the CPU time, and disturbed each of {ATTEMPTS} runs: "
        "end that work"
    )


def rules_at(name: str, kernel: str, hz: int) -> Scheduler:
    """Return the rules that stand for the kernel of a place.

    What a host's command line sets is no part of the kernel's release; it is this machine's, if
    that has this kernel, and whether that makes groups of sessions. Guests' kernels do not.

    Args:
        name: the place's name.
        kernel: its kernel's release, as it names itself.
        hz: timer interrupts a second.

    >>> rules_at("vm:6.1", "6.1.0-50-amd64", 250)
    Scheduler('6.1.0', hz=250, knobs={'autogroup': '0'})
    """
    here = facts()
    knobs = {"autogroup": "0"}
    if name == "host" and kernel == here.kernel:
        with suppress(OSError):
            knobs["autogroup"] = _AUTOGROUP.read_text(encoding="utf-8").strip()
        knobs |= here.booted
    return Scheduler(guest_knobs.rules_of(kernel), hz=hz, knobs=knobs)


@contextmanager
def at(name: str) -> Iterator[Place]:
    """Be at a place for the time of a block.

    Args:
        name: ``host``, or ``vm:`` and what `schedlab.vm.find_kernel` takes: a guest of one CPU in
            which time passes by instructions, so that this machine's load does not change it. With
            ``:cpus=2`` behind it it has several, and this machine's time where QEMU is older
            than 8.1, the first that counts for several CPUs.
    """
    if name == "host":
        with (
            leftovers.directory("memory", _MEMORY) as memory,
            leftovers.directory("disk") as disk,
        ):
            # Servers that run as other users read there.
            memory.chmod(0o755)
            yield Place(name, None, memory=str(memory), disk=str(disk))
        return
    kernel, _, cpus = name.removeprefix("vm:").partition(":cpus=")
    if not (cpus or "1").isdecimal():
        raise InputError(f"place '{name}': cpus is '{cpus}'; allowed: whole numbers from 1 on")
    with Guest.boot(
        kernel,
        cpus=int(cpus or 1),
        memory=MEMORY,
        # Without the latter a thread of the kernel's goes through memory every ten seconds, and
        # then, at the lowest weight, waits and runs among the workload's tasks.
        append="noautogroup transparent_hugepage=never",
        clock="instructions" if int(cpus or 1) == 1 or counts_several() else "host",
        timeout=600,
    ) as guest:
        guest.need_disk(DISK)
        yield Place(name, guest)


def calibrated(name: str, *, recorded: str | None, how: Anew) -> Calibration:
    """Return the median costs of a place, measured several times, in guests each of its own boot.

    Args:
        name: the place's name.
        recorded: what is recorded meanwhile, if anything.
        how: how often, and how well.
    """
    found = []
    for _ in range(how.calibrations):
        with at(name) as there:
            found.append(there.calibrate(recorded=recorded, quick=how.quick))
    return calibration.median_of(found)
