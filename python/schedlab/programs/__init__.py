"""Real benchmarks from their own packages: started, stopped and read, not rewritten."""

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


__all__ = [
    "FAMILIES",
    "PACKAGES",
    "Command",
    "Hackbench",
    "Program",
    "find",
    "hackbench",
    "hackbench_installed",
    "read_hackbench",
    "subject",
]
