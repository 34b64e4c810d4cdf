"""What commands with ``--json`` print: a schema file each, and the page that lists them."""

import contextlib
import io
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reference.markdown import table
from reference.schema import Schema, infer, merge
from schedlab.cli.main import invoke

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
        commands: samples, whose outputs the schema is made from.
        maps: paths of objects whose keys are data.
    """

    name: str
    title: str
    meaning: str
    commands: tuple[str, ...]
    maps: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The schema's file."""
        return ROOT / "docs" / "reference" / "json" / f"{self.name}.schema.json"


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
        ),
        (
            ".best",
            ".runner_up",
            ".moved",
            ".verified.setting",
            *(f".verified.{one}" for one in _EXPERIMENT_MAPS),
        ),
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
    ),
    Output(
        "knobs",
        "knobs",
        "Knobs of a release, or of this kernel with values.",
        ("knobs --kernel 6.1 --cpus 4", "knobs --kernel 6.12 --cpus 4"),
    ),
    Output(
        "kernels",
        "kernels",
        "Releases whose rules are known, and kernels for guests.",
        ("kernels",),
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
    Output("bench", "bench", "Scenarios with their times.", ("bench hogs-64x4 --repeats 1",)),
    Output(
        "ext-status", "ext status", "Whether the sched_ext scheduler can run here.", ("ext status",)
    ),
    Output(
        "report-list",
        "report --list",
        "Experiments of a store.",
        (f"compare {_SMALL} --policy other,batch --blocks 6", "report --list"),
    ),
)


def printed(command: str) -> Any:
    """Return what a command prints with ``--json``."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        code = invoke([*command.split(), "--json"])
    if code not in (0, 1) or not out.getvalue():
        raise RuntimeError(f"schedlab {command} --json: exit code {code}")
    return json.loads(out.getvalue())


@contextlib.contextmanager
def _apart() -> Any:
    """Work in the repository with a store and cache of its own."""
    before, here = dict(os.environ), Path.cwd()
    with tempfile.TemporaryDirectory() as directory:
        os.environ |= {"XDG_DATA_HOME": directory, "XDG_CACHE_HOME": directory}
        os.chdir(ROOT)
        try:
            yield
        finally:
            os.chdir(here)
            os.environ.clear()
            os.environ.update(before)


def schema(output: Output) -> Schema:
    """Return the schema of what the sample commands print."""
    with _apart():
        values = [printed(command) for command in output.commands]
    if output.name == "report-list":
        values = values[1:]
    found = merge([infer(value, output.maps) for value in values])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"schedlab {output.title} --json",
        "description": output.meaning,
        **found,
    }


def page() -> str:
    """Return the page as Markdown."""
    rows = [
        (
            f"`{output.title}`",
            output.meaning,
            f"[{output.path.name}](json/{output.path.name})",
        )
        for output in OUTPUTS
    ]
    return "\n".join(
        [
            "# JSON output",
            "",
            "Every command that prints a result takes `--json` and then prints one JSON value on standard output; notes go to standard error. Names that",
            "end in `_ns` are nanoseconds. The schemas are made from real outputs, and the test suite checks further outputs against them.",
            "",
            *table(("command", "what it prints", "schema"), rows),
            "",
            "`calibrate`, `validate`, `record`, `study`, `demo`, `ext run` and `kernels get` measure for minutes or need a kernel, `knobs set` and `knobs restore` change the machine, and `live` prints the address of its page; their `--json` has no schema file.",
            "",
            "## run",
            "",
            "The outcome's keys are the attributes of [`schedlab.Outcome`](python.md#schedlaboutcome), with `tasks` as",
            "[`schedlab.TaskOutcome`](python.md#schedlabtaskoutcome) and `groups` as [`schedlab.GroupOutcome`](python.md#schedlabgroupoutcome).",
            "",
        ]
    )
