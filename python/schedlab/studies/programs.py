"""The programs of the papers as workloads: computing, copying, serving and writing.

Sizes follow what the papers print: a process that computes takes about 60 ms of CPU time, one that
copies blocks about 340 times, as the policy paper's voluntary switches say.
"""

from collections.abc import Mapping
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


def serving(concurrency: int, time: str, workers: int = 128) -> Workload:
    """Return a server's worker threads and a closed loop of clients.

    Args:
        concurrency: clients, each with one request under way at a time.
        time: how long they go on.
        workers: threads of the server.
    """
    request = {"request": {"port": "http", "bytes": 100, "reply": 1200}}
    answer = [{"accept": {"port": "http", "bytes": 100}}, _run("40us"), {"reply": {"bytes": 1200}}]
    return Workload.from_dict(
        {
            "name": f"serving {concurrency}",
            "duration": time,
            "tasks": [
                {
                    "name": "worker",
                    "instances": min(workers, concurrency),
                    "kind": "thread",
                    "steps": [{"forever": answer}],
                },
                {"name": "client", "instances": concurrency, "steps": [{"forever": [request]}]},
            ],
        }
    )


WRITERS = 4
DEPTH = 16
WRITTEN = 65536


def writing(writes: int, real_time: Mapping[str, Any] | None = None) -> Workload:
    """Return threads that write asynchronously to random places, as aio-stress does.

    Args:
        writes: of 64 KiB, by each of 4 threads, 16 under way at a time.
        real_time: a task beside them; none otherwise.
    """
    submit = {
        "submit_write": {
            "access": {"file": "data", "bytes": WRITTEN, "offset": "random"},
            "depth": DEPTH,
        }
    }
    loop = {"loop": {"count": writes, "steps": [_run("60us"), submit]}}
    tasks: list[Any] = [
        {
            "name": "writer",
            "instances": WRITERS,
            "kind": "thread",
            "steps": [loop, "await_files"],
        }
    ]
    if real_time is not None:
        tasks.append(dict(real_time))
    return Workload.from_dict(
        {
            "name": "writing",
            "files": {"data": {"size": 2**31, "open": "direct"}},
            "tasks": tasks,
        }
    )


LOADED = 120
"""Seconds for which real-time load lasts: longer than any writers beside it."""


def real_time_load(share: float, period_ms: int = 10) -> dict[str, Any]:
    """Return a FIFO task that computes for a share of each period; it outlasts the writers.

    >>> real_time_load(1.0)["steps"]
    [{'run': {'fixed': '120s'}}]
    """
    busy = _run(f"{round(share * period_ms * 1000)}us")
    timer = {"timer": {"timer": "period", "period": f"{period_ms}ms", "absolute": True}}
    periods = LOADED * 1000 // period_ms
    steps = [{"loop": {"count": periods, "steps": [busy, timer]}}]
    return {
        "name": "real-time",
        "instances": 1,
        "attributes": {"policy": {"fifo": 50}},
        "steps": steps if share < 1 else [_run(f"{LOADED}s")],
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
