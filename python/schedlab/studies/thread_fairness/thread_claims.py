"""What the thread-fairness paper says of its Figure 6 and of PFS, and what our runs say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from schedlab.studies.study import Cell, Claim, Table, judged

INTERVALS = ((1, 3), (4, 7), (8, 32))
"""Of m, the threads of B, as the paper's conclusions speak of them."""

SAME = 0.01
"""Times that differ by less are the same."""

MORE = 1.1
"""Counts that differ by less are the same."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What A beside B came to.

    Attributes:
        seconds: until each program's last thread had ended, by program.
        switches: of all CPUs until both had.
    """

    seconds: Mapping[str, float]
    switches: int

    @property
    def both(self) -> float:
        """Seconds until both had ended."""
        return max(self.seconds.values())


Runs = Mapping[str, Mapping[int, Ran]]
"""By rule and m."""


def change(runs: Runs, rule: str, program: str, over: Sequence[int]) -> float:
    """Return a program's time under a rule over that under CFS, the geometric mean over some m."""
    logarithms = [
        np.log(runs[rule][m].seconds[program] / runs["CFS"][m].seconds[program]) for m in over
    ]
    return float(np.exp(np.mean(logarithms)))


def within(counts: Sequence[int]) -> list[list[int]]:
    """Return the numbers of threads in each of the paper's intervals.

    >>> within((1, 2, 4, 8, 32))
    [[1, 2], [4], [8, 32]]
    """
    return [[m for m in counts if low <= m <= high] for low, high in INTERVALS]


def claims(runs: Runs, counts: Sequence[int]) -> tuple[Claim, ...]:
    """Return every claim of sections 3.1 and 4.3 that completion times and switches can show."""
    return (*_of_cfs(runs, counts), *_of_dw_cfs(runs, counts), *_of_pfs(runs, counts))


def _of_cfs(runs: Runs, counts: Sequence[int]) -> tuple[Claim, ...]:
    times = {who: {m: run.seconds[who] for m, run in runs["CFS"].items()} for who in "AB"}
    few, _, many = within(counts)
    a, b, most = times["A"], times["B"], many[-1]
    falls = all(b[one] > b[two] for one, two in pairwise(few))
    grows, early = a[most] / a[1], a[few[-1]] / a[1]
    return (
        Claim(
            "Under CFS the program of many threads ends sooner the more threads it has, most of "
            "it gained with as many as there are CPUs",
            "Figure 6a, B",
            f"{b[1]:.2f} s with 1 thread, {b[4]:.2f} s with 4, {b[most]:.2f} s with {most}",
            judged(
                falls
                and b[4] < b[few[-1]]
                and b[1] - b[4] > b[4] - b[most]
                and b[most] <= b[4] * (1 + SAME)
            ),
        ),
        Claim(
            "Under CFS the other program, of one thread, ends the later the more threads it has "
            "beside it",
            "Figure 6a, A",
            f"with {most} threads beside it {grows - 1:+.1%}",
            judged(grows > 1 + SAME, against=grows < 1 - SAME),
        ),
        Claim(
            "Until B has four threads A ends sooner the more B has, for turbo",
            "section 4.3 (2)",
            f"beside {few[-1]} threads {early - 1:+.1%} of beside 1; of two that share a core each "
            "is slower, and turbo comes once B has ended",
            judged(early < 1 - SAME, against=early > 1 + SAME),
        ),
    )


def _of_dw_cfs(runs: Runs, counts: Sequence[int]) -> tuple[Claim, ...]:
    few, some, many = within(counts)
    b_few, a_few = change(runs, "DW-CFS", "B", few), change(runs, "DW-CFS", "A", few)
    b_some = change(runs, "DW-CFS", "B", some)
    b_many, a_many = change(runs, "DW-CFS", "B", many), change(runs, "DW-CFS", "A", many)
    return (
        Claim(
            "Up to 3 threads DW-CFS makes B faster than CFS does, and A too",
            "Figures 6b and 6c, [1,3]",
            f"B {b_few - 1:+.1%}, A {a_few - 1:+.1%}: every thread has a CPU of its own there, "
            "so no weight can act",
            judged(b_few < 1 - SAME and a_few < 1 - SAME, against=max(b_few, a_few) > 1 + SAME),
        ),
        Claim(
            "From 4 to 7 threads DW-CFS favours B less than it does up to 3",
            "Figures 6b and 6c, [4,7]",
            f"B {b_some - 1:+.1%} there, {b_few - 1:+.1%} up to 3",
            judged(b_some > b_few + SAME, against=b_some < b_few - SAME),
        ),
        Claim(
            "From 8 to 32 threads DW-CFS makes B slower and A faster than CFS does",
            "Figures 6b and 6c, [8,32]",
            f"B {b_many - 1:+.1%}, A {a_many - 1:+.1%}",
            judged(
                b_many > 1 + SAME and a_many < 1 - SAME,
                against=b_many < 1 - SAME or a_many > 1 + SAME,
            ),
        ),
    )


def _of_pfs(runs: Runs, counts: Sequence[int]) -> tuple[Claim, ...]:
    cfs, process = runs["CFS"], runs["PFS"]
    most = max(counts)
    well = process[4].seconds["B"] / cfs[4].seconds["B"]
    single = process[4].seconds["B"] / process[1].seconds["B"]
    switches = process[most].switches / cfs[most].switches
    both = process[most].both / cfs[most].both
    return (
        Claim(
            "PFS holds well-threaded programs back: 4 threads on 4 CPUs gain less than under CFS",
            "section 3.1 (1)",
            f"B ends {well - 1:+.1%} later than under CFS",
            judged(well > 1 + SAME, against=well < 1 - SAME),
        ),
        Claim(
            "Under PFS a well-threaded program is slower than its version of one thread",
            "section 3.1 (1)",
            f"4 threads take {single - 1:+.1%} of the time of 1",
            judged(single > 1 + SAME, against=single < 1 - SAME),
        ),
        Claim(
            "Under PFS a greedy program makes the scheduler switch far more often, which costs all",
            "section 3.1 (2)",
            f"{most} threads: {switches:.2f} times the switches that there are under CFS; both "
            f"programs are done {both - 1:+.1%} later",
            judged(
                switches > MORE and both > 1 + SAME, against=switches < MORE and both < 1 + SAME
            ),
        ),
    )


def ratios(runs: Runs, counts: Sequence[int]) -> Table:
    """Return the times under each rule against CFS's, by interval of m."""
    rows: list[tuple[Cell, ...]] = [
        (
            rule,
            f"[{low},{high}]",
            *(round(change(runs, rule, program, over), 4) for program in "AB"),
        )
        for rule in runs
        for (low, high), over in zip(INTERVALS, within(counts), strict=True)
    ]
    return Table(
        "figure_6_ratios",
        "Completion times against CFS, geometric means over an interval of m",
        ("rule", "threads of B", "A", "B"),
        tuple(rows),
    )
