"""A race: candidates against the present setting on the real kernel, in heats.

The candidates enter in the order of a prior, such as a simulated ranking: one in the first heat,
then two, then four at a time. A heat is a comparison as any other
(`schedlab.experiment.sequential_experiment`): its settings and the present one run in interleaved
blocks, a setting leaves as soon as its verdict is settled, and the heat ends when all are, or with
its budget. The best certified setting so far, the leader, runs again in the next heat, which is
looked at once: more runs would settle small differences to what is certified already. The race ends
with a heat that certifies nothing better than the leader, for what would follow ranks lower still;
without a leader it ends when all have run, and there is no gain.

The heats share the error probability evenly (Boole's inequality) and the settings, metrics and
looks of a heat by its protocol, so that all verdicts of a race, and the winner's among them, are
right together with probability ``1 - error``. A winner thus needs no further runs: its runs were
not chosen for having looked good, all settings' verdicts pay for the choice.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from schedlab.experiment.group_sequential import LOOKS, Protocol

_GROWTH = (1, 2, 4)
"""Candidates of the first heats; the last number is that of all further ones.

The best in simulation is often the best on the kernel: alone with the present setting it costs two
runs a block. More than four would leave each too small a share of the error probability for the
first look to settle anything (`schedlab.experiment.stats.minimum_pairs`).
"""

BUDGET = 20
"""Blocks of a heat at the most by default, while nothing is certified."""

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Standing:
    """What a heat says of a setting.

    Attributes:
        certified: whether it is certain to be better than the present one.
        decided: whether there is a verdict.
        worth: its ratio to the present setting, below 1 being better; None where there is none.
    """

    certified: bool
    decided: bool
    worth: float | None


@dataclass(frozen=True, slots=True)
class Race(Generic[S]):
    """What a race came to.

    Attributes:
        winner: the certified setting with the least worth; None where nothing is certified.
        heat: the number of the heat that certifies it, from 0; None without a winner.
        standings: by setting, of the last heat that it ran in.
        unraced: settings that rank too low to run.
    """

    winner: S | None
    heat: int | None
    standings: Mapping[S, Standing]
    unraced: tuple[S, ...] = ()

    @property
    def settled(self) -> bool:
        """Whether every setting that ran has a verdict."""
        return all(one.decided for one in self.standings.values())


def heats(entrants: Sequence[S]) -> list[list[S]]:
    """Return the candidates of each heat.

    >>> heats("abcdefghijklm")
    [['a'], ['b', 'c'], ['d', 'e', 'f', 'g'], ['h', 'i', 'j', 'k'], ['l', 'm']]
    """
    left, found = list(entrants), []
    sizes = _sizes()
    while left:
        size = next(sizes)
        found.append(left[:size])
        left = left[size:]
    return found


def course(
    entrants: Sequence[S],
    compare: Callable[[Sequence[S], Protocol], Mapping[S, Standing]],
    *,
    error: float = 0.05,
    band: float = 0.01,
    budget: int = BUDGET,
) -> Iterator[Race[S]]:
    """Race candidates against the present setting, and yield how the race stands after each heat.

    Args:
        entrants: the candidates, in the order of the prior.
        compare: compares settings with the present one in fresh blocks by a protocol.
        error: probability with which any verdict is wrong at the most.
        band: half-width of what counts as the same.
        budget: blocks of a heat at the most, while nothing is certified.

    Raises:
        ValueError: a number out of range.

    >>> settled = {"slow": Standing(False, True, 1.2), "fast": Standing(True, True, 0.9)}
    >>> heat = lambda names, protocol: {one: settled[one] for one in names}
    >>> [(race.winner, race.heat) for race in course(["slow", "fast"], heat)]
    [(None, None), ('fast', 1)]
    """
    to_run = heats(entrants)
    winner: S | None = None
    at: int | None = None
    standings: dict[S, Standing] = {}
    for number, heat in enumerate(to_run):
        leading = [] if winner is None else [winner]
        blocks = min(budget, LOOKS[0]) if leading else budget
        found = compare([*leading, *heat], protocol(len(to_run), error, band, blocks))
        standings |= {one: found[one] for one in heat}
        best = None if winner is None else found[winner].worth
        if winner is not None and found[winner].certified:
            at, standings[winner] = number, found[winner]
        # A leader that this heat's budget did not certify again stays certified by an earlier one.
        for one in heat:
            worth = found[one].worth
            if found[one].certified and worth is not None and (best is None or worth < best):
                winner, at, best = one, number, worth
        unraced = tuple(one for later in to_run[number + 1 :] for one in later)
        yield Race(winner, at, dict(standings), unraced)
        if winner is not None and winner in leading:
            return


def protocol(count: int, error: float, band: float, budget: int) -> Protocol:
    """Return how each heat of a race is judged.

    Args:
        count: heats of the race.
        error: of the whole race.
        band: half-width of what counts as the same.
        budget: blocks at the most.

    Raises:
        ValueError: a number out of range.

    >>> protocol(4, 0.05, 0.01, 32).looks, protocol(4, 0.05, 0.01, 32).confidence
    ((12, 20, 32), 0.9875)
    """
    if not 0 < error < 1:
        raise ValueError(f"error is {error}: a number between 0 and 1 is needed")
    looks = (*(look for look in LOOKS if look < budget), budget)
    return Protocol(looks, band, 1 - error / max(1, count))


def _sizes() -> Iterator[int]:
    yield from _GROWTH
    while True:
        yield _GROWTH[-1]
