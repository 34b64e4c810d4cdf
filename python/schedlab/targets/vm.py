"""A kernel in a virtual machine, through the native runner: the same as `host`, in a guest."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from schedlab.boundary.errors import InputError, RunError
from schedlab.model import Attributes, Workload, check_seed
from schedlab.model.outcome import Outcome
from schedlab.targets import ext, host
from schedlab.vm import knobs as guest_knobs
from schedlab.vm.guest import Guest

__all__ = ["Guest", "guest_knobs", "run"]


def run(
    workload: Workload | str,
    guest: Guest,
    *,
    attributes: Attributes | None = None,
    knobs: Mapping[str, str] | None = None,
    seed: int = 1,
    timeout: float = 60.0,
    delays: bool = False,
    around: Sequence[str] = (),
) -> Outcome:
    """Run a workload in a guest that is up; one boot serves any number of runs.

    ::

        with Guest.boot("6.1", cpus=2) as guest:
            slow = run("hackbench:groups=1", guest, knobs={"latency": "20ms"})
            fast = run("hackbench:groups=1", guest)

    Args:
        workload: a workload, its text ``name:key=value,…``, or the path of its JSON file.
        guest: where.
        attributes: scheduling attributes of every task, in place of the workload's own.
        knobs: settings for the time of the run; they are put back after it.
        seed: of every random stream.
        timeout: seconds after which all its tasks are ended; a guest that then does not answer is
            ended too.
        delays: measure how long each task waited for a CPU, some microseconds a task.
        around: words of a command that runs the runner, such as `group_weights.around`'s.

    Returns:
        As on the host; ``target`` is ``vm``, ``accelerator`` says whether the guest's instructions
        were translated (``tcg``: its times are no hardware's), ``knobs`` is what the guest said
        they were during the run, and ``notes`` say if it had to be booted again.

    Raises:
        InputError: something given is wrong.
        NotPermittedError: a policy, nice level or knob that the guest's kernel has not.
        RunError: the run failed or did not end in time, or the guest died.
    """
    work = Workload.parse(workload) if isinstance(workload, str) else workload
    if attributes is not None:
        work = work.with_attributes(attributes)
    check_seed(seed)
    if timeout <= 0:
        raise InputError(f"timeout is {timeout:g} s; allowed: above 0")
    command = [guest.inside(host.runner()), "run", "-", f"--seed={seed}"]
    command.append(f"--timeout={round(timeout * 1000)}ms")
    if delays:
        command.append("--delays")
    with guest_knobs.applied(guest, knobs or {}) as found:
        # The runner keeps the time itself; the margin is for a guest that hangs.
        done = guest.run(
            [*around, *ext.wrapped(command, attributes)], text=work.json, timeout=timeout + 30
        )
        said = host.printed(done)
    try:
        outcome = Outcome.from_json(said)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise RunError("the native runner in the guest printed no outcome") from None
    return replace(
        outcome,
        target="vm",
        accelerator=guest.accelerator,
        knobs=found,
        notes=(*outcome.notes, *guest.notes),
    )
