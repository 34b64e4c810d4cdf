"""``schedlab tune --screen``: whether a simulation precedes the real runs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from schedlab.boundary.errors import InputError
from schedlab.cli import comparison, options
from schedlab.cli.aim_options import Asked
from schedlab.experiment.campaign import Result
from schedlab.experiment.settings import Setting
from schedlab.experiment.subjects import Subject
from schedlab.report.terminal import running
from schedlab.store import Store
from schedlab.targets.target import Simulated, Target
from schedlab.tuning.parameters import Parameters
from schedlab.tuning.result import Tuning
from schedlab.tuning.screened import counterpart, race_screened


@dataclass(frozen=True, slots=True)
class Told:
    """What a race came to, as `tune` tells it; all is empty where nothing was screened.

    Attributes:
        settings: those of the heat that decides, the winner first.
        heat: that heat.
        sentences: how many candidates were ranked, what was explored, and how the race ended.
        data: the same for machines.
    """

    settings: tuple[Setting, ...] = ()
    heat: tuple[Result, ...] = ()
    sentences: tuple[str, ...] = ()
    data: dict[str, Any] = field(default_factory=dict)


def wanted(
    screen: bool | None,
    target: Target,
    where: Sequence[Target],
    subjects: Sequence[tuple[str, Subject]],
    searched: Parameters,
    *,
    aims: int,
    costs: str | None = None,
) -> tuple[Simulated | None, str]:
    """Return what is simulated before real runs are made; None where nothing is, and why.

    Args:
        screen: whether it was asked for; None where nothing was said.
        target: where it is tuned.
        where: the places where a winner is verified.
        subjects: what is tuned for.
        searched: what is searched.
        aims: how many there are.
        costs: those of the place, a preset or a file.

    Raises:
        InputError: it was asked for, or costs were given for it, and it cannot be.
    """
    why = ""
    if screen is False:
        why = "--no-screen simulates nothing"
    elif not target.real:
        why = f"--on {target.name} is simulated as a whole"
    elif not where:
        why = "--verify none asks for no verdict, and a race gives one"
    elif aims > 1:
        why = f"simulation ranks candidates by one aim, and there are {aims}"
    else:
        try:
            place = counterpart(target, subjects, searched, costs=costs)
        except InputError as error:
            why = str(error)
        else:
            return place, ""
    if screen:
        raise InputError(f"--screen: {why}: leave it out")
    if costs is not None:
        raise InputError(f"--costs: {why}: leave it out")
    return None, why if screen is None and target.real and where else ""


def raced(  # noqa: PLR0917 - all of them differ in kind
    found: Tuning,
    simulated: Simulated | None,
    why: str,
    asked: Asked,
    target: Target,
    store: Store,
    *,
    budget: int,
    band: float,
    timeout: float,
    command: Sequence[str],
    afresh: bool,
) -> Told:
    """Race what a simulated tuning ranks, see `schedlab.tuning.screened.race_screened`.

    Args:
        found: the tuning.
        simulated: where it was simulated; None where it was not, and nothing is raced.
        why: why not; empty where that needs no words.
        asked: what is tuned for.
        target: the real place.
        store: where every run is kept.
        budget: blocks of a heat at the most.
        band: half-width of what counts as the same.
        timeout: seconds a run may take.
        command: the words that asked for it.
        afresh: run everything again, whatever is stored.
    """
    if simulated is None:
        said = f"no simulation screened the candidates: {why}"
        return Told(sentences=(said,) if why else ())
    options.note_costs(simulated.machine)
    with running(f"racing on {target.name}") as tell:
        made = race_screened(
            found,
            simulated,
            asked.subjects,
            target,
            store,
            metrics=asked.metrics,
            keep=asked.keep,
            budget=budget,
            band=band,
            timeout=timeout,
            command=command,
            afresh=afresh,
            progress=comparison.telling_progress(tell),
        )
    heat = () if made.deciding is None else (made.deciding,)
    return Told(tuple(made.settings), heat, tuple(made.sentences()), made.as_data())
