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
from schedlab.outcome import Outcome
from schedlab.report import charts
from schedlab.studies import (
    papers,
    parameters_cause,
    parameters_measured,
    parameters_table,
    programs,
)
from schedlab.studies.describing import spans
from schedlab.studies.machines import typical
from schedlab.studies.parameters import BAND, CONCURRENCIES, DEFAULTS, KNOBS, SHORTEST
from schedlab.studies.parameters_table import Speeds, normalised
from schedlab.studies.recording import timeline_of
from schedlab.studies.study import (
    Cell,
    Claim,
    Figure,
    Request,
    Result,
    Study,
    Table,
    judged,
)
from schedlab.targets.sim import simulate

PAPER = "CFS parameters and Apache HTTP server: four kernel.sched_ parameters (course project)"

RELEASE = "5.10"
CPUS = 4
_STEADY = 2.0
"""Per cent that the runs of a row deviate by at the most where they hardly do."""

_SIMULATED = (
    "Simulated are Apache's processes, each with a listener and 50 workers, and wrk's two threads, "
    "each with half of the connections: all wait for events of whatever connection and go on as "
    "long as there are any (epoll). A request takes "
    f"{programs.Request().loader} of wrk, {programs.Request().listener} of a listener and "
    f"{programs.Request().worker} of a worker, what switches and wake-ups cost aside. A sleeper "
    "is placed half a latency before the others (place_entity) and preempts whoever runs where it "
    "leads by more than wakeup_granularity: with the default of 3 ms it does from a latency of "
    "6 ms on. Then each request that wrk sends wakes a listener that takes the CPU from it, and "
    "each answer wakes wrk; with less, wrk sends a batch, and listeners and workers find one."
)

_LEVEL = 1.0005
"""Values whose best is not even so much above the worst do not differ."""


def throughput(outcome: Outcome) -> float:
    """Return requests a second: those that were answered."""
    return outcome.latencies["answer"].count / (outcome.elapsed_ns / 1e9)


def simulated(request: Request) -> Speeds:
    """Simulate every value of every knob at every concurrency."""
    concurrencies = (4, 100) if request.quick else CONCURRENCIES
    time = "100ms" if request.quick else "1s"
    settings = [(knob, value) for knob, values in KNOBS.items() for value in values]
    found: dict[tuple[str, str, int], float] = {}
    known: dict[tuple[tuple[str, str], int], float] = {}
    for place, (knob, value) in enumerate(settings):
        request.tell("parameters", place, len(settings))
        for concurrency in concurrencies:
            # All four defaults are one and the same setting.
            key = (("", "") if value == DEFAULTS[knob] else (knob, value), concurrency)
            if key not in known:
                knobs = {**DEFAULTS, **SHORTEST, knob: value}
                outcome = simulate(
                    programs.serving(concurrency, time),
                    scheduler=Scheduler(RELEASE, knobs=knobs),
                    machine=typical(CPUS),
                )
                known[key] = throughput(outcome)
            found[knob, value, concurrency] = known[key]
    return found


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
    speeds = simulated(request)
    paper = printed()
    real = {target: parameters_measured.measured(request, target) for target in request.real}
    claims = [*_claims("sim", speeds, paper)]
    for target, runs in real.items():
        claims += parameters_measured.claims(target, runs, _of_paper(paper))
    request.tell("why", 0, 1)
    cause = parameters_cause.simulated(CPUS, "100ms" if request.quick else "1s")
    causes = {
        target: found
        for target in real
        if "latency" in parameters_measured.settable(target)
        and (found := parameters_cause.measured(request, target))
    }
    claims += [parameters_cause.claim(target, found) for target, found in causes.items()]
    reach = {knob: _reach(speeds, knob) for knob in KNOBS}
    theirs = {knob: _reach(paper, knob) for knob in KNOBS}
    return Result(
        answers=(
            "Simulated, "
            + ", ".join(
                f"{knob} does not move throughput"
                if ratio < _LEVEL
                else f"{knob} moves it by {ratio - 1:.1%} at the most"
                for knob, ratio in reach.items()
            )
            + "; the report has "
            + ", ".join(f"{ratio - 1:.0%}" for ratio in theirs.values())
            + ". rr_timeslice and rt_runtime cannot act on ordinary tasks, so that its gaps there "
            "measure how far two of its sessions differ.",
            *(parameters_measured.answer(target, runs) for target, runs in real.items()),
        ),
        claims=tuple(claims),
        tables=(
            _table(paper, speeds),
            *parameters_measured.tables(real),
            parameters_cause.table(cause, causes),
            parameters_table.side_by_side(_sources(paper, speeds, real)),
        ),
        figures=_figures(paper, speeds, real),
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
            "A claim of the report about the best or the worst value is confirmed where that value "
            f"leads by more than {BAND:.0%}.",
        ),
        repeat={"release": RELEASE, "cpus": CPUS, "knobs": {k: list(v) for k, v in KNOBS.items()}},
    )


def _sources(
    paper: Speeds, simulated: Speeds, real: Mapping[str, parameters_measured.Runs]
) -> dict[str, tuple[Speeds, Speeds]]:
    """Return throughputs and their deviations by who has them; a simulation has none."""
    percent = printed("standard_deviation_percent")
    deviations = {key: value / 100 for key, value in percent.items()}
    found: dict[str, tuple[Speeds, Speeds]] = {
        "paper": (paper, deviations),
        "sim": (simulated, {}),
    }
    for target, runs in real.items():
        own = parameters_measured.deviations(runs)
        found[target] = (parameters_measured.speeds(runs), own)
    return found


def _of_paper(paper: Speeds) -> dict[str, str]:
    """Return what the report has for its claims, by knob, and by ``default KNOB``."""
    best = {"latency": "20ms", "wakeup_granularity": "1ms", "rt_runtime": "500ms"}
    found = {knob: _leads(paper, knob, value)[2] for knob, value in best.items()}
    found |= {
        f"default {knob}": _leads(paper, knob, DEFAULTS[knob], last=True)[2] for knob in KNOBS
    }
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


def _leads(speeds: Speeds, knob: str, value: str, *, last: bool = False) -> tuple[bool, bool, str]:
    """Return whether a value leads (or is last), whether the contrary is seen, and in words."""
    means = _means(speeds, knob)
    others = {one: mean for one, mean in means.items() if one != value}
    if last:
        means = {one: 1 / mean for one, mean in means.items()}
        others = {one: 1 / mean for one, mean in others.items()}
    ratio = means[value] / max(others.values())
    words = f"{ratio - 1:+.2%} {'time' if last else 'throughput'} against the next"
    # Where no value differs from any other, none is the best or the worst.
    level = _reach(speeds, knob) < _LEVEL
    return ratio > 1 + BAND, level or ratio < 1 / (1 + BAND), words


def _claims(source: str, speeds: Speeds, paper: Speeds) -> list[Claim]:
    found = []
    for knob, value in (
        ("latency", "20ms"),
        ("wakeup_granularity", "1ms"),
        ("rt_runtime", "500ms"),
    ):
        holds, against, words = _leads(speeds, knob, value)
        theirs = _leads(paper, knob, value)[2]
        found.append(
            Claim(
                f"{source}: {knob} = {value} has the highest throughput",
                theirs,
                words + _level(speeds, knob),
                judged(holds, against=against),
            )
        )
    for knob in KNOBS:
        holds, against, words = _leads(speeds, knob, DEFAULTS[knob], last=True)
        found.append(
            Claim(
                f"{source}: the default of {knob} performs worst",
                _leads(paper, knob, DEFAULTS[knob], last=True)[2],
                words + _level(speeds, knob),
                judged(holds, against=against),
            )
        )
    found.append(_threshold(source, speeds))
    return found


def _level(speeds: Speeds, knob: str) -> str:
    reach = _reach(speeds, knob)
    return "; no value differs" if reach < _LEVEL else f"; all values within {reach - 1:.1%}"


def _threshold(source: str, speeds: Speeds) -> Claim:
    """Judge whether smaller values help up to a point, and then harm."""
    shapes = []
    for knob in parameters_measured.SHORTER:
        means = _means(speeds, knob)
        ordered = sorted(means, key=lambda value: float(value.rstrip("ms")))
        speeds_in_order = [means[value] for value in ordered]
        best = int(np.argmax(speeds_in_order))
        inside = 0 < best < len(ordered) - 1
        shapes.append((knob, inside and max(speeds_in_order) > (1 + BAND) * speeds_in_order[0]))
    return Claim(
        f"{source}: with smaller values throughput improves up to a threshold, then declines",
        "section 5, of the latency-like parameters",
        "; ".join(f"{knob}: {'so it is' if shape else 'no such peak'}" for knob, shape in shapes),
        judged(all(shape for _, shape in shapes)),
    )


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


def _figures(
    paper: Speeds, ours: Speeds, real: Mapping[str, parameters_measured.Runs]
) -> tuple[Figure, ...]:
    found = []
    sources = {"paper": paper, "ours, simulated": ours}
    sources |= {f"ours, {name}": parameters_measured.speeds(runs) for name, runs in real.items()}
    for knob in KNOBS:
        values = [
            {
                "concurrency": concurrency,
                "part": 100 * speed / _best(speeds, knob, concurrency),
                "who": value,
                "panel": source,
            }
            for source, speeds in sources.items()
            for (name, value, concurrency), speed in speeds.items()
            if name == knob
        ]
        found.append(
            Figure(
                knob,
                f"{knob}: throughput in per cent of the best value's at that concurrency, a line a "
                "value; the report's and ours.",
                "Lines of throughput, in per cent of the best value's, against connections, a line "
                "a value. "
                + " ".join(
                    f"{panel}: {spans(rows, 'part')}."
                    for panel in sources
                    if (rows := [one for one in values if one["panel"] == panel])
                ),
                charts.lines(
                    values,
                    x="concurrency",
                    y="part",
                    names=("connections (log scale)", "% of the best"),
                    color="who",
                    log=True,
                    zero=True,
                    facet="panel",
                ),
            )
        )
    return tuple(found)


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
