"""Real benchmarks from their own packages: started, stopped and read, not rewritten."""

from collections.abc import Mapping
from typing import Any

from schedlab.boundary.errors import InputError
from schedlab.experiment.subjects import Described, Subject
from schedlab.model import Workload
from schedlab.programs.apache import Apache
from schedlab.programs.command import Command
from schedlab.programs.fio import Fio
from schedlab.programs.hackbench import (
    Hackbench,
    RtHackbench,
    hackbench,
    hackbench_installed,
    read_hackbench,
)
from schedlab.programs.perf_bench import Messaging, Pipe
from schedlab.programs.program import PACKAGES, Program, find
from schedlab.programs.stress_ng import StressNg

FAMILIES: dict[str, type[Program]] = {
    program.family: program for program in (RtHackbench, Messaging, Pipe, Apache, Fio, StressNg)
}
"""The programs by the name that their texts begin with."""


def subject(text: str) -> Subject:
    """Return what a text names: a program, else a workload.

    Raises:
        InputError: an unknown name or option.

    >>> subject("apache:concurrency=4").metrics[0].name, subject("pipe").metrics[0].name
    ('requests', 'turnaround')
    """
    family = FAMILIES.get(text.partition(":")[0])
    return Described(Workload.parse(text)) if family is None else family.parse(text)


def from_definition(definition: Mapping[str, Any]) -> Subject:
    """Return what a `Subject.definition` is of.

    Raises:
        InputError: a workload, program or command that this schedlab does not know.

    >>> one = subject("http:concurrency=4")
    >>> from_definition(one.definition()) == one
    True
    """
    if "command" in definition:
        also = tuple((one["pattern"], one["better"]) for one in definition.get("also", ()))
        words = tuple(definition["command"])
        return Command(words, definition["pattern"], definition["better"], also)
    if "program" in definition:
        text = str(definition["program"])
        family = FAMILIES.get(text.partition(":")[0])
        if family is None:
            raise InputError(f"no program is called '{text}'; known: {', '.join(FAMILIES)}")
        return family.parse(text)
    return Described(Workload.from_json(definition["json"]))


__all__ = [
    "FAMILIES",
    "PACKAGES",
    "Command",
    "Hackbench",
    "Program",
    "find",
    "from_definition",
    "hackbench",
    "hackbench_installed",
    "read_hackbench",
    "subject",
]
