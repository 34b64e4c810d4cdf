"""Four kernel parameters against a web server's throughput, at six concurrencies.

After a report that sweeps ``rr_timeslice``, ``latency``, ``wakeup_granularity`` and ``rt_runtime``
under Apache on 5.4. Its gaps are up to threefold, also for the two parameters that cannot act on
Apache's SCHED_OTHER tasks, and one row of defaults serves all four tables: they are shifts between
sessions. Here settings are interleaved, and the default is compared with itself to see what is
noise.
"""

from collections.abc import Mapping
from statistics import fmean

import numpy as np

from schedlab.model import Scheduler
from schedlab.report import charts
from schedlab.studies import papers, programs
from schedlab.studies.alternative_text import spans
from schedlab.studies.cfs_parameters import (
    parameters_cause,
    parameters_measured,
    parameters_simulated,
    parameters_table,
)
from schedlab.studies.cfs_parameters.parameters import CONCURRENCIES, DEFAULTS, KNOBS
from schedlab.studies.cfs_parameters.parameters_simulated import CPUS, RELEASE
from schedlab.studies.cfs_parameters.parameters_table import Speeds, normalised
from schedlab.studies.machines import typical
from schedlab.studies.recording import timeline_of
from schedlab.studies.study import Cell, Figure, Request, Result, Study, Table

_CHANCE = (
    f"Each setting is simulated {len(parameters_simulated.WORKERS_NS[::2])} times with a worker's "
    "time longer or shorter by up to 0.1 %, and the default as often with others (A/A): which "
    "request meets which depends on that, and throughput at one concurrency moves by up to 17 %."
)

PAPER = "CFS parameters and Apache HTTP server: four kernel.sched_ parameters (course project)"

_STEADY = 2.0
"""Per cent that the runs of a row deviate by at the most where they hardly do."""

_SIMULATED = (
    "Simulated are Apache's processes, each with a listener and 50 workers, and wrk's two threads, "
    "each with half of the connections: all wait for events of whatever connection and go on as "
    "long as there are any (epoll). A request takes "
    f"{programs.Request().loader} of wrk, {programs.Request().listener} of a listener and "
    f"{programs.Request().worker} of a worker, what switches and wake-ups cost aside. A sleeper "
    "is placed half a latency before the others (place_entity) and preempts the current task if it "
    "leads by more than wakeup_granularity: with the default of 3 ms it does from a latency of "
    "6 ms on. Then each request that wrk sends wakes a listener that takes the CPU from it, and "
    "each answer wakes wrk; with less, wrk sends a batch, and listeners and workers find one."
)


def printed(column: str = "requests_per_second") -> Speeds:
    """Return a column of the report's rows, its one row of defaults under every knob."""
    found: dict[tuple[str, str, int], float] = {}
    for knob in KNOBS:
        for row in papers.table(f"apache_{knob}_ms"):
            text = row["setting"]
            value = DEFAULTS[knob] if not text.isdigit() else _value(int(text))
            if row[column]:
                found[knob, value, int(row["concurrency"])] = float(row[column])
    return found


def _sessions(paper: Speeds) -> str:
    """Say what the report's own deviations say of its gaps."""
    rows = [row for row in papers.table("apache_latency_ms") if not row["setting"].isdigit()]
    steady = {
        int(row["concurrency"]): float(row["standard_deviation_percent"])
        for row in rows
        if float(row["standard_deviation_percent"]) < _STEADY
    }
    gaps = []
    for concurrency in steady:
        speeds = [speed for (_, _, count), speed in paper.items() if count == concurrency]
        own = paper["latency", DEFAULTS["latency"], concurrency]
        gaps.append(f"{max(speeds) / own:.1f}")
    return (
        "One row of defaults serves all four of the report's tables. At "
        f"{', '.join(map(str, steady))} connections its runs deviate by only "
        f"{min(steady.values()):g} to {max(steady.values()):g} %, exactly where the best value has "
        f"{', '.join(gaps)} times its throughput: such gaps are shifts between sessions, which "
        "repeats one after the other cannot see. Here settings are interleaved and the default is "
        "measured twice (A/A)."
    )


def _value(milliseconds: int) -> str:
    return "1s" if milliseconds == 1000 else f"{milliseconds}ms"


def study(request: Request) -> Result:
    """Reproduce the report."""
    ours = parameters_simulated.simulated(request)
    speeds = parameters_measured.speeds(ours)
    paper = printed()
    real = {target: parameters_measured.measured(request, target) for target in request.real}
    sources = _sources(paper, {"sim": ours, **real})
    claims = []
    for target, runs in {"sim": ours, **real}.items():
        claims += parameters_measured.claims(target, runs, _of_paper(paper))
    request.tell("why", 0, 1)
    cause = parameters_cause.simulated("100ms" if request.quick else "1s", quick=request.quick)
    causes = {
        target: found
        for target in real
        if "latency" in parameters_measured.settable(target)
        and (found := parameters_cause.measured(request, target))
    }
    claims += [parameters_cause.claim(target, found) for target, found in causes.items()]
    theirs = {knob: _reach(paper, knob) for knob in KNOBS}
    return Result(
        answers=(
            f"{parameters_measured.answer('Simulated', ours)} The report has "
            + ", ".join(f"{ratio - 1:.0%}" for ratio in theirs.values())
            + " between the best and the worst value of each. rr_timeslice and rt_runtime cannot "
            "act on ordinary tasks, so that its gaps there measure how far two of its sessions "
            "differ.",
            *(
                parameters_measured.answer(f"Apache on {target}", runs)
                for target, runs in real.items()
            ),
        ),
        claims=tuple(claims),
        tables=(
            _table(paper, speeds),
            *parameters_measured.tables({"sim": ours, **real}),
            parameters_cause.table(cause, causes),
            parameters_table.side_by_side(sources),
        ),
        figures=_figures(sources),
        timeline=timeline_of(
            programs.serving(4, "10ms"),
            Scheduler(RELEASE, knobs=DEFAULTS),
            typical(2),
            "4 clients and 4 workers, simulated 5.10, 2 CPUs",
        ),
        notes=(
            _sessions(paper),
            "The report's kernel is 5.4; 5.10 has the same parameters and is packaged. Its "
            "defaults are those of 4 CPUs and are set explicitly, since the kernel scales them.",
            _SIMULATED,
            "Real runs are Apache's, loaded by wrk, with the same defaults whatever CPUs there "
            "are.",
            *(parameters_cause.note(target, runs) for target, runs in causes.items()),
            *_reduced(real),
            *(
                one
                for target, runs in real.items()
                for one in parameters_measured.few_answers(target, runs)
            ),
            _CHANCE,
        ),
        repeat={"release": RELEASE, "cpus": CPUS, "knobs": {k: list(v) for k, v in KNOBS.items()}},
    )


def _sources(
    paper: Speeds, ours: Mapping[str, parameters_measured.Runs]
) -> dict[str, tuple[Speeds, Speeds]]:
    """Return throughputs and their deviations by source: the paper, or a target."""
    percent = printed("standard_deviation_percent")
    deviations = {key: value / 100 for key, value in percent.items()}
    found: dict[str, tuple[Speeds, Speeds]] = {
        "paper": (paper, deviations),
    }
    for target, runs in ours.items():
        own = parameters_measured.deviations(runs)
        found[target] = (parameters_measured.speeds(runs), own)
    return found


def _of_paper(paper: Speeds) -> dict[str, str]:
    """Return what the report has for its claims, by knob, and by ``default KNOB``."""
    best = {"latency": "20ms", "wakeup_granularity": "1ms", "rt_runtime": "500ms"}
    found = {knob: _leads(paper, knob, value) for knob, value in best.items()}
    found |= {f"default {knob}": _leads(paper, knob, DEFAULTS[knob], last=True) for knob in KNOBS}
    return found


def _reduced(real: Mapping[str, parameters_measured.Runs]) -> list[str]:
    """Say how many runs there are where, and what of the report's design is left out."""
    notes = []
    for target, runs in real.items():
        concurrencies = sorted({concurrency for _, _, concurrency in runs})
        left = [str(one) for one in CONCURRENCIES if one not in concurrencies]
        notes.append(
            f"{target}: {min(map(len, runs.values()))} interleaved runs of every setting at "
            f"{', '.join(map(str, concurrencies))} connections"
            + (f"; {', '.join(left)} left out." if left else ".")
        )
    return notes


def _means(speeds: Speeds, knob: str) -> dict[str, float]:
    """Return the geometric mean of each value over concurrencies."""
    values: dict[str, list[float]] = {}
    for (name, value, _), speed in speeds.items():
        if name == knob:
            values.setdefault(value, []).append(float(np.log(speed)))
    return {value: float(np.exp(fmean(logs))) for value, logs in values.items()}


def _reach(speeds: Speeds, knob: str) -> float:
    means = _means(speeds, knob)
    return max(means.values()) / min(means.values())


def _leads(speeds: Speeds, knob: str, value: str, *, last: bool = False) -> str:
    """Return by how much a value leads, or is last."""
    means = _means(speeds, knob)
    others = {one: mean for one, mean in means.items() if one != value}
    if last:
        means = {one: 1 / mean for one, mean in means.items()}
        others = {one: 1 / mean for one, mean in others.items()}
    ratio = means[value] / max(others.values())
    return f"{ratio - 1:+.2%} {'time' if last else 'throughput'} against the next"


def _table(paper: Speeds, ours: Speeds) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for knob, values in KNOBS.items():
        for concurrency in CONCURRENCIES:
            theirs = {v: paper.get((knob, v, concurrency)) for v in values}
            mine = {v: ours.get((knob, v, concurrency)) for v in values}
            rows += [
                (knob, concurrency, value, *normalised(theirs, value), *normalised(mine, value))
                for value in values
            ]
    return Table(
        "parameters",
        "Requests a second; normalised to the best value at that concurrency, which is marked, as "
        "is the worst",
        (
            "knob",
            "concurrency",
            "value",
            "paper",
            "normalised",
            "mark",
            "ours",
            "normalised",
            "mark",
        ),
        tuple(rows),
        shown=False,
    )


def _figures(sources: Mapping[str, tuple[Speeds, Speeds]]) -> tuple[Figure, ...]:
    """Draw each parameter's throughput, a panel a source.

    Args:
        sources: throughputs and their deviations, as `_sources` has them.
    """
    found = []
    for knob in KNOBS:
        values = [
            {
                "concurrency": concurrency,
                "who": value,
                "panel": _PANELS.get(source, f"ours, {source}"),
                **_part(
                    speed / _best(speeds, knob, concurrency),
                    deviations.get((knob, value, concurrency)),
                ),
            }
            for source, (speeds, deviations) in sources.items()
            for (name, value, concurrency), speed in speeds.items()
            if name == knob
        ]
        found.append(
            Figure(
                knob,
                f"{knob}: throughput in per cent of the best value's at that concurrency, a line a "
                "value; the report's and ours, each panel with its own axis. Bars: a standard "
                "deviation of the runs on either side.",
                "Lines of throughput, in per cent of the best value's, against connections, a line "
                "a value. "
                + " ".join(
                    f"{panel}: {spans([one for one in values if one['panel'] == panel], 'part')}."
                    for panel in dict.fromkeys(str(one["panel"]) for one in values)
                ),
                charts.lines(
                    values,
                    x="concurrency",
                    y="part",
                    names=("connections (log scale)", "% of the best"),
                    color="who",
                    log=True,
                    facet="panel",
                    free=True,
                ),
            )
        )
    return tuple(found)


_PANELS = {"paper": "paper", "sim": "ours, simulated"}


def _part(part: float, deviation: float | None) -> dict[str, float]:
    """Return a throughput in per cent, with a standard deviation on either side where known."""
    if deviation is None:
        return {"part": 100 * part}
    ends = {"low": 100 * part * (1 - deviation), "high": 100 * part * (1 + deviation)}
    return {"part": 100 * part, **ends}


def _best(speeds: Speeds, knob: str, concurrency: int) -> float:
    return max(
        speed for (name, _, count), speed in speeds.items() if (name, count) == (knob, concurrency)
    )


STUDY = Study(
    name="cfs_parameters",
    title="Four CFS parameters and a web server",
    paper=PAPER,
    summary="which of four parameters move a web server's throughput, and what was noise",
    run=study,
    levels=tuple(map(str, CONCURRENCIES)),
)
