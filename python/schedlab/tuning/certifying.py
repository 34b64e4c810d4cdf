"""The winner against what is set at present, by the protocol of every comparison."""

from collections.abc import Callable, Sequence

from schedlab import campaign
from schedlab.sequential import Protocol
from schedlab.settings import Setting
from schedlab.settling import Progress
from schedlab.store import Store
from schedlab.subjects import Subject
from schedlab.targets.target import Target
from schedlab.tuning.objective import DEFAULT
from schedlab.tuning.tuner import Tuning


def candidate(tuning: Tuning) -> Setting | None:
    """Return the setting to certify: the winner, or the best of the others where there is none.

    None where no other setting could be run at all.
    """
    return tuning.runner_up if tuning.best == DEFAULT else tuning.best


def certify(
    setting: Setting,
    subjects: Sequence[tuple[str, Subject]],
    target: Target,
    store: Store,
    *,
    metric: str | None = None,
    protocol: Protocol | None = None,
    seed: int = 1,
    timeout: float = 60.0,
    command: Sequence[str] = (),
    afresh: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> campaign.Result:
    """Compare a setting with what is set at present, for every subject.

    None of the runs that chose the setting counts: what was chosen for having looked good would
    look too good in them.

    Args:
        setting: what was found.
        subjects: what is run, each with a name.
        target: where.
        store: where every run is kept.
        metric: what decides; each subject's first otherwise.
        protocol: how it is judged.
        seed: of orders and simulations; simulated ones begin beyond the seeds that were searched.
        timeout: seconds a run may take.
        command: the words that asked for it.
        afresh: begin anew, whatever was run before.
        progress: told after each run.

    Returns:
        A verdict for each subject, all of them right together with the protocol's confidence.

    Raises:
        InputError, NotPermittedError: what the target cannot do.
        RunError: nothing could be run.
        Interrupted: on KeyboardInterrupt; see `schedlab.campaign.run`.
    """
    plan = campaign.plan(
        "compare",
        subjects,
        [DEFAULT, setting],
        [target],
        metrics=[] if metric is None else [metric],
        protocol=protocol,
        seed=seed,
        timeout=timeout,
    )
    return campaign.run(plan, store, command=command, afresh=afresh, progress=progress)
