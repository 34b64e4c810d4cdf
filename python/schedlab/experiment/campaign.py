"""Planned experiments (`schedlab.experiment.plan`), run and read back from the store.

An experiment is run (`run`) with every run stored as it finishes, so that it can continue where it
stopped. Its result is computed from the store alone (`recall`), by the code that computed it the
first time.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from schedlab.boundary.errors import InputError, RunError, StorageError
from schedlab.experiment import execution, stats
from schedlab.experiment.execution import DISTURBED, Cell
from schedlab.experiment.group_sequential import Judged, Protocol
from schedlab.experiment.plan import Kind, Plan
from schedlab.experiment.sequential_experiment import (
    AA_BLOCKS,
    Arm,
    LimitedQuestion,
    Progress,
    Question,
    Settled,
    Unsettled,
    Values,
    check_against_itself,
    settle,
)
from schedlab.store import Store, StoredExperiment

_AGAIN = "A/A: "


@dataclass(frozen=True, slots=True)
class Result:
    """What an experiment came to.

    Attributes:
        id: in the store.
        plan: as plain data, see `Plan.as_data`.
        settled: runs, answers and failures.
        checks: by baseline, what comparing it with itself came to by the metric that decides; by
            ``METRIC: BASELINE`` where several decide. Empty where nothing is measured.
        stored: runs that were there before.
        state: as in the store.
        notes: what a reader has to know before relying on it: what the runs' outcomes note, and
            places where every seed gives the same run.
    """

    id: str
    plan: Mapping[str, Any]
    settled: Settled
    checks: Mapping[str, Judged]
    stored: int
    state: str
    notes: tuple[str, ...] = ()

    @property
    def suspicious(self) -> list[str]:
        """Baselines that differ from themselves: their results are unreliable."""
        different = (stats.Verdict.BETTER, stats.Verdict.WORSE)
        return [name for name, judged in self.checks.items() if judged.verdict in different]

    @property
    def disturbed(self) -> dict[str, int]:
        """How many of each arm's runs others disturbed, however often they were repeated."""
        found = {
            arm: sum(DISTURBED in values for values in runs.values())
            for arm, runs in self.settled.values.items()
        }
        return {arm: count for arm, count in found.items() if count}

    @property
    def disturbed_notes(self) -> tuple[str, ...]:
        """A sentence where others disturbed runs."""
        runs = sum(len(values) for values in self.settled.values.values())
        count = sum(self.disturbed.values())
        if not count:
            return ()
        return (
            f"other work took more than 5 % of the CPU time during {count} of {runs} runs, also "
            "when they were repeated: do not rely on these results",
        )

    @property
    def unvaried(self) -> list[str]:
        """Simulated groups in which every seed gives the same run: their pairs are one."""
        runs: dict[str, list[list[Values]]] = {}
        for cell in self.plan["cells"]:
            # Interrupted while the default is compared with itself, it has no runs of the arms yet.
            values = list(self.settled.values.get(cell["name"], {}).values())
            if cell["simulated"] is not None and values:
                runs.setdefault(cell["group"], []).append(values)
        return [
            group
            for group, arms in runs.items()
            if all(len(values) > 1 and all(one == values[0] for one in values) for values in arms)
        ]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during an experiment; ``result`` has what is known, and the store every run."""

    def __init__(self, result: Result) -> None:
        super().__init__("interrupted")
        self.result = result


def run(
    plan: Plan,
    store: Store,
    *,
    command: Sequence[str] = (),
    afresh: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Run a plan, or continue it: stored runs are not repeated.

    Args:
        plan: what to run.
        store: where every run goes as soon as it has finished.
        command: the words that asked for it.
        afresh: run everything again, whatever is stored.
        progress: told after each run.

    Raises:
        InputError: something that cannot run; nothing is stored of it.
        NotPermittedError: what this user may not set.
        RunError: no arm could be run.
        StorageError: the disk is full.
        Interrupted: on KeyboardInterrupt.
    """
    data = plan.as_data()
    title = "; ".join(plan.groups)
    experiment = store.begin(plan.kind, title, data, command, afresh=afresh)
    checked = [cell for cell in plan.cells if cell.name in data["checked"]]
    stages = [dict.fromkeys(_twice(cell.name), cell) for cell in checked]
    stages.append({cell.name: cell for cell in plan.cells})
    known = execution.known_runs(store, experiment, stages)
    arms = {cell.name: _live(plan, cell, store, experiment, known) for cell in plan.cells}
    doubles = {
        cell.name: _live(plan, cell, store, experiment, known, twice=True) for cell in checked
    }
    try:
        result = _settle(experiment, data, arms, doubles, len(known), progress)
    except Unsettled as stop:
        store.finish(experiment, "interrupted")
        stopped = Result(experiment, data, stop.settled, {}, len(known), "interrupted")
        raise Interrupted(_noted(stopped, store)) from stop
    except StorageError:
        raise  # nothing more can be written
    except BaseException:
        store.finish(experiment, "failed")
        raise
    store.finish(experiment, "done", _short(result))
    return _noted(result, store)


def recall(stored: StoredExperiment, store: Store) -> Result:
    """Work out what an experiment came to from the store alone.

    Raises:
        InputError: it is not a comparison or a sweep.
    """
    if stored.kind not in get_args(Kind):
        raise InputError(f"experiment {stored.id} is a {stored.kind}, not a comparison or a sweep")
    known = store.values(stored.id)
    failed = store.failures(stored.id)
    names = [cell["name"] for cell in stored.plan["cells"]]
    arms = {name: _recalled(name, known, failed) for name in names}
    doubles = {name: _recalled(name, known, failed, twice=True) for name in stored.plan["checked"]}
    try:
        result = _settle(stored.id, stored.plan, arms, doubles, len(known), None, stored.state)
    except Unsettled as stop:
        result = Result(stored.id, stored.plan, stop.settled, {}, len(known), stored.state)
    except RunError as error:
        settled = Settled({name: {} for name in names})
        settled.failures = {name: str(error) for name in names}
        result = Result(stored.id, stored.plan, settled, {}, len(known), stored.state)
    return _noted(result, store)


def _settle(  # noqa: PLR0917 - all of them differ in kind
    experiment: str,
    data: Mapping[str, Any],
    arms: Mapping[str, Arm],
    doubles: Mapping[str, tuple[Arm, Arm]],
    stored: int,
    progress: Callable[[Progress], None] | None,
    state: str = "done",
) -> Result:
    group_of = {cell["name"]: cell["group"] for cell in data["cells"]}
    band = data["band"]
    protocol = Protocol(tuple(data["looks"]), band, data["confidence"])

    def told(before: int, after: int) -> Callable[[Progress], None] | None:
        """Return what tells of a part, with the runs before and after it."""
        if progress is None:
            return None
        return lambda one: progress(
            replace(one, done=before + one.done, most=before + one.most + after)
        )

    each, to_do = 2 * AA_BLOCKS, len(arms) * protocol.looks[0]
    checks: dict[str, Judged] = {}
    for place, (name, pair) in enumerate(doubles.items()):
        found = check_against_itself(
            pair,
            _deciding(data["metrics"][group_of[name]]),
            band=band,
            seed=data["seed"],
            progress=told(place * each, (len(doubles) - place - 1) * each + to_do),
        )
        several = len(found) > 1
        checks |= {f"{one}: {name}" if several else name: judged for one, judged in found.items()}
    settled = settle(
        arms, _questions(data), protocol, seed=data["seed"], progress=told(len(doubles) * each, 0)
    )
    return Result(experiment, data, settled, checks, stored, state)


def _noted(result: Result, store: Store) -> Result:
    """Return a result with its notes."""
    single = [
        f"{group}: every seed gives the same run, so its pairs count as one"
        for group in result.unvaried
    ]
    notes = [*merged(store.notes(result.id)), *made_again(result.id, store), *_boots(result, store)]
    return replace(result, notes=(*notes, *single, *result.disturbed_notes))


def made_again(experiment: str, store: Store) -> list[str]:
    """Return a sentence where runs failed, were made again, and succeeded; with the first reason.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as name, Store(Path(name) / "runs.db") as store:
    ...     experiment = store.begin("compare", "a title", {}, [])
    ...     store.fail(experiment, "one", 0, "fio ended with code 1")
    ...     store.add(experiment, "one", 0, 0, seed=1, begun="", seconds=0.5, definition={},
    ...               facts={}, outcome={}, values={"time": 0.5})
    ...     made_again(experiment, store)
    ['a run failed and succeeded when made again: fio ended with code 1']
    """
    reasons = list(store.made_again(experiment).values())
    if not reasons:
        return []
    runs = "a run" if len(reasons) == 1 else f"{len(reasons)} runs"
    return [f"{runs} failed and succeeded when made again: {reasons[0]}"]


def _boots(result: Result, store: Store) -> list[str]:
    """Return a sentence where the runs of an arm come from several boots, or hosts."""
    of_arm: dict[str, set[str | None]] = {}
    for (arm, _), boot in store.boots(result.id).items():
        of_arm.setdefault(arm, set()).add(boot)
    most = max(map(len, of_arm.values()), default=0)
    if most < 2:
        return []
    return [
        f"these runs come from {most} boots, of one host or several: what differs between them "
        "cancels in the pairs, each within a block; a block is not continued in another boot"
    ]


_UNKNOWN = re.compile(r"(the cost \w+ is unknown): this run needed it (?:once|(\d+) times) and .*")


def merged(notes: Sequence[str]) -> list[str]:
    """Return the notes of several runs, those of one unknown cost as one.

    >>> needed = "the cost ipi is unknown: this run needed it {} times and counted it as nothing"
    >>> merged([needed.format(3), needed.format(12)])
    ['the cost ipi is unknown: a run needed it up to 12 times and counted it as nothing']
    """
    most: dict[str, int] = {}
    kept: dict[str, str] = {}
    for note in notes:
        found = _UNKNOWN.fullmatch(note)
        if found is None:
            kept[note] = note
            continue
        cost, times = found[1], int(found[2] or 1)
        most[cost] = max(times, most.get(cost, 0))
        said = "once" if most[cost] == 1 else f"up to {most[cost]} times"
        kept[cost] = f"{cost}: a run needed it {said} and counted it as nothing"
    return list(kept.values())


def _deciding(metrics: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the metrics of a group that decide, see `Asked.as_data`."""
    return [one["name"] for place, one in enumerate(metrics) if one.get("decides", place == 0)]


def _questions(data: Mapping[str, Any]) -> list[Question]:
    """Return what is asked: in each group, each arm against the first, by each metric."""
    found: list[Question] = []
    baselines: dict[str, str] = {}
    for cell in data["cells"]:
        group, name = cell["group"], cell["name"]
        baseline = baselines.setdefault(group, name)
        if baseline == name:
            continue
        for place, metric in enumerate(data["metrics"][group]):
            what = (baseline, name, metric["name"], metric["better"])
            decides = metric.get("decides", place == 0)
            found.append(
                LimitedQuestion(*what, decisive=decides, limit=metric["limit"])
                if "limit" in metric
                else Question(*what, decisive=decides)
            )
    return found


def _live(
    plan: Plan,
    cell: Cell,
    store: Store,
    experiment: str,
    known: Mapping[tuple[str, int], Values],
    *,
    twice: bool = False,
) -> Any:
    """Return an arm that runs what the store has not; two of them for a check against itself."""
    deciding = [one.metric.name for one in plan.metrics[cell.group] if one.decides]

    def arm(name: str) -> Arm:
        run = execution.stored(
            name, cell, store, experiment, known, seed=plan.seed, timeout=plan.timeout
        )

        def measured(block: int, place: int) -> Values:
            values = run(block, place)
            # Without it no number of blocks answers anything.
            missing = [metric for metric in deciding if metric not in values]
            if block == 0 and missing:
                raise RunError(f"'{cell.group}' came to no {missing[0]}")
            return values

        return measured

    if twice:
        once, again = _twice(cell.name)
        return arm(once), arm(again)
    return arm(cell.name)


def _twice(name: str) -> tuple[str, str]:
    """Return the names under which an arm is stored that is compared with itself."""
    return f"{_AGAIN}once: {name}", f"{_AGAIN}again: {name}"


def arm_of(stored: str) -> str:
    """Return the arm that a run is of, also where it was compared with itself.

    >>> arm_of("A/A: again: pipe on host | default")
    'pipe on host | default'
    """
    if not stored.startswith(_AGAIN):
        return stored
    return stored.removeprefix(_AGAIN).partition(": ")[2]


def _recalled(
    name: str,
    known: Mapping[tuple[str, int], Values],
    failed: Mapping[tuple[str, int], str],
    *,
    twice: bool = False,
) -> Any:
    """Return an arm that gives what the store has, and stops where that ends."""

    def arm(stored: str) -> Arm:
        def give(block: int, place: int) -> Values:
            del place
            if (stored, block) in known:
                return known[stored, block]
            if (stored, block) in failed:
                raise RunError(failed[stored, block])
            raise KeyboardInterrupt

        return give

    if twice:
        once, again = _twice(name)
        return arm(once), arm(again)
    return arm(name)


def _short(result: Result) -> dict[str, Any]:
    """Return the verdicts, for a look into the store with other tools."""
    return {answer.question.name: str(answer.judged.verdict) for answer in result.settled.answers}
