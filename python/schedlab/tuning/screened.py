"""A tuning that simulates first: real runs begin with what the simulation ranks first.

The search runs in simulation, with the rules of the place's kernel; `schedlab.tuning.screening`
ranks its candidates, and these race on the real kernel (`schedlab.tuning.racing`), whose verdicts
are those of every comparison.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from schedlab.boundary.errors import InputError, RunError
from schedlab.experiment import campaign
from schedlab.experiment.group_sequential import Protocol
from schedlab.experiment.sequential_experiment import Progress
from schedlab.experiment.settings import Setting
from schedlab.experiment.subjects import Described, Subject
from schedlab.model import Machine, Scheduler
from schedlab.store import Store
from schedlab.targets import host
from schedlab.targets.target import Host, Simulated, Target
from schedlab.tuning.aims import Aims, Part
from schedlab.tuning.certification import certificates, certify
from schedlab.tuning.objective import DEFAULT
from schedlab.tuning.parameters import Parameters
from schedlab.tuning.racing import BUDGET, EXPLORED, Race, Standing, course
from schedlab.tuning.result import Tuning
from schedlab.tuning.runs import Case, Runs
from schedlab.tuning.screening import candidates, simulated_costs
from schedlab.tuning.surrogate import Surrogate, likeness
from schedlab.tuning.tuner import Stopped


@dataclass(frozen=True, slots=True)
class Raced:
    """What candidates came to on the real kernel.

    Attributes:
        ranked: the candidates, the best in simulation first.
        failed: how many others cannot be simulated or run, or break a floor.
        race: the race; None where no candidate was left.
        results: of each heat.
    """

    ranked: tuple[Setting, ...]
    failed: int
    race: Race[Setting] | None
    results: tuple[campaign.Result, ...]

    @property
    def deciding(self) -> campaign.Result | None:
        """The last heat, which certifies the winner if there is one."""
        return self.results[-1] if self.results else None

    @property
    def settings(self) -> list[Setting]:
        """The settings of that heat, the winner first; none where none ran."""
        if self.race is None or self.deciding is None:
            return []
        ran = {
            Setting(cell["values"]): None for cell in self.deciding.plan["cells"] if cell["values"]
        }
        winner = [] if self.race.winner is None else [self.race.winner]
        return [*winner, *(one for one in ran if one not in winner)]

    @property
    def runs(self) -> int:
        """Real runs, those of comparisons of the present setting with itself left out."""
        explored = 0 if self.race is None else self.race.explored
        return explored + sum(len(one.settled.order) for one in self.results)

    def sentences(self) -> list[str]:
        """Say how many candidates were ranked, how they were explored, and how the race ended."""
        broken = f", and {self.failed} break a floor or cannot be run" if self.failed else ""
        counted = "1 candidate" if len(self.ranked) == 1 else f"{len(self.ranked)} candidates"
        found = [f"simulation ranked {counted}{broken}"]
        race = self.race
        if race is None:
            return found
        order = (
            "" if race.agreement is None
            else f"; simulated and real order correlate by {race.agreement:.1f}"
        )  # fmt: skip
        found.append(f"exploration: {_runs(race.explored)}{order}")
        heats = "1 heat" if len(self.results) == 1 else f"{len(self.results)} heats"
        in_heats = self.runs - race.explored
        said = f"race: {len(race.standings)} of them in {heats}, {_runs(in_heats)}"
        if race.winner is not None:
            return [*found, f"{said}; won by {race.winner}"]
        ended = "settled: no gain" if race.settled else "no gain is certain"
        return [*found, f"{said}; {ended}"]

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data; the winner is the present setting where nothing is certified."""
        race = self.race
        return {
            "screened": {
                "ranked": [dict(one.values) for one in self.ranked],
                "failed": self.failed,
            },
            "race": {
                "winner": {} if race is None or race.winner is None else dict(race.winner.values),
                "settled": race is None or race.settled,
                "runs": self.runs,
                "explored": 0 if race is None else race.explored,
                "agreement": None if race is None else race.agreement,
                "heats": [one.id for one in self.results],
            },
        }


def _runs(count: int) -> str:
    return "1 real run" if count == 1 else f"{count} real runs"


def counterpart(
    target: Target,
    subjects: Sequence[tuple[str, Subject]],
    searched: Parameters,
    *,
    costs: str | None = None,
) -> Simulated:
    """Return what is simulated in the stead of a real place.

    It has the rules of the place's kernel and its CPUs; without other costs this machine has those
    that were calibrated here, a guest the reference costs.

    Args:
        target: the place.
        subjects: what is tuned for.
        searched: what is searched.
        costs: a preset or a file of costs, as ``schedlab calibrate --on vm:6.1`` writes it.

    Raises:
        InputError: something that cannot be simulated; it says what.

    >>> from schedlab.model import Workload
    >>> from schedlab.tuning import parameters
    >>> searched = parameters(Host(), policies=["other", "batch"])
    >>> counterpart(Host(), [("pipe", Described(Workload.parse("pipe")))], searched).name
    'sim'
    """
    for name, one in subjects:
        if not isinstance(one, Described):
            raise InputError(f"'{name}' is a program or command: only workloads are simulated")
    here = isinstance(target, Host)
    scheduler = host.facts().rules if here else Scheduler(target.release)
    usual = None if here else "reference"
    place = Simulated(scheduler, Machine(target.cpus, usual if costs is None else costs))
    for corner in (searched.space.low, searched.space.high):
        searched.setting(corner).check(place)
    return place


def race_screened(
    found: Tuning,
    place: Simulated,
    subjects: Sequence[tuple[str, Subject]],
    target: Target,
    store: Store,
    *,
    metrics: Sequence[str] = (),
    keep: Sequence[str] = (),
    budget: int = BUDGET,
    band: float = 0.01,
    timeout: float = 60.0,
    command: Sequence[str] = (),
    afresh: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Raced:
    """Race the candidates of a simulated tuning on the real kernel.

    The default is compared with itself before the first heat; where it differs, nothing is certain.
    Single runs are kept with the tuning, those of a heat as the comparison that it is. Floors are
    judged in heats.

    Args:
        found: the simulated tuning.
        place: where it was simulated.
        subjects: what is tuned for, each with a name.
        target: the real place.
        store: where every run is kept.
        metrics: the aims, as for `schedlab.tune`.
        keep: floors, as for `schedlab.tune`.
        budget: blocks of a heat at the most.
        band: half-width of what counts as the same.
        timeout: seconds a run may take.
        command: the words that asked for it.
        afresh: run everything again, whatever is stored.
        progress: told after each real run.

    Raises:
        InputError, NotPermittedError: what the place cannot do.
        RunError: nothing could be run.
        Interrupted, Stopped: on KeyboardInterrupt; see `schedlab.experiment.campaign.run` and
            `schedlab.tuning.tune_subjects`.
    """
    tried = candidates(found)
    simulated = simulated_costs(
        subjects, place, tried, metrics=metrics, keep=keep, first_seed=found.fresh_seed
    ).mean(axis=1)
    able = [
        index
        for index in np.argsort(simulated, kind="stable").tolist()
        if np.isfinite(simulated[index]) and _allowed(tried[index], target)
    ]
    ranked = [tried[index] for index in able]
    model = Surrogate(
        DEFAULT,
        ranked,
        simulated[able],
        likeness(found.parameters, [DEFAULT, *ranked]),
        seed=found.fresh_seed,
    )
    single = _Single(found, subjects, target, store, timeout=timeout, progress=progress)
    results: list[campaign.Result] = []

    def compare(heat: Sequence[Setting], protocol: Protocol) -> Mapping[Setting, Standing]:
        result = certify(
            heat,
            subjects,
            target,
            store,
            metrics=metrics,
            keep=keep,
            protocol=protocol,
            seed=(found.fresh_seed + len(results) * budget) % 2**64,
            timeout=timeout,
            check=not results,
            command=command,
            afresh=afresh,
            progress=progress,
        )
        results.append(result)
        return _standings(result, heat, found.aims, reliable=not results[0].suspicious)

    race: Race[Setting] | None = None
    try:
        for standing in course(model, single.cost, compare, band=band, budget=budget):
            race = standing
            if results[0].suspicious:
                break
    except KeyboardInterrupt as interrupt:
        if isinstance(interrupt, campaign.Interrupted):
            raise
        raise Stopped(single.runs.done) from interrupt
    return Raced(tuple(ranked), len(tried) - len(ranked), race, tuple(results))


class _Single:
    """Single runs of settings on a real place, kept with the tuning."""

    def __init__(
        self,
        found: Tuning,
        subjects: Sequence[tuple[str, Subject]],
        target: Target,
        store: Store,
        *,
        timeout: float,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self._aims = found.aims
        # The names of a place's runs, so that those of the simulation are others.
        self._cases = {
            name: Case(f"{name} on {target.name}", one, found.aims.metrics_of(name))
            for name, one in subjects
        }
        self._progress = progress
        self.runs = Runs(
            target, timeout=timeout, seed=found.fresh_seed, store=store, experiment=found.id
        )

    def cost(self, setting: Setting) -> float | None:
        """Run every workload once, and return the mean logarithm of the cost; None if one fails."""
        costs: dict[Part, float] = {}
        try:
            for name, case in self._cases.items():
                values = self.runs.one(case, setting, dispensable=True)
                costs |= {Part(name, metric): cost for metric, cost in case.costs(values).items()}
        except RunError:
            return None
        if self._progress is not None:
            most = EXPLORED * len(self._cases)
            self._progress(Progress(self.runs.done, most, str(setting), 1))
        return fmean(self._aims.means(np.array([costs[part] for part in self._aims.parts])))


def _allowed(setting: Setting, target: Target) -> bool:
    """Whether the place takes a combination of values that it takes one by one."""
    try:
        setting.check(target)
    except InputError:
        return False
    return True


def _standings(
    result: campaign.Result, heat: Sequence[Setting], aims: Aims, *, reliable: bool
) -> dict[Setting, Standing]:
    return {
        one.setting: Standing(
            certified=one.certified and reliable,
            decided=all(
                answer.judged.decided for answer in one.answers.values() if answer.question.decisive
            ),
            worth=one.worth,
            pairs=min((answer.blocks for answer in one.answers.values()), default=0),
        )
        for one in certificates([result], list(heat), aims)
    }
