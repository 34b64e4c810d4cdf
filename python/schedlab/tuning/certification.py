"""The winner against the present setting, by the protocol of every comparison."""

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from schedlab.experiment import campaign
from schedlab.experiment.group_sequential import Protocol
from schedlab.experiment.sequential_experiment import Progress
from schedlab.experiment.settings import Setting
from schedlab.experiment.stats import Verdict
from schedlab.experiment.subjects import Subject
from schedlab.store import Store
from schedlab.targets.target import Target
from schedlab.tuning.objective import DEFAULT
from schedlab.tuning.result import Tuning

SIMULATED_BLOCKS = 50
"""Fresh seeds at the most with which a simulated winner is compared."""


def candidate(tuning: Tuning) -> Setting | None:
    """Return the setting to certify: the winner, or the best of the others where there is none.

    None where no other setting could be run at all.
    """
    return tuning.runner_up if tuning.best == DEFAULT else tuning.best


def certify(
    setting: Setting,
    subjects: Sequence[tuple[str, Subject]],
    target: Target,
    store: Store | None = None,
    *,
    metric: str | None = None,
    protocol: Protocol | None = None,
    seed: int = 1,
    timeout: float = 60.0,
    command: Sequence[str] = (),
    afresh: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> campaign.Result:
    """Compare a setting with the present setting, for every subject.

    None of the runs that chose the setting counts: what was chosen for having looked good would
    look too good in them.

    Args:
        setting: what was found.
        subjects: what is run, each with a name.
        target: where.
        store: where every run is kept; None for nowhere.
        metric: what decides; each subject's first otherwise.
        protocol: how it is judged.
        seed: of orders and of the first simulation, each block having the next: one beyond those
            that were searched with (`Tuning.fresh_seed`). Both settings of a pair have the same.
        timeout: seconds a run may take.
        command: the words that asked for it.
        afresh: run everything again, whatever is stored.
        progress: told after each run.

    Returns:
        A verdict for each subject, all of them right together with the protocol's confidence.

    Raises:
        InputError, NotPermittedError: what the target cannot do.
        RunError: nothing could be run.
        Interrupted: on KeyboardInterrupt; see `schedlab.experiment.campaign.run`.
    """
    if store is None:
        with TemporaryDirectory(prefix="schedlab-") as name, Store(Path(name) / "runs.db") as kept:
            return certify(
                setting,
                subjects,
                target,
                kept,
                metric=metric,
                protocol=protocol,
                seed=seed,
                timeout=timeout,
                progress=progress,
            )
    plan = campaign.plan(
        "compare",
        subjects,
        [DEFAULT, setting],
        [target],
        metrics=[] if metric is None else [metric],
        protocol=protocol or (Protocol() if target.real else Protocol.within(SIMULATED_BLOCKS)),
        seed=seed,
        timeout=timeout,
    )
    return campaign.run(plan, store, command=command, afresh=afresh, progress=progress)


def certified(results: Sequence[campaign.Result]) -> bool:
    """Return whether the last place where a setting was compared certifies it.

    There it is better for one subject at least, and for each other one better or the same; no
    metric beside those that decide is worse. Neither a place whose baseline differs from itself
    certifies anything, nor a simulation that every seed repeats, which is one draw.
    """
    if not results or not results[-1].settled.answers:
        return False
    answers = results[-1].settled.answers
    deciding = [one.judged.verdict for one in answers if one.question.decisive]
    return (
        Verdict.BETTER in deciding
        and set(deciding) <= {Verdict.BETTER, Verdict.SAME}
        and all(one.judged.verdict is not Verdict.WORSE for one in answers)
        and not (results[-1].suspicious or results[-1].unvaried)
    )
