"""What ``sched_rt_runtime_us`` does to asynchronous writes, and to which tasks it matters.

After a report that sweeps the knob from 100,000 to 1,000,000 us under AIO-Stress, whose threads are
all SCHED_OTHER: without a real-time task the knob has nothing to throttle. It is swept here
twice, without one (the report's case) and beside real-time tasks of several utilisations, where it
acts; from 6.12 on, where it no longer throttles, the fair server is swept instead.
"""

from collections.abc import Mapping, Sequence

from schedlab.boundary.errors import NotPermittedError
from schedlab.model import Scheduler
from schedlab.report import charts
from schedlab.studies import programs
from schedlab.studies.alternative_text import spans
from schedlab.studies.machines import typical
from schedlab.studies.recording import timeline_of
from schedlab.studies.rt_runtime import rt_beside, rt_fio, rt_writes
from schedlab.studies.rt_runtime.rt_fio import DEFAULT, VALUES, milliseconds, printed
from schedlab.studies.study import Cell, Claim, Figure, Request, Result, Study, Table, judged

PAPER = "Enrique Anaya Bovio: Kernel Optimization (course report, 2018; sched_rt_runtime_us)"

SHARES = (0.0, *rt_writes.SHARES)
"""Of the CPU that a FIFO task asks for; 0 means no such task."""

RELEASES = ("5.10", "6.1")
SERVED = "6.12"
SERVERS = ("0ns", "10ms", "50ms", "100ms", "250ms", "500ms")
"""The fair server's runtime in a second."""

_BAND = 0.01

_LASTS = 4
"""Periods of a second that a simulated run lasts."""

Swept = Mapping[tuple[str, float], Mapping[str, rt_writes.Written]]
"""The result of each value of the knob, for each release and share of real-time work."""


def sweep(request: Request) -> tuple[Swept, Mapping[float, Mapping[str, rt_writes.Written]]]:
    """Simulate the knob's values, and the fair server's on the first release that has one."""
    seconds = 2 if request.quick else _LASTS
    values = ("100ms", "500ms", DEFAULT, "unlimited") if request.quick else VALUES
    servers = ("0ns", "50ms", "250ms") if request.quick else SERVERS
    machine = typical(1)
    total = len(RELEASES) * len(SHARES)
    found: dict[tuple[str, float], dict[str, rt_writes.Written]] = {}
    for place, release in enumerate(RELEASES):
        for number, share in enumerate(SHARES):
            request.tell("rt_runtime", place * len(SHARES) + number, total)
            found[release, share] = {
                value: rt_writes.simulated(release, {"rt_runtime": value}, share, seconds, machine)
                for value in values
            }
    served: dict[float, dict[str, rt_writes.Written]] = {}
    for share in SHARES[1:]:
        served[share] = {
            value: rt_writes.simulated(
                SERVED, {"fair_server_runtime": value}, share, seconds, machine
            )
            for value in servers
        }
    return found, served


def unmoved(release: str, values: Sequence[str]) -> float:
    """Return by what ratio rt_runtime moves the writers of a release beside a task that is busy."""
    found = [
        rt_writes.simulated(release, {"rt_runtime": value}, 0.6, 2, typical(1)).bandwidth
        for value in values
    ]
    return max(found) / min(found)


def study(request: Request) -> Result:
    """Reproduce the report, and extend its case."""
    found, served = sweep(request)
    still = unmoved(SERVED, ("300ms", DEFAULT))
    throttling = {one: rt_beside.throttles(rt_beside.release_of(one)) for one in request.real}
    measured = {
        target: rt_fio.measured(request, target)
        for target, throttles in throttling.items()
        if throttles or target == "host"
    }
    loaded: dict[str, rt_writes.Runs] = {}
    beside: list[tuple[Table, Claim]] = []
    refused = []
    for target, throttles in throttling.items():
        try:
            loaded[target] = rt_writes.measured(request, target, throttles=throttles)
        except NotPermittedError as error:
            refused.append(f"{target}: no writers ran beside a real-time task: {error}")
        try:
            beside.append(rt_beside.measured(request, target))
        except NotPermittedError as error:
            refused.append(f"{target}: no ordinary task ran beside a real-time one: {error}")
    plain = {release: _reach(found[release, 0.0]) for release in RELEASES}
    busy = {release: _gain(found[release, 1.0]) for release in RELEASES}
    fio = rt_fio.claims(measured)
    return Result(
        answers=(
            "rt_runtime does nothing to asynchronous writes as long as no real-time task runs: "
            + ", ".join(
                f"{_change(ratio)} over all values on the simulated {one}"
                for one, ratio in plain.items()
            )
            + _of_fio(measured)
            + ". Beside a FIFO task that never sleeps it decides what they get: "
            + ", ".join(
                f"{ratio:.0f} times as much at the least value as at the default on {one}"
                for one, ratio in busy.items()
            )
            + ".",
            f"On {SERVED} rt_runtime moves the writers beside a FIFO task by {_change(still)}; "
            "what they get there is the fair server's runtime.",
        ),
        claims=(
            *_claims(found, served, still),
            *fio,
            *(one for target, runs in loaded.items() for one in rt_writes.claims(target, runs)),
            *(claim for _, claim in beside),
        ),
        tables=(
            *_tables(found, served),
            *rt_fio.table(measured),
            *rt_writes.table(loaded),
            *(table for table, _ in beside),
        ),
        figures=_figures(found, served, measured, loaded),
        timeline=timeline_of(
            programs.writing(1, 0.6),
            Scheduler("5.10"),
            typical(1),
            "4 writers beside a FIFO task of 60 %, simulated 5.10, one CPU",
            until_ns=100_000_000,
        ),
        notes=(
            "AIO-Stress writes 64 KiB to random places of a file of 2 GB in several threads; "
            f"simulated are {programs.WRITERS} threads with {programs.DEPTH} writes under way "
            "each, 60 us of CPU time a write, and a disk of 500 MB/s and 100 us. Real runs without "
            "a real-time task are fio's, those beside one the described workload's, whose writes "
            "are real ones, too: asynchronous (io_submit) and past the page cache.",
            f"The FIFO task has a job every {programs.JOB_MS} ms, whose share of that is what it "
            "asks for. What the limit costs it is how many of its jobs it does, and how long the "
            "longest takes.",
            "One CPU: on several, RT_RUNTIME_SHARE lets a CPU borrow what others leave.",
            "The report's values that have a low bandwidth have a high error: 950, 500 and 100 ms. "
            "Its runs were one after the other; here they are interleaved, and the default is "
            "measured twice (A/A). rt_runtime throttles on 5.10 and 6.1; from 6.12 on, without "
            "RT_GROUP_SCHED, the fair server is in its place.",
            *refused,
            *(_unlimited() if request.real else ()),
            *(_slow() if any(one.endswith("@icount") for one in request.real) else ()),
        ),
        repeat={"releases": [*RELEASES, SERVED], "shares": list(SHARES), "cpus": 1},
    )


def _unlimited() -> tuple[str, ...]:
    return (
        "On real kernels no task is beside a FIFO task without a limit (-1, or the whole period): "
        "no other task would run there any more, nor, on a guest's only CPU, what ends the run. "
        "Simulated, writers get nothing then. With the limit or the fair server the rest always "
        "has a part, so that the FIFO task may run on a host, too: on CPU 0, for seconds at a "
        "time.",
    )


def _slow() -> tuple[str, ...]:
    return (
        "A guest whose clock counts instructions (@icount) has one CPU of 125 MHz, so to say, and "
        "a disk in its memory whose accesses take 100 us each: its bandwidth is the CPU's, which "
        "is what the limit divides. fio writes four files of 2 MiB there.",
    )


def _of_fio(measured: Mapping[str, rt_fio.Runs]) -> str:
    """Say how far fio's medians are apart on real kernels, and how far the default from itself."""
    words = []
    for target, runs in measured.items():
        change, again = rt_fio.reach(runs)
        words.append(f", {change:.1%} with fio on {target} (the default twice: {again:.1%})")
    return "".join(words)


def _speeds(values: Mapping[str, rt_writes.Written]) -> dict[str, float]:
    return {value: one.bandwidth for value, one in values.items()}


def _reach(values: Mapping[str, rt_writes.Written]) -> float:
    speeds = _speeds(values).values()
    return max(speeds) / min(speeds)


def _gain(values: Mapping[str, rt_writes.Written]) -> float:
    """Return what the least value of the limit gives the writers, against the default."""
    return values["100ms"].bandwidth / values[DEFAULT].bandwidth


def _change(ratio: float) -> str:
    return "nothing" if ratio - 1 < 0.0005 else f"{ratio - 1:.1%}"


def _claims(
    found: Swept, served: Mapping[float, Mapping[str, rt_writes.Written]], still: float
) -> tuple[Claim, ...]:
    rows = printed()
    best, worst = max(rows, key=lambda row: row[1]), min(rows, key=lambda row: row[1])
    plain = max(_reach(found[release, 0.0]) for release in RELEASES)
    half = max(_gain(found[release, 0.6]) for release in RELEASES)
    hog = min(_gain(found[release, 1.0]) for release in RELEASES)
    falls = all(_falls(_speeds(found[release, 1.0])) for release in RELEASES)
    low = [row for row in rows if row[2] > 3]
    server = [one.bandwidth for one in served[1.0].values()]
    jobs = [found["6.1", 0.6][value] for value in ("500ms", DEFAULT)]
    return (
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
                {row[0] for row in low} == {row[0] for row in sorted(rows, key=lambda r: r[1])[:3]}
            ),
        ),
        Claim(
            "sim: beside a FIFO task that never sleeps the writers get what rt_runtime leaves",
            "not in the report",
            f"{hog:.1f} times as much at the least value as at the default, falling throughout, "
            "and nothing without a limit",
            judged(falls and hog > 2, against=not falls),
        ),
        Claim(
            "sim: beside a FIFO task of 60 % a value below 600 ms gives the writers more",
            "not in the report",
            f"{half:.2f} times as much at the least value as at the default",
            judged(half > 1 + _BAND),
        ),
        Claim(
            "sim: such a value costs the FIFO task jobs that it would do otherwise",
            "not in the report",
            f"{jobs[0].jobs:.0%} of its jobs at 500 ms, {jobs[1].jobs:.0%} at the default; the "
            f"longest takes {1000 * jobs[0].longest:.0f} ms in place of "
            f"{1000 * jobs[1].longest:.0f}",
            judged(jobs[0].jobs < jobs[1].jobs - _BAND),
        ),
        Claim(
            f"sim: on {SERVED} rt_runtime no longer throttles; the fair server's runtime decides",
            "not in the report",
            f"rt_runtime moves {_change(still)}; the writers get {server[0]:.3g} MB/s without the "
            f"server and {server[-1]:.3g} at its greatest runtime",
            judged(still <= 1 + _BAND and server == sorted(server) and server[-1] > server[0]),
        ),
    )


def _falls(values: Mapping[str, float]) -> bool:
    ordered = [values[value] for value in VALUES if value in values]
    return ordered == sorted(ordered, reverse=True)


def _tables(
    found: Swept, served: Mapping[float, Mapping[str, rt_writes.Written]]
) -> tuple[Table, ...]:
    rows: list[tuple[Cell, ...]] = [
        (release, share, value, *_row(one))
        for (release, share), values in found.items()
        for value, one in values.items()
    ]
    servers: list[tuple[Cell, ...]] = [
        (SERVED, share, value, *_row(one))
        for share, values in served.items()
        for value, one in values.items()
    ]
    ours = found["5.10", 0.0]
    reported: list[tuple[Cell, ...]] = [
        (value, speed, error, deviation, ours[value].bandwidth if value in ours else None)
        for value, speed, error, deviation in printed()
    ]
    heads = ("release", "FIFO task's share", "value", "MB/s", "jobs done", "longest job (ms)")
    return (
        Table(
            "figure_2",
            "Figures 1 to 3: the report's bandwidth, error and deviation; the simulated bandwidth",
            (
                *("rt_runtime", "MB/s paper", "standard error paper", "deviation (%) paper"),
                "MB/s simulated (5.10)",
            ),
            tuple(reported),
        ),
        Table("rt_runtime", "Simulated, by rt_runtime", heads, tuple(rows), shown=False),
        Table("fair_server", "Simulated, by the fair server's runtime", heads, tuple(servers)),
    )


def _row(one: rt_writes.Written) -> tuple[float, float, float]:
    return round(one.bandwidth, 3), round(one.jobs, 4), round(1000 * one.longest, 3)


def _drawn(values: Mapping[str, rt_writes.Written], **more: str) -> list[dict[str, object]]:
    return [
        {
            "value": milliseconds(value),
            "speed": one.bandwidth,
            "jobs": 100 * one.jobs,
            **more,
        }
        for value, one in values.items()
        if value != "unlimited"
    ]


def _figures(
    found: Swept,
    served: Mapping[float, Mapping[str, rt_writes.Written]],
    measured: Mapping[str, rt_fio.Runs],
    loaded: Mapping[str, rt_writes.Runs],
) -> tuple[Figure, ...]:
    rows = rt_fio.rows(measured)
    crosses = [one for one in rows if one["who"] == "paper"]
    plain = _drawn(found["5.10", 0.0], who="simulated")
    real = [one for one in rows if one["who"] != "paper"]
    names = ("rt_runtime (ms of each second)", "MB/s")
    beside = [
        one
        for share in SHARES
        for one in _drawn(found["5.10", share], who=_load(share), panel="5.10, simulated")
    ]
    beside += [
        one for target, runs in loaded.items() for one in rt_writes.drawn(target, runs, _load)
    ]
    ends = ("low", "high")
    costs = [
        {name: value for name, value in one.items() if name not in ends}
        for one in beside
        if one["who"] != _load(0.0)
    ]
    servers = [
        one
        for share, values in served.items()
        for one in _drawn(values, who=_load(share), panel=f"{SERVED}, simulated")
    ]
    servers += [
        one
        for target, runs in loaded.items()
        for one in rt_writes.drawn(target, runs, _load, "fair_server_runtime")
    ]
    return (
        Figure(
            "figure_2",
            "Figure 2: without a real-time task. The report's line (crosses), the simulated one "
            "and fio's, on a log scale; bars: a standard error on either side.",
            "MB/s against rt_runtime: " + spans([*crosses, *plain, *real], "speed") + ".",
            charts.lines(
                [*plain, *real],
                crosses,
                x="value",
                y="speed",
                names=(names[0], "MB/s (log scale)"),
                log_y=True,
            ),
        ),
        Figure(
            "figure_3",
            "Figure 3: the standard error in per cent of the mean, the report's and fio's.",
            "Standard error against rt_runtime: " + spans(rows, "error") + ".",
            charts.lines(
                [{name: one[name] for name in ("value", "error", "who")} for one in rows],
                x="value",
                y="error",
                names=(names[0], "standard error (%)"),
                zero=True,
            ),
        ),
        *(
            Figure(
                name,
                caption,
                f"{axis} against rt_runtime, a line for each share of the CPU that the real-time "
                "task asks for. " + _panels(values, field),
                charts.lines(
                    values,
                    x="value",
                    y=field,
                    names=(names[0], axis),
                    zero=True,
                    facet="panel",
                    free=True,
                    colors=_COLORS,
                ),
            )
            for name, caption, values, field, axis in (
                (
                    "real_time",
                    "Beside a FIFO task, by the share of the CPU that it asks for: what the "
                    "writers get, each panel with its own axis; bars: a standard error on either "
                    "side.",
                    beside,
                    "speed",
                    "MB/s",
                ),
                (
                    "real_time_costs",
                    "What that costs the FIFO task: how many of its jobs it does.",
                    costs,
                    "jobs",
                    "jobs done (%)",
                ),
            )
        ),
        Figure(
            "fair_server",
            f"{SERVED}: the fair server's runtime in its place, each panel with its own axis; "
            "bars: a standard error on either side.",
            "MB/s against the fair server's runtime. " + _panels(servers, "speed"),
            charts.lines(
                servers,
                x="value",
                y="speed",
                names=("fair_server_runtime (ms of each second)", "MB/s"),
                zero=True,
                facet="panel",
                free=True,
                colors=_COLORS,
            ),
        ),
    )


def _panels(values: Sequence[Mapping[str, object]], field: str) -> str:
    panels = dict.fromkeys(str(one["panel"]) for one in values)
    return " ".join(
        f"{panel}: {spans([one for one in values if one['panel'] == panel], field)}."
        for panel in panels
    )


def _load(share: float) -> str:
    return f"FIFO task of {share:.0%}" if share else "no real-time task"


_COLORS = dict(zip(map(_load, SHARES), charts.PALETTE, strict=False))
"""The same colour for a load in every figure."""


STUDY = Study(
    name="rt_runtime",
    title="sched_rt_runtime_us and asynchronous writes",
    paper=PAPER,
    summary="what the real-time limit does to ordinary tasks, and when",
    run=study,
)
