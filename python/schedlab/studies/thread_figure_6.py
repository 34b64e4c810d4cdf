"""Figure 6 of the thread-fairness paper: a program of one thread beside one of m."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np

from schedlab import stats
from schedlab.model import Machine, Scheduler, Workload, format_time
from schedlab.outcome import Outcome
from schedlab.report import charts
from schedlab.report.timeline import timeline
from schedlab.settings import Setting
from schedlab.studies import greedy, recording
from schedlab.studies.study import Claim, Figure, Judgement, Request, Table, judged
from schedlab.subjects import Described, Measured, Metric
from schedlab.targets.sim import simulate

THREADS = (1, 2, 3, 4, 5, 6, 7, 8, 16, 32)
"""m, the threads of B."""

INTERVALS = ((1, 3), (4, 7), (8, 32))
"""Of m, as the paper's conclusions speak of them."""

CPUS = 4
"""Two cores of two hardware threads."""

_SAME = 0.01
"""Times that differ by less are the same."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A way to share CPUs between two programs.

    Attributes:
        name: for people.
        scheduler: whose rules.
        together: whether A and B are told apart by groups or sessions: ``group``, ``session``, or
            nothing.
    """

    name: str
    scheduler: Scheduler
    together: str = ""


def rules() -> tuple[Rule, ...]:
    """Return the rules that are compared, CFS first."""
    return (
        Rule("CFS", Scheduler("5.10")),
        Rule("PFS", Scheduler("5.10", weights="pfs")),
        Rule("DW-CFS", Scheduler("5.10", weights="dw-cfs:beta=1.1")),
        Rule("autogroup", Scheduler("5.10", autogroup=1), "session"),
        Rule("cgroups", Scheduler("5.10"), "group"),
        Rule("EEVDF", Scheduler("6.12")),
    )


def pair(threads: int, work_ns: int, together: str = "") -> Workload:
    """Return A, one thread, beside B, which divides the same work among its threads."""
    own: Callable[[str], dict[str, Any]] = lambda name: {together: f"/{name}"} if together else {}  # noqa: E731
    groups = {"/A": {"weight": 100}, "/B": {"weight": 100}} if together == "group" else None
    return greedy.workload(
        f"pi beside {threads} threads",
        [
            greedy.process("A", 1, work_ns, **own("A")),
            greedy.process("B", threads, work_ns // threads, **own("B")),
        ],
        groups,
    )


def completion(outcome: Outcome) -> dict[str, float]:
    """Return the seconds that A and B took, B until its last thread had ended."""
    lives = {"A": 0, "B": 0}
    for task in outcome.tasks:
        program = task.name[0]
        lives[program] = max(lives[program], task.life_ns)
    return {program: life / 1e9 for program, life in lives.items()}


@dataclass(frozen=True, slots=True)
class Pair(Described):
    """The two programs as something that is measured."""

    metrics: tuple[Metric, ...] = (Metric("A"), Metric("B"))

    def measure(self, *arguments: Any, **options: Any) -> Measured:
        """Run them once."""
        # An explicit call: the data class with slots is not the class that super() would mean.
        measured = Described.measure(self, *arguments, **options)
        lives = {"A": 0, "B": 0}
        for task in measured.outcome["tasks"]:
            program = task["name"][0]
            lives[program] = max(lives[program], task["life_ns"])
        return Measured({key: life / 1e9 for key, life in lives.items()}, measured.outcome)


Times = Mapping[str, Mapping[int, Mapping[str, float]]]
"""Seconds by rule, m and program."""


@dataclass(frozen=True, slots=True)
class Sixth:
    """What figure 6 comes to, as parts of the study's result."""

    answer: str
    claims: tuple[Claim, ...]
    tables: tuple[Table, ...]
    figures: tuple[Figure, ...]
    timeline: Mapping[str, Any]
    notes: tuple[str, ...]
    repeat: Mapping[str, Any]


def figure_6(request: Request) -> Sixth:
    """Run A beside B, under every rule, and on the real targets that were asked for."""
    counts = THREADS if not request.quick else (1, 2, 3, 4, 7, 8, 32)
    work_ns = 10_000_000_000 if not request.quick else 2_000_000_000
    times = _simulated(request, counts, work_ns)
    claims = _claims(times, counts)
    rows = [
        (rule, m, program, _interval(m), seconds)
        for rule, by_count in times.items()
        for m, programs in by_count.items()
        for program, seconds in programs.items()
    ]
    table = Table(
        "figure_6",
        "Completion times, simulated",
        ("rule", "threads of B", "program", "interval", "seconds"),
        tuple(rows),
        shown=False,
    )
    ratios = _ratio_table(times, counts)
    measured, real = _real(request)
    shown = pair(4, 60_000_000)
    run = recording.spans_of(shown, Scheduler("5.10"), Machine(CPUS))
    return Sixth(
        answer=_answer(times, claims),
        claims=(*claims, *real),
        tables=(table, ratios, *measured),
        figures=_figures(rows),
        timeline=timeline(run, "A beside B of 4 threads under CFS (5.10) on 4 CPUs, 60 ms of work"),
        notes=(
            f"Simulated: {CPUS} CPUs alike, without costs. What the paper explains by turbo and by "
            "two threads sharing a core is therefore missing here; what is left is the rules' own.",
        ),
        repeat={"threads": list(counts), "work": format_time(work_ns), "cpus": CPUS},
    )


def _simulated(request: Request, counts: Sequence[int], work_ns: int) -> Times:
    times: dict[str, dict[int, Mapping[str, float]]] = {}
    ways = rules()
    for place, rule in enumerate(ways):
        times[rule.name] = {}
        for number, m in enumerate(counts):
            request.tell("figure 6", place * len(counts) + number, len(ways) * len(counts))
            outcome = simulate(
                pair(m, work_ns, rule.together), scheduler=rule.scheduler, machine=Machine(CPUS)
            )
            times[rule.name][m] = completion(outcome)
    return times


def _claims(times: Times, counts: Sequence[int]) -> tuple[Claim, ...]:
    cfs, dynamic, process = times["CFS"], times["DW-CFS"], times["PFS"]
    few, some, many = ([m for m in counts if low <= m <= high] for low, high in INTERVALS)

    def change(rule: Mapping[int, Mapping[str, float]], program: str, over: Sequence[int]) -> float:
        return float(np.exp(np.mean([np.log(rule[m][program] / cfs[m][program]) for m in over])))

    falls = all(cfs[one]["B"] > cfs[two]["B"] for one, two in pairwise(few))
    grows = cfs[many[-1]]["A"] / cfs[1]["A"]
    b_few, a_few = change(dynamic, "B", few), change(dynamic, "A", few)
    b_some = change(dynamic, "B", some)
    b_many, a_many = change(dynamic, "B", many), change(dynamic, "A", many)
    well = process[4]["B"] / cfs[4]["B"]
    single = process[4]["B"] / process[1]["B"]
    return (
        Claim(
            "Under CFS the program of many threads ends sooner the more threads it has, most of "
            "it gained with as many as there are CPUs",
            "Figure 6a, B",
            f"{cfs[1]['B']:.2f} s with 1 thread, {cfs[4]['B']:.2f} s with 4, "
            f"{cfs[many[-1]]['B']:.2f} s with {many[-1]}",
            judged(
                falls
                and cfs[4]["B"] < cfs[few[-1]]["B"]
                and cfs[1]["B"] - cfs[4]["B"] > cfs[4]["B"] - cfs[many[-1]]["B"]
                and cfs[many[-1]]["B"] <= cfs[4]["B"] * (1 + _SAME)
            ),
        ),
        Claim(
            "Under CFS the other program, of one thread, ends the later the more threads it has "
            "beside it",
            "Figure 6a, A",
            f"with {many[-1]} threads beside it {grows - 1:+.1%}",
            judged(grows > 1 + _SAME, against=grows < 1 - _SAME),
        ),
        Claim(
            "Up to 3 threads DW-CFS makes B faster than CFS does, and A too",
            "Figures 6b and 6c, [1,3]",
            f"B {b_few - 1:+.1%}, A {a_few - 1:+.1%}: every thread has a CPU of its own there, "
            "so no weight can act",
            judged(b_few < 1 - _SAME and a_few < 1 - _SAME, against=max(b_few, a_few) > 1 + _SAME),
        ),
        Claim(
            "From 4 to 7 threads DW-CFS favours B less than it does up to 3",
            "Figures 6b and 6c, [4,7]",
            f"B {b_some - 1:+.1%} there, {b_few - 1:+.1%} up to 3",
            judged(b_some > b_few + _SAME, against=b_some < b_few - _SAME),
        ),
        Claim(
            "From 8 to 32 threads DW-CFS makes B slower and A faster than CFS does",
            "Figures 6b and 6c, [8,32]",
            f"B {b_many - 1:+.1%}, A {a_many - 1:+.1%}",
            judged(
                b_many > 1 + _SAME and a_many < 1 - _SAME,
                against=b_many < 1 - _SAME or a_many > 1 + _SAME,
            ),
        ),
        Claim(
            "PFS holds well-threaded programs back: 4 threads on 4 CPUs gain less than under CFS",
            "section 3.1 (1)",
            f"B ends {well - 1:+.1%} later than under CFS",
            judged(well > 1 + _SAME, against=well < 1 - _SAME),
        ),
        Claim(
            "Under PFS a well-threaded program is slower than its version of one thread",
            "section 3.1 (1)",
            f"4 threads take {single - 1:+.1%} of the time of 1",
            judged(single > 1 + _SAME, against=single < 1 - _SAME),
        ),
    )


def _answer(times: Times, claims: Sequence[Claim]) -> str:
    confirmed = sum(claim.verdict is Judgement.CONFIRMED for claim in claims)
    most = max(times["CFS"])
    ends = ", ".join(
        f"{by_count[most]['A'] / by_count[1]['A'] - 1:+.0%} under {rule}"
        for rule, by_count in times.items()
    )
    return (
        f"A program of one thread ends later when one of {most} threads runs beside it on {CPUS} "
        f"CPUs: {ends}. Of the {len(claims)} claims about completion times {confirmed} hold in "
        "simulation."
    )


def _ratio_table(times: Times, counts: Sequence[int]) -> Table:
    rows: list[tuple[str | float, ...]] = []
    for rule, by_count in times.items():
        for low, high in INTERVALS:
            over = [m for m in counts if low <= m <= high]
            ratios = [
                float(np.exp(np.mean([np.log(by_count[m][p] / times["CFS"][m][p]) for m in over])))
                for p in "AB"
            ]
            rows.append((rule, f"[{low},{high}]", *[round(ratio, 4) for ratio in ratios]))
    return Table(
        "figure_6_ratios",
        "Completion times against CFS, geometric means over an interval of m",
        ("rule", "threads of B", "A", "B"),
        tuple(rows),
    )


def _figures(rows: Sequence[tuple[str, int, str, str, float]]) -> tuple[Figure, ...]:
    found = []
    for program, letter in (("A", "b"), ("B", "c")):
        values = [
            {"m": m, "seconds": seconds, "who": rule}
            for rule, m, who, _, seconds in rows
            if who == program
        ]
        count = "of one thread" if program == "A" else "of m threads"
        found.append(
            Figure(
                f"figure_6{letter}",
                f"Figures 6a and 6{letter}: when program {program}, {count}, ends.",
                f"Completion time of {program} against the threads of B, a line a rule.",
                charts.lines(
                    values,
                    x="m",
                    y="seconds",
                    names=("threads of B (log scale)", f"{program} ends after (s)"),
                    log=True,
                ),
            )
        )
    return tuple(found)


def _interval(m: int) -> str:
    return next(f"[{low},{high}]" for low, high in INTERVALS if low <= m <= high)


def _real(request: Request) -> tuple[tuple[Table, ...], tuple[Claim, ...]]:
    """Run A beside B on real kernels, interleaved over m."""
    if request.measure is None or not request.real:
        return (), ()
    counts = (1, 4) if request.quick else (1, 2, 4, 8, 32)
    work_ns = 100_000_000 if request.quick else 1_000_000_000
    rows, claims = [], []
    for target in request.real:
        arms = {f"m={m}": (Pair(pair(m, work_ns)), Setting({})) for m in counts}
        runs = request.measure(
            "thread_fairness figure 6", arms, target, blocks=6 if request.quick else 20
        )
        for name, values in runs.items():
            for program in "AB":
                seconds = [value[program] for value in values]
                rows.append((target, name, program, len(seconds), round(median(seconds), 6)))
        last = f"m={counts[-1]}"
        ratio = stats.paired_ratio(
            np.array([value["A"] for value in runs["m=1"]]),
            np.array([value["A"] for value in runs[last]]),
            rng=request.seed,
        )
        low, high = ratio.interval.low, ratio.interval.high
        claims.append(
            Claim(
                f"On {target} a program of one thread ends later beside {counts[-1]} threads than "
                "beside 1",
                "Figure 6a, A",
                f"{ratio.value - 1:+.1%}, {len(runs['m=1'])} interleaved pairs",
                judged(low > 1, against=high < 1),
                (low, high),
            )
        )
    table = Table(
        "figure_6_real",
        "Completion times on real kernels",
        ("target", "threads of B", "program", "runs", "median seconds"),
        tuple(rows),
    )
    return (table,), tuple(claims)
