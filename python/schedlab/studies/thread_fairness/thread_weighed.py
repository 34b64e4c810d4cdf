"""DW-CFS apart from PFS on real kernels: weights as of four CPUs, tried on one.

On one CPU the paper's formula has no value, and DW-CFS is PFS. A rule may name the CPUs that it
goes by (``dw-cfs:beta=1.1:cpus=4``), so that a guest of one CPU whose clock counts instructions
gives the weights that it would give on the paper's machine, and what they do is measured to the
turn. CFS itself runs there by the same means, with weights that go by threads alone: what a
controller takes of the CPU is the same under every rule then.
"""

from collections.abc import Mapping, Sequence
from statistics import median

from schedlab.experiment import stats
from schedlab.experiment.settings import Setting
from schedlab.model import Machine, Scheduler
from schedlab.studies.rt_runtime.rt_beside import release_of
from schedlab.studies.study import Arm, Cell, Claim, Judgement, Request, Table, judged
from schedlab.studies.thread_fairness.thread_pair import Pair, Way, completion, pair, ratio, ways
from schedlab.targets.sim import simulate

CPUS = 4
"""No, that of the paper's machine."""

RULES = {"CFS": "none", "PFS": "pfs", "DW-CFS": f"dw-cfs:beta=1.1:cpus={CPUS}"}
THREADS = (4, 32)
"""As many as CPUs, where DW-CFS favours a program most, and the most of the paper."""

WORK = 1_000_000_000
"""Nanoseconds of each program: turns of some milliseconds are half a per cent of that."""

_BLOCKS = 6

Runs = Mapping[str, Sequence[Mapping[str, float]]]


def shows(target: str) -> bool:
    """Return whether a target is a guest of one CPU on which all else stands still.

    >>> shows("vm:6.1@icount"), shows("vm:6.1"), shows("host")
    (True, False, False)
    """
    return target.endswith("@icount")


def _arm(rule: str, threads: int) -> str:
    return f"{rule} m={threads}"


def measured(request: Request, target: str) -> Runs:
    """Run A beside B under every rule, interleaved."""
    assert request.measure is not None
    by: Mapping[str, Way] = ways(target, RULES)
    arms: dict[str, Arm] = {
        _arm(rule, threads): (
            Pair(pair(threads, WORK), controlled=way.controlled),
            Setting(way.settings),
        )
        for rule, way in by.items()
        for threads in THREADS
    }
    return request.measure(
        "thread_fairness: weights of 4 CPUs",
        arms,
        target,
        blocks=max(_BLOCKS, request.blocks_of(target, 12, _BLOCKS)),
    )


def predicted(target: str, rule: str, threads: int) -> float:
    """Return when B ends in simulation, seconds, on one CPU under the target's release.

    By hand: each thread of B weighs f times the one of A, so that B's one second of work takes
    1 + 1 / (f threads) seconds as long as both have some.

    >>> round(predicted("vm:6.1@icount", "PFS", 4), 1)
    2.0
    """
    outcome = simulate(
        pair(threads, WORK),
        scheduler=Scheduler(release_of(target), weights=RULES[rule]),
        machine=Machine(1, "ideal"),
    )
    return completion(outcome)["B"]


def claims(target: str, runs: Runs, seed: int) -> list[Claim]:
    """Judge what DW-CFS does to B against CFS, and PFS against DW-CFS, as far as they were run."""
    few, many = THREADS
    questions = (
        (
            f"On {target} DW-CFS makes a program of {few} threads end sooner than CFS does",
            "Figure 6c: favoured up to 4 threads",
            ("CFS", "DW-CFS", few),
            False,
        ),
        (
            f"On {target} DW-CFS makes a program of {many} threads end later than CFS does",
            "Figure 6c, [8,32]",
            ("CFS", "DW-CFS", many),
            True,
        ),
        (
            f"On {target} PFS holds a program of {few} threads back where DW-CFS does not",
            "section 3.1 (1)",
            ("DW-CFS", "PFS", few),
            True,
        ),
    )
    found = []
    for words, paper, (base, other, threads), later in questions:
        if not {_arm(base, threads), _arm(other, threads)} <= set(runs):
            continue  # refused there
        change = ratio(runs, _arm(other, threads), _arm(base, threads), "B", seed)
        ours = predicted(target, other, threads) / predicted(target, base, threads)
        found.append(
            Claim(
                words,
                paper,
                f"B's end {change.value - 1:+.1%}, simulated {ours - 1:+.1%}; "
                f"{len(runs[_arm(base, threads)])} interleaved pairs, weights as of {CPUS} CPUs",
                _verdict(change, later=later),
                (change.interval.low, change.interval.high),
            )
        )
    return found


def _verdict(change: stats.Estimate, *, later: bool) -> Judgement:
    low, high = change.interval.low, change.interval.high
    return judged(low > 1, against=high < 1) if later else judged(high < 1, against=low > 1)


def table(found: Mapping[str, Runs]) -> tuple[Table, ...]:
    """Return when A and B end under every rule, real and simulated."""
    rows: list[tuple[Cell, ...]] = [
        (
            target,
            rule,
            threads,
            len(runs[_arm(rule, threads)]),
            *(median(run[program] for run in runs[_arm(rule, threads)]) for program in "AB"),
            predicted(target, rule, threads),
        )
        for target, runs in found.items()
        for rule in RULES
        for threads in THREADS
        if _arm(rule, threads) in runs
    ]
    columns = ("target", "rule", "threads of B", "runs", "A ends (s)", "B ends (s)", "simulated")
    title = f"Weights as of {CPUS} CPUs on one CPU of real kernels: medians"
    return (Table("figure_6_weighed", title, columns, tuple(rows)),) if rows else ()
