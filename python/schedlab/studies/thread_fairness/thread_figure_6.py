"""Figure 6 of the thread-fairness paper: a program of one thread beside one of m.

The paper's machine (its Table 1) is a Core i5-520M at 2.40 GHz: two cores of two hardware threads.
Its published turbo is 2.93 GHz (one busy core), that is 22/18 of the base in steps of 133 MHz. For
two busy cores 20/18 (2.66 GHz) is assumed, two steps: what its sibling i5-560M is published with
(2.66 GHz, 2.93 for two cores, 3.2 for one). How much two threads of a core get done
together neither says; compute-bound programs commonly gain a quarter over one (Marr et al.,
"Hyper-Threading Technology Architecture and Microarchitecture", Intel Technology Journal 6(1),
2002, found up to 30 %), so that each runs at 62.5 %. What that matters is shown for other shares.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from schedlab.experiment.settings import Setting
from schedlab.model import Costs, Machine, Scheduler, format_time
from schedlab.report import charts
from schedlab.studies import recording
from schedlab.studies.alternative_text import spans
from schedlab.studies.machines import TYPICAL
from schedlab.studies.study import Claim, Figure, Judgement, Request, Table, judged
from schedlab.studies.thread_fairness import thread_weighed
from schedlab.studies.thread_fairness.thread_claims import INTERVALS, Ran, Runs, claims, ratios
from schedlab.studies.thread_fairness.thread_pair import Pair, completion, means, pair, ratio, ways
from schedlab.targets.sim import simulate

THREADS = (1, 2, 3, 4, 5, 6, 7, 8, 16, 32)
"""m, the threads of B."""

CPUS = 4
"""Two cores of two hardware threads."""

TURBO = "turbo=122.2%/111.1%"
SHARE = "62.5%"
"""Of what a hardware thread does alone, while its sibling is busy."""

OTHER_SHARES = ("55%", "65%", "100%")
"""Shares for which the claims are looked at too; the last is no sharing at all."""


THREAD_RULES = {"PFS": "pfs", "DW-CFS": "dw-cfs:beta=1.1"}
"""The paper's rules by which threads weigh less the more there are."""

NO_GAIN = 0.05
"""A time that is shorter by less than this part is no gain: some turns of 8 ms in 200 ms."""


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


def machine(share: str = SHARE) -> Machine:
    """Return the paper's machine, with the costs of a small server.

    >>> machine().speed
    'smt=62.5%,turbo=122.2%/111.1%'
    """
    costs = Costs.from_times("typical", TYPICAL)
    return Machine(CPUS, costs, topology="smt=2", speed=f"smt={share},{TURBO}")


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
    runs = _simulated(request, counts, work_ns, rules(), machine())
    made = claims(runs, counts)
    rows = [
        (rule, m, program, _interval(m), seconds, ran.switches)
        for rule, by_count in runs.items()
        for m, ran in by_count.items()
        for program, seconds in ran.seconds.items()
    ]
    table = Table(
        "figure_6",
        "Completion times, simulated",
        ("rule", "threads of B", "program", "interval", "seconds", "switches"),
        tuple(rows),
        shown=False,
    )
    measured, real = _real(request)
    shown = pair(4, 60_000_000)
    return Sixth(
        answer=_answer(runs, made),
        claims=(*made, *real),
        tables=(table, ratios(runs, counts), _shares_table(request, work_ns), *measured),
        figures=_figures(rows),
        timeline=recording.timeline_of(
            shown,
            Scheduler("6.12"),
            machine(),
            "A beside B of 4 threads under EEVDF (6.12) on 2 cores of 2 threads, 60 ms of work",
        ),
        notes=(
            "Figure 6 is simulated on the paper's machine, a Core i5-520M: two cores of two "
            "threads; 22/18 of 2.40 GHz with one busy core (its published 2.93 GHz) and 20/18 with "
            "two (assumed from the published steps of its sibling i5-560M; the paper gives no "
            f"turbo); each of two busy threads of a core at {SHARE} of one alone, which is "
            "assumed (together a quarter more than one; Marr et al. 2002 found up to 30 %). A "
            "table shows other shares. "
            "Costs of switches and wake-ups are a small server's; times are of work at 2.40 GHz.",
        ),
        repeat={
            "threads": list(counts),
            "work": format_time(work_ns),
            "cpus": CPUS,
            "topology": machine().topology,
            "speed": machine().speed,
            "costs": machine().costs.name,
        },
    )


def _simulated(
    request: Request, counts: Sequence[int], work_ns: int, ways: Sequence[Rule], where: Machine
) -> Runs:
    runs: dict[str, dict[int, Ran]] = {}
    for place, rule in enumerate(ways):
        runs[rule.name] = {}
        for number, m in enumerate(counts):
            request.tell("figure 6", place * len(counts) + number, len(ways) * len(counts))
            outcome = simulate(
                pair(m, work_ns, rule.together), scheduler=rule.scheduler, machine=where
            )
            runs[rule.name][m] = Ran(completion(outcome), outcome.switches)
    return runs


def _shares_table(request: Request, work_ns: int) -> Table:
    """What comes of the claims where two threads of a core get other shares of it."""
    ways, counts = rules()[:3], (1, 2, 3, 4, 7, 8, 32)
    verdicts = {
        share: claims(_simulated(request, counts, work_ns, ways, machine(share)), counts)
        for share in (OTHER_SHARES[0], SHARE, *OTHER_SHARES[1:])
    }
    rows = [
        (made[0].claim, *(f"{one.verdict} ({one.ours.split(':')[0]})" for one in made))
        for made in zip(*verdicts.values(), strict=True)
    ]
    return Table(
        "figure_6_sharing",
        "The same claims by what each of two busy threads of a core gets of it",
        ("claim", *verdicts),
        tuple(rows),
    )


def _answer(runs: Runs, made: Sequence[Claim]) -> str:
    confirmed = sum(claim.verdict is Judgement.CONFIRMED for claim in made)
    most = max(runs["CFS"])
    ends = ", ".join(
        f"{by_count[most].seconds['A'] / by_count[1].seconds['A'] - 1:+.0%} under {rule}"
        for rule, by_count in runs.items()
    )
    return (
        f"When a program of one thread ends beside one of {most} threads, against beside one of 1, "
        f"on two cores of two threads with turbo: {ends}. Of the {len(made)} claims about Figure 6 "
        f"and PFS {confirmed} hold in simulation."
    )


def _figures(rows: Sequence[tuple[str, int, str, str, float, int]]) -> tuple[Figure, ...]:
    found = []
    for program, letter in (("A", "b"), ("B", "c")):
        values = [
            {"m": m, "seconds": seconds, "who": rule}
            for rule, m, who, _, seconds, _ in rows
            if who == program
        ]
        count = "of one thread" if program == "A" else "of m threads"
        found.append(
            Figure(
                f"figure_6{letter}",
                f"Figures 6a and 6{letter}: when program {program}, {count}, ends.",
                f"Seconds until {program} ends against the threads of B, a line a rule: "
                + spans(values, "seconds")
                + ".",
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


def _no_gain(
    target: str, rule: str, most: int, runs: Mapping[str, Sequence[Mapping[str, float]]], seed: int
) -> Claim:
    """Whether threads gain a program nothing under a rule that sched_ext has in a real kernel."""
    change = ratio(runs, f"{rule} m={most}", f"{rule} m=1", "B", seed)
    low, high = change.interval.low, change.interval.high
    return Claim(
        f"On {target} under {rule} {most} threads end no sooner than 1",
        "section 3.1: by processes",
        f"{change.value - 1:+.1%}, {len(runs[f'{rule} m=1'])} interleaved pairs",
        judged(low > 1 - NO_GAIN, against=high < 1 - NO_GAIN),
        (low, high),
    )


def _real(request: Request) -> tuple[tuple[Table, ...], tuple[Claim, ...]]:
    """Run A beside B on real kernels, interleaved over m."""
    if request.measure is None or not request.real:
        return (), ()
    little = request.measures_little
    counts = (1, 4) if little else (1, 2, 4, 8, 32)
    work_ns = 100_000_000 if little else 1_000_000_000
    rows, claims, weighed = [], [], {}
    for target in request.real:
        arms = {f"m={m}": (Pair(pair(m, work_ns)), Setting({})) for m in counts}
        rules = {
            f"{name} by {means(target)}": way for name, way in ways(target, THREAD_RULES).items()
        }
        for name, way in rules.items():
            for m in (1, counts[-1]):
                subject = Pair(pair(m, work_ns), controlled=way.controlled)
                arms[f"{name} m={m}"] = (subject, Setting(way.settings))
        runs = request.measure(
            "thread_fairness figure 6", arms, target, blocks=request.blocks_of(target, 20, 6)
        )
        for name, values in runs.items():
            for program in "AB":
                seconds = [value[program] for value in values]
                rows.append((target, name, program, len(seconds), round(median(seconds), 6)))
        for program, said, than, later in (
            ("A", "a program of one thread ends later beside", "beside", True),
            ("B", "a program that has as much to do ends sooner with", "with", False),
        ):
            change = ratio(runs, f"m={counts[-1]}", "m=1", program, request.seed)
            low, high = change.interval.low, change.interval.high
            claims.append(
                Claim(
                    f"On {target} {said} {counts[-1]} threads than {than} 1",
                    f"Figure 6a, {program}",
                    f"{change.value - 1:+.1%}, {len(runs['m=1'])} interleaved pairs",
                    judged(low > 1, high < 1) if later else judged(high < 1, low > 1),
                    (low, high),
                )
            )
        claims += [
            _no_gain(target, rule, counts[-1], runs, request.seed)
            for rule in rules
            if f"{rule} m=1" in runs
        ]
        if thread_weighed.shows(target) and not request.quick:
            weighed[target] = thread_weighed.measured(request, target)
            claims += thread_weighed.claims(target, weighed[target], request.seed)
    table = Table(
        "figure_6_real",
        "Completion times on real kernels",
        ("target", "threads of B", "program", "runs", "median seconds"),
        tuple(rows),
    )
    return (table, *thread_weighed.table(weighed)), tuple(claims)
