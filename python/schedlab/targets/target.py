"""What every place to run offers: `Target`, and the two that need nothing but this machine."""

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any, Protocol, Self

from schedlab.boundary.errors import InputError
from schedlab.knobs import applied
from schedlab.model import Attributes, Machine, Scheduler, Workload
from schedlab.model.outcome import Outcome
from schedlab.processes import lease, processes
from schedlab.targets import ext, host
from schedlab.targets.facts import boot, facts
from schedlab.targets.program_start import starting


class Target(Protocol):
    """A place where workloads run: simulated, this kernel, or another one.

    Attributes:
        name: ``sim``, ``host``, ``vm:6.1``, …
        release: the kernel release whose scheduler runs there.
        real: whether runs are measured: they take time, and no two are alike.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - said above

    @property
    def release(self) -> str: ...  # noqa: D102

    @property
    def cpus(self) -> int: ...  # noqa: D102

    @property
    def real(self) -> bool: ...  # noqa: D102

    def facts(self) -> Mapping[str, Any]:
        """Return what the place is, as plain data: what is needed to find one like it."""

    def run(
        self,
        workload: Workload,
        *,
        attributes: Attributes | None = None,
        knobs: Mapping[str, str] | None = None,
        seed: int = 1,
        timeout: float = 60.0,
    ) -> Outcome:
        """Run a workload once.

        Raises:
            InputError: something given is wrong.
            NotPermittedError: a policy or knob that may not be set there.
            RunError: the run failed or did not end in time.
        """

    def execute(
        self,
        command: Sequence[str],
        *,
        attributes: Attributes | None = None,
        knobs: Mapping[str, str] | None = None,
        timeout: float = 60.0,
    ) -> processes.Completed:
        """Run a command once, with its tasks under these attributes.

        Raises:
            InputError: there is no such command, or no commands can be run there.
            NotPermittedError: a policy or knob that may not be set there.
            RunError: it did not end in time.
        """


@dataclass(frozen=True, slots=True)
class Simulated:
    """The simulator.

    Attributes:
        scheduler: whose rules are simulated.
        machine: what is simulated.

    >>> target = Simulated(Scheduler("6.1"), Machine(2, "reference"))
    >>> target.run(Workload.parse("hackbench:groups=1,fds=2,loops=1")).messages
    8
    """

    scheduler: Scheduler
    machine: Machine
    name: str = "sim"
    real: bool = False

    @property
    def release(self) -> str:
        """The kernel release whose rules are simulated."""
        return self.scheduler.release

    @property
    def cpus(self) -> int:
        """CPUs of the simulated machine."""
        return self.machine.cpus

    def facts(self) -> Mapping[str, Any]:
        """Return scheduler and machine, whole."""
        return {
            "scheduler": self.scheduler.json,
            "machine": self.machine.json,
            "costs": self.machine.costs.name,
        }

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Self:
        """Return the place that `facts` told of.

        Raises:
            InputError: this schedlab knows no such scheduler or machine.

        >>> target = Simulated(Scheduler("6.1", latency="20ms"), Machine(2, "reference"))
        >>> Simulated.from_facts(target.facts()) == target
        True
        """
        rules = json.loads(facts["scheduler"])
        options = {name: rules[name] for name in ("weights", "rules") if name in rules}
        found = cls(
            Scheduler(rules["release"], hz=rules["hz"], knobs=rules["knobs"], **options),
            Machine.from_json(facts["machine"], facts["costs"]),
        )
        if found.facts() != facts:
            raise InputError(
                f"{found.machine} with the rules of {found.scheduler.label} cannot be simulated as "
                "it was: another schedlab wrote it"
            )
        return found

    def run(
        self,
        workload: Workload,
        *,
        attributes: Attributes | None = None,
        knobs: Mapping[str, str] | None = None,
        seed: int = 1,
        timeout: float = 60.0,
    ) -> Outcome:
        """Simulate a run; it has no need of a timeout."""
        del timeout
        # It loads NumPy, which takes seconds in a guest, where nothing is simulated.
        from schedlab.targets.sim import simulate  # noqa: PLC0415

        return simulate(
            workload,
            scheduler=self.scheduler.with_knobs(knobs) if knobs else self.scheduler,
            machine=self.machine,
            attributes=attributes,
            seed=seed,
        )

    def execute(
        self,
        command: Sequence[str],
        *,
        attributes: Attributes | None = None,
        knobs: Mapping[str, str] | None = None,
        timeout: float = 60.0,
    ) -> processes.Completed:
        """Refuse: only workloads can be simulated."""
        del attributes, knobs, timeout
        raise InputError(
            f"'{command[0]}' is a real program, which cannot be simulated: run it --on host, or in "
            "a guest --on vm:KERNEL"
        )


@dataclass(frozen=True, slots=True)
class Host:
    r"""The running kernel.

    >>> Host().execute(["echo", "hello"]).output
    'hello\n'
    """

    name: str = "host"
    real: bool = True

    @property
    def release(self) -> str:
        """The running kernel's release."""
        return facts().release

    @property
    def cpus(self) -> int:
        """CPUs this process may use."""
        return facts().cpus

    def facts(self) -> Mapping[str, Any]:
        """Return what this machine is, and which of its boots it is in (``boot``)."""
        return {"boot": boot(), **asdict(facts())}

    def run(
        self,
        workload: Workload,
        *,
        attributes: Attributes | None = None,
        knobs: Mapping[str, str] | None = None,
        seed: int = 1,
        timeout: float = 60.0,
    ) -> Outcome:
        """Run a workload with real tasks."""
        return host.run(workload, attributes=attributes, knobs=knobs, seed=seed, timeout=timeout)

    def execute(
        self,
        command: Sequence[str],
        *,
        attributes: Attributes | None = None,
        knobs: Mapping[str, str] | None = None,
        timeout: float = 60.0,
    ) -> processes.Completed:
        """Run a command."""
        with (
            lease.exclusive(),
            applied(knobs, self.release, self.cpus) if knobs else nullcontext(),
            ext.scheduling(attributes),
        ):
            return processes.watched(command, timeout=timeout, prepare=starting(attributes))


def label(target: Target) -> str:
    """Return whose rules a target has: a release, or a hybrid of its rules.

    >>> rules = {"yield_forfeits": False}
    >>> label(Simulated(Scheduler("6.12", rules=rules), Machine(1, "ideal")))
    '6.12.95, hybrid: yield_forfeits=off'
    """
    return target.scheduler.label if isinstance(target, Simulated) else target.release


def place_label(target: Target) -> str:
    """Return a target's name, and which rules are switched there if no kernel has them so.

    >>> rules = {"yield_forfeits": False}
    >>> place_label(Simulated(Scheduler("6.12", rules=rules), Machine(1, "ideal")))
    'sim (hybrid: yield_forfeits=off)'
    """
    hybrid = target.scheduler.hybrid if isinstance(target, Simulated) else None
    return target.name if hybrid is None else f"{target.name} (hybrid: {hybrid})"


def knobs_release(target: Target) -> str:
    """Return the release whose knobs a target has, see `Scheduler.knobs_release`."""
    return target.scheduler.knobs_release if isinstance(target, Simulated) else target.release
