"""What ``schedlab compare`` and ``schedlab sweep`` share: options, and how a result is told."""

import functools
import inspect
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from schedlab.boundary.errors import InputError, RunError
from schedlab.cli import options
from schedlab.experiment import campaign
from schedlab.experiment.group_sequential import LOOKS, Protocol
from schedlab.experiment.plan import Kind, Plan, plan_experiment
from schedlab.experiment.sequential_experiment import Progress
from schedlab.experiment.settings import Setting
from schedlab.experiment.subjects import Described, Subject
from schedlab.model import Scheduler
from schedlab.programs import FAMILIES, subject
from schedlab.programs.command import command as command_of
from schedlab.report import answers
from schedlab.report.pace import Pace
from schedlab.report.terminal import emit_json, note, running, say, show
from schedlab.report.words import counted, percent
from schedlab.store import Store
from schedlab.targets.target import Host, Simulated, Target
from schedlab.targets.virtual import Virtual

Workloads = Annotated[
    list[str] | None,
    typer.Argument(
        help=f"Workloads, or programs ({', '.join(FAMILIES)}), each with :key=value,…",
        metavar="WORKLOAD...",
        show_default=False,
    ),
]
On = Annotated[str, typer.Option("--on", metavar="A,B", help="Targets: sim, host, vm:KERNEL.")]
Command = Annotated[
    str | None,
    typer.Option("--command", metavar="WORDS", help="A command to run instead of a workload."),
]
Metric = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="PATTERN",
        help="Of --command: a pattern with one group, or seconds, user, system, cpu.",
    ),
]
Better = Annotated[
    str | None,
    typer.Option(
        "--better",
        metavar="lower|higher",
        help="Whether lower or higher values of --metric are better, where its words do not say.",
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option("--metrics", metavar="A,B", help="Metrics to compare; the first decides."),
]
Blocks = Annotated[int, typer.Option("--blocks", metavar="N", min=2, help="Most blocks to run.")]
Band = Annotated[
    float,
    typer.Option("--band", metavar="SHARE", help="Change up to which settings count as the same."),
]
File = Annotated[Path | None, typer.Option("--store", metavar="FILE", help="The store of runs.")]
Afresh = Annotated[
    bool, typer.Option("--afresh", help="Run everything again, whatever is in the store.")
]
Check = Annotated[
    bool,
    typer.Option("--check/--no-check", help="Compare each real baseline with itself first."),
]
Timeout = Annotated[
    str, typer.Option("--timeout", metavar="TIME", help="Time limit of a real run.")
]
BUDGET = LOOKS[-1]


@dataclass(frozen=True, slots=True)
class Simulation:
    """What options say of the kernel and the machine that are simulated.

    Attributes:
        kernel: the release; this one's otherwise.
        cpus: of the machine, and of guests.
        hz: timer interrupts a second.
        costs: a preset or a file.
        topology: of the CPUs.
        speed: what they share, and turbo.
        weights: of threads.
        groups: control groups of the tasks.
        sessions: of the tasks.
        rules: switched, as ``NAME=on``.
        background: what else runs there.
    """

    kernel: str | None = None
    cpus: int | None = None
    hz: int | None = None
    costs: str | None = None
    topology: str | None = None
    speed: str | None = None
    weights: str | None = None
    groups: Sequence[str] | None = None
    sessions: Sequence[str] | None = None
    rules: Sequence[str] | None = None
    background: str | None = None

    def scheduler(self, knobs: list[str] | None = None) -> Scheduler:
        """Return the scheduler, with these knobs set."""
        return options.scheduler_of(self.kernel, self.hz, knobs, self.weights, self.rules)


_AS_HERE = Simulation()
"""This kernel on this machine."""


def subjects(
    workloads: Sequence[str] | None,
    command: str | None,
    patterns: Sequence[tuple[str, str | None]],
    simulation: Simulation,
) -> list[tuple[str, Subject]]:
    """Return what is run, its tasks in the control groups and sessions of a simulation.

    Args:
        workloads: workloads and programs.
        command: a command.
        patterns: of the command's metrics, see `directed`.
        simulation: what is simulated.

    Raises:
        InputError: nothing, something unknown, a group that cannot be, or one for something whose
            tasks are not described.
    """
    import shlex  # noqa: PLC0415

    found: list[tuple[str, Subject]] = [(text, subject(text)) for text in workloads or ()]
    if command is None and patterns:
        raise InputError(
            "--metric and --better are for --command: leave them out, or see --metrics"
        )
    if command is not None:
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise InputError(f"--command: {error}") from None
        found.append((command, command_of(words, patterns)))
    if not found:
        raise InputError("nothing to run: name a workload, or a command with --command")
    return _grouped(found, simulation.groups or (), simulation.sessions or ())


def directed(metrics: Sequence[str], better: Sequence[str]) -> list[tuple[str, str | None]]:
    """Return the patterns of a command's metrics, each with the direction that was given.

    >>> directed(["p99 (.*)"], []), directed([], ["higher"])
    ([('p99 (.*)', None)], [('seconds', 'higher')])

    Raises:
        InputError: directions, and not one for each metric.
    """
    patterns = list(metrics) or (["seconds"] if better else [])
    if better and len(better) != len(patterns):
        raise InputError(
            f"--better is given {len(better)} times for {len(patterns)} metrics; allowed: once a "
            "--metric, in their order, or never"
        )
    directions: list[str | None] = [*better] or [None] * len(patterns)
    return list(zip(patterns, directions, strict=True))


def _grouped(
    what: list[tuple[str, Subject]], groups: Sequence[str], sessions: Sequence[str]
) -> list[tuple[str, Subject]]:
    if not (groups or sessions):
        return what
    option = "--group" if groups else "--session"
    found: list[tuple[str, Subject]] = []
    for text, one in what:
        if not isinstance(one, Described):
            raise InputError(f"{option} is for workloads: '{text}' runs as its own programs")
        found.append((text, Described(one.workload.with_groups(groups, sessions))))
    return found


def _refuse_simulated(simulation: Simulation) -> None:
    """Refuse options that act in the simulator alone."""
    if simulation.weights is not None:
        raise InputError("--weights means nothing but on sim: leave it out, or see ext:RULE")
    if simulation.rules:
        raise InputError("--rule means nothing but on sim: leave it out")
    if simulation.groups or simulation.sessions:
        raise InputError("--group and --session mean nothing but on sim: leave them out")


def targets(on: str, simulation: Simulation = _AS_HERE) -> list[Target]:
    """Return where it is run.

    Raises:
        InputError: an unknown target, or options that mean nothing on the ones named.
    """
    names = [name.strip() for name in on.split(",") if name.strip()]
    kernel, cpus, hz = simulation.kernel, simulation.cpus, simulation.hz
    costs, topology, speed = simulation.costs, simulation.topology, simulation.speed
    if any(name != "sim" for name in names):
        _refuse_simulated(simulation)
    found: list[Target] = []
    for name in names:
        if name == "sim":
            scheduler = simulation.scheduler()
            machine = options.machine_of(cpus, costs, topology, speed, simulation.background)
            options.note_costs(machine)
            found.append(Simulated(scheduler, machine))
        elif name == "host":
            found.append(Host())
        elif name.startswith("vm:") and name != "vm:":
            found.append(Virtual(name.removeprefix("vm:"), cpus=cpus))
        else:
            raise InputError(
                f"--on is '{on}'; allowed: sim, host, vm:KERNEL, or several as sim,host,vm:6.1"
            )
    if "sim" not in names:
        simulated = {
            "kernel": kernel,
            "hz": hz,
            "costs": costs,
            "topology": topology,
            "speed": speed,
            "background": simulation.background,
        }
        for option, value in simulated.items():
            if value is not None:
                raise InputError(f"--{option} means nothing without --on sim: leave it out")
    if cpus is not None and all(name == "host" for name in names):
        raise InputError("--cpus means nothing without --on sim or vm:KERNEL: leave it out")
    return found


@contextmanager
def ending(where: Sequence[Target]) -> Iterator[None]:
    """End the guests among some targets when a block is left, whichever way."""
    with ExitStack() as stack:
        for target in where:
            if isinstance(target, Virtual):
                stack.callback(target.close)
        yield


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of ``compare`` and ``sweep``, as they are given."""

    run: Command = None
    metric: Metric = None
    better: Better = None
    metrics: Metrics = None
    on: On = "sim"
    kernel: options.Kernel = None
    cpus: options.Cpus = None
    topology: options.Topology = None
    speed: options.Speed = None
    hz: options.Hz = None
    costs: options.Costs = None
    background: options.Background = None
    weights: options.Weights = None
    rule: options.Rule = None
    group: options.Group = None
    session: options.Session = None
    blocks: Blocks = BUDGET
    band: Band = 0.01
    check: Check = True
    timeout: Timeout = "60s"
    seed: options.Seed = 1
    store: File = None
    afresh: Afresh = False
    json: options.Json = False

    @property
    def patterns(self) -> list[tuple[str, str | None]]:
        """The pattern of a command's metric, with its direction; none where none is given."""
        return directed(
            [] if self.metric is None else [self.metric],
            [] if self.better is None else [self.better],
        )

    @property
    def metric_names(self) -> list[str]:
        """The metrics that are compared; none for each subject's own."""
        return [name for name in (self.metrics or "").split(",") if name]

    @property
    def protocol(self) -> Protocol:
        """How it is judged.

        Raises:
            InputError: a number out of range.
        """
        try:
            return Protocol.within(self.blocks, band=self.band)
        except ValueError as error:
            raise InputError(str(error)) from None

    def simulation(self) -> Simulation:
        """Return what they say of the kernel and the machine that are simulated."""
        return Simulation(
            self.kernel,
            self.cpus,
            self.hz,
            self.costs,
            self.topology,
            self.speed,
            self.weights,
            self.group,
            self.session,
            self.rule,
            self.background,
        )


def takes_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that takes `Options` beside its own, which gets them as ``asked``."""
    own = inspect.signature(command)
    keyword = inspect.Parameter.KEYWORD_ONLY
    shared = [
        inspect.Parameter(each.name, keyword, default=each.default, annotation=each.type)
        for each in fields(Options)
    ]
    names = {each.name for each in shared}

    @functools.wraps(command)
    def wrapped(**given: Any) -> None:
        asked = Options(**{name: given.pop(name) for name in names})
        command(**given, asked=asked)

    kept = [each for each in own.parameters.values() if each.name != "asked"]
    vars(wrapped)["__signature__"] = own.replace(parameters=[*kept, *shared])
    wrapped.__annotations__ = {each.name: each.annotation for each in (*kept, *shared)}
    return wrapped


def carry_out(
    kind: Kind,
    workloads: Sequence[str] | None,
    settings: list[Setting],
    asked: Options,
    words: Sequence[str],
) -> campaign.Result:
    """Plan, run and tell; return what it came to.

    Raises:
        InputError: nothing to run, or options that mean nothing where it is run.
    """
    simulation = asked.simulation()
    what = subjects(workloads, asked.run, asked.patterns, simulation)
    where = targets(asked.on, simulation)
    plan = plan_experiment(
        kind,
        what,
        settings,
        where,
        metrics=asked.metric_names,
        protocol=asked.protocol,
        seed=asked.seed,
        timeout=options.seconds(asked.timeout, "timeout"),
        check=asked.check,
    )
    return run_plan(plan, where, asked, words)


def run_plan(
    plan: Plan, where: Sequence[Target], asked: Options, words: Sequence[str]
) -> campaign.Result:
    """Run a plan and tell what it came to.

    Args:
        plan: what to run.
        where: its targets.
        asked: the options.
        words: that repeat it.
    """
    with ending(where), Store(asked.store) as kept, running("running") as tell:
        try:
            result = campaign.run(
                plan, kept, command=words, afresh=asked.afresh, progress=telling_progress(tell)
            )
        except (campaign.Interrupted, RunError):
            note_kept(kept, words)
            raise
    tell_result(result, json=asked.json)
    return result


def note_kept(store: Store, words: Sequence[str]) -> None:
    """Say how many runs a command made before it stopped, and that they need not be repeated.

    Args:
        store: where they are.
        words: the command's.
    """
    stopped = [
        one
        for one in store.experiments()
        if one.state in ("failed", "interrupted") and list(one.command) == list(words)
    ]
    if stopped and stopped[-1].runs:
        runs, are = counted(stopped[-1].runs, "run"), "is" if stopped[-1].runs == 1 else "are"
        note(f"{runs} {are} kept in {store.path}: the same command continues from there")


def telling_progress(
    tell: Callable[[int, int, float | None, str], None],
) -> Callable[[Progress], None]:
    """Return what passes an experiment's progress on, with the time that the runs left will take.

    Args:
        tell: from `schedlab.report.terminal.running`.
    """
    pace = Pace(time.monotonic())

    def told(one: Progress) -> None:
        seconds = pace.left(one.done, one.most, time.monotonic())
        open_questions = f"{one.undecided} undecided" if one.undecided else ""
        tell(one.done, one.most, seconds, open_questions)

    return told


def tell_result(result: campaign.Result, *, json: bool, remarks: bool = True) -> None:
    """Print what an experiment came to, with a remark on what was in the store already."""
    if json:
        emit_json(plain(result))
        return
    if result.stored and remarks:
        note(f"{result.stored} runs were in the store and not run again; --afresh runs them again")
    for name in result.suspicious:
        note(f"'{name}' differs from itself: do not rely on these results")
    for text in result.notes:
        note(text)
    for group in dict.fromkeys(cell["group"] for cell in result.plan["cells"]):
        for metric in result.plan["metrics"][group]:
            say(answers.heading(group, metric))
            show(answers.rows(result, group, metric), ("setting", metric["name"], *answers.COLUMNS))
            if (trend := result.settled.drift(metric["name"])) is not None and trend.found:
                note(f"{metric['name']} drifted by {percent(trend.change.value)} meanwhile")
            say()
    for arm, why in result.settled.failures.items():
        note(f"'{arm}' was left out: {why}")
    say(answers.STATISTIC)
    say(f"experiment {result.id}, {result.settled.blocks} blocks, {result.state}")


def plain(result: campaign.Result) -> dict[str, Any]:
    """Return a result for machines."""
    return {
        "experiment": result.id,
        "state": result.state,
        "blocks": result.settled.blocks,
        "stored": result.stored,
        "checks": dict(result.checks),
        "failures": result.settled.failures,
        "disturbed": result.disturbed,
        "notes": result.notes,
        "values": {
            arm: {metric: result.settled.of(arm, metric) for metric in sorted(_names(values))}
            for arm, values in result.settled.values.items()
        },
        "answers": result.settled.answers,
    }


def _names(values: dict[int, Any]) -> set[str]:
    return {name for one in values.values() for name in one}
