"""Random workloads of every kind that the language has words for, each from a seed alone.

A workload takes 0.5 to 5 s of real time on the CPUs it is drawn for. The seeds of development are
small numbers; those that are judged follow from a commit (`seeds_of`), so that they are unknown
before the code is fixed.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from schedlab.model import Workload

Spec = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A workload that was drawn.

    Attributes:
        seed: that it follows from.
        kind: a name of `KINDS`.
        workload: what runs.
    """

    seed: int
    kind: str
    workload: Workload


def seeds_of(commit: str, count: int) -> list[int]:
    """Return the seeds that are judged for a commit, in their order.

    Args:
        commit: its hash.
        count: how many.

    >>> seeds_of("22f8dd7", 2) == seeds_of("22f8dd7", 3)[:2]
    True
    """
    digests = (hashlib.sha256(f"{commit} {number}".encode()).digest() for number in range(count))
    return [int.from_bytes(digest[:6]) for digest in digests]


def draw(seed: int, *, cpus: int, slices: bool, quotas: bool = False) -> Drawn:
    """Draw a workload; its kind goes through all of them as seeds go up by one.

    Args:
        seed: all that is random follows from it.
        cpus: of the machine that it is for.
        slices: whether its kernel gives tasks slices of their own (6.12 on).
        quotas: whether groups may have weights and quotas there.

    >>> draw(3, cpus=2, slices=True) == draw(3, cpus=2, slices=True)
    True
    """
    kinds = [kind for kind in KINDS if kind != "slices" or slices]
    kinds = [kind for kind in kinds if kind not in _GROUPED or quotas]
    kind = kinds[seed % len(kinds)]
    chance = Chance(seed, cpus)
    found = KINDS[kind](chance)
    if isinstance(found, str):
        return Drawn(seed, kind, Workload.parse(found))
    return Drawn(seed, kind, Workload.from_dict({"name": f"{kind}-{seed}", **found}))


def of_other_kinds(
    kinds: Collection[str], drawn: Iterable[Drawn], count: int | None
) -> list[Drawn]:
    """Return the first workloads that are of none of some kinds.

    Args:
        kinds: those that are left out.
        drawn: workloads.
        count: how many at most; all of them without it.

    >>> drawn = (draw(seed, cpus=1, slices=True) for seed in range(9))
    >>> [one.kind for one in of_other_kinds(["periodic"], drawn, 2)]
    ['computing', 'bursty']
    """
    return list(islice((one for one in drawn if one.kind not in kinds), count))


class Chance:
    """Random choices for a workload.

    Args:
        seed: of all of them.
        cpus: of the machine.
    """

    def __init__(self, seed: int, cpus: int) -> None:
        self._generator = np.random.default_rng(seed)
        self.cpus = cpus

    def whole(self, low: int, high: int) -> int:
        """Return a whole number from ``low`` to ``high``, both included."""
        return int(self._generator.integers(low, high + 1))

    def micros(self, low: float, high: float) -> int:
        """Return microseconds, as likely between 1 and 2 ms as between 2 and 4."""
        return max(1, round(float(np.exp(self._generator.uniform(np.log(low), np.log(high))))))

    def one(self, *choices: Any) -> Any:
        """Return one of some choices."""
        return choices[self.whole(0, len(choices) - 1)]


def _seconds(chance: Chance) -> Spec:
    return {"duration": f"{chance.whole(10, 30) * 100}ms"}


def _computing(chance: Chance) -> Spec:
    """Tasks that compute for some time, and end."""
    count = chance.whole(2, 3 * chance.cpus + 2)
    each = chance.whole(400, 2_000) * 1_000 * chance.cpus // count
    return {
        "tasks": {
            f"task{place}": {"loop": 1, "run": round(each * chance.one(0.5, 1, 1.5))}
            for place in range(count)
        }
    }


def _periodic(chance: Chance) -> Spec:
    """Tasks that compute within periods of their own, beside one that always would."""
    tasks: Spec = {}
    for place in range(chance.whole(2, 2 * chance.cpus + 3)):
        period = chance.micros(2_000, 40_000)
        tasks[f"task{place}"] = {
            "run": max(50, round(period * chance.one(0.05, 0.1, 0.2, 0.3))),
            "timer": {"ref": f"unique{place}", "period": period},
        }
    if chance.one(True, False):
        tasks["busy"] = {"run": 100_000}
    return {"global": _seconds(chance), "tasks": tasks}


def _bursty(chance: Chance) -> Spec:
    """Tasks that compute and sleep for random times."""
    return {
        "global": _seconds(chance),
        "tasks": {
            f"task{place}": {
                "run": {"exponential": chance.micros(100, 5_000)},
                "sleep": {"exponential": chance.micros(200, 20_000)},
            }
            for place in range(chance.whole(3, 4 * chance.cpus + 3))
        },
    }


def _locks(chance: Chance) -> Spec:
    """Tasks that take a lock, compute with it, give it back, and compute without."""
    return {
        "global": _seconds(chance),
        "tasks": {
            f"task{place}": {
                "lock": "door",
                "run1": chance.micros(20, 400),
                "unlock": "door",
                "run2": chance.micros(100, 2_000),
                "sleep": chance.micros(100, 3_000),
            }
            for place in range(chance.whole(2, 2 * chance.cpus + 3))
        },
    }


def _producers(chance: Chance) -> Spec:
    """Producers that count a semaphore up from time to time, and consumers that wait for it."""
    consumers = chance.whole(1, 2 * chance.cpus)
    return {
        "global": _seconds(chance),
        "tasks": {
            "producer": {
                "instance": chance.whole(1, 2),
                "run": chance.micros(50, 500),
                "sem_post": "item",
                "sleep": chance.micros(200, 4_000),
            },
            "consumer": {
                "instance": consumers,
                "sem_wait": "item",
                "run": chance.micros(100, 3_000),
            },
        },
    }


def _channels(chance: Chance) -> Spec:
    """A ring of tasks that pass a message on, each computing in between."""
    count, size = chance.whole(2, 6), chance.one(1, 100, 2_000)
    work = chance.micros(2, 200)
    rounds = max(20, round(1_500_000 / (count * (work + 15))))
    tasks: Spec = {}
    for place in range(count):
        receive = {"receive": {"channel": f"c{place}", "bytes": size}}
        send = {"send": {"channel": f"c{(place + 1) % count}", "bytes": size}}
        first = {**send, **receive} if place == 0 else {**receive, **send}
        tasks[f"task{place}"] = {"loop": rounds, "run": work, **first}
    resources = {f"c{place}": {"type": chance.one("pipe", "socket")} for place in range(count)}
    return {"resources": resources, "tasks": tasks}


def _nice(chance: Chance) -> Spec:
    """Tasks of several nice levels that compute, some of them with sleeps."""
    tasks: Spec = {}
    for place in range(chance.whole(2, 2 * chance.cpus + 3)):
        tasks[f"task{place}"] = {"nice": chance.whole(0, 15), "run": chance.micros(500, 20_000)}
        if chance.one(True, False):
            tasks[f"task{place}"]["sleep"] = chance.micros(200, 5_000)
    return {"global": _seconds(chance), "tasks": tasks}


def _slices(chance: Chance) -> Spec:
    """The same with slices of their own in place of nice levels."""
    found = _nice(chance)
    for task in found["tasks"].values():
        del task["nice"]
        task["slice"] = chance.micros(200, 20_000)
    return found


def _groups(chance: Chance) -> Spec:
    """Groups of several weights, one of them with a quota, that compute and sleep."""
    tasks: Spec = {}
    groups: Spec = {}
    for group in ("a", "b", "c")[: chance.whole(2, 3)]:
        groups[f"/{group}"] = {"weight": chance.one(50, 100, 200, 400)}
        for place in range(chance.whole(1, chance.cpus + 1)):
            task: Spec = {"taskgroup": f"/{group}", "run": chance.micros(500, 10_000)}
            if chance.one(True, False):
                task["sleep"] = chance.micros(200, 5_000)
            tasks[f"{group}{place}"] = task
    quota = f"{chance.whole(2, 8) * 10 * chance.cpus}ms"
    groups["/a"]["max"] = {"quota": quota, "period": "100ms"}
    return {"global": _seconds(chance), "tasks": tasks, "groups": groups}


def _containers(chance: Chance) -> Spec:
    """A service with a quota, a build with a weight, and a backup that fills what they leave."""
    period = chance.micros(2_000, 20_000)
    return {
        "global": _seconds(chance),
        "groups": {
            "/service": {
                "weight": chance.one(100, 200, 400),
                "max": {"quota": f"{chance.whole(3, 8) * 10 * chance.cpus}ms", "period": "100ms"},
            },
            "/build": {"weight": chance.one(50, 100, 200)},
            "/backup": {"idle": True},
        },
        "tasks": {
            "worker": {
                "instance": chance.whole(2, 3 * chance.cpus),
                "taskgroup": "/service",
                "run": max(50, round(period * chance.one(0.1, 0.2, 0.3))),
                "timer": {"ref": "unique", "period": period},
            },
            "compiler": {
                "instance": chance.whole(1, 2 * chance.cpus),
                "taskgroup": "/build",
                "run": chance.micros(1_000, 10_000),
                "sleep": chance.micros(100, 2_000),
            },
            "backup": {"taskgroup": "/backup", "run": 2_000},
        },
    }


def _real_time(chance: Chance) -> Spec:
    """A real-time task that leaves time, and one that does not for a while, beside fair ones."""
    period = chance.micros(3_000, 30_000)
    share = chance.one(0.2, 0.4, 0.6)
    return {
        "global": _seconds(chance),
        "tasks": {
            "urgent": {
                "policy": chance.one("SCHED_FIFO", "SCHED_RR"),
                "priority": chance.whole(1, 50),
                "run": round(period * share),
                "timer": {"ref": "unique", "period": period},
            },
            "fair": {
                "instance": chance.whole(1, chance.cpus + 2),
                "run": chance.micros(500, 5_000),
                "sleep": chance.micros(100, 2_000),
            },
        },
    }


def _forks(chance: Chance) -> Spec:
    """A task that makes others from time to time, beside some that compute."""
    return {
        "tasks": {
            "parent": {
                "loop": chance.whole(40, 200),
                "fork": {"task": "child", "count": chance.whole(1, 3)},
                "sleep": chance.micros(2_000, 10_000),
            },
            "child": {"instance": 0, "loop": 1, "run": chance.micros(500, 5_000)},
            "busy": {"instance": chance.whole(1, chance.cpus), "loop": 1, "run": 500_000},
        }
    }


def _hackbench(chance: Chance) -> str:
    groups = chance.whole(1, 4)
    size, pipe, threads = chance.one(100, 2_000), chance.whole(0, 1), chance.whole(0, 1)
    # A message takes some 2 us of a CPU, 10 in a guest whose instructions are translated, and each
    # sender sends one to each receiver a loop.
    pairs = chance.whole(5, 12)
    loops = chance.whole(500, 1_000) * 1_000 * chance.cpus // (2 * groups * pairs**2)
    return (
        f"hackbench:groups={groups},fds={pairs},loops={loops},datasize={size},"
        f"pipe={pipe},threads={threads}"
    )


def _pipe(chance: Chance) -> str:
    # Two CPUs take some four times as long for a byte as one.
    loops = chance.whole(60, 150) * 1_000 // min(chance.cpus, 2) ** 2
    return f"pipe:loops={loops},socket={chance.whole(0, 1)},threads=1"


def _schbench(chance: Chance) -> str:
    return (
        f"schbench:messages={chance.whole(1, 2)},threads={chance.whole(1, 2 * chance.cpus + 2)},"
        f"operations={chance.whole(2, 6)},sleep={chance.micros(50, 500)}us,"
        f"work={chance.micros(200, 3_000)}us,duration=2s"
    )


KINDS: dict[str, Callable[[Chance], Spec | str]] = {
    "computing": _computing,
    "periodic": _periodic,
    "bursty": _bursty,
    "locks": _locks,
    "producers": _producers,
    "channels": _channels,
    "nice": _nice,
    "slices": _slices,
    "groups": _groups,
    "containers": _containers,
    "real time": _real_time,
    "forks": _forks,
    "hackbench": _hackbench,
    "pipe": _pipe,
    "schbench": _schbench,
}
"""What draws each kind."""

_GROUPED = {"groups", "containers"}
