"""What an experiment runs: a workload, a benchmark from its own package, or any command."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, TypedDict

from schedlab.model import Attributes, Workload
from schedlab.model.direction import Better, direction_of
from schedlab.model.outcome import Outcome
from schedlab.processes.disturbance import Disturbance
from schedlab.targets.target import Target


@dataclass(frozen=True, slots=True)
class Metric:
    """A number that a run comes to.

    Attributes:
        name: its name everywhere.
        unit: ``s``, ``1/s``, ``B/s``, or empty for a count.
        better: whether a lower or a higher value is better.
    """

    name: str
    unit: str
    better: Better

    @classmethod
    def known(cls, name: str, unit: str = "s") -> "Metric":
        """Return a metric whose name and unit tell its direction (`schedlab.model.direction`).

        Raises:
            ValueError: they do not.

        >>> Metric.known("requests", "1/s")
        Metric(name='requests', unit='1/s', better='higher')
        """
        better = direction_of(f"{name} # {unit}")
        if better is None:
            raise ValueError(f"nothing tells whether lower or higher {name} [{unit}] is better")
        return cls(name, unit, better)


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run came to.

    Attributes:
        values: by metric.
        outcome: all that is known of it, as plain data.
        disturbance: what others took of the CPU time meanwhile, where that was watched.
    """

    values: Mapping[str, float]
    outcome: Mapping[str, Any] = field(repr=False)
    disturbance: Disturbance | None = None


class ForCommand(TypedDict):
    """Conditions of a run, for a target's ``execute``."""

    attributes: Attributes | None
    knobs: Mapping[str, str] | None
    timeout: float


class ForWorkload(ForCommand):
    """Conditions of a run, for a target's ``run``: a described workload has a seed."""

    seed: int


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under what something is run once.

    Attributes:
        attributes: of its tasks, instead of those of the workload.
        knobs: values by name, for the time of the run.
        seed: of every random stream, where we draw.
        timeout: seconds it may take, where time is measured.
    """

    attributes: Attributes | None = None
    knobs: Mapping[str, str] | None = None
    seed: int = 1
    timeout: float = 60.0

    def for_command(self) -> ForCommand:
        """Return them as a command or a program is told them: it draws its own random numbers.

        >>> sorted(Conditions(timeout=5.0).for_command())
        ['attributes', 'knobs', 'timeout']
        """
        return {"attributes": self.attributes, "knobs": self.knobs, "timeout": self.timeout}

    def for_workload(self) -> ForWorkload:
        """Return them as a described workload is told them.

        >>> Conditions(seed=7).for_workload()["seed"]
        7
        """
        return {**self.for_command(), "seed": self.seed}


class Subject(Protocol):
    """What is run.

    Attributes:
        name: its text, as one would write it.
        metrics: what it is measured by, the one that counts first.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - said above

    @property
    def metrics(self) -> tuple[Metric, ...]: ...  # noqa: D102

    def definition(self) -> Mapping[str, Any]:
        """Return what is needed to run the same once more, as plain data."""

    def measure(self, target: Target, under: Conditions) -> Measured:
        """Run it once.

        Raises:
            InputError: it cannot run there, or a program or command that it needs is not there.
            NotPermittedError: a policy or knob that may not be set there.
            RunError: it failed, did not end in time, or printed no metric.
        """


WORKLOAD_METRICS = (
    Metric.known("turnaround"),
    Metric.known("elapsed"),
    Metric.known("cpu"),
    Metric.known("voluntary", ""),
    Metric.known("involuntary", ""),
    Metric.known("migrations", ""),
    Metric.known("delay"),
    Metric.known("max_delay"),
)
"""What a workload is measured by.

``turnaround``, ``elapsed`` as in `schedlab.Outcome`; ``cpu``: CPU time of all tasks; ``voluntary``
and ``involuntary``: switches; ``migrations``: changes of CPU; ``delay`` and ``max_delay``:
from becoming runnable to running, mean and longest, where they were measured.
"""

REQUEST_METRICS = (
    Metric.known("throughput", "1/s"),
    Metric.known("p99"),
    Metric.known("p50"),
    Metric.known("p999"),
)
"""What a workload with a stopwatch is measured by before those.

``throughput``: what the stopwatch measured, a second of the run (requests, in ``http`` and
``schbench``); ``p50``, ``p99``, ``p999``: its latencies.
"""


@dataclass(frozen=True, slots=True)
class Described:
    """A workload described by its tasks and steps.

    Attributes:
        workload: the workload.
        metrics: those of its stopwatch, if it has one, and of every workload.

    >>> Described(Workload.parse("pipe")).metrics[0].name
    'turnaround'
    >>> [metric.name for metric in default_metrics(Described(Workload.parse("http")))]
    ['throughput', 'p99']
    """

    workload: Workload
    metrics: tuple[Metric, ...] = ()

    def __post_init__(self) -> None:
        if not self.metrics:
            measured = REQUEST_METRICS if stopwatch(self.workload) else ()
            object.__setattr__(self, "metrics", (*measured, *WORKLOAD_METRICS))

    @property
    def name(self) -> str:
        """The workload's name."""
        return self.workload.name

    def definition(self) -> Mapping[str, Any]:
        """Return the workload, whole."""
        return {"workload": self.workload.name, "json": self.workload.json}

    def measure(self, target: Target, under: Conditions) -> Measured:
        """Run the workload once."""
        outcome = target.run(self.workload, **under.for_workload())
        values = request_values(outcome, stopwatch(self.workload)) | workload_values(outcome)
        kept = json.loads(json.dumps(asdict(outcome)))
        return Measured(values, kept, outcome.disturbance)


def default_metrics(subject: Subject) -> tuple[Metric, ...]:
    """Return what is compared of a subject where no metric is named, the one that decides first."""
    requests = subject.metrics[: len(REQUEST_METRICS)] == REQUEST_METRICS
    return subject.metrics[: 2 if requests else 1]


def stopwatch(workload: Workload) -> str | None:
    """Return the name of a workload's first stopwatch, None if it has none.

    >>> stopwatch(Workload.parse("schbench")), stopwatch(Workload.parse("pipe"))
    ('request', None)
    """
    if '"start"' not in workload.json:  # recordings make workloads of many megabytes
        return None
    todo: list[Any] = [json.loads(workload.json)["tasks"]]
    while todo:
        part = todo.pop(0)
        if isinstance(part, dict):
            if isinstance(part.get("start"), str):
                return str(part["start"])
            todo[:0] = part.values()
        elif isinstance(part, list):
            todo[:0] = part
    return None


def request_values(outcome: Outcome, name: str | None) -> dict[str, float]:
    """Return what a stopwatch measured, in seconds and a second; nothing where it measured nothing.

    >>> from schedlab import Machine, simulate
    >>> outcome = simulate("http:duration=1s", scheduler="6.1", machine=Machine(2, "reference"))
    >>> found = request_values(outcome, "request")
    >>> found["throughput"] == outcome.latencies["request"].count / 1.0
    True
    """
    measured = None if name is None else outcome.latencies.get(name)
    if measured is None or not measured.count or not outcome.elapsed_ns:
        return {}
    return {
        "throughput": measured.count / (outcome.elapsed_ns / 1e9),
        "p99": measured.p99_ns / 1e9,
        "p50": measured.p50_ns / 1e9,
        "p999": measured.p999_ns / 1e9,
    }


def workload_values(outcome: Outcome) -> dict[str, float]:
    """Return the metrics of a workload's run, in seconds and counts.

    >>> from schedlab import Machine, simulate
    >>> outcome = simulate("hackbench:groups=1,fds=2,loops=1", scheduler="6.1",
    ...                    machine=Machine(1, "reference"))
    >>> workload_values(outcome)["turnaround"] == outcome.turnaround_ns / 1e9
    True
    """
    tasks = outcome.tasks
    values = {
        "turnaround": outcome.turnaround_ns / 1e9,
        "elapsed": outcome.elapsed_ns / 1e9,
        "cpu": sum(task.run_ns for task in tasks) / 1e9,
        "voluntary": float(sum(task.voluntary for task in tasks)),
        "involuntary": float(sum(task.involuntary for task in tasks)),
        "migrations": float(sum(task.migrations for task in tasks)),
    }
    delays = sum(task.delays for task in tasks)
    if delays:
        values["delay"] = sum(task.delay_ns for task in tasks) / delays / 1e9
        values["max_delay"] = max(task.max_delay_ns for task in tasks) / 1e9
    return values
