"""Machines: CPUs and what operations cost there."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Self

from schedlab.boundary.arguments import check_text, check_whole
from schedlab.boundary.errors import InputError
from schedlab.model.calibration_file import Costs, machine_json
from schedlab.model.nouns import Workload


class Machine:
    """CPUs and what operations cost there.

    Args:
        cpus: how many, all alike.
        costs: ``ideal`` (only the work itself takes time), ``linsched`` (whole jiffies, as the
            tuning paper's simulator), ``calibrated`` (measured here by ``schedlab calibrate``),
            ``reference`` or ``reference:NAME`` (measured on a named machine, shipped), the path of
            a calibration file, or `Costs`. Without it the calibrated ones of this machine, or the
            reference costs where it was never calibrated.
        topology: which CPUs share cores, caches and nodes, as ``smt=2,llc=8,node=16``: two threads
            a core, eight CPUs a last-level cache, sixteen a NUMA node; what is left out is one
            thread a core, one cache a node, one node. ``siblings=last`` numbers second threads
            after all first ones.
        speed: how fast CPUs are by what else is busy, as ``smt=62.5%,turbo=130%/120%/100%``: each
            of two busy threads of a core at 62.5 % of what it does alone; 130 % of the nominal
            speed with one busy core of a node, 120 % with two, 100 % with more. With ``turns`` all
            CPUs have turns on one. Without it that of the costs: such of a guest of several CPUs
            whose clock counts instructions have turns; all others are always as fast.
        background: other work, beside which workloads without background of their own run: a
            workload (`schedlab.background_from` makes one of a recording), or ``none``. Without
            it that of the costs, which calibrated ones may have.

    Raises:
        InputError: one of them is impossible, or costs that cannot be had.

    >>> Machine(cpus=2, costs="ideal")
    Machine(cpus=2, costs='ideal')
    """

    __slots__ = ("background", "costs", "cpus", "json", "speed", "topology")

    background: Workload | None
    cpus: int
    costs: Costs
    topology: str
    speed: str
    json: str

    def __init__(
        self,
        cpus: int = 1,
        costs: str | Path | Costs | None = None,
        topology: str = "smt=1",
        speed: str = "",
        background: Workload | str | None = None,
    ) -> None:
        cpus = check_whole(cpus, "machine: cpus", "1 to 4096", least=1, most=4096)
        check_text(topology, "machine: topology")
        check_text(speed, "machine: speed")
        self.cpus = cpus
        self.topology = topology
        self.costs = costs if isinstance(costs, Costs) else Costs.load(costs)
        self.speed = speed or self.costs.speed
        described: dict[str, object] = {
            "cpus": cpus,
            "topology": topology,
            "costs": self.costs.described(),
            "devices": self.costs.described_devices(),
        }
        if self.speed:
            described["speed"] = self.speed
        if self.costs.preempt != "full":
            described["preempt"] = self.costs.preempt
        if background not in (None, "none") and not isinstance(background, Workload):
            raise InputError(f"machine: background is {background!r}; allowed: a Workload, 'none'")
        others = self.costs.background if background is None else background
        self.background = others if isinstance(others, Workload) else None
        if self.background is not None:
            described["background"] = json.loads(self.background.json)
        self.json = machine_json(described)

    @classmethod
    def recorded(cls, cpus: int, costs: Costs, topology: str = "smt=1") -> Self:
        """Return a machine for a workload that was inferred from a recording.

        What else ran is in the recording, and so is what turns took: what a task's operations took
        longer for others' turns counts as its computing.

        Args:
            cpus: how many.
            costs: of the recorded machine.
            topology: as of a machine.

        Raises:
            InputError: one of them is impossible.

        >>> Machine.recorded(2, Costs.load("reference")).background is None
        True
        """
        return cls(cpus, replace(costs, speed=""), topology, background="none")

    @classmethod
    def from_json(cls, text: str, costs: str) -> Self:
        """Return a machine as `json` has it.

        Args:
            text: the JSON text.
            costs: what its costs are called, of which the text has the times alone.

        Raises:
            InputError: a number, a topology, a speed or a cost that is impossible.

        >>> machine = Machine(4, "reference", "smt=2,llc=4", "smt=62.5%,turbo=130%/100%")
        >>> Machine.from_json(machine.json, machine.costs.name) == machine
        True
        """
        value = json.loads(text)
        topology = dict(value.get("topology", {}))
        siblings = ["siblings=last"] if topology.pop("siblings_last", False) else []
        sizes = [*(f"{name}={size}" for name, size in topology.items()), *siblings]
        shares = (
            name if of is True else f"{name}={'/'.join(of)}"
            for name, of in value.get("speed", {}).items()
        )
        others = value.get("background")
        named = Costs.from_times(costs, value["costs"], value.get("devices"))
        return cls(
            value["cpus"],
            replace(named, preempt=value.get("preempt", "full")),
            ",".join(sizes) or "smt=1",
            ",".join(shares),
            "none" if others is None else Workload(others["name"], json.dumps(others)),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Machine) and self.json == other.json

    def __hash__(self) -> int:
        return hash(self.json)

    def __repr__(self) -> str:
        return f"Machine(cpus={self.cpus}, costs={self.costs.name!r})"

    def __str__(self) -> str:
        plural = "" if self.cpus == 1 else "s"
        return f"{self.cpus} CPU{plural}, {self.costs.name} costs"
