"""Runs on real targets for a study: in randomised blocks, each kept in the store as it finishes."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from schedlab.boundary.errors import InputError, NotPermittedError, RunError, SchedlabError
from schedlab.experiment import execution
from schedlab.experiment.blocks import in_blocks
from schedlab.experiment.execution import Cell
from schedlab.experiment.sequential_experiment import Arm as Run
from schedlab.model import Workload
from schedlab.store import Store
from schedlab.studies.study import Arm, Tell, silent
from schedlab.targets.target import Target

_TRIES = 3
"""How often a run is made that fails: a long series is lost with it."""


class Measuring:
    """Runs arms on real targets.

    Args:
        store: where runs go, and where those that were there before are found.
        targets: by name.
        seed: of orders.
        command: the words that asked for it.
        tell: told of progress.
        afresh: run everything again.
        timeout: seconds a run may take.
    """

    def __init__(
        self,
        store: Store,
        targets: Mapping[str, Target],
        *,
        seed: int = 1,
        command: Sequence[str] = (),
        tell: Tell = silent,
        afresh: bool = False,
        timeout: float = 300.0,
    ) -> None:
        self._store = store
        self._targets = targets
        self._seed = seed
        self._command = command
        self._tell = tell
        self._afresh = afresh
        self._timeout = timeout
        self._refused: dict[tuple[str, str], list[str]] = {}
        self._failed: list[str] = []

    @property
    def refusals(self) -> list[str]:
        """What a target could not run, a setting each, and what it ran only when tried again."""
        refused = [
            f"{words[0]} could not run {', '.join(titles)}, {words[1]}"
            for words, titles in self._refused.items()
        ]
        return [*refused, *self._failed]

    def __call__(
        self, title: str, arms: Mapping[str, Arm], target: str, *, blocks: int
    ) -> Mapping[str, Sequence[Mapping[str, float]]]:
        """Run every arm once a block, in an order drawn for each block.

        Args:
            title: of the experiment in the store.
            arms: what is run, by name.
            target: the name of one of the targets.
            blocks: runs of each arm.

        Returns:
            The values of each arm's runs, by arm, one a block. An arm that the target refuses in
            the first block is left out, and told of in ``refusals``.

        Raises:
            InputError: what the target cannot run.
            NotPermittedError: nothing of it may be set there.
            RunError: a run failed.
        """
        place = self._targets[target]
        cells = {
            name: Cell(f"{subject.name} on {target}", subject, setting, place)
            for name, (subject, setting) in arms.items()
        }
        # Without the number of blocks: a later command with more continues from the stored ones.
        plan = {
            "cells": [{"name": name} | cell.definition() for name, cell in cells.items()],
            "seed": self._seed,
        }
        experiment = self._store.begin(
            "study", title, plan, self._command, afresh=self._afresh, meaning=meaning
        )
        known = execution.known_runs(self._store, experiment, [cells])
        runs = {
            name: execution.stored(
                name,
                cell,
                self._store,
                experiment,
                known,
                seed=self._seed,
                timeout=self._timeout,
                tries=_TRIES,
            )
            for name, cell in cells.items()
        }
        found: dict[str, list[Mapping[str, float]]] = {name: [] for name in arms}
        names = tuple(arms)

        def run_of(name: str) -> Run:
            def tell_and_run(block: int, position: int) -> Mapping[str, float]:
                done = block * len(names) + position
                self._tell(f"{title} on {target}", done, blocks * len(names))
                return runs[name](block, position)

            return tell_and_run

        arms_left = {name: run_of(name) for name in names}

        def leave_out(name: str, block: int, error: Exception) -> bool:
            # What a target cannot do it refuses at once; later on it is a failure.
            refuses = isinstance(error, NotPermittedError | RunError)
            if not refuses or block > 0 or len(found) == 1:
                return False
            del found[name], arms_left[name]
            self._refused.setdefault((target, f"{name}: {error}"), []).append(title)
            return True

        state = "interrupted"
        try:
            for run in in_blocks(
                arms_left,
                lambda block: names if block < blocks else (),
                seed=self._seed,
                failed=leave_out,
            ):
                found[run.arm].append(run.outcome)
            state = "done"
        except SchedlabError:
            state = "failed"
            raise
        finally:
            self._store.finish(experiment, state)
        failed = [
            f"{name} (block {block})"
            for name, block in self._store.made_again(experiment)
            if name in found and block < blocks
        ]
        if failed:
            again = ", ".join(failed)
            self._failed.append(f"{target}, {title}: failed at first and run again: {again}")
        return found


def meaning(plan: Mapping[str, Any]) -> object:
    """Return what of a plan decides which runs are the same: what is run, how, where, and the seed.

    An earlier schedlab may have written it otherwise: a workload without a field that came since,
    or with the number of blocks. Workloads are read and written again, and no other field counts.

    >>> from schedlab.model import Workload
    >>> tasks = [{"name": "a", "instances": 1, "steps": [{"run": {"fixed": "1ms"}}]}]
    >>> old = {"json": json.dumps({"name": "a", "tasks": tasks})}
    >>> new = {"json": Workload.from_dict(json.loads(old["json"])).json}
    >>> plans = [{"cells": [{"name": "a", "subject": one}], "seed": 1} for one in (old, new)]
    >>> plans[0] == plans[1], meaning({**plans[0], "blocks": 6}) == meaning(plans[1])
    (False, True)
    """
    cells = [cell | {"subject": _read_anew(cell["subject"])} for cell in plan.get("cells", ())]
    return {"cells": cells, "seed": plan.get("seed")}


def _read_anew(subject: Mapping[str, Any]) -> Mapping[str, Any]:
    if "json" not in subject:
        return subject
    with suppress(InputError):
        workload = Workload.from_dict(json.loads(subject["json"]))
        return {**subject, "json": workload.json}
    return subject
