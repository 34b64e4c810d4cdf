"""A tuning that simulates first: real runs go to what simulation cannot separate from the best.

The search runs in simulation, with the rules of the place's kernel; `schedlab.tuning.screening`
says which of its candidates are left, and these race on the real kernel
(`schedlab.tuning.racing`), whose verdicts are those of every comparison.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlab.boundary.errors import InputError
from schedlab.experiment import campaign
from schedlab.experiment.group_sequential import Protocol
from schedlab.experiment.sequential_experiment import Progress
from schedlab.experiment.settings import Setting
from schedlab.experiment.subjects import Described, Subject
from schedlab.model import Machine, Scheduler
from schedlab.store import Store
from schedlab.targets import host
from schedlab.targets.target import Host, Simulated, Target
from schedlab.tuning.aims import Aims
from schedlab.tuning.certification import certificates, certify
from schedlab.tuning.parameters import Parameters
from schedlab.tuning.racing import BUDGET, Race, Standing, course
from schedlab.tuning.result import Tuning
from schedlab.tuning.screening import Screened, candidates, screen, simulated_costs


@dataclass(frozen=True, slots=True)
class Raced:
    """What candidates came to on the real kernel.

    Attributes:
        screened: which of them simulation left.
        race: the race; None where no candidate was left.
        results: of each heat.
    """

    screened: Screened
    race: Race[Setting] | None
    results: tuple[campaign.Result, ...]

    @property
    def deciding(self) -> campaign.Result | None:
        """The heat that certifies the winner, or the last one."""
        if self.race is None or not self.results:
            return None
        return self.results[-1 if self.race.heat is None else self.race.heat]

    @property
    def settings(self) -> list[Setting]:
        """The settings of that heat, the winner first; none where none ran."""
        if self.race is None or self.deciding is None:
            return []
        ran = {
            Setting(cell["values"]): None
            for cell in self.deciding.plan["cells"]
            if cell["values"] and Setting(cell["values"]) in self.race.standings
        }
        winner = [] if self.race.winner is None else [self.race.winner]
        return [*winner, *(one for one in ran if one not in winner)]

    @property
    def runs(self) -> int:
        """Real runs, those of comparisons of the present setting with itself left out."""
        return sum(len(one.settled.order) for one in self.results)

    def sentences(self) -> list[str]:
        """Say what was screened out and by what, and what the race came to."""
        found = [self.screened.sentence()]
        if self.race is None:
            return found
        raced = len(self.race.standings)
        heats = "1 heat" if len(self.results) == 1 else f"{len(self.results)} heats"
        said = f"race: {raced} of {len(self.screened.kept)} in {heats}, {self.runs} real runs"
        if self.race.winner is not None:
            rest = len(self.race.unraced)
            ended = f"; {rest} that rank lower in simulation did not run" if rest else ""
            return [*found, f"{said}; won by {self.race.winner}{ended}"]
        settled = "settled: no gain" if self.race.settled else "no gain is certain"
        return [*found, f"{said}; {settled}"]

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data; the winner is the present setting where nothing is certified."""
        race = self.race
        return {
            "screened": self.screened.as_data(),
            "race": {
                "winner": {} if race is None or race.winner is None else dict(race.winner.values),
                "settled": race is None or race.settled,
                "runs": self.runs,
                "heats": [one.id for one in self.results],
                "unraced": 0 if race is None else len(race.unraced),
            },
        }


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
    """Screen the candidates of a simulated tuning, and race what is left on the real kernel.

    The default is compared with itself before the first heat; where it differs, nothing is certain.

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
        Interrupted: on KeyboardInterrupt; see `schedlab.experiment.campaign.run`.
    """
    tried = candidates(found)
    costs = simulated_costs(
        subjects, place, tried, metrics=metrics, keep=keep, first_seed=found.fresh_seed
    )
    screened = screen(tried, costs)
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
    for standing in course(screened.kept, compare, band=band, budget=budget):
        race = standing
        if results[0].suspicious:
            break
    return Raced(screened, race, tuple(results))


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
        )
        for one in certificates([result], list(heat), aims)
    }
