"""The commands with ``--json``: what each prints, and the samples that its schema is made from."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from schedlab.knobs import journal, places

ROOT = Path(__file__).resolve().parents[2]
_SMALL = "hackbench:groups=1,fds=2,loops=1 --costs reference --kernel 6.12 --cpus 2"
_FIXTURES = "crates/replay/tests/fixtures"


@dataclass(frozen=True, slots=True)
class Output:
    """What a command prints.

    Attributes:
        name: of the schema's file.
        title: the command.
        meaning: one sentence.
        commands: samples, whose outputs the schema is made from; ``{directory}`` is a new one, and
            ``{id}`` the store's newest tuning.
        maps: paths of objects whose keys are data.
        opaque: paths of objects that are of another language, such as Vega-Lite.
        admitted: by path, a type that its value may have besides those in the samples.
        before: commands that are run first, whose outputs are not in it.
        prepare: makes ready what the commands find.
        kernel: a kernel for guests that has to be in the cache, such as ``7.2``.
        file: what the commands write, in ``{directory}``, in place of their standard output.
    """

    name: str
    title: str
    meaning: str
    commands: tuple[str, ...]
    maps: tuple[str, ...] = ()
    opaque: tuple[str, ...] = ()
    admitted: Mapping[str, str] = field(default_factory=dict)
    before: tuple[str, ...] = ()
    prepare: Callable[[Path], None] | None = None
    kernel: str | None = None
    file: str | None = None

    @property
    def path(self) -> Path:
        """The schema's file."""
        return ROOT / "docs" / "reference" / "json" / f"{self.name}.schema.json"


def leave_knobs_set(directory: Path) -> None:
    """Leave what a killed run leaves: a knob as it set it, and one that was set again since.

    Args:
        directory: becomes the root of the files that knobs are in.
    """
    places.root = directory
    boot, names = "6d0e2b2a-0000-4000-8000-000000000001", ("rr_timeslice_ms", "rt_runtime_us")
    files = {name: directory / "proc/sys/kernel" / f"sched_{name}" for name in names}
    identity = directory / "proc/sys/kernel/random/boot_id"
    identity.parent.mkdir(parents=True)
    identity.write_text(f"{boot}\n", encoding="ascii")
    for name, value in zip(names, ("10", "940000"), strict=True):
        files[name].write_text(f"{value}\n", encoding="ascii")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    state = Path(os.environ["SCHEDLAB_STATE_DIR"])
    state.mkdir()
    journal.write(
        state / "knobs.journal",
        [
            journal.Entry(
                "rr_timeslice", places.Place(files[names[0]]), "100", "10", boot, ended.pid
            ),
            journal.Entry(
                "rt_runtime", places.Place(files[names[1]]), "950000", "900000", boot, ended.pid
            ),
        ],
    )


_COSTS_MAPS = (".costs_ns", ".devices_ns", ".spread", ".measured")
_EXPERIMENT_MAPS = ("values", "values.*", "checks", "checks.*", "failures", "disturbed")

OUTPUTS = (
    Output(
        "run",
        "run",
        "An outcome: the whole run, each task and group, latencies. All times in nanoseconds.",
        (
            f"run {_SMALL}",
            "run hogs:tasks=3,time=50ms --costs ideal --kernel 6.1 --cpus 1 --group /a:tasks=1",
            "run schbench:duration=100ms --costs reference --kernel 6.1 --cpus 2",
            "run pipe:loops=5 --on host",
        ),
        (".knobs", ".latencies"),
    ),
    Output(
        "compare",
        "compare, sweep",
        "An experiment: every value, and an answer with interval and verdict for each question.",
        (
            f"compare {_SMALL} --policy other,batch --blocks 6",
            f"sweep {_SMALL} --set base_slice=1ms,3ms --blocks 6",
        ),
        tuple(f".{one}" for one in _EXPERIMENT_MAPS),
    ),
    Output(
        "tune",
        "tune",
        "A search: the best setting, what it changes, and its certification.",
        (
            f"tune {_SMALL} --knobs base_slice=1ms..10ms --by random --executions 5",
            f"tune {_SMALL} --policy other,batch --by random --executions 3 --verify none",
            "tune schbench:duration=100ms --costs reference --kernel 6.12 --cpus 2 --by random "
            "--knobs base_slice=1ms..10ms --executions 4 --metric p99 --metric throughput "
            "--keep cpu<=+50%",
            "tune hackbench:groups=1,fds=2,loops=2 --on host --policy other,batch --by random "
            "--executions 3 --blocks 12",
        ),
        (
            ".screened.kept[]",
            ".best",
            ".runner_up",
            ".moved",
            ".recommended",
            ".front[].setting",
            ".points[].setting",
            ".verified.setting",
            *(f".verified.{one}" for one in _EXPERIMENT_MAPS),
        ),
        opaque=(".race.winner",),  # certified or not, by chance
    ),
    Output(
        "replay",
        "replay",
        "Decisions and states compared with a recording, and each difference.",
        (f"replay {_FIXTURES}/hogs-6.1.txt.gz", f"replay {_FIXTURES}/hogs-7.2.txt.gz"),
        (".decisions", ".state"),
    ),
    Output(
        "why",
        "why",
        "Where waiting time went: by task and cause, the longest waits, and the effects of changes.",
        (
            "why schbench:duration=50ms --costs reference --kernel 6.12 --cpus 2 --runs 2 --worst 2",
            f"why {_FIXTURES}/hogs-6.1.txt.gz --runs 0 --worst 1",
        ),
        (),
    ),
    Output(
        "regress",
        "regress",
        "A metric on two kernels, which changes make the difference, and settings that undo it.",
        (
            "regress schbench:duration=50ms --from 6.12 --to 7.2 --costs reference --cpus 2 --runs 2",
            "regress schbench:duration=50ms --from 6.1 --to 6.12 --costs reference --cpus 2 --runs 2 "
            "--metric p99:worker",
        ),
        (),
    ),
    Output(
        "infer",
        "infer",
        "What a recording says, and with `--check` how well the workload repeats it.",
        (
            "infer crates/infer/tests/fixtures/serving-recorded.txt.gz --from 100ms --costs ideal --check",
            "infer crates/infer/tests/fixtures/serving-recorded.txt.gz --from 100ms --costs ideal",
        ),
        (".knobs",),
    ),
    Output(
        "doctor",
        "doctor",
        "This machine, and what may be done on it.",
        ("doctor",),
        (".facts.booted",),
        admitted={".facts.stand_in": "string"},
    ),
    Output(
        "knobs",
        "knobs",
        "Knobs of a release, or of this kernel with values.",
        ("knobs --kernel 6.1 --cpus 4", "knobs --kernel 6.12 --cpus 4", "knobs"),
    ),
    Output(
        "kernels",
        "kernels",
        "Releases whose rules are known, and kernels for guests.",
        ("kernels",),
        admitted={".known[].note": "string", ".this.note": "string"},
    ),
    Output(
        "kernels-rules",
        "kernels rules",
        "The rules of a release.",
        ("kernels rules 6.12", "kernels rules 6.1 --all"),
    ),
    Output(
        "kernels-diff",
        "kernels diff",
        "The rules in which two releases differ.",
        ("kernels diff 6.1 6.12", "kernels diff 6.12.62 6.12.63"),
    ),
    Output(
        "workloads", "workload --list", "Built-in workloads and their keys.", ("workload --list",)
    ),
    Output(
        "bench",
        "bench",
        "Scenarios with their times.",
        ("bench hogs-64x4 --repeats 1", "bench pairs-400x4-cfs --repeats 1"),
    ),
    Output(
        "ext-status", "ext status", "Whether the sched_ext scheduler can run here.", ("ext status",)
    ),
    Output(
        "report-list",
        "report --list",
        "Experiments of a store.",
        ("report --list",),
        before=(f"compare {_SMALL} --policy other,batch --blocks 6",),
    ),
    Output(
        "report-tune",
        "report ID",
        "A tuning from the store: its result and comparisons. Of a comparison it is what `compare` prints.",
        ("report {id}",),
        (
            ".best",
            ".candidate",
            ".runner_up",
            ".moved",
            ".recommended",
            ".front[].setting",
            ".points[].setting",
            *(f".comparisons[].{one}" for one in _EXPERIMENT_MAPS),
        ),
        before=(f"tune {_SMALL} --knobs base_slice=1ms..10ms --by random --executions 5",),
    ),
    Output(
        "verify",
        "verify, and report ID of a session",
        "A certified setting, the condition under which it was certified, and each session since.",
        (
            "verify {id}",
            "verify {id} --later --load concurrency=4,16",
            "verify {id} --later --load concurrency=32 --blocks 2",
        ),
        (
            ".setting",
            ".certified.load",
            ".sessions[].conditions[].load",
            ".sessions[].failures",
            ".sessions[].disturbed",
        ),
        admitted={
            f"{place}{path}": kind
            for place in (".certified", ".sessions[].conditions[]")
            for path, kind in (
                (".circumstances", "null"),
                (".circumstances.boots[]", "string"),
                (".circumstances.load_average", "array"),
                (".answers[].change", "null"),
                (".answers[].interval", "null"),
            )
        },
        before=(
            "tune http:servers=8,concurrency=32,duration=500ms --metric p99 --metric throughput "
            "--keep throughput>=-2% --policy other,batch --knobs base_slice=100us..20ms "
            "--kernel 6.12 --cpus 2 --costs reference --executions 24",
        ),
    ),
    Output(
        "report-page",
        "report SUMMARY",
        "Where the report of a demo or a study was written, and its answers.",
        ("report {directory}/summary.json",),
        before=("study thread_fairness --quick --output {directory}",),
    ),
    Output(
        "workload",
        "workload NAME",
        "A workload in [the workload language](workloads.md); `workload` is as in [workload.schema.json](workload.schema.json).",
        ("workload hackbench:groups=1,fds=2,loops=1", "workload examples/sleeper_beside_hogs.json"),
        opaque=(".workload",),
    ),
    Output(
        "study",
        "study NAME",
        "A study's claims with verdicts, tables, figures (Vega-Lite) and notes.",
        (
            "study thread_fairness --quick --output {directory}",
            "study scheduler_tuning --quick --output {directory}",
            "study cfs_parameters --quick --output {directory}",
        ),
        opaque=(".repeat", ".figures[].chart"),
    ),
    Output("study-list", "study --list", "The studies there are.", ("study --list",)),
    Output(
        "demo",
        "demo",
        "This machine, its costs, the simulator against it, the searches and the verified setting.",
        ("demo --quick --output {directory}",),
        (
            ".machine.facts.booted",
            *(f".calibration{one}" for one in (*_COSTS_MAPS, ".background.interrupts")),
        ),
        admitted={
            ".calibration.background": "null",
            ".machine.facts.stand_in": "string",
            ".tuning.pso_default.paper.to_golden": "integer",
        },
    ),
    Output(
        "validate",
        "validate hackbench",
        "The simulator's turnarounds beside this kernel's, and our hackbench beside rt-tests'.",
        (
            "validate hackbench --messages 1,2 --repeats 1 --costs reference",
            "validate hackbench --messages 1,2 --repeats 3 --costs reference",
        ),
        (".equivalence.ours_ns", ".equivalence.theirs_ns"),
    ),
    Output(
        "calibrate",
        "calibrate",
        "What operations cost here, with the spread of what was measured.",
        ("calibrate --quick --force --output {directory}/costs.toml",),
        (*_COSTS_MAPS, ".background.interrupts"),
        admitted={".background": "null", ".unknown[]": "string"},
    ),
    Output(
        "record",
        "record",
        "A recording: where it was written, of which kernel, and what is missing from it.",
        ("record -o {directory}/trace.txt.gz --on vm:6.1 -- true",),
        admitted={".event_ns": "null", ".overhead": "null"},
        # A virtual machine's own kernel may lose events without end; a guest's loses none.
        kernel="6.1",
    ),
    Output(
        "kernels-get",
        "kernels get",
        "A kernel for guests: its release, where it comes from and where it is.",
        ("kernels get 6.1",),
        kernel="6.1",
    ),
    Output(
        "knobs-restore",
        "knobs restore",
        "Knobs that were put back, and those that another process has set since.",
        ("knobs restore",),
        prepare=leave_knobs_set,
    ),
    Output(
        "knobs-restore-print",
        "knobs restore --print",
        "The commands that would put knobs back.",
        ("knobs restore --print",),
        prepare=leave_knobs_set,
    ),
    Output("live", "live", "The address of the live page.", ("live --no-browser",)),
    Output(
        "ext-report",
        "ext run --report",
        "Each process's share of the CPU while the sched_ext scheduler ran; the file that `--report` names.",
        ("ext run --weights pfs --on vm:7.2 --quiet --report {directory}/report.json -- sleep 1",),
        admitted={".ejected": "string"},
        kernel="7.2",
        file="report.json",
    ),
)
