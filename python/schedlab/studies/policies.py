"""Scheduling policies compared: OTHER, FIFO and RR, for computing, I/O and both, at three loads.

After the policy paper's 81 rows. Every program runs under every policy at every load, at least
three times, interleaved where time is measured; each of the paper's claims is judged by its own
rows and by ours.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

import numpy as np

from schedlab.experiment import stats
from schedlab.experiment.settings import Setting
from schedlab.experiment.subjects import Conditions, Described, Measured, Metric
from schedlab.model import Attributes, Scheduler, Workload
from schedlab.model.outcome import Outcome
from schedlab.report import charts
from schedlab.studies import papers, programs
from schedlab.studies.alternative_text import spans
from schedlab.studies.machines import typical
from schedlab.studies.recording import timeline_of
from schedlab.studies.study import Cell, Claim, Figure, Request, Result, Study, Table, judged
from schedlab.targets.sim import simulate
from schedlab.targets.target import Target

PAPER = "Linux task scheduler: testing scheduling policies (course report; CFS, FIFO and RR)"

KINDS: Mapping[str, Callable[[int], Workload]] = {
    "cpu": programs.computing,
    "io": programs.copying,
    "mixed": programs.mixed,
}
POLICIES = {"SCHED_OTHER": "other", "SCHED_FIFO": "fifo:50", "SCHED_RR": "rr:50"}
LOADS = {"light": 10, "medium": 50, "heavy": 150}
"""Instances: what the voluntary switches of the paper's computing rows say."""

RELEASE = "5.10"
CPUS = 2
"""The paper's machine uses up to 200 % of a CPU."""

COLUMNS = ("wall_s", "user_s", "system_s", "cpu_percent", "involuntary", "voluntary")
_CLEAR = 0.05
"""Policies whose mean wall times differ by less have no winner among them."""


def usage(tasks: Sequence[Mapping[str, Any]], elapsed_ns: int) -> dict[str, float]:
    """Return what ``time -v`` prints of a run.

    >>> usage([{"user_ns": 10**9, "system_ns": 0, "involuntary": 2, "voluntary": 1}], 2 * 10**9)
    {'wall_s': 2.0, 'user_s': 1.0, 'system_s': 0.0, 'cpu_percent': 50.0,
     'involuntary': 2.0, 'voluntary': 1.0}
    """
    user = sum(task["user_ns"] for task in tasks) / 1e9
    system = sum(task["system_ns"] for task in tasks) / 1e9
    wall = elapsed_ns / 1e9
    return {
        "wall_s": wall,
        "user_s": user,
        "system_s": system,
        "cpu_percent": 100 * (user + system) / wall,
        "involuntary": float(sum(task["involuntary"] for task in tasks)),
        "voluntary": float(sum(task["voluntary"] for task in tasks)),
    }


@dataclass(frozen=True, slots=True)
class Used(Described):
    """A workload measured as ``time -v`` measures a program."""

    metrics: tuple[Metric, ...] = tuple(Metric(name, "s", "lower") for name in COLUMNS)

    def measure(self, target: Target, under: Conditions) -> Measured:
        """Run it once."""
        # An explicit call: the data class with slots is not the class that super() would mean.
        measured = Described.measure(self, target, under)
        found = usage(measured.outcome["tasks"], measured.outcome["elapsed_ns"])
        return Measured(found, measured.outcome)


Key = tuple[str, str, str]
"""Kind, policy and load."""

Rows = Mapping[Key, Sequence[Mapping[str, float]]]
"""Runs by key."""


def printed() -> Rows:
    """Return the paper's 81 rows."""
    found: dict[Key, list[dict[str, float]]] = {}
    for row in papers.table("policies"):
        found.setdefault((row["process_type"], row["policy"], row["load"]), []).append(
            {
                "wall_s": float(row["wall_s"]),
                "user_s": float(row["user_s"]),
                "system_s": float(row["system_s"]),
                "cpu_percent": float(row["cpu_percent"]),
                "involuntary": float(row["involuntary_switches"]),
                "voluntary": float(row["voluntary_switches"]),
            }
        )
    return found


def simulated(request: Request) -> Rows:
    """Simulate every cell."""
    found: dict[Key, list[dict[str, float]]] = {}
    keys = [(kind, policy, load) for kind in KINDS for policy in POLICIES for load in LOADS]
    for place, (kind, policy, load) in enumerate(keys):
        request.tell("policies", place, len(keys))
        outcome = _simulate(kind, policy, LOADS[load])
        tasks = [
            {
                "user_ns": task.user_ns,
                "system_ns": task.system_ns,
                "involuntary": task.involuntary,
                "voluntary": task.voluntary,
            }
            for task in outcome.tasks
        ]
        found[kind, policy, load] = [usage(tasks, outcome.elapsed_ns)]
    return found


def _simulate(kind: str, policy: str, tasks: int) -> Outcome:
    return simulate(
        KINDS[kind](tasks),
        scheduler=Scheduler(RELEASE),
        machine=typical(CPUS),
        attributes=Attributes(POLICIES[policy]),
    )


def measured(request: Request, target: str) -> Rows:
    """Run every cell for real, interleaved."""
    assert request.measure is not None
    little = request.measures_little
    levels = request.levels_of(tuple(LOADS), ("light",))
    loads = {"light": 5} if little and levels == ("light",) else {one: LOADS[one] for one in levels}
    arms = {
        f"{kind} {policy} {load}": (Used(KINDS[kind](count)), Setting({"policy": name}))
        for kind in KINDS
        for policy, name in POLICIES.items()
        for load, count in loads.items()
    }
    runs = request.measure("policies", arms, target, blocks=request.blocks_of(target, 10, 3))
    return {_key(name): values for name, values in runs.items()}


def _key(name: str) -> Key:
    kind, policy, load = name.split()
    return kind, policy, load


def study(request: Request) -> Result:
    """Reproduce the paper."""
    sources: dict[str, Rows] = {"paper": printed()}
    if "sim" in request.on:
        sources["sim"] = simulated(request)
    for target in request.real:
        sources[target] = measured(request, target)
    claims = tuple(
        claim
        for source, rows in sources.items()
        if source != "paper"
        for claim in _claims(source, rows, sources["paper"])
    )
    table = _table(sources)
    return Result(
        answers=_answers(sources),
        claims=claims,
        tables=(_summary(sources), table),
        figures=_figures(sources),
        timeline=timeline_of(
            programs.mixed(4),
            Scheduler(RELEASE),
            typical(CPUS),
            f"4 mixed processes under SCHED_OTHER, simulated {RELEASE}",
            Attributes("other"),
        ),
        notes=(
            "The paper's programs are pi and rw; rw blocks only if its writes are synchronous, so "
            f"both files are opened for that here, and read and written {programs.BLOCK} bytes at "
            "a time, the least that may bypass the page cache everywhere. The voluntary switches "
            "of its computing rows say about 10, 50 and 150 instances.",
            f"Simulated is {RELEASE} with {CPUS} CPUs, the costs of a small server and its disk; "
            "the paper names neither kernel nor disk, so shapes are compared, not seconds.",
            "A claim about most of nine combinations is confirmed by more than half of them, and "
            "contradicted where less than a quarter show it. Where runs are measured, a wall time "
            "is the lowest by more than runs differ if each of its runs is below all of the "
            "others'.",
            *(
                f"{target}: {min(map(len, sources[target].values()))} interleaved runs of each of "
                f"{len(sources[target])} combinations"
                + (" on one CPU." if target.endswith("@icount") else ".")
                for target in request.real
            ),
            "A guest's files are on a disk of its own whose accesses take 100 us each, any number "
            "of them at a time; its processes share one pair of files, whose lock they wait for.",
        ),
        repeat={"release": RELEASE, "cpus": CPUS, "instances": LOADS, "policies": POLICIES},
    )


def _mean(rows: Rows, key: Key, metric: str) -> float:
    return median(run[metric] for run in rows[key])


def _range(runs: Sequence[Mapping[str, float]], metric: str) -> dict[str, float]:
    """Return the least and the most of several runs; nothing of one."""
    values = [run[metric] for run in runs]
    return {"low": min(values), "high": max(values)} if len(values) > 1 else {}


def _cells(rows: Rows) -> list[tuple[str, str]]:
    return list(dict.fromkeys((kind, load) for kind, _, load in rows))


def won(rows: Rows, metric: str, policy: str) -> int:
    """Return in how many cells a policy has the least of a metric, alone."""
    count = 0
    for kind, load in _cells(rows):
        values = {one: _mean(rows, (kind, one, load), metric) for one in POLICIES}
        count += all(values[policy] < value for one, value in values.items() if one != policy)
    return count


def shared(rows: Rows, metric: str, policy: str) -> int:
    """Return in how many cells a policy has the least of a metric together with another one."""
    count = 0
    for kind, load in _cells(rows):
        values = [_mean(rows, (kind, one, load), metric) for one in POLICIES]
        own = _mean(rows, (kind, policy, load), metric)
        count += own == min(values) and values.count(own) > 1
    return count


def clearly_won(rows: Rows, metric: str, policy: str) -> int:
    """Return in how many cells each of a policy's runs has less of a metric than any other run.

    What policies differ by less than their own runs do may be noise.
    """
    return sum(_clearly(rows, cell, metric, policy) for cell in _cells(rows))


def _clearly(rows: Rows, cell: tuple[str, str], metric: str, policy: str) -> bool:
    kind, load = cell
    runs = {one: [run[metric] for run in rows[kind, one, load]] for one in POLICIES}
    others = (value for one, values in runs.items() if one != policy for value in values)
    return max(runs[policy]) < min(others)


def _most(count: int, cells: int) -> Any:
    return judged(2 * count > cells, against=4 * count < cells)


def _claims(source: str, rows: Rows, paper: Rows) -> tuple[Claim, ...]:
    cells = _cells(rows)
    io = [cell for cell in cells if cell[0] != "cpu"]
    fifo, theirs = won(rows, "wall_s", "SCHED_FIFO"), won(paper, "wall_s", "SCHED_FIFO")
    clear, level = (count(rows, "wall_s", "SCHED_FIFO") for count in (clearly_won, shared))
    clear_less = sum(_clearly(rows, cell, "cpu_percent", "SCHED_OTHER") for cell in io)
    repeated = max(map(len, rows.values())) > 1
    beyond = f", in {clear} of them by more than runs differ" if repeated else ""
    beyond_less = f", in {clear_less} of them by more than runs differ" if repeated else ""
    switches = [_switches(rows, *cell) for cell in cells]
    many = sum(ratio > 1.5 for ratio in switches)
    less, paper_less = (
        _less_cpu(one, [c for c in _cells(one) if c[0] != "cpu"]) for one in (rows, paper)
    )
    heavy = ("io", "heavy") if ("io", "heavy") in cells else io[0]
    ahead = _clearly(rows, heavy, "wall_s", "SCHED_FIFO")
    gain, paper_gain = _gain(rows, heavy), _gain(paper, ("io", "heavy"))
    spread, paper_spread = _spread(rows), _spread(paper)
    return (
        Claim(
            f"{source}: FIFO has the lowest wall time in most combinations",
            f"in {theirs} of 9 of its own rows",
            f"in {fifo} of {len(cells)}{beyond}"
            + (f", and together with another in {level}" if level else ""),
            judged(2 * clear > len(cells), against=4 * (fifo + level) < len(cells)),
        ),
        Claim(
            f"{source}: CFS has substantially more involuntary switches than FIFO and RR",
            f"in {sum(_switches(paper, *cell) > 1.5 for cell in _cells(paper))} of 9",
            f"in {many} of {len(cells)}, median factor {median(switches):.3g} over the higher of "
            "the two",
            _most(many, len(cells)),
            _interval(rows, lambda one: median(_switches(one, *cell) for cell in cells)),
        ),
        Claim(
            f"{source}: CFS uses less of the CPU than the others for I/O and mixed processes",
            f"in {paper_less} of 6",
            f"in {less} of {len(io)}{beyond_less}",
            judged(2 * clear_less > len(io), against=4 * less < len(io)),
        ),
        Claim(
            f"{source}: FIFO is slightly better for heavy I/O",
            f"{paper_gain - 1:+.1%} against the better of the others",
            f"{gain - 1:+.1%} ({heavy[1]})"
            + (", less than runs differ by" if repeated and not ahead else ""),
            judged(0.8 < gain < 1 - 0.002 and ahead, against=gain > 1 + _CLEAR),
            _interval(rows, lambda one: _gain(one, heavy)),
        ),
        Claim(
            f"{source}: there is no clear winner overall",
            f"mean wall times {paper_spread - 1:.0%} apart",
            f"{spread - 1:.1%} apart (geometric means)",
            judged(spread < 1 + _CLEAR, against=spread > 1 + 4 * _CLEAR),
            _interval(rows, _spread),
        ),
    )


def _interval(rows: Rows, ratio: Callable[[Rows], float]) -> tuple[float, float] | None:
    """Return the interval of a ratio over blocks of runs, 95 %; nothing where there is but one."""
    blocks = min(map(len, rows.values()))
    if blocks < 2:
        return None
    logs = [
        float(np.log(ratio({key: [runs[block]] for key, runs in rows.items()})))
        for block in range(blocks)
    ]
    found = stats.bootstrap(logs, lambda sample: np.asarray(sample.mean(axis=-1))).interval
    return float(np.exp(found.low)), float(np.exp(found.high))


def _switches(rows: Rows, kind: str, load: str) -> float:
    """Return by what factor OTHER has more involuntary switches than the higher of the others."""
    own = _mean(rows, (kind, "SCHED_OTHER", load), "involuntary")
    others = max(
        _mean(rows, (kind, one, load), "involuntary") for one in ("SCHED_FIFO", "SCHED_RR")
    )
    return (own + 1) / (others + 1)


def _less_cpu(rows: Rows, cells: Sequence[tuple[str, str]]) -> int:
    return sum(
        _mean(rows, (kind, "SCHED_OTHER", load), "cpu_percent")
        < min(_mean(rows, (kind, one, load), "cpu_percent") for one in ("SCHED_FIFO", "SCHED_RR"))
        for kind, load in cells
    )


def _gain(rows: Rows, cell: tuple[str, str]) -> float:
    kind, load = cell
    others = min(_mean(rows, (kind, one, load), "wall_s") for one in ("SCHED_OTHER", "SCHED_RR"))
    return _mean(rows, (kind, "SCHED_FIFO", load), "wall_s") / others


def _spread(rows: Rows) -> float:
    """Return the ratio of the worst policy's geometric mean wall time to the best one's."""
    means = [
        float(
            np.exp(
                fmean(
                    float(np.log(_mean(rows, (kind, policy, load), "wall_s")))
                    for kind, load in _cells(rows)
                )
            )
        )
        for policy in POLICIES
    ]
    return max(means) / min(means)


def _answers(sources: Mapping[str, Rows]) -> tuple[str, ...]:
    words = []
    for source, rows in sources.items():
        if source == "paper":
            continue
        least = {policy: won(rows, "wall_s", policy) for policy in POLICIES}
        counted = ", ".join(f"{policy} {count}" for policy, count in least.items())
        words.append(
            f"{source}: the policies' mean wall times are {_spread(rows) - 1:.1%} apart; the "
            f"lowest of {len(_cells(rows))} combinations, alone, have {counted}. CFS switches "
            f"{median(_switches(rows, *cell) for cell in _cells(rows)):.3g} times as often "
            "against a task's will as the higher of the others."
        )
    return tuple(words)


def _table(sources: Mapping[str, Rows]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for source, by_key in sources.items():
        for (kind, policy, load), runs in by_key.items():
            rows += [
                (source, kind, policy, load, number, *(run[name] for name in COLUMNS))
                for number, run in enumerate(runs, start=1)
            ]
    return Table(
        "rows",
        "Every run",
        ("source", "process_type", "policy", "load", "run", *COLUMNS),
        tuple(rows),
        shown=False,
    )


def _summary(sources: Mapping[str, Rows]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            source,
            kind,
            load,
            policy.removeprefix("SCHED_"),
            *tuple(_mean(by_key, (kind, policy, load), name) for name in COLUMNS),
        )
        for source, by_key in sources.items()
        for kind, load in _cells(by_key)
        for policy in POLICIES
    ]
    return Table(
        "medians",
        "Medians of the runs",
        (
            "source",
            "processes",
            "load",
            "policy",
            "wall (s)",
            "user (s)",
            "system (s)",
            "CPU (%)",
            "involuntary",
            "voluntary",
        ),
        tuple(rows),
    )


def _figures(sources: Mapping[str, Rows]) -> tuple[Figure, ...]:
    found = []
    for metric, title in (("wall_s", "wall time (s)"), ("involuntary", "involuntary switches")):
        values = [
            {
                "load": load,
                "value": _mean(rows, (kind, policy, load), metric),
                "policy": policy,
                "panel": f"{source}, {kind}",
                **_range(rows[kind, policy, load], metric),
            }
            for source, rows in sources.items()
            for kind, load in _cells(rows)
            for policy in POLICIES
        ]
        found.append(
            Figure(
                metric,
                f"{title} by load and policy: the paper's rows and ours, a panel a kind of "
                "process, "
                + ("on one log scale" if metric == "involuntary" else "each with its own axis")
                + ". Bars are medians; the line on a bar goes from the least to the most of its "
                "runs.",
                f"Bars of {title}, three policies side by side at each load. "
                + " ".join(
                    f"{panel}: {spans(rows, 'value', 'policy')}."
                    for panel in dict.fromkeys(str(one["panel"]) for one in values)
                    if (rows := [one for one in values if one["panel"] == panel])
                ),
                charts.bars(
                    values,
                    x="load",
                    y="value",
                    color="policy",
                    names=("", title),
                    facet="panel",
                    small=metric == "involuntary",
                ),
            )
        )
    return tuple(found)


STUDY = Study(
    name="policies",
    title="OTHER, FIFO and RR for computing, I/O and mixed processes",
    paper=PAPER,
    summary="which policy serves which kind of process",
    run=study,
    levels=tuple(LOADS),
)
