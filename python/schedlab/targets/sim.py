"""The simulator: a workload on a machine under a scheduler, in virtual time."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from schedlab import _core
from schedlab.boundary.arguments import check_texts, check_whole
from schedlab.boundary.errors import InputError
from schedlab.boundary.files import whole
from schedlab.model import Attributes, Machine, Scheduler, Workload, check_seed
from schedlab.model.outcome import Outcome
from schedlab.targets import host
from schedlab.targets.workers import Workers

TRACE_FORMATS = {".pftrace": "Perfetto", ".perfetto-trace": "Perfetto", ".txt": "ftrace text"}
"""Formats of traces by the file's ending."""


def simulate(
    workload: Workload | str,
    *,
    scheduler: Scheduler | str | None = None,
    machine: Machine | None = None,
    attributes: Attributes | None = None,
    seed: int = 1,
    phase_ns: int = 0,
    origin_ns: int = 0,
    trace: Path | str | None = None,
    reasons: Path | str | None = None,
) -> Outcome:
    """Simulate one run.

    Args:
        workload: a workload, its text ``name:key=value,…``, or the path of its JSON file.
        scheduler: a scheduler or a kernel release; without it the running kernel's, if the rules of
            its series are known.
        machine: without it as many CPUs as this machine has, with its calibrated costs, or the
            reference costs where it was never calibrated.
        attributes: scheduling attributes of every task, in place of the workload's own; with a
            policy ``ext:…`` the sched_ext scheduler's rules with such weights take the place of
            the release's.
        seed: of every random stream.
        phase_ns: how long after a timer tick the run begins; of a real run that is chance.
        origin_ns: when the tasks' timers begin to count, if others have to make the tasks first.
        trace: a file to write the run's events to, ``.pftrace`` for Perfetto or ``.txt`` for
            ftrace's text.
        reasons: a file to write each decision of the scheduler to, with the rule that decided and
            its margin: ``.txt`` a line of text each, ``.jsonl`` a JSON object each. The run takes
            longer and comes to the same.

    Raises:
        InputError: something given is wrong.
        RunError: the run comes to no end, such as a deadlock.

    >>> outcome = simulate("hackbench:groups=5,loops=1", scheduler="6.1",
    ...                    machine=Machine(cpus=2, costs="reference"))
    >>> outcome.cpus, len(outcome.tasks)
    (2, 201)
    """
    work = _workload(workload, attributes)
    rules = _scheduler(scheduler)
    ext = attributes is not None and attributes.ext is not None
    if attributes is not None and attributes.ext is not None:
        if rules.weights not in ("none", attributes.ext):
            raise InputError(
                f"weights are given twice: {rules.weights} and, by the policy, {attributes.ext}"
            )
        rules = rules.with_weights(attributes.ext)
    place = _machine(machine)
    check_seed(seed)
    check_whole(phase_ns, "phase_ns", "0 or more", least=0)
    ftrace = trace is not None and trace_format(Path(trace)) == "ftrace text"
    json_lines = reasons is not None and has_json_lines(Path(reasons))
    with ExitStack() as files:
        text = _core.simulate(
            work.json,
            rules.json,
            place.json,
            seed,
            phase=phase_ns,
            origin=check_whole(origin_ns, "origin_ns", "0 or more", least=0),
            trace=None if trace is None else files.enter_context(whole(Path(trace))),
            ftrace=ftrace,
            decisions=None if reasons is None else files.enter_context(whole(Path(reasons))),
            json_lines=json_lines,
            ext=ext,
        )
    return Outcome.from_json(text).with_note(place.costs.remark)


def simulate_many(
    workload: Workload | str,
    knobs: Sequence[str],
    values: ArrayLike,
    *,
    scheduler: Scheduler | str | None = None,
    machine: Machine | None = None,
    seed: int = 1,
    workers: Workers | None = None,
) -> NDArray[np.int64]:
    """Simulate one run for each row of settings, on all CPUs, and return each turnaround.

    Args:
        workload: as `simulate`.
        knobs: the names of the knobs that differ.
        values: a row a run, a column a knob: whole nanoseconds, counts, or 0 and 1.
        scheduler: the rest of the settings.
        machine: as `simulate`.
        seed: of every random stream, the same for each run.
        workers: simulate there, in chunks of a second or more. What is done sooner
            than two chunks is simulated here. The result is the same.

    Returns:
        Nanoseconds, a number a row.

    Raises:
        InputError: as `simulate`; also a value out of its knob's range.
        RunError: as `simulate`; also where workers end during a chunk again and again.

    >>> simulate_many("hackbench:groups=5,loops=1", ["latency"], [[10_000_000], [20_000_000]],
    ...               scheduler="2.6.24", machine=Machine(1, "reference")).shape
    (2,)
    """
    work = _workload(workload, None)
    names = check_texts(knobs, "knobs")
    try:
        rows = np.ascontiguousarray(values, dtype=np.int64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"values: {error}; allowed: rows of whole numbers") from None
    if rows.ndim != 2 or rows.shape[1] != len(names):
        raise InputError(
            f"values has the shape {rows.shape}; allowed: a row a run, of {len(names)} numbers"
        )
    what = (work.json, _scheduler(scheduler).json, _machine(machine).json, names)
    check_seed(seed)
    if workers is None or not len(rows):
        return _core.simulate_many(*what, rows, seed)
    parts = workers.spread(
        _in_turn,
        len(rows),
        lambda start, end: (*what, rows[start:end], seed),
        lambda many: _core.simulate_many(*many),
    )
    return np.concatenate(parts)


_Many = tuple[str, str, str, list[str], NDArray[np.int64], int]
"""Arguments of the extension's `simulate_many`."""


def _in_turn(many: _Many) -> NDArray[np.int64]:
    """Simulate a chunk in a worker, which is one of several that share the CPUs."""
    return _core.simulate_many(*many, in_turn=True)


def trace_format(path: Path) -> str:
    """Return the format that a trace's file name asks for.

    Raises:
        InputError: its ending is unknown.
    """
    try:
        return TRACE_FORMATS[path.suffix]
    except KeyError:
        allowed = ", ".join(f"{suffix} ({name})" for suffix, name in TRACE_FORMATS.items())
        raise InputError(f"trace file '{path}': its ending names no format; {allowed}") from None


def has_json_lines(path: Path) -> bool:
    """Return whether a file of decisions is to have JSON lines rather than text, by its name.

    Raises:
        InputError: its ending is unknown.
    """
    if path.suffix not in (".txt", ".jsonl"):
        raise InputError(
            f"file of reasons '{path}': its ending names no format; "
            ".txt (text), .jsonl (JSON lines)"
        )
    return path.suffix == ".jsonl"


def _workload(workload: Workload | str, attributes: Attributes | None) -> Workload:
    work = Workload.parse(workload) if isinstance(workload, str) else workload
    _refuse_other(work, Workload, "workload", "a Workload or its text")
    return work if attributes is None else work.with_attributes(attributes)


def _scheduler(scheduler: Scheduler | str | None) -> Scheduler:
    if scheduler is None:
        return host.facts().rules
    rules = Scheduler(scheduler) if isinstance(scheduler, str) else scheduler
    _refuse_other(rules, Scheduler, "scheduler", "a Scheduler or a kernel release")
    return rules


def _machine(machine: Machine | None) -> Machine:
    place = Machine(host.facts().cpus) if machine is None else machine
    _refuse_other(place, Machine, "machine", "a Machine")
    return place


def _refuse_other(value: object, kind: type, name: str, allowed: str) -> None:
    if not isinstance(value, kind):
        raise InputError(f"{name} is {value!r}, a {type(value).__name__}; allowed: {allowed}")
