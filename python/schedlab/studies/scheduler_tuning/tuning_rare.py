"""The tuning paper's design and searches where the least turnaround is rare.

On one CPU that works as long as any task can run the turnaround hardly depends on the knobs, and
half of all settings attain the least: whatever the swarm's parameters are, its first positions meet
it. On four simulated CPUs, with a workload of the size of Table I's, less than one setting in a
thousand attains the least, and the most is a quarter above it. There the swarm's parameters matter.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from schedlab.model import Machine, Scheduler, Workload
from schedlab.search.space import FloatArray
from schedlab.studies.scheduler_tuning import meta_optimization, tuning_searches
from schedlab.studies.scheduler_tuning.meta_optimization import Row
from schedlab.studies.scheduler_tuning.scheduler_tuning import KNOBS, SPACE, Turnaround, study
from schedlab.studies.scheduler_tuning.scheduler_tuning import Study as Searches
from schedlab.studies.study import Cell, Claim, Figure, Table, Tell

WORKLOAD = "hackbench:groups=1,fds=3,loops=5"
"""3 senders, 3 receivers, 5 sets of messages: 45 messages."""

TASKS = 6
CPUS = 4
WHERE = f"{CPUS} CPUs"
_POINTS = 16


@dataclass(frozen=True, slots=True)
class Rare:
    """Its result.

    Attributes:
        rows: the design's, means over seeds.
        searches: the swarms and golden section.
        surface: the turnaround over all three knobs.
    """

    rows: tuple[Row, ...]
    searches: Searches
    surface: tuning_searches.Grid


def measured(seeds: Sequence[int], tell: Tell, *, points: int = _POINTS) -> Rare:
    """Run the design, the searches, and every combination of the knobs.

    Args:
        seeds: of the swarms.
        tell: told of progress.
        points: settings of each knob.
    """
    machine = Machine(CPUS, "linsched")
    objective = Turnaround(Workload.parse(WORKLOAD), Scheduler("2.6.24", hz=1000), machine)
    rows = meta_optimization.measured(objective, seeds, tell, middle=np.mean)
    tell(f"searches on {WHERE}", 0, 1)
    searches = study(seeds=seeds, workload=WORKLOAD, machine=machine, tasks=TASKS)
    return Rare(tuple(rows), searches, tuning_searches.grid(searches, points))


def claims(found: Rare) -> tuple[Claim, ...]:
    """Judge what the paper says of its searches where there is something to find."""
    return tuple(
        replace(
            one, claim=f"Where the least is rare ({WHERE}): {one.claim[0].lower()}{one.claim[1:]}"
        )
        for one in tuning_searches.compared(found.searches)
    )


def ends(found: Rare) -> Table:
    """Return where the searches ended, and how far from the least."""
    table = tuning_searches.ends(found.surface)
    return replace(table, name="ends_rare", title=f"{table.title}, with {WORKLOAD} on {WHERE}")


def landscape(found: Rare) -> Figure:
    """Draw the surface, and where the searches went on it."""
    figure = tuning_searches.landscape(found.surface)
    return replace(
        figure,
        name="landscape_rare",
        caption=f"The same where the least is rare: {WORKLOAD} on {WHERE}. {figure.caption}",
    )


def answer(found: Rare) -> str:
    """Say what the swarm's parameters do there."""
    own = meta_optimization.analyse(found.rows)
    omega, phi_g = own.stationary
    best, worst = (pick(found.rows, key=lambda row: row.rsum) for pick in (min, max))
    random = found.searches.random_share
    least = found.surface.least
    above = {name: value / least - 1 for name, (_, value) in found.surface.ends.items()}
    said = [
        f"{row.rsum:.1f} at omega, phi_p, phi_g = " + ", ".join(f"{one:g}" for one in row.setting)
        for row in (best, worst)
    ]
    return (
        f"Where the least is rare ({WORKLOAD} on {WHERE}, {random.value:.2%} of settings drawn at "
        "random attain it) the swarm's parameters matter: R* + I* is on average "
        f"{' and '.join(said)}; the fitted surface has a {own.found.nature} at "
        f"omega = {omega:.3f}, phi_g = {phi_g:.3f}. The median run of the swarm ends "
        f"{above[tuning_searches.SWARM]:+.1%} above the least of all, golden section "
        f"{above[tuning_searches.FIRST]:+.1%} and {above[tuning_searches.SECOND]:+.1%}."
    )


_ORDERS = tuple(
    (first, second, third)
    for first in range(3)
    for second in range(3)
    for third in range(3)
    if len({first, second, third}) == 3
)


def at_random(seed: int, count: int) -> FloatArray:
    """Return settings drawn as a swarm draws its first positions, a row each."""
    rng = np.random.default_rng(seed)
    return SPACE.allowed(SPACE.low + rng.random((count, len(KNOBS))) * (SPACE.high - SPACE.low))


def orders(objective: Turnaround, seed: int, count: int) -> Table:
    """Return how settings drawn at random come out, by which knob is the least and which the most.

    Args:
        objective: what is minimised.
        seed: of the draws.
        count: of settings.
    """
    drawn = at_random(seed, count)
    jiffies = objective(drawn)
    ranks = np.argsort(drawn, axis=1)
    least = float(jiffies.min())
    rows: list[tuple[Cell, ...]] = []
    for order in _ORDERS:
        here = jiffies[(ranks == np.array(order)).all(axis=1)]
        rows.append(
            (
                " < ".join(KNOBS[place] for place in order),
                len(here),
                *(float(one) for one in (here.min(), np.median(here), here.max())),
                float((here <= least).mean()),
            )
        )
    title = (
        f"Why the surface is level on one CPU: {count} settings drawn at random, by the order of "
        f"the knobs; {objective.least_possible()} jiffies is the work itself"
    )
    columns = ("order", "settings", "least", "median", "most", "attain the least")
    return Table("orders", title, columns, tuple(rows))


def spread(table: Table) -> tuple[float, float]:
    """Return the share of all settings that attain the least, and the most as a part above it."""
    counts = [int(row[1] or 0) for row in table.rows]
    share = sum(count * float(row[5] or 0) for count, row in zip(counts, table.rows, strict=True))
    least = min(float(row[2] or 0) for row in table.rows)
    return share / sum(counts), max(float(row[4] or 0) for row in table.rows) / least - 1
