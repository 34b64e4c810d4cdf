"""An ordinary task beside a FIFO task that never sleeps, on real kernels: what it is left.

Up to 6.1 ``rt_runtime`` limits the FIFO task; from 6.12 on it limits nothing (without
RT_GROUP_SCHED), and the fair server's runtime is what the ordinary task gets.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from schedlab.experiment.settings import Setting
from schedlab.experiment.subjects import Conditions, Described, Measured, Metric
from schedlab.model import Machine, Scheduler, Workload
from schedlab.studies.study import Cell, Claim, Request, Table, judged
from schedlab.targets.facts import facts
from schedlab.targets.sim import simulate
from schedlab.targets.target import Target

SECONDS = 3
"""Periods of a second that a run lasts."""

USUAL = "950ms"
"""What kernels have by default, and take everywhere."""

LIMITS = ("100ms", "500ms", USUAL)
SERVERS = ("50ms", "250ms", "500ms")

_NEAR = 0.03
"""A share is the predicted one if it is no further off: a tick or two of each period."""


def workload() -> Workload:
    """Return the two tasks, both on CPU 0."""
    computes = {"run": {"fixed": f"{2 * SECONDS}s"}}
    return Workload.from_dict(
        {
            "name": "beside a FIFO task",
            "duration": f"{SECONDS}s",
            "tasks": [
                {
                    "name": "ordinary",
                    "instances": 1,
                    "attributes": {"affinity": [0]},
                    "steps": [computes],
                },
                {
                    "name": "real-time",
                    "instances": 1,
                    "attributes": {"policy": {"fifo": 50}, "affinity": [0]},
                    "steps": [computes],
                },
            ],
        }
    )


def _share(run_ns: Mapping[str, int]) -> float:
    return next(time for name, time in run_ns.items() if name.startswith("ord")) / (SECONDS * 1e9)


@dataclass(frozen=True, slots=True)
class Share(Described):
    """What the ordinary task gets of the CPU."""

    metrics: tuple[Metric, ...] = (Metric("share", "", "higher"),)

    def measure(self, target: Target, under: Conditions) -> Measured:
        """Run them once."""
        # An explicit call: the data class with slots is not the class that super() would mean.
        measured = Described.measure(self, target, under)
        times = {task["name"]: task["run_ns"] for task in measured.outcome["tasks"]}
        return Measured({"share": _share(times)}, measured.outcome)


def predicted(release: str, knob: Mapping[str, str]) -> float:
    """Return what the simulator says that it gets.

    >>> round(predicted("6.1", {"rt_runtime": "500ms"}), 2)
    0.5
    """
    outcome = simulate(
        workload(), scheduler=Scheduler(release, knobs=knob), machine=Machine(1, "ideal")
    )
    return _share({task.name: task.run_ns for task in outcome.tasks})


def settings(release: str) -> dict[str, dict[str, str]]:
    """Return what is set on a release, by the name of its arm.

    >>> list(settings("6.12"))[:3]
    ['rt_runtime 100ms', 'rt_runtime 950ms', 'fair_server_runtime 50ms']
    """
    if throttles(release):
        return {f"rt_runtime {value}": {"rt_runtime": value} for value in LIMITS}
    found = {f"rt_runtime {value}": {"rt_runtime": value} for value in ("100ms", USUAL)}
    return found | {
        f"fair_server_runtime {value}": {"fair_server_runtime": value} for value in SERVERS
    }


def release_of(target: str) -> str:
    """Return the release that a guest's name asks for, or the running kernel's.

    >>> release_of("vm:6.1@icount")
    '6.1'

    Raises:
        InputError: the rules of the running kernel are not known.
    """
    if target == "host":
        return facts().rules.release
    return target.removeprefix("vm:").removesuffix("@icount")


def throttles(release: str) -> bool:
    """Return whether rt_runtime acts: on releases without a fair server.

    >>> throttles("6.1"), throttles("6.12.95")
    (True, False)
    """
    major, minor, *_ = (int(part) for part in release.removeprefix("~").split("."))
    return (major, minor) < (6, 12)


def measured(request: Request, target: str) -> tuple[Table, Claim]:
    """Run them under every setting, interleaved, and hold that against the simulator."""
    assert request.measure is not None
    release = release_of(target)
    knobs = settings(release)
    if request.quick:
        knobs = {name: knobs[name] for name in (f"rt_runtime {USUAL}",)}
    arms = {name: (Share(workload()), Setting(values)) for name, values in knobs.items()}
    blocks = request.blocks_of(target, 10, 2 if request.quick else 3)
    runs = request.measure("rt_runtime beside a FIFO task", arms, target, blocks=blocks)
    rows: list[tuple[Cell, ...]] = []
    for name, values in runs.items():
        shares = [one["share"] for one in values]
        rows.append((target, name, len(shares), median(shares), predicted(release, knobs[name])))
    off = max(abs(float(row[3] or 0) - float(row[4] or 0)) for row in rows)
    what = "rt_runtime leaves" if throttles(release) else "the fair server keeps for it"
    claim = Claim(
        f"{target}: beside a FIFO task that never sleeps an ordinary one gets what {what}",
        "not in the report",
        "; ".join(f"{row[1]}: {float(row[3] or 0):.1%} of the CPU" for row in rows)
        + f"; furthest from the simulated share: {100 * off:.1f} points",
        judged(off <= _NEAR, against=off > 5 * _NEAR),
    )
    columns = ("target", "setting", "runs", "median share", "simulated")
    title = f"What an ordinary task gets beside a FIFO task that never sleeps, on {target}"
    return Table(f"beside_{release}", title, columns, tuple(rows)), claim
