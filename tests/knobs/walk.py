"""Kill setting and restoring knobs at every operation, and look at what the next start does.

A program of its own, so that it can run where a kernel's real knobs may be played with: as root in
a guest. It forks for every step; what is killed is the process that sets or restores.

    python walk.py ROOT RELEASE KNOB=VALUE… [-- KNOB=VALUE…]

ROOT holds ``proc`` and ``sys``: ``/``, or a tree that pretends. The settings after the dashes are
those of the run that comes after the crash.
"""

import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from schedlab.boundary.errors import SchedlabError
from schedlab.knobs import applied, find, operations, places, restore, state

CPUS = 2

Settings = Mapping[str, str]
Action = Callable[[], object]


def originals(release: str, *several: Settings) -> dict[str, str]:
    """Return what each place of some knobs holds."""
    knobs = [find(name, release, CPUS) for settings in several for name in settings]
    return {str(place): place.read() for knob in knobs for place in places.places(knob)}


def set_for_nothing(settings: Settings, release: str) -> Action:
    """Return an action that sets knobs and puts them back."""

    def action() -> None:
        with applied(settings, release, CPUS):
            operations.before("run the workload")

    return action


def killed_at(step: int, action: Action) -> str | None:
    """Do an action in a process that is killed before an operation, and return the operation.

    Returns:
        None where the action has fewer operations and came to its end.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        remaining = step

        def before(operation: str) -> None:
            nonlocal remaining
            remaining -= 1
            if remaining == 0:
                os.write(writer, operation.encode())
                os.kill(os.getpid(), signal.SIGKILL)

        operations.before = before
        code = 1
        try:
            action()
            code = 0
        except SchedlabError as error:
            sys.stderr.write(f"{error}\n")
        os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        operation = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return operation
    assert os.WEXITSTATUS(status) == 0, "the action failed"
    return None


def operations_of(action: Action) -> list[str]:
    """Return the operations of an action, by killing it at each."""
    found: list[str] = []
    for step in range(1, 1000):
        operation = killed_at(step, action)
        if operation is None:
            return found
        found.append(operation)
        restore()
    raise AssertionError("it does not end")


def walk(settings: Settings, release: str, after: Settings) -> list[tuple[str, str]]:
    """Kill at every operation of setting and putting back, and then at every one of the recovery.

    After each crash, and after each crash of its recovery, every knob must be what it was, and the
    journal gone, once `restore` ran; and the same once another run with settings ``after`` did.

    Returns:
        Every pair of operations before which it was killed; the second is empty where the recovery
        came to its end.
    """
    before = originals(release, settings, after)
    pairs = []
    crash = set_for_nothing(settings, release)
    for recovery in (restore, set_for_nothing(after, release)):
        for first in range(1, 1000):
            for second in range(1, 1000):
                operation = killed_at(first, crash)
                again = killed_at(second, recovery) if operation is not None else None
                if operation is not None:
                    pairs.append((operation, again or ""))
                restore()
                assert originals(release, settings, after) == before, (operation, again)
                assert not leftovers(), (operation, again, leftovers())
                if again is None:
                    break
            if operation is None:
                break
    return pairs


def leftovers() -> list[Path]:
    """Return what is in the state directory beside the lock."""
    if not state.directory().is_dir():
        return []
    return [file for file in state.directory().iterdir() if file.name != "knobs.lock"]


def _settings(words: list[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words)


def main() -> None:
    """Walk all steps on the running kernel."""
    logging.getLogger("schedlab").setLevel(logging.CRITICAL)
    root, release, *words = sys.argv[1:]
    places.root = Path(root)
    middle = words.index("--") if "--" in words else len(words)
    settings, after = _settings(words[:middle]), _settings(words[middle + 1 :])
    first = operations_of(lambda: operations.make_directory(state.directory()))
    steps = operations_of(set_for_nothing(settings, release))
    pairs = walk(settings, release, after or settings)
    assert {pair[0] for pair in pairs} == set(steps)
    count = (
        f"{len(first) + len(steps)} operations of a run and {len(pairs)} pairs with a second crash"
    )
    lines = [f"walked {count}", *(f"  {step}" for step in first + steps)]
    sys.stdout.write("\n".join([*lines, "every original is back, no journal is left", ""]))


if __name__ == "__main__":
    main()
