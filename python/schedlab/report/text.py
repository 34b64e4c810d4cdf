"""Results on the terminal."""

from collections.abc import Iterable

from schedlab.knobs import Reading
from schedlab.measure import validation as validating
from schedlab.measure.calibration import Calibration, Spread
from schedlab.measure.doctor import Diagnosis
from schedlab.model import short_time
from schedlab.model.background import Background
from schedlab.model.outcome import GroupOutcome, Latency, Outcome
from schedlab.report.tasks import by_kind, each
from schedlab.report.terminal import heading, note, say, show
from schedlab.report.words import counted, interval_words, percent

LATENCY_COLUMNS = ("latency", "count", "p50", "p90", "p99", "p99.9", "longest")
GROUP_COLUMNS = ("group", "tasks", "run", "share", "periods", "throttled", "throttled for")

TASK_COLUMNS = (
    "task",
    "tasks",
    "run",
    "voluntary",
    "involuntary",
    "migrations",
    "delays",
    "avg delay",
    "max delay",
)


def describe_outcome(outcome: Outcome, *, every: bool = False) -> None:
    """Print a run's outcome: its tasks, groups and latencies, and the whole.

    Args:
        outcome: of the run.
        every: a row a task, not one a kind of task.
    """
    rows = each(outcome) if every else by_kind(outcome)
    # Every task waits once at least: none did where waits were not measured, as in a recorded run.
    measured = any(row.delays for row in rows)
    say()
    cells = [
        (
            row.name,
            str(row.tasks),
            short_time(row.run_ns),
            str(row.voluntary),
            str(row.involuntary),
            str(row.migrations),
            str(row.delays) if measured else "-",
            short_time(row.average_delay_ns) if row.delays else "-",
            short_time(row.max_delay_ns) if row.max_delay_ns else "-",
        )
        for row in rows
    ]
    show(cells, TASK_COLUMNS)
    if outcome.groups:
        say()
        show([_group_cells(group) for group in outcome.groups], GROUP_COLUMNS)
    if outcome.latencies:
        say()
        latencies = [_latency_cells(name, one) for name, one in outcome.latencies.items()]
        show(latencies, LATENCY_COLUMNS)
    say()
    busy = ""
    if outcome.cpu_busy_ns and outcome.elapsed_ns:
        share = sum(outcome.cpu_busy_ns) / (outcome.elapsed_ns * len(outcome.cpu_busy_ns))
        busy = f", CPUs {share:.1%} busy"
    others = ""
    if outcome.disturbance is not None and outcome.disturbance.known:
        others = f", others took {outcome.disturbance.share:.1%} of the CPU time"
    say(
        f"turnaround {short_time(outcome.turnaround_ns)} ({outcome.turnaround_jiffies} jiffies), "
        f"{outcome.switches} switches, {outcome.messages} messages{busy}{others}"
    )


def _group_cells(group: GroupOutcome) -> tuple[str, ...]:
    throttled = (str(group.throttled_periods), short_time(group.throttled_ns))
    return (
        group.name,
        str(group.tasks),
        short_time(group.run_ns),
        f"{group.share:.1%}",
        str(group.periods) if group.periods else "-",
        *(throttled if group.periods else ("-", "-")),
    )


def _latency_cells(name: str, measured: Latency) -> tuple[str, ...]:
    times = (measured.p50_ns, measured.p90_ns, measured.p99_ns, measured.p999_ns, measured.max_ns)
    return (name, str(measured.count), *map(short_time, times))


def describe_machine(diagnosis: Diagnosis) -> None:
    """Print machine, policies and knobs."""
    here = diagnosis.facts
    user = "root" if here.root else "an ordinary user"
    say(f"kernel {here.kernel}, {here.hz} Hz ({here.hz_source})")
    say(f"{counted(here.cpus, 'CPU')} ({here.cpu_model}); you are {user}")
    for remark in (here.stand_in, here.busy):
        if remark is not None:
            say(remark)
    heading("policies and slices")
    for permission in (*diagnosis.policies, diagnosis.slices):
        say(f"  {permission.name:8} {'yes' if permission.allowed else 'no: ' + permission.why}")
    heading("knobs")
    settable = [reading for reading in diagnosis.knobs if reading.settable]
    show(
        [(reading.knob.name, reading.value or "?", reading.knob.range) for reading in settable],
        ("can be set here", "present", "range"),
        left=3,
    )
    for why, names in by_reason(reading for reading in diagnosis.knobs if not reading.settable):
        say(f"cannot be set: {', '.join(names)}")
        say(f"  for {why}")


def describe_calibration(found: Calibration) -> None:
    """Print the costs with their quartiles, devices, and what is kept for later."""
    say(f"costs on {found.kernel}, {counted(found.cpus, 'CPU')} ({found.cpu_model}), {found.date}")
    if found.accelerator == "tcg":
        say("in a guest whose instructions are translated: these are no hardware's times")
    say()
    columns = ("cost", "median", "lower quartile", "upper quartile", "batches")
    rows = [
        (
            name.replace("_", " "),
            "unknown" if name in found.costs.unknown else short_time(value),
            *_quartiles(found.spread.get(name)),
        )
        for name, value in found.costs.times.items()
    ]
    show(rows, columns)
    if found.costs.devices:
        say()
        named = [
            (name.replace("_", " "), str(value) if name == "disk_cpu" else short_time(value))
            for name, value in found.costs.devices.items()
        ]
        show(named, ("memory and disk", "time"))
    if found.later:
        say()
        say("measured, but not charged by the simulator yet:")
        kept = [
            (name.replace("_", " "), short_time(max(0.0, spread.median_ns)), *_quartiles(spread))
            for name, spread in found.later.items()
        ]
        show(kept, ("operation", *columns[1:]))
    if found.background is not None:
        _describe_background(found.background)
    for text in found.notes:
        note(text)


def _describe_background(found: Background) -> None:
    """Print what else runs on a machine, as it is simulated."""
    say()
    say(f"other work, watched for {short_time(found.watched_ns)} under load:")
    rows = [
        (
            task.name,
            ",".join(map(str, task.affinity)) or "any",
            f"{1e9 / task.interval_ns:.1f}",
            short_time(sum(task.runs_ns) / len(task.runs_ns)),
            f"{100 * task.share:.3f} %",
        )
        for task in found.tasks
    ]
    show(rows, ("task", "CPUs", "wake-ups a second", "mean run", "of a CPU"))
    if found.unpaired or found.lost:
        say(
            f"not followed: {found.unpaired} of {found.unpaired + found.paired} switches, "
            f"{found.lost} events that did not fit into the buffers"
        )


def _quartiles(spread: Spread | None) -> tuple[str, str, str]:
    if spread is None:
        return "-", "-", "-"
    low, high = (short_time(max(0.0, value)) for value in (spread.p25_ns, spread.p75_ns))
    return low, high, str(spread.samples)


def describe_validation(result: validating.Validation) -> None:
    """Print a validation."""
    say(f"simulated: {result.scheduler}; {result.machine}")
    say(f"measured: medians of {result.repeats} interleaved runs")
    say()
    varied = len({point.settings.loops for point in result.points}) == len(result.points)
    rows = [
        (
            str(point.settings.loops) if varied else point.settings.text.partition(":")[2],
            short_time(point.simulated_ns),
            short_time(point.measured_ns),
            f"{point.log_error:+.3f}",
            short_time(point.constant_cost_ns),
            f"{point.constant_cost_log_error:+.3f}",
        )
        for point in result.points
    ]
    show(
        rows,
        (
            "messages" if varied else "workload",
            "simulated",
            "measured",
            "ln(sim/real)",
            "constant cost",
            "ln(const/real)",
        ),
        left=0 if varied else 1,
    )
    say()
    fit = result.fit
    say(
        f"measured = {short_time(fit.intercept)} + {fit.slope:.3f} x simulated, "
        f"R² = {fit.r_squared:.4f}, median absolute error {result.median_absolute_error:.1%}"
    )
    constant = result.constant_cost_fit
    cost = f" of {short_time(result.message_cost_ns)}" if varied else ""
    say(
        f"a constant cost{cost} per message (one write, one read, one switch): "
        f"R² = {constant.r_squared:.4f}, median absolute error {result.constant_cost_error:.1%}"
    )


def describe_equivalence(equivalence: validating.Equivalence) -> None:
    """Print how ours compares with rt-tests' hackbench."""
    work = "the same" if equivalence.same_work else "NOT the same"
    say(f"rt-tests' hackbench beside ours: {work} tasks, messages and bytes")
    if equivalence.ratio is not None:
        say(
            f"  turnaround of ours against its: {percent(equivalence.ratio.value)} "
            f"({interval_words(equivalence.ratio)}), {validating.RESOLUTION} messages and more"
        )


def by_reason(readings: Iterable[Reading]) -> list[tuple[str, list[str]]]:
    """Group knobs by why they cannot be set; the reason names a file, which is left out."""
    groups: dict[str, list[str]] = {}
    for reading in readings:
        path = reading.knob.path or ""
        why = reading.why.replace(f" {path}", " its file")
        groups.setdefault(why, []).append(reading.knob.name)
    return list(groups.items())
