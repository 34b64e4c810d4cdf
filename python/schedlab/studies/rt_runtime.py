"""What ``sched_rt_runtime_us`` does to asynchronous writes, and to whom it does anything.

After a report that sweeps the knob from 100,000 to 1,000,000 us under AIO-Stress, whose threads are
all SCHED_OTHER: without a real-time task the knob has nobody to throttle. So it is swept here
twice, without one (the report's case) and beside real-time tasks of several utilisations, where it
acts; from 6.12 on, where it no longer throttles, the fair server is swept instead.
"""

from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np

from schedlab import stats
from schedlab.model import Machine, Scheduler
from schedlab.outcome import Outcome
from schedlab.programs.fio import Fio
from schedlab.report import charts
from schedlab.settings import Setting
from schedlab.studies import papers, programs, rt_beside
from schedlab.studies.describing import spans
from schedlab.studies.machines import typical
from schedlab.studies.recording import timeline_of
from schedlab.studies.study import (
    Cell,
    Claim,
    Figure,
    Judgement,
    Request,
    Result,
    Study,
    Table,
    judged,
)
from schedlab.targets.sim import simulate

PAPER = "Process scheduler: sched_rt_runtime_us and AIO-Stress (course report)"

VALUES = (
    *(f"{100 * step}ms" for step in range(1, 10)),
    "950ms",
    "1s",
    "unlimited",
)
"""Steps of 100 ms, the default of 950 ms, and no limit (-1)."""

DEFAULT = "950ms"
SHARES = (0.0, 0.3, 0.6, 1.0)
"""Of the CPU that a FIFO task asks for; 0 is none."""

RELEASES = ("5.10", "6.1")
SERVED = "6.12"
SERVERS = ("0ns", "10ms", "50ms", "100ms", "250ms", "500ms")
"""The fair server's runtime in a second."""

_BAND = 0.01


def bandwidth(outcome: Outcome, writes: int) -> float:
    """Return the megabytes a second that the writers wrote, until the last of them had ended."""
    longest = max(task.life_ns for task in outcome.tasks if task.name.startswith("writer"))
    return programs.WRITERS * writes * programs.WRITTEN / 1e6 / (longest / 1e9)


def _simulated(
    release: str, knob: Mapping[str, str], share: float, writes: int, machine: Machine
) -> float:
    work = programs.writing(writes, programs.real_time_load(share) if share else None)
    return bandwidth(
        simulate(work, scheduler=Scheduler(release, knobs=knob), machine=machine), writes
    )


Swept = Mapping[tuple[str, float], Mapping[str, float]]
"""MB/s by value of the knob, for each release and share of real-time work."""


def sweep(request: Request) -> tuple[Swept, Mapping[float, Mapping[str, float]]]:
    """Simulate the knob's values, and the fair server's on the first release that has one."""
    writes = 2_000 if request.quick else 8_000
    values = ("100ms", "500ms", DEFAULT, "unlimited") if request.quick else VALUES
    servers = ("0ns", "50ms", "250ms") if request.quick else SERVERS
    machine = typical(1)
    total = len(RELEASES) * len(SHARES)
    found: dict[tuple[str, float], dict[str, float]] = {}
    for place, release in enumerate(RELEASES):
        for number, share in enumerate(SHARES):
            request.tell("rt_runtime", place * len(SHARES) + number, total)
            # A task that never sleeps, and no limit: the writers would never end.
            usable = [one for one in values if not (share == 1 and one in ("1s", "unlimited"))]
            found[release, share] = {
                value: _simulated(release, {"rt_runtime": value}, share, writes, machine)
                for value in usable
            }
    served: dict[float, dict[str, float]] = {}
    for share in SHARES[1:]:
        served[share] = {
            value: _simulated(SERVED, {"fair_server_runtime": value}, share, writes, machine)
            for value in servers
            if not (share == 1 and value == "0ns")
        }
    return found, served


def unmoved(release: str, values: Sequence[str], writes: int) -> float:
    """Return by what ratio rt_runtime moves the writers of a release beside a task that is busy."""
    found = [
        _simulated(release, {"rt_runtime": value}, 0.6, writes, typical(1)) for value in values
    ]
    return max(found) / min(found)


def study(request: Request) -> Result:
    """Reproduce the report, and go on where its case ends."""
    found, served = sweep(request)
    still = unmoved(SERVED, ("300ms", DEFAULT), 2_000)
    # A guest whose clock counts instructions has no disk whose time means anything.
    timed = [target for target in request.real if not target.endswith("@icount")]
    measured = {target: _measure(request, target) for target in timed}
    guests = [one for one in request.real if one.startswith("vm:")]
    beside = [rt_beside.measured(request, target) for target in guests]
    claims = (*_claims(found, served, still, measured), *(claim for _, claim in beside))
    plain = {release: _reach(found[release, 0.0]) for release in RELEASES}
    busy = {release: _reach(found[release, 1.0]) for release in RELEASES}
    return Result(
        answers=(
            "rt_runtime does nothing to asynchronous writes as long as no real-time task runs: "
            + ", ".join(
                f"{_change(ratio)} over all values on {one}" for one, ratio in plain.items()
            )
            + ". Beside a FIFO task that never sleeps it decides what they get: "
            + ", ".join(
                f"{ratio:.0f} times as much at the least value as at the default on {one}"
                for one, ratio in busy.items()
            )
            + ".",
            f"On {SERVED} rt_runtime moves the writers beside a FIFO task by {_change(still)}; "
            "what they get there is the fair server's runtime.",
        ),
        claims=claims,
        tables=(
            *_tables(found, served),
            *_measured_tables(measured),
            *(table for table, _ in beside),
        ),
        figures=_figures(found, served),
        timeline=timeline_of(
            programs.writing(60, programs.real_time_load(0.6)),
            Scheduler("5.10"),
            typical(1),
            "4 writers beside a FIFO task of 60 %, simulated 5.10, one CPU",
            until_ns=100_000_000,
        ),
        notes=(
            "AIO-Stress writes 64 KiB to random places of a file of 2 GB in several threads; "
            f"simulated are {programs.WRITERS} threads with {programs.DEPTH} writes under way "
            "each, 60 us of CPU time a write, and a disk of 500 MB/s and 100 us. Real runs are "
            "fio's.",
            "One CPU: on several, RT_RUNTIME_SHARE lets a CPU borrow what others leave.",
            "The report's values that have a low bandwidth have a high error: 950, 500 and 100 ms. "
            "Its runs were one after the other; here they are interleaved, and the default is "
            "measured twice (A/A). rt_runtime throttles on 5.10 and 6.1; from 6.12 on, without "
            "RT_GROUP_SCHED, the fair server is in its place.",
        ),
        repeat={"releases": [*RELEASES, SERVED], "shares": list(SHARES), "cpus": 1},
    )


def _reach(values: Mapping[str, float]) -> float:
    return max(values.values()) / min(values.values())


def _change(ratio: float) -> str:
    return "nothing" if ratio - 1 < 0.0005 else f"{ratio - 1:.1%}"


def _printed() -> list[tuple[str, float, float]]:
    return [
        (
            f"{int(row['sched_rt_runtime_us']) // 1000}ms".replace("1000ms", "1s"),
            float(row["aio_stress_mb_per_s"]),
            float(row["standard_error"]),
        )
        for row in papers.table("aio_stress_rt_runtime")
    ]


Runs = Mapping[str, Sequence[float]]
"""MB/s of real runs by value; ``A/A`` is the default once more."""


def _measure(request: Request, target: str) -> Runs:
    assert request.measure is not None
    values = ("300ms", DEFAULT) if request.measures_little else VALUES
    program = Fio.parse("fio:size=8m" if request.measures_little else "fio:size=64m")
    blocks = 6 if request.measures_little else 15
    arms = {value: (program, Setting({"rt_runtime": value})) for value in values}
    arms["A/A"] = (program, Setting({"rt_runtime": DEFAULT}))
    runs = request.measure("rt_runtime", arms, target, blocks=blocks)
    return {name: [one["bandwidth"] / 1e6 for one in values] for name, values in runs.items()}


def _claims(
    found: Swept,
    served: Mapping[float, Mapping[str, float]],
    still: float,
    measured: Mapping[str, Runs],
) -> tuple[Claim, ...]:
    printed = _printed()
    best, worst = max(printed, key=lambda row: row[1]), min(printed, key=lambda row: row[1])
    plain = max(_reach(found[release, 0.0]) for release in RELEASES)
    half = max(_reach(found[release, 0.6]) for release in RELEASES)
    hog = min(_reach(found[release, 1.0]) for release in RELEASES)
    falls = all(_falls(found[release, 1.0]) for release in RELEASES)
    low = [row for row in printed if row[2] > 3]
    server = [served[1.0][value] for value in served[1.0]]
    claims = [
        Claim(
            "sim: the bandwidth of asynchronous writes varies with rt_runtime",
            f"{worst[1]:.1f} MB/s at {worst[0]} to {best[1]:.1f} MB/s at {best[0]}",
            f"{_change(plain)} over all values: no task is real-time",
            judged(plain > 1 + _BAND, against=plain <= 1 + _BAND),
        ),
        Claim(
            "The values with the lower bandwidth are those with the higher standard error",
            f"{', '.join(row[0] for row in low)} have errors above 3 and the three lowest means",
            "so it is in the report's own rows: disturbed sessions, not a setting's effect",
            judged(
                {row[0] for row in low}
                == {row[0] for row in sorted(printed, key=lambda r: r[1])[:3]}
            ),
        ),
        Claim(
            "sim: beside a FIFO task that never sleeps the writers get what rt_runtime leaves",
            "not in the report",
            f"{hog:.1f} times as much at the least value as at the default, falling throughout",
            judged(falls and hog > 2, against=not falls),
        ),
        Claim(
            "sim: beside a FIFO task of 60 % a value below 600 ms gives the writers more",
            "not in the report",
            f"{half:.2f} times as much at the least value as at the default",
            judged(half > 1 + _BAND),
        ),
        Claim(
            f"sim: on {SERVED} rt_runtime no longer throttles; the fair server's runtime decides",
            "not in the report",
            f"rt_runtime moves {_change(still)}; the server's runtime "
            f"{max(server) / min(server):.1f} times as much at its greatest as at its least",
            judged(still <= 1 + _BAND and server == sorted(server)),
        ),
    ]
    claims += [
        _measured_claim(target, runs)
        for target, runs in measured.items()
        if DEFAULT in runs and set(runs) - {DEFAULT, "A/A"}
    ]
    return tuple(claims)


def _falls(values: Mapping[str, float]) -> bool:
    ordered = [values[value] for value in VALUES if value in values]
    return ordered == sorted(ordered, reverse=True)


def _measured_claim(target: str, runs: Runs) -> Claim:
    """Judge the report's claim on a real kernel: any value against the default, and A/A."""
    base = np.array(runs[DEFAULT])
    ratios = {
        name: stats.paired_ratio(base, np.array(values))
        for name, values in runs.items()
        if name != DEFAULT
    }
    apart = {
        name: ratio
        for name, ratio in ratios.items()
        if ratio.interval.low > 1 or ratio.interval.high < 1
    }
    effects = [name for name in apart if name != "A/A"]
    worst = max(ratios, key=lambda name: abs(np.log(ratios[name].value)))
    noise = "differs from itself" if "A/A" in apart else "does not differ from itself"
    if effects and "A/A" not in apart:
        verdict = Judgement.CONFIRMED
    else:
        same = all(
            one.interval.low > 1 / 1.05 and one.interval.high < 1.05 for one in ratios.values()
        )
        verdict = Judgement.CONTRADICTED if same else Judgement.NOT_CONFIRMED
    interval = ratios[worst].interval
    return Claim(
        f"{target}: the bandwidth of asynchronous writes varies with rt_runtime",
        "93.7 to 111.1 MB/s",
        f"{len(effects)} of {len(ratios) - 1} values differ from the default, which {noise}; "
        f"furthest {worst}: {ratios[worst].value - 1:+.1%}, {len(base)} interleaved pairs",
        verdict,
        (interval.low, interval.high),
    )


def _tables(found: Swept, served: Mapping[float, Mapping[str, float]]) -> tuple[Table, ...]:
    rows: list[tuple[Cell, ...]] = [
        (release, share, value, round(speed, 3))
        for (release, share), values in found.items()
        for value, speed in values.items()
    ]
    servers: list[tuple[Cell, ...]] = [
        (SERVED, share, value, round(speed, 3))
        for share, values in served.items()
        for value, speed in values.items()
    ]
    printed: list[tuple[Cell, ...]] = [
        (value, speed, error, found["5.10", 0.0].get(value)) for value, speed, error in _printed()
    ]
    heads = ("release", "real-time share", "value", "MB/s")
    return (
        Table(
            "figure_2",
            "Figures 2 and 3: the report's bandwidth and error, and the simulated one",
            ("rt_runtime", "MB/s paper", "standard error paper", "MB/s ours (5.10)"),
            tuple(printed),
        ),
        Table("rt_runtime", "Simulated, by rt_runtime", heads, tuple(rows), shown=False),
        Table("fair_server", "Simulated, by the fair server's runtime", heads, tuple(servers)),
    )


def _measured_tables(measured: Mapping[str, Runs]) -> tuple[Table, ...]:
    if not measured:
        return ()
    rows: list[tuple[Cell, ...]] = []
    for target, runs in measured.items():
        for name, values in runs.items():
            sample = np.array(values)
            deviation = float(sample.std(ddof=1))
            rows.append(
                (
                    target,
                    name,
                    len(values),
                    median(values),
                    deviation / len(values) ** 0.5,
                    deviation / float(sample.mean()),
                )
            )
    columns = ("target", "rt_runtime", "runs", "median MB/s", "standard error", "deviation")
    return (Table("measured", "fio on real kernels", columns, tuple(rows)),)


def _figures(found: Swept, served: Mapping[float, Mapping[str, float]]) -> tuple[Figure, ...]:
    values = [
        {"value": _milliseconds(value), "speed": speed, "who": _load(share), "release": release}
        for (release, share), by_value in found.items()
        for value, speed in by_value.items()
        if value != "unlimited"
    ]
    crosses = [
        {"value": _milliseconds(value), "speed": speed, "who": "paper"}
        for value, speed, _ in _printed()
    ]
    plain = [
        {**one, "who": "ours, simulated"}
        for one in values
        if one["release"] == "5.10" and one["who"] == _load(0.0)
    ]
    servers = [
        {"value": _milliseconds(value), "speed": speed, "who": _load(share)}
        for share, by_value in served.items()
        for value, speed in by_value.items()
    ]
    beside = [one for one in values if one["release"] == "5.10"]
    names = ("rt_runtime (ms of each second)", "MB/s")
    return (
        Figure(
            "figure_2",
            "Figure 2: without a real-time task. The report's line and the simulated one.",
            "MB/s against rt_runtime: " + spans([*crosses, *plain], "speed") + ".",
            charts.lines(plain, crosses, x="value", y="speed", names=names),
        ),
        Figure(
            "real_time",
            "Beside a FIFO task, by the share of the CPU that it asks for (5.10).",
            "MB/s against rt_runtime, a line for each share of the CPU that the real-time task "
            "asks for: " + spans(beside, "speed") + ".",
            charts.lines(
                beside,
                x="value",
                y="speed",
                names=names,
                zero=True,
            ),
        ),
        Figure(
            "fair_server",
            f"{SERVED}: the fair server's runtime in its place.",
            "MB/s against the fair server's runtime: " + spans(servers, "speed") + ".",
            charts.lines(
                servers,
                x="value",
                y="speed",
                names=("fair_server_runtime (ms of each second)", "MB/s"),
                zero=True,
            ),
        ),
    )


def _milliseconds(value: str) -> float:
    if value == "0ns":
        return 0.0
    return float(value[:-2]) if value.endswith("ms") else 1000 * float(value[:-1])


def _load(share: float) -> str:
    return f"FIFO task of {share:.0%}" if share else "no real-time task"


STUDY = Study(
    name="rt_runtime",
    title="sched_rt_runtime_us and asynchronous writes",
    paper=PAPER,
    summary="what the real-time limit does to ordinary tasks, and when",
    run=study,
)
