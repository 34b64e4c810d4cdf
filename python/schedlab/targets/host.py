"""The running kernel, through the native runner."""

from collections.abc import Mapping
from contextlib import nullcontext

from schedlab.boundary.errors import InputError, NotPermittedError, RunError
from schedlab.knobs import applied
from schedlab.model import Attributes, Workload, check_seed
from schedlab.model.outcome import Outcome
from schedlab.processes import lease, processes
from schedlab.processes.processes import native_runner, runner
from schedlab.targets import ext
from schedlab.targets.facts import Facts, facts

__all__ = ["Facts", "facts", "native_program", "native_runner", "printed", "run", "runner"]


def native_program(
    arguments: list[str],
    *,
    text: str = "",
    timeout: float | None = None,
    attributes: Attributes | None = None,
) -> str:
    """Run the native runner, under the sched_ext scheduler if these attributes name one.

    Returns:
        What it printed.

    Raises:
        InputError: what it was given is wrong, or it is not there.
        NotPermittedError: this user may not do what was asked for.
        RunError: it failed, or did not end in time.
    """
    command = ext.wrapped([str(runner()), *arguments], attributes)
    return printed(processes.run(command, text=text, timeout=timeout))


def printed(completed: processes.Completed) -> str:
    """Return what the native runner printed, wherever it ran.

    Raises:
        InputError: what it was given is wrong.
        NotPermittedError: this user may not do what was asked for.
        RunError: it failed.
    """
    if completed.code == 0:
        return completed.output
    if ext.PREFIX in completed.errors:
        raise ext.failure(completed.errors, completed.code)
    lines = completed.errors.strip().splitlines()
    said = lines[0].removeprefix("schedlab-native: ").removeprefix("error: ") if lines else ""
    if completed.code == 2:
        refused = "permi" in said.lower() or "CAP_" in said
        raise NotPermittedError(said) if refused else InputError(said)
    if completed.code == 130:
        raise KeyboardInterrupt
    raise RunError(said or f"the native runner ended with code {completed.code}")


def run(
    workload: Workload | str,
    *,
    attributes: Attributes | None = None,
    knobs: Mapping[str, str] | None = None,
    seed: int = 1,
    timeout: float = 60.0,
    delays: bool = False,
    alone: bool = True,
) -> Outcome:
    """Run a workload on the running kernel, with real tasks and channels.

    Args:
        workload: a workload, its text ``name:key=value,…``, or the path of its JSON file.
        attributes: scheduling attributes of every task, in place of the workload's own.
        knobs: settings for the time of the run; they are put back after it.
        seed: of every random stream.
        timeout: seconds after which all its tasks are ended.
        delays: measure how long each task waited for a CPU, some microseconds a task.
        alone: hold the machine's lease, so that no other schedlab command runs anything meanwhile
            (`schedlab.processes.lease`).

    Raises:
        InputError: something given is wrong.
        NotPermittedError: a policy, nice level or knob this user may not set.
        RunError: the run failed or did not end in time.

    >>> run("hackbench:groups=1,fds=2,loops=1").messages
    8
    """
    work = Workload.parse(workload) if isinstance(workload, str) else workload
    if attributes is not None:
        work = work.with_attributes(attributes)
    check_seed(seed)
    if timeout <= 0:
        raise InputError(f"timeout is {timeout:g} s; allowed: above 0")
    here = facts()
    arguments = ["run", "-", f"--seed={seed}", f"--timeout={round(timeout * 1000)}ms"]
    if delays:
        arguments.append("--delays")
    with (
        lease.exclusive() if alone else nullcontext(),
        applied(knobs, here.release, here.cpus) if knobs else nullcontext(),
    ):
        # The runner keeps the time itself; the margin is for a runner that hangs.
        text = native_program(
            arguments, text=work.json, timeout=timeout + 30, attributes=attributes
        )
        return Outcome.from_json(text)
