"""Whether a gain lasts: a certified comparison, run again later and under other loads.

Setting, aims, floors and protocol are those of the comparison that certified the setting. What may
differ is the condition: another day, another boot, another load. All conditions of a session are
one experiment, whose verdicts are right together (Holm's rule over conditions, workloads, metrics
and looks, see `schedlab.experiment.group_sequential`); whether the gain holds in a condition, says
`schedlab.tuning.conditions.lasting`. Under what each ran is read from its runs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from schedlab.boundary.errors import InputError
from schedlab.experiment import campaign
from schedlab.experiment.campaign import Result
from schedlab.experiment.group_sequential import Protocol
from schedlab.experiment.plan import Asked, Plan, plan_experiment
from schedlab.experiment.sequential_experiment import Answer, Progress
from schedlab.experiment.settings import Setting, axes
from schedlab.experiment.subjects import Metric
from schedlab.store import Store, StoredExperiment
from schedlab.store.store import to_text
from schedlab.targets.target import Host, Simulated, Target
from schedlab.targets.virtual import Virtual
from schedlab.tuning.aims import Aims
from schedlab.tuning.certification import workload_of
from schedlab.tuning.conditions import Circumstances, Condition, Finding, lasting
from schedlab.tuning.grid import Load, loads
from schedlab.tuning.objective import DEFAULT

MOST_BOOTS = 8
"""Guests of a session at the most: all of them are up at once."""


@dataclass(frozen=True, slots=True)
class Certified:
    """A setting that fresh runs certified, and where.

    Attributes:
        tuning: the tuning that found it.
        comparison: the comparison that certified it.
        setting: the setting.
        aims: what it is judged by.
        result: of the comparison.
    """

    tuning: StoredExperiment
    comparison: StoredExperiment
    setting: Setting
    aims: Aims
    result: Result

    @property
    def cells(self) -> list[Mapping[str, Any]]:
        """The arms of the comparison that are its own: the default's and the setting's."""
        wanted = (DEFAULT, self.setting)
        return [one for one in self.comparison.plan["cells"] if Setting(one["values"]) in wanted]

    @property
    def workloads(self) -> dict[str, Mapping[str, Any]]:
        """The definition of each workload by its name."""
        return {workload_of(one): one["subject"] for one in self.cells}

    @property
    def own_names(self) -> dict[str, str]:
        """What each workload is called where it was certified: by its own name."""
        return {name: name for name in self.workloads}

    @property
    def place(self) -> Mapping[str, Any]:
        """Where it was certified, as an arm's definition."""
        return self.cells[0]


@dataclass(frozen=True, slots=True)
class Session:
    """A certified comparison that was run again.

    Attributes:
        experiment: as the store has it.
        result: what it came to.
        conditions: by load and boot.
    """

    experiment: StoredExperiment
    result: Result
    conditions: tuple[Condition, ...]

    @property
    def holds(self) -> int:
        """In how many conditions the gain holds."""
        return sum(one.found is Finding.HOLDS for one in self.conditions)

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "experiment": self.experiment.id,
            "state": self.result.state,
            "holds": self.holds,
            "conditions": [one.as_data() for one in self.conditions],
            "verdicts": len(self.result.settled.answers),
            "confidence": self.result.plan["confidence"],
            "failures": self.result.settled.failures,
            "disturbed": self.result.disturbed,
            "notes": list(self.result.notes),
        }


def find(what: str, store: Store) -> Certified:
    """Return a certified setting from the store.

    Args:
        what: a tuning's id or its beginning, for the setting that it recommends; or the setting as
            it is printed, ``policy=batch, slice=3ms``, for the newest tuning that certified it.
        store: where it is.

    Raises:
        InputError: there is no such tuning, or none that certified a setting.
    """
    if "=" in what:
        values = {name: ",".join(texts) for name, texts in axes(what.split(", ")).items()}
        for stored in reversed(store.experiments()):
            if stored.kind == "tune" and values in _certified_by(stored):
                return _certified(stored, Setting(values), store)
        raise InputError(
            f"store '{store.path}': no tuning certified '{what}'; 'schedlab report --list' shows "
            "the tunings"
        )
    stored = store.experiment(what)
    if stored.kind != "tune":
        raise InputError(
            f"experiment {stored.id} is of kind '{stored.kind}'; allowed: a tuning, or a setting "
            "that one certified, as NAME=VALUE"
        )
    if not (settings := _certified_by(stored)):
        raise InputError(
            f"experiment {stored.id} certified no setting; allowed: a tuning whose fresh runs did"
        )
    return _certified(stored, Setting(settings[0]), store)


def _certified_by(tuning: StoredExperiment) -> list[Mapping[str, str]]:
    """Return the settings that a tuning certified, the one that it recommends first."""
    result = tuning.result or {}
    first = result.get("recommended")
    others = [one["setting"] for one in result.get("points", ()) if one["certified"]]
    return [] if first is None else [first, *(one for one in others if one != first)]


def _certified(tuning: StoredExperiment, setting: Setting, store: Store) -> Certified:
    result = tuning.result or {}
    comparison = store.experiment(result["comparisons"][-1])
    recalled = campaign.recall(comparison, store)
    return Certified(tuning, comparison, setting, Aims.from_data(result), recalled)


def of_session(stored: StoredExperiment, store: Store) -> tuple[Certified, Session]:
    """Return the setting that a stored session is about, and the session.

    Raises:
        InputError: the tuning is not in the store.
    """
    about = stored.plan["verifies"]
    of = _certified(store.experiment(about["tuning"]), Setting(about["setting"]), store)
    return of, _session(of, stored, campaign.recall(stored, store), store)


def of_tuning(tuning: StoredExperiment, store: Store) -> list[tuple[Certified, Session]]:
    """Return the sessions about settings that a tuning certified, the oldest first."""
    return [
        of_session(one, store)
        for one in store.experiments()
        if one.kind == "verify" and one.plan["verifies"]["tuning"] == tuning.id
    ]


def certification(of: Certified, store: Store) -> Condition:
    """Return the condition under which a setting was certified."""
    runs = store.circumstances(of.comparison.id)
    return _condition(of, of.result, runs, {}, 1, of.place["target"], of.own_names)


def sessions(of: Certified, store: Store) -> list[Session]:
    """Return what a setting came to later, the oldest session first."""
    return [
        _session(of, stored, campaign.recall(stored, store), store)
        for stored in store.experiments()
        if stored.kind == "verify" and _is_about(stored, of)
    ]


def verify_later(
    of: Certified,
    store: Store,
    *,
    load: Sequence[str] = (),
    boots: int = 1,
    blocks: int | None = None,
    timeout: float | None = None,
    command: Sequence[str] = (),
    progress: Callable[[Progress], None] | None = None,
    opened: Callable[[Sequence[Target]], None] | None = None,
) -> Session:
    """Run the comparison that certified a setting again, now.

    A session that was interrupted goes on; one that ended is followed by another one.

    Args:
        of: the setting.
        store: where it is, and where every run is kept.
        load: a grid of loads, see `schedlab.tuning.grid.loads`; the load that was certified
            otherwise.
        boots: guests in which it runs, each a boot of its own.
        blocks: pairs of runs at the most; as many as certified it otherwise.
        timeout: seconds a run may take; as when it was certified otherwise.
        command: the words that asked for it.
        progress: told after each run.
        opened: told the places before anything runs, so that it can end their guests.

    Raises:
        InputError: a load that no workload has, or boots of a place that is not booted.
        NotPermittedError: what may not be set there.
        RunError: nothing could be run.
        Interrupted: on KeyboardInterrupt; see `schedlab.experiment.campaign.run`.
    """
    plan = _planned(of, load, boots, blocks, timeout)
    if opened is not None:
        opened([cell.target for cell in plan.cells])
    plan = replace(plan, seed=_seed(of, plan, store))
    result = campaign.run(plan, store, command=command, progress=progress)
    session = _session(of, store.experiment(result.id), result, store)
    store.finish(result.id, "done", session.as_data())
    return session


def _planned(
    of: Certified,
    load: Sequence[str],
    boots: int,
    blocks: int | None,
    timeout: float | None,
) -> Plan:
    grid = loads(of.workloads, load)
    subjects = dict(pair for one in grid for pair in one.subjects.values())
    asked = _asked(of, grid)
    given = of.comparison.plan
    try:
        protocol = Protocol(tuple(given["looks"]), given["band"], given["confidence"])
        if blocks is not None:
            protocol = Protocol.within(blocks, band=protocol.band, confidence=protocol.confidence)
    except ValueError as error:
        raise InputError(str(error)) from None
    purpose = {
        "verifies": {
            "tuning": of.tuning.id,
            "comparison": of.comparison.id,
            "setting": of.setting.definition(),
            "boots": boots,
            "loads": [
                {
                    "values": dict(one.values),
                    "workloads": {old: new for old, (new, _) in one.subjects.items()},
                }
                for one in grid
            ],
        }
    }
    made = plan_experiment(
        "verify",
        list(subjects.items()),
        [DEFAULT, of.setting],
        places(of, boots),
        metrics=asked,
        protocol=protocol,
        timeout=given["timeout"] if timeout is None else timeout,
    )
    return replace(made, purpose=purpose)


def places(of: Certified, boots: int = 1) -> list[Target]:
    """Return where a setting was certified, once a boot.

    Raises:
        InputError: several boots, or none, of a place that is not booted.
    """
    name = of.place["target"]
    if name.startswith("vm:"):
        if not 1 <= boots <= MOST_BOOTS:
            raise InputError(f"--boots is {boots}; allowed: 1 to {MOST_BOOTS}")
        kernel, cpus = name.removeprefix("vm:"), of.place["cpus"]
        return [Virtual(kernel, cpus=cpus, boot=boot) for boot in range(1, boots + 1)]
    if boots != 1:
        raise InputError(
            f"--boots is {boots}, and the setting was certified on {name}, where nothing is booted "
            "from here; allowed: 1"
        )
    return [Host() if name == "host" else Simulated.from_facts(of.place["simulated"])]


def _asked(of: Certified, grid: Sequence[Load]) -> dict[str, tuple[Asked, ...]]:
    """Return what is asked of each workload under its loads: what was when it was certified."""
    metrics = of.comparison.plan["metrics"]
    own = {workload_of(cell): metrics[cell["group"]] for cell in of.cells}
    found: dict[str, dict[str, Asked]] = {}
    for load in grid:
        for old, (new, _) in load.subjects.items():
            for place, one in enumerate(own[old]):
                metric = Metric(one["name"], one["unit"], one["better"])
                decides = one.get("decides", place == 0)
                found.setdefault(new, {})[metric.name] = Asked(metric, decides, one.get("limit"))
    return {name: tuple(asked.values()) for name, asked in found.items()}


def _seed(of: Certified, plan: Plan, store: Store) -> int:
    """Return the seed of a session: that of the same one if it did not end, else a fresh one."""
    earlier = [one for one in store.experiments() if one.kind == "verify" and _is_about(one, of)]
    for one in earlier:
        seed = int(one.plan["seed"])
        same = to_text(replace(plan, seed=seed).as_data()) == to_text(one.plan)
        if same and one.state != "done":
            return seed
    used = [of.comparison, *earlier]
    return max(int(one.plan["seed"]) + int(one.plan["looks"][-1]) for one in used) % 2**64


def _is_about(stored: StoredExperiment, of: Certified) -> bool:
    about = stored.plan["verifies"]
    return (about["tuning"], about["setting"]) == (of.tuning.id, of.setting.definition())


def _session(of: Certified, stored: StoredExperiment, result: Result, store: Store) -> Session:
    runs, about = store.circumstances(stored.id), stored.plan["verifies"]
    name = of.place["target"]
    conditions = tuple(
        _condition(
            of,
            result,
            runs,
            one["values"],
            boot,
            name if boot == 1 else f"{name} (boot {boot})",
            one["workloads"],
        )
        for one in about["loads"]
        for boot in range(1, about["boots"] + 1)
    )
    return Session(stored, result, conditions)


def _condition(  # noqa: PLR0917 - all of them differ in kind
    of: Certified,
    result: Result,
    runs: Sequence[tuple[str, str, float | None, Mapping[str, Any]]],
    load: Mapping[str, str],
    boot: int,
    target: str,
    names: Mapping[str, str],
) -> Condition:
    """Return what a result says of one load in one boot.

    Args:
        of: the setting.
        result: of the experiment.
        runs: its runs' circumstances.
        load: what was set of the workloads.
        boot: which boot of the session.
        target: the name of that boot's place.
        names: what each workload is called under that load, by its own name.
    """
    cells = _cells(of, result, target, names)
    answers, before = (
        _answers(of, one, place, called)
        for one, place, called in (
            (result, target, names),
            (of.result, of.place["target"], of.own_names),
        )
    )
    unvaried = {cell["group"] for cell in cells.values()} & set(result.unvaried)
    unlike = [
        suspect
        for suspect in result.suspicious
        for name in cells
        if suspect == name or suspect.endswith(f": {name}")
    ]
    found = Finding.UNRELIABLE if unvaried or unlike else lasting(answers, before, of.aims)
    mine = [run for run in runs if campaign.arm_of(run[0]) in cells]
    return Condition(load, boot, found, answers, Circumstances.of(mine))


def _cells(
    of: Certified, result: Result, target: str, names: Mapping[str, str]
) -> dict[str, Mapping[str, Any]]:
    """Return the arms of the default and the setting that are under one load in one boot."""
    return {
        cell["name"]: cell
        for cell in result.plan["cells"]
        if cell["target"] == target
        and workload_of(cell) in names.values()
        and Setting(cell["values"]) in (DEFAULT, of.setting)
    }


def _answers(
    of: Certified, result: Result, target: str, names: Mapping[str, str]
) -> dict[tuple[str, str], Answer]:
    """Return the answers about these arms, by a workload's own name and metric."""
    cells = _cells(of, result, target, names)
    return {
        (own, answer.question.metric): answer
        for own, called in names.items()
        for answer in result.settled.answers
        if answer.question.treatment in cells
        and workload_of(cells[answer.question.treatment]) == called
    }
