"""Thread-count fairness: CFS's greedy threads, PFS and DW-CFS.

After Zhu, Shen and Liu, "Research on improving Linux completely fair scheduler", Computer
Engineering and Applications 50(21), 2014 (in Chinese). Figures 1 to 4 follow from the rules and are
reproduced exactly. Figure 6 has no numbers in print, only curves and what the text says of them:
a program A of one thread beside a program B of m threads, both doing the same work, on two cores of
two hardware threads each. Here m goes the same way under every rule and release, in simulation, and
on real kernels with those rules that they have.
"""

from collections.abc import Mapping, Sequence

from schedlab import _core
from schedlab.model import Machine, Scheduler, Workload
from schedlab.report import charts
from schedlab.studies.alternative_text import spans
from schedlab.studies.recording import spans_of
from schedlab.studies.study import Claim, Figure, Judgement, Request, Result, Study, Table, judged
from schedlab.studies.thread_fairness import greedy
from schedlab.studies.thread_fairness.thread_figure_6 import figure_6

RELEASES = ("2.6.24", "5.10", "6.1", "6.12", "6.18", "7.2")
WINDOW = (1_000_000_000, 11_000_000_000)
"""Shares are of these ten seconds, nanoseconds from the start."""

_HOG = 20_000_000_000
_TOLERANCE = 0.01
"""A share of ten seconds is off by less than a turn of every thread."""

PAPER = (
    "Zhu Yonghua, Shen Yi, Liu Ling: Research on improving Linux completely fair scheduler. "
    "Computer Engineering and Applications 50(21), 2014, 59-62"
)


def shares(
    threads: Sequence[int], release: str, weights: str = "none", cpus: int = 1
) -> tuple[float, ...]:
    """Return the share of CPU 0 that each of several greedy processes gets.

    Args:
        threads: of each process; they all run on CPU 0.
        release: the kernel.
        weights: the rule of thread weights.
        cpus: on line.

    >>> [round(share, 2) for share in shares((1, 1, 8), "6.1", "pfs")]
    [0.33, 0.33, 0.33]
    """
    names = "ABC"[: len(threads)]
    affinity = (0,) if cpus > 1 else ()
    work = greedy.workload(
        "greedy threads",
        [
            greedy.process(name, count, _HOG, affinity=affinity)
            for name, count in zip(names, threads, strict=True)
        ],
    )
    return _shares(work, Scheduler(release, weights=weights), cpus, names)


def user_shares(release: str) -> tuple[float, ...]:
    """Return what two users with 2 and 8 processes get, each in its own group (2.2)."""
    work = greedy.workload(
        "two users",
        [greedy.process(f"A{number}", 1, _HOG, group="/A") for number in range(2)]
        + [greedy.process(f"B{number}", 1, _HOG, group="/B") for number in range(8)],
        {"/A": {"weight": 100}, "/B": {"weight": 100}},
    )
    return _shares(work, Scheduler(release), 1, "AB")


def _shares(work: Workload, scheduler: Scheduler, cpus: int, names: str) -> tuple[float, ...]:
    got = dict.fromkeys(names, 0)
    for task, time in spans_of(work, scheduler, Machine(cpus, "ideal")).run_ns(*WINDOW).items():
        got[task[0]] += time
    whole = WINDOW[1] - WINDOW[0]
    return tuple(time / whole for time in got.values())


FIGURES = (
    ("Figure 1", (1, 2, 2), "none", (0.2, 0.4, 0.4)),
    ("Figure 2", (1, 1, 8), "none", (0.1, 0.1, 0.8)),
    ("Figure 3", (1, 1, 8), "pfs", (1 / 3, 1 / 3, 1 / 3)),
)
"""Threads of A, B and C, the rule, and the shares that the paper draws."""

FACTORS = ((1, 1.0), (4, 1.1), (8, 0.99))
"""Points of figure 4: threads, and the factor on 4 CPUs with beta = 1.1."""


def study(request: Request) -> Result:
    """Reproduce the paper.

    Args:
        request: how; ``sim`` is always among the targets.
    """
    releases = RELEASES if not request.quick else ("2.6.24", "6.1", "6.12")
    rows, claims = [], []
    steps = (len(FIGURES) + 1) * len(releases)
    for number, (name, threads, rule, drawn) in enumerate(FIGURES):
        found = {}
        for place, release in enumerate(releases):
            request.tell("shares", number * len(releases) + place, steps)
            found[release] = shares(threads, release, rule)
            rows += _rows(name, release, rule, threads, drawn, found[release])
        claims.append(_exact(name, threads, rule, drawn, found))
    users = {release: user_shares(release) for release in releases if release != "2.6.24"}
    for release, got in users.items():
        rows += _rows("two users", release, "groups", (2, 8), (0.5, 0.5), got)
    claims += [_users(users), _factors()]
    sixth = figure_6(request)
    answers = (
        sixth.answer,
        "The shares that the paper draws follow from the rules in every release: "
        + "; ".join(f"{claim.claim}: {claim.verdict}" for claim in claims)
        + ".",
    )
    table = Table(
        "shares",
        "Shares of one CPU",
        ("figure", "release", "rule", "process", "threads", "paper", "ours"),
        tuple(rows),
        shown=False,
    )
    return Result(
        answers=answers,
        claims=(*claims, *sixth.claims),
        tables=(table, *sixth.tables),
        figures=(_shares_figure(rows), _factor_figure(), *sixth.figures),
        timeline=sixth.timeline,
        notes=(
            "The paper's curves of Figure 6 are not printed as numbers: its claims are judged by "
            "what its text says of them, over the same intervals of m.",
            "Its pseudo-code has its shifts the wrong way round, a denominator one too large and a "
            "sign mask a digit short; equation (5) is what is reproduced. On one CPU it has no "
            "value (0/0): weights are divided by the number of threads there.",
            "DW-CFS's factor lies between 1 and 1.1 up to as many threads as CPUs: nice levels, in "
            "steps of a quarter, cannot express that; weights of control groups can.",
            "Groups came with 2.6.24's FAIR_USER_SCHED and are simulated from 5.10 on.",
            *sixth.notes,
        ),
        repeat={"window_ns": list(WINDOW), "releases": list(releases), **sixth.repeat},
    )


def _rows(  # noqa: PLR0917 - the columns of a table
    name: str,
    release: str,
    rule: str,
    threads: Sequence[int],
    drawn: Sequence[float],
    found: Sequence[float],
) -> list[tuple[str, str, str, str, int, float, float]]:
    return [
        (name, release, rule, process, count, paper, ours)
        for process, count, paper, ours in zip("ABC", threads, drawn, found, strict=False)
    ]


def _exact(
    name: str,
    threads: Sequence[int],
    rule: str,
    drawn: Sequence[float],
    found: Mapping[str, Sequence[float]],
) -> Claim:
    off = max(
        abs(one - other) for got in found.values() for one, other in zip(got, drawn, strict=True)
    )
    counts = ", ".join(map(str, threads[:-1])) + f" and {threads[-1]} threads"
    return Claim(
        claim=f"{name}: {counts} share a CPU {_slashed(drawn)} "
        + ("under CFS" if rule == "none" else "under PFS"),
        paper=_slashed(drawn),
        ours=f"within {100 * off:.2f} points in {', '.join(found)}",
        verdict=judged(off < _TOLERANCE, against=off >= 5 * _TOLERANCE),
    )


def _users(found: Mapping[str, Sequence[float]]) -> Claim:
    off = max(abs(share - 0.5) for got in found.values() for share in got)
    return Claim(
        claim="Groups give two users with 2 and 8 processes half of the CPU each",
        paper="50/50 %",
        ours=f"within {100 * off:.2f} points in {', '.join(found)}",
        verdict=judged(off < _TOLERANCE, against=off >= 5 * _TOLERANCE),
    )


def _factors() -> Claim:
    ours = [_core.thread_weight_factor("dw-cfs:beta=1.1", threads, 4) for threads, _ in FACTORS]
    off = max(abs(one - drawn) for one, (_, drawn) in zip(ours, FACTORS, strict=True))
    return Claim(
        claim="Figure 4: on 4 CPUs f(1) = 1, f(4) = 1.1 and f(8) = 0.99",
        paper=", ".join(f"{drawn:g}" for _, drawn in FACTORS),
        ours=", ".join(f"{value:.6f}" for value in ours),
        # Twenty fraction bits, rounded once: at most half of the last of them.
        verdict=Judgement.CONFIRMED if off <= 2**-21 else Judgement.CONTRADICTED,
    )


def _slashed(drawn: Sequence[float]) -> str:
    return "/".join(f"{100 * share:.0f}" for share in drawn) + " %"


def _shares_figure(rows: Sequence[tuple[str, str, str, str, int, float, float]]) -> Figure:
    values = [
        {"figure": figure, "release": source, "process": process, "share": value}
        for figure, release, _, process, _, paper, ours in rows
        for source, value in (("paper", paper), (release, ours))
    ]
    unique = list({tuple(sorted(value.items())): value for value in values}.values())
    return Figure(
        name="shares",
        caption="Shares of one CPU: the paper's figures 1 to 3 and its two users, and every "
        "release's rules.",
        alternative="Bars of each process's share of a CPU, the paper's beside each release's. "
        + " ".join(
            f"{name}: {spans(values, 'share', 'process')}."
            for name in dict.fromkeys(str(one["figure"]) for one in unique)
            if (values := [one for one in unique if one["figure"] == name])
        ),
        chart=charts.facets(unique, x="release", y="share", color="process", facet="figure"),
    )


def _factor_figure() -> Figure:
    values = [
        {
            "threads": threads,
            "factor": _core.thread_weight_factor("dw-cfs:beta=1.1", threads, 4),
            "who": "ours",
        }
        for threads in range(1, 41)
    ]
    paper = [{"threads": threads, "factor": factor, "who": "paper"} for threads, factor in FACTORS]
    shown = [*(one for one in values if one["threads"] in {1, 4, 8, 40}), *paper]
    return Figure(
        name="factor",
        caption="Figure 4: the factor of each thread's weight on 4 CPUs, beta = 1.1.",
        alternative="The factor against the number of threads. "
        + " ".join(f"{one['who']}: {one['factor']:.4g} at {one['threads']}." for one in shown),
        chart=charts.lines(
            values, paper, x="threads", y="factor", names=("threads of the process", "factor")
        ),
    )


STUDY = Study(
    name="thread_fairness",
    title="Greedy threads: CFS, PFS and DW-CFS",
    paper=PAPER,
    summary="how CPU time is divided when a program has many threads, by rule",
    run=study,
)
