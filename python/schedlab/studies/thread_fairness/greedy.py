"""Programs of several threads, as workloads: what the thread-fairness study runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from schedlab.model import Workload, format_time


def process(
    name: str,
    threads: int,
    run_ns: int,
    *,
    group: str | None = None,
    session: str | None = None,
    affinity: Sequence[int] = (),
) -> list[dict[str, Any]]:
    """Return a process whose threads compute so long each: the first makes the others.

    Args:
        name: its name; its threads' names begin with it.
        threads: how many, itself included.
        run_ns: CPU time of each thread.
        group: the path of the group it lives in.
        session: the session it belongs to, for autogroup.
        affinity: the CPUs it may use; all where empty.
    """
    compute = {"run": {"fixed": format_time(run_ns)}}
    others = f"{name}-thread"
    first: dict[str, Any] = {"name": name, "instances": 1}
    if affinity:
        first["attributes"] = {"affinity": list(affinity)}
    if group is not None:
        first["taskgroup"] = group
    if session is not None:
        first["session"] = session
    if threads == 1:
        return [first | {"steps": [compute]}]
    first["steps"] = [{"fork": {"task": others, "count": threads - 1}}, compute, "join"]
    return [first, {"name": others, "kind": "thread", "steps": [compute]}]


def workload(
    name: str,
    processes: Sequence[Sequence[Mapping[str, Any]]],
    groups: Mapping[str, Mapping[str, Any]] | None = None,
) -> Workload:
    """Return processes that start together as a workload.

    >>> workload("two", [process("A", 1, 10**9), process("B", 4, 10**9)]).name
    'two'
    """
    tasks = [dict(task) for each in processes for task in each]
    value: dict[str, Any] = {"name": name, "tasks": tasks}
    if groups:
        value["groups"] = {path: dict(settings) for path, settings in groups.items()}
    return Workload.from_dict(value)
