"""``schedlab run``."""

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from schedlab import _core
from schedlab.boundary.errors import InputError
from schedlab.cli import options
from schedlab.cli.options import Target
from schedlab.model import Attributes, Machine, Scheduler, Workload, settings
from schedlab.model.outcome import Outcome
from schedlab.processes import lease
from schedlab.report.terminal import emit_json, note, say, waiting
from schedlab.report.text import describe_outcome
from schedlab.report.words import counted
from schedlab.targets import host, vm
from schedlab.targets.facts import facts
from schedlab.targets.sim import has_json_lines, simulate, trace_format
from schedlab.vm import find_kernel
from schedlab.vm.knobs import checked


def command(
    workload: options.Workload,
    *,
    on: options.Anywhere = "sim",
    kernel: options.Kernel = None,
    cpus: options.Cpus = None,
    topology: options.Topology = None,
    speed: options.Speed = None,
    hz: options.Hz = None,
    knobs: options.Set = None,
    policy: options.Policy = None,
    time_slice: options.Slice = None,
    nice: options.Nice = None,
    weights: options.Weights = None,
    rule: options.Rule = None,
    group: options.Group = None,
    session: options.Session = None,
    costs: options.Costs = None,
    background: options.Background = None,
    clock: options.Clock = None,
    seed: options.Seed = 1,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="FILE", help="Write events: .pftrace or .txt (ftrace)."),
    ] = None,
    reasons: options.Reasons = None,
    timeout: Annotated[
        str | None,
        typer.Option("--timeout", metavar="TIME", help="Time limit of a real run (60s)."),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Print a line for each task, not for each kind of task.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Run a workload and print what each task got.

    In a guest (--on vm:6.1) it runs natively on that kernel; --cpus is then its number of CPUs.

    Workloads: hackbench, pipe, hogs, sleepers, pi, copy, mixed, http, aio, schbench and periodic,
    each with keys: 'schedlab workload --list' shows them.

    Example: [bold]schedlab run hackbench:groups=5,loops=10 --kernel 6.1 --costs reference[/bold]

    Two users: [bold]schedlab run hogs:tasks=10 --cpus 1 --costs ideal --group /alice:tasks=2
    --group /bob:weight=200[/bold]
    """
    work = Workload.parse(workload).with_groups(group or [], session or [])
    guest = options.guest_of(on)
    if on == Target.SIM:
        options.refuse(on, timeout=timeout, clock=clock)
        if trace is not None:
            trace_format(trace)
        if reasons is not None:
            has_json_lines(reasons)
        scheduler = options.scheduler_of(kernel, hz, knobs, weights, rule)
        machine = options.machine_of(cpus, costs, topology, speed, background)
        if weights is not None and (remark := _core.weights_remark(weights, machine.cpus)):
            note(remark)
        if time_slice is not None and not scheduler.has_slices:
            note(f"tasks of {scheduler.label} cannot set slices: --slice does nothing")
        attributes = options.attributes_of(policy, time_slice, nice)
        with waiting("simulating"):
            outcome = simulate(
                work,
                scheduler=scheduler,
                machine=machine,
                attributes=attributes,
                seed=seed,
                trace=trace,
                reasons=reasons,
            )
        where = f"simulated: {_under(scheduler, machine)}"
    else:
        simulated = {"weights": weights, "group": group, "session": session, "topology": topology}
        simulated |= {"speed": speed, "rule": rule, "background": background}
        options.refuse(
            on, kernel=kernel, hz=hz, costs=costs, trace=trace, reasons=reasons, **simulated
        )
        limit = 60.0 if timeout is None else options.seconds(timeout, "timeout")
    if guest is not None:
        attributes = options.attributes_of(policy, time_slice, nice)
        processors = 1 if clock == "instructions" else facts().cpus
        with waiting(f"running in a guest, {on}"):
            outcome = _boot_and_run(
                guest,
                processors if cpus is None else cpus,
                work,
                clock=clock or "host",
                attributes=attributes,
                pairs=knobs,
                seed=seed,
                timeout=limit,
            )
        where = _in_guest(outcome)
    elif on == Target.HOST:
        options.refuse(on, clock=clock)
        attributes = options.attributes_of(policy, time_slice, nice, _first_cpus(cpus))
        with waiting("running on this kernel"):
            outcome = host.run(
                work,
                attributes=attributes,
                knobs=settings(knobs or []),
                seed=seed,
                timeout=limit,
                delays=True,
            )
        where = f"on this kernel: {outcome.release}, {counted(cpus or outcome.cpus, 'CPU')}"
    for text in outcome.notes:
        note(text)
    if json:
        emit_json(outcome)
        return
    say(f"{outcome.workload}")
    say(where + (f"; {attributes}" if attributes is not None else "") + f"; seed {seed}")
    describe_outcome(outcome, every=every)
    if trace is not None:
        say(f"events: {trace} ({trace_format(trace)})")
    if reasons is not None:
        say(f"decisions and their reasons: {reasons}")


def _boot_and_run(
    kernel: str,
    cpus: int,
    work: Workload,
    *,
    clock: str,
    attributes: Attributes | None,
    pairs: list[str] | None,
    seed: int,
    timeout: float,
) -> Outcome:
    image = find_kernel(kernel)
    knobs = settings(pairs or [])
    checked(knobs, image.release, cpus)  # before the boot, not after it
    with (
        lease.exclusive() if clock == "host" else nullcontext(),
        vm.Guest.boot(image, cpus=cpus, clock=clock) as guest,
    ):
        return vm.run(
            work, guest, attributes=attributes, knobs=knobs, seed=seed, timeout=timeout, delays=True
        )


def _in_guest(outcome: Outcome) -> str:
    how = {"tcg": "its instructions translated (TCG)", "kvm": "on this machine's CPUs (KVM)"}
    set_to = "".join(f"; {name} is {value} there" for name, value in outcome.knobs.items())
    cpus = counted(outcome.cpus, "CPU")
    return f"in a guest: {outcome.release}, {cpus}, {how[outcome.accelerator]}{set_to}"


def _under(scheduler: Scheduler, machine: Machine) -> str:
    return f"{scheduler}; {machine}"


def _first_cpus(count: int | None) -> tuple[int, ...]:
    """Return the first CPUs of those this process may use."""
    if count is None:
        return ()
    allowed = sorted(os.sched_getaffinity(0))
    if not 1 <= count <= len(allowed):
        raise InputError(f"--cpus is {count}; allowed with --on host: 1 to {len(allowed)}")
    return tuple(allowed[:count]) if count < len(allowed) else ()
