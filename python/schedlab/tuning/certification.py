"""Candidates against the present setting, by the protocol of every comparison."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from schedlab.experiment import campaign
from schedlab.experiment.group_sequential import Protocol
from schedlab.experiment.plan import plan_experiment
from schedlab.experiment.sequential_experiment import Answer, LimitedQuestion, Progress
from schedlab.experiment.settings import Setting
from schedlab.experiment.stats import Verdict
from schedlab.experiment.subjects import Subject
from schedlab.search.pareto import representatives
from schedlab.store import Store
from schedlab.targets.target import Target
from schedlab.tuning.aims import Aims, parse_aims
from schedlab.tuning.objective import DEFAULT
from schedlab.tuning.result import Tuning

SIMULATED_BLOCKS = 50
"""Fresh seeds at the most with which a simulated winner is compared."""

POINTS = 3
"""Points of a front that are certified by default."""

GAINING = (Verdict.BETTER, Verdict.SAME, Verdict.KEPT)
"""Verdicts of the workloads of an aim that gains; one at least is *better*."""


def candidate(tuning: Tuning) -> Setting | None:
    """Return the setting to certify: the winner, or the best of the others where there is none.

    None where no other setting could be run at all, or kept the floors.
    """
    return tuning.runner_up if tuning.best == DEFAULT else tuning.best


def candidates(tuning: Tuning, points: int = POINTS, *, band: float = 0.01) -> list[Setting]:
    """Return the settings to certify: the winner, then points that stand for the rest of the front.

    A point is worth choosing where it improves an aim by more than counts as the same, and the
    aims together: fresh runs would recommend no other. Of one aim there is the winner alone. Every
    further one takes its part of the error probability.

    Args:
        tuning: what was found.
        points: settings at the most.
        band: half-width of what counts as the same.
    """
    first = candidate(tuning)
    if first is None or len(tuning.aims.aims) == 1:
        return [] if first is None else [first]
    worth_choosing = [
        point
        for point in tuning.front
        if point.setting != DEFAULT
        and (point.setting == first or (point.worth < 1 and min(point.aims) < 1 / (1 + band)))
    ]
    settings = [point.setting for point in worth_choosing]
    places = representatives(
        [[math.log(one) for one in point.aims] for point in worth_choosing],
        points,
        settings.index(first) if first in settings else None,
    )
    return [settings[place] for place in places] or [first]


def certify(
    settings: Setting | Sequence[Setting],
    subjects: Sequence[tuple[str, Subject]],
    target: Target,
    store: Store | None = None,
    *,
    metrics: Sequence[str] = (),
    keep: Sequence[str] = (),
    protocol: Protocol | None = None,
    seed: int = 1,
    timeout: float = 60.0,
    check: bool = True,
    command: Sequence[str] = (),
    afresh: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> campaign.Result:
    """Compare settings with the present setting, for every subject and every aim.

    None of the runs that chose the settings counts: what was chosen for having looked good would
    look too good in them.

    Args:
        settings: what was found: one setting, or several points of a front.
        subjects: what is run, each with a name.
        target: where.
        store: where every run is kept; None for nowhere.
        metrics: the aims, as for `schedlab.tune`; each subject's usual metrics otherwise.
        keep: floors, as for `schedlab.tune`.
        protocol: how it is judged.
        seed: of orders and of the first simulation, each block having the next: one beyond those
            that were searched with (`Tuning.fresh_seed`). All settings of a block have the same.
        timeout: seconds a run may take.
        check: whether the present setting on a real place is first compared with itself.
        command: the words that asked for it.
        afresh: run everything again, whatever is stored.
        progress: told after each run.

    Returns:
        A verdict for each setting, subject and metric, all of them right together with the
        protocol's confidence.

    Raises:
        InputError, NotPermittedError: what the target cannot do.
        RunError: nothing could be run.
        Interrupted: on KeyboardInterrupt; see `schedlab.experiment.campaign.run`.
    """
    if store is None:
        with TemporaryDirectory(prefix="schedlab-") as name, Store(Path(name) / "runs.db") as kept:
            return certify(
                settings,
                subjects,
                target,
                kept,
                metrics=metrics,
                keep=keep,
                protocol=protocol,
                seed=seed,
                timeout=timeout,
                check=check,
                progress=progress,
            )
    compared = [settings] if isinstance(settings, Setting) else list(settings)
    plan = plan_experiment(
        "compare",
        subjects,
        [DEFAULT, *compared],
        [target],
        metrics=parse_aims(subjects, metrics, keep).asked(subjects, named=bool(metrics)),
        protocol=protocol or (Protocol() if target.real else Protocol.within(SIMULATED_BLOCKS)),
        seed=seed,
        timeout=timeout,
        check=check,
    )
    return campaign.run(plan, store, command=command, afresh=afresh, progress=progress)


@dataclass(frozen=True, slots=True)
class Certificate:
    """What fresh runs say of a setting.

    Attributes:
        setting: the setting.
        certified: whether they certify it, see `certified`.
        worth: the geometric mean over the aims of its ratios to the default, below 1 being better;
            None where a metric has no ratio.
        answers: by workload and metric.
    """

    setting: Setting
    certified: bool
    worth: float | None
    answers: Mapping[tuple[str, str], Answer]


def certificates(
    results: Sequence[campaign.Result], settings: Sequence[Setting], judged_by: Aims
) -> list[Certificate]:
    """Return what the last place where settings were compared says of each.

    Args:
        results: of `certify`, the one that decides last.
        settings: that were compared.
        judged_by: the aims.
    """
    found = []
    for setting in settings:
        answers = _answers(results[-1], setting) if results else {}
        logs = [
            [_log_cost(answers.get((part.workload, part.metric.name))) for part in aim.parts]
            for aim in judged_by.aims
        ]
        worth = math.exp(fmean(map(fmean, logs)))
        ok = certified(results, setting, judged_by)
        found.append(Certificate(setting, ok, worth if math.isfinite(worth) else None, answers))
    return found


def recommended(judged: Sequence[Certificate]) -> Certificate | None:
    """Return the certified setting with the least worth in fresh runs; None where none is better.

    The aims weigh the same: a per cent of one is worth a per cent of another. Where that is not
    what is wanted, a floor says so.
    """
    able = [one for one in judged if one.certified and one.worth is not None]
    best = min(able, key=lambda one: one.worth or math.inf, default=None)
    return best if best is not None and (best.worth or math.inf) < 1 else None


def certified(
    results: Sequence[campaign.Result],
    setting: Setting | None = None,
    judged_by: Aims | None = None,
) -> bool:
    """Return whether the last place where a setting was compared certifies it.

    Of one aim: there it is better for one subject at least, and for each other one better or the
    same; no metric beside those that decide is worse. Of several aims: that holds for one of them,
    and each other one has a verdict, so that its price is known. Every floor is kept. Neither a
    place whose baseline differs from itself certifies anything, nor a simulation that every seed
    repeats, which is one draw.

    Args:
        results: of `certify`, the one that decides last.
        setting: which of the settings that were compared; None where it was one.
        judged_by: the aims; None for one that all that decides belongs to.
    """
    if not results or not results[-1].settled.answers:
        return False
    last = results[-1]
    answers = (
        {("", one.question.name): one for one in last.settled.answers}
        if setting is None
        else _answers(last, setting)
    )
    if last.suspicious or last.unvaried or not answers:
        return False
    deciding = {key: one for key, one in answers.items() if one.question.decisive}
    groups = [list(deciding)]
    if judged_by is not None:
        groups = [
            [(part.workload, part.metric.name) for part in aim.parts] for aim in judged_by.aims
        ]
    verdicts = [[answers[key].judged.verdict for key in group] for group in groups]
    beside = [one for key, one in answers.items() if not any(key in group for group in groups)]
    floors = [one for one in deciding.values() if isinstance(one.question, LimitedQuestion)]
    better = [Verdict.BETTER in of and set(of) <= set(GAINING) for of in verdicts]
    return (
        any(better)
        and all(one.judged.decided for one in deciding.values())
        and all(one.judged.verdict in (Verdict.BETTER, Verdict.KEPT) for one in floors)
        and all(one.judged.verdict is not Verdict.WORSE for one in beside)
    )


def _answers(result: campaign.Result, setting: Setting) -> dict[tuple[str, str], Answer]:
    """Return the answers about a setting, by workload and metric."""
    cells = {cell["name"]: cell for cell in result.plan["cells"]}
    return {
        (workload_of(cells[one.question.treatment]), one.question.metric): one
        for one in result.settled.answers
        if Setting(cells[one.question.treatment]["values"]) == setting
    }


def workload_of(cell: Mapping[str, Any]) -> str:
    """Return the name of the workload that an arm runs, from its definition in a plan."""
    return str(cell["group"]).rpartition(f" on {cell['target']}")[0]


def _log_cost(answer: Answer | None) -> float:
    """Return the logarithm of a ratio, turned round where higher is better; infinite if unknown."""
    if answer is None or answer.judged.ratio is None:
        return math.inf
    log = math.log(answer.judged.ratio.value)
    return log if answer.question.better == "lower" else -log
