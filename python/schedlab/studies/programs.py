"""The programs of the papers as workloads: computing, copying, serving and writing.

Sizes follow what the papers print: a process that computes takes about 60 ms of CPU time, one that
copies blocks about 340 times, as the policy paper's voluntary switches say.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlab.model import Workload

COMPUTING = "60ms"
COPIED = 170
"""Blocks that a copying process reads and writes."""

BLOCK = 4096
"""Bytes: the least that may bypass the page cache everywhere, so that copying runs for real too."""


def computing(tasks: int) -> Workload:
    """Return processes that compute (the paper's ``pi``)."""
    return _many("computing", tasks, [_run(COMPUTING)], {})


def copying(tasks: int) -> Workload:
    """Return processes that copy a file in blocks, both opened for synchronous I/O (``rw``)."""
    return _many("copying", tasks, [_copy(COPIED)], _FILES)


def mixed(tasks: int) -> Workload:
    """Return processes that compute and copy in turns."""
    turns = 17
    steps = [{"loop": {"count": turns, "steps": [_run("3530us"), _copy(COPIED // turns)]}}]
    return _many("mixed", tasks, steps, _FILES)


THREADS = 50
"""Worker threads of a process of the server, as our runs of Apache have them."""

LOADERS = 2
"""Threads of the load generator, as our runs of wrk have them."""


@dataclass(frozen=True, slots=True)
class Request:
    """The CPU time that one request takes of each process, as texts.

    These are assumed, of the order of a small file's from memory, and not measured: halved and
    doubled, a ``latency`` of 1 ms gains 14.0 % and 4.6 % at 100 connections in a second, and 5.0 %
    as they are; in five seconds 10.7 %, 2.3 % and 5.2 %.

    Attributes:
        loader: of the thread that sends it and reads the answer.
        listener: of the server's thread that waits for what comes.
        worker: of the thread that answers.
    """

    loader: str = "12us"
    listener: str = "10us"
    worker: str = "45us"


def serving(concurrency: int, time: str, request: Request = Request()) -> Workload:
    """Return Apache under wrk: processes with a listener and workers, and two threads of load.

    All of them wait for events, of whatever connection. A thread of wrk has half of the connections
    and goes on as long as any of them is answered: `epoll_wait` gives it many at a time. Each
    request wakes the listener of the process that has its connection, which hands it to a worker.
    Semaphores count what is ready: a task that finds something ready does not sleep.

    The outcome's latency ``answer`` counts the requests.

    Args:
        concurrency: connections, each with one request under way at a time.
        time: how long they run.
        request: what one takes.

    >>> from schedlab import Machine, simulate
    >>> outcome = simulate(serving(20, "100ms"), scheduler="5.10", machine=Machine(1, "ideal"))
    >>> outcome.latencies["answer"].count > 1000
    True
    """
    loaders = min(LOADERS, concurrency)
    processes = -(-max(concurrency * 5 // 4, loaders * THREADS) // THREADS)
    tasks: list[Any] = []
    for loader in range(loaders):
        mine = range(loader, processes, loaders)
        connections = len(range(loader, concurrency, loaders))
        # Each answer makes place for the next request, to the processes in turn.
        first, turns = divmod(connections, len(mine))
        ask = {place: {"post": f"requests {place}"} for place in mine}
        begin: list[Any] = (
            [{"loop": {"count": first, "steps": list(ask.values())}}] if first else []
        )
        begin += [ask[place] for place in list(mine)[:turns]]
        again = [
            step
            for place in mine
            for step in ({"acquire": f"answers {loader}"}, _run(request.loader), ask[place])
        ]
        tasks.append(
            {"name": f"wrk {loader}", "kind": "thread", "steps": [*begin, {"forever": again}]}
        )
        for place in mine:
            listens = [
                {"acquire": f"requests {place}"},
                _run(request.listener),
                {"post": f"queue {place}"},
            ]
            works = [
                {"acquire": f"queue {place}"},
                {"start": "answer"},
                _run(request.worker),
                {"post": f"answers {loader}"},
                {"stop": "answer"},
            ]
            tasks += [
                {"name": f"listener {place}", "kind": "thread", "steps": [{"forever": listens}]},
                {
                    "name": f"worker {place}",
                    "kind": "thread",
                    "instances": THREADS,
                    "steps": [{"forever": works}],
                },
            ]
    tasks = [{"instances": 1} | one for one in tasks]
    value = {"name": f"serving {concurrency}", "duration": time, "tasks": tasks}
    return Workload.from_dict(value)


WRITERS = 4
DEPTH = 16
WRITTEN = 65536


def writing(
    seconds: int, share: float = 0.0, size: int = 2**31, cpus: Sequence[int] = ()
) -> Workload:
    """Return threads that write asynchronously to random places, as aio-stress does.

    Each of 4 threads writes 64 KiB at a time, 16 writes under way, as long as the run lasts;
    the outcome's latency ``write`` counts how many there were.

    Args:
        seconds: how long.
        share: of a CPU that a FIFO task beside them asks for, see `real_time_load`; 0 is none.
        size: bytes of the file.
        cpus: all run on these; anywhere otherwise.

    >>> from schedlab import Machine, simulate
    >>> outcome = simulate(writing(1), scheduler="6.1", machine=Machine(1, "ideal"))
    >>> outcome.latencies["write"].count > 1000
    True
    """
    submit = {
        "submit_write": {
            "access": {"file": "data", "bytes": WRITTEN, "offset": "random"},
            "depth": DEPTH,
        }
    }
    write = [{"start": "write"}, _run("60us"), submit, {"stop": "write"}]
    tasks: list[Any] = [
        {
            "name": "writer",
            "instances": WRITERS,
            "kind": "thread",
            "steps": [{"forever": write}],
        }
    ]
    if share:
        tasks.append(real_time_load(share))
    if cpus:
        for task in tasks:
            task["attributes"] = {**task.get("attributes", {}), "affinity": list(cpus)}
    return Workload.from_dict(
        {
            "name": f"writing beside {share:.0%}" if share else "writing",
            "duration": f"{seconds}s",
            "files": {"data": {"size": size, "open": "direct"}},
            "tasks": tasks,
        }
    )


JOB_MS = 10
"""Period of the real-time task, a job each."""


def real_time_load(share: float) -> dict[str, Any]:
    """Return a FIFO task that computes for a share of each period, each time a ``job``.

    >>> real_time_load(1.0)["steps"]
    [{'forever': [{'start': 'job'}, {'run': {'fixed': '10000us'}}, {'stop': 'job'}]}]
    """
    busy = _run(f"{round(share * JOB_MS * 1000)}us")
    timer = {"timer": {"timer": "period", "period": f"{JOB_MS}ms", "absolute": True}}
    job = [{"start": "job"}, busy, {"stop": "job"}]
    return {
        "name": "real-time",
        "instances": 1,
        "attributes": {"policy": {"fifo": 50}},
        "steps": [{"forever": job if share >= 1 else [*job, timer]}],
    }


_FILES = {
    "from": {"size": 1 << 20, "open": "direct"},
    "to": {"size": 1 << 20, "open": "sync"},
}


def _run(time: str) -> dict[str, Any]:
    return {"run": {"fixed": time}}


def _copy(blocks: int) -> dict[str, Any]:
    steps = [
        {"read_file": {"file": "from", "bytes": BLOCK}},
        {"write_file": {"file": "to", "bytes": BLOCK}},
    ]
    return {"loop": {"count": blocks, "steps": steps}}


def _many(name: str, tasks: int, steps: list[Any], files: Mapping[str, Any]) -> Workload:
    value: dict[str, Any] = {
        "name": f"{name} {tasks}",
        "tasks": [{"name": name, "instances": tasks, "steps": steps}],
    }
    if files:
        value["files"] = dict(files)
    return Workload.from_dict(value)
