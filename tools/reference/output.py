"""What commands with ``--json`` print: a schema file each, and the page that lists them."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reference.commands import OUTPUTS, ROOT, Output
from reference.markdown import table
from reference.schema import Schema, admit, infer, merge
from schedlab.cli.main import invoke
from schedlab.knobs import places
from schedlab.live import PAGE
from schedlab.store import Store
from schedlab.targets import ext
from schedlab.vm import kernels


def printed(output: Output, command: str, directory: Path) -> Any:
    """Return what a command prints with ``--json``, or what it writes.

    Args:
        output: whose command it is.
        command: one of its samples, or another one.
        directory: for what it writes.

    Raises:
        RuntimeError: it failed.
    """
    if output.prepare is not None:
        output.prepare(directory)
    for one in output.before:
        _run(one.format(directory=directory))
    line = command.format(directory=directory, id=_newest() if "{id}" in command else "")
    if output.name == "live":
        return _served(line)
    if output.file is None:
        return json.loads(
            _run(f"{line} --json" if " -- " not in line else line.replace(" -- ", " --json -- "))
        )
    _run(line)
    return json.loads((directory / output.file).read_text(encoding="utf-8"))


def _run(line: str) -> str:
    """Return what a command prints; a study's table and a tuning's verdict among it."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        code = invoke(line.split())
    if code not in (0, 1):
        raise RuntimeError(f"schedlab {line}: exit code {code}")
    return out.getvalue()


def _newest() -> str:
    """Return the id of the store's newest tuning."""
    with Store(None, create=False) as store:
        return [one.id for one in store.experiments() if one.kind == "tune"][-1]


def _served(line: str) -> Any:
    """Return the first line of a command that goes on until it is interrupted."""
    command = [
        sys.executable,
        "-c",
        "from schedlab.cli import main; main()",
        *line.split(),
        "--json",
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as served:
        assert served.stdout is not None
        first = served.stdout.readline()
        served.send_signal(signal.SIGINT)
    return json.loads(first)


def lacking(output: Output) -> str | None:
    """Return what the samples need that this machine has not; None where they can be run."""
    if output.kernel is not None and not any(
        one.release.startswith(f"{output.kernel}.") for one in kernels.cached()
    ):
        return f"a kernel {output.kernel} in the cache (schedlab kernels get {output.kernel})"
    if output.name == "live" and not PAGE.is_file():
        return "the live page (make live)"
    if output.name == "ext-report" and ext.built() is None:
        return "the sched_ext scheduler's loader (make ext)"
    return None


@contextlib.contextmanager
def apart(output: Output) -> Iterator[Path]:
    """Work in the repository with a separate store, costs and knobs; yield a directory."""
    before, here, root = dict(os.environ), Path.cwd(), places.root
    with tempfile.TemporaryDirectory() as directory:
        inside = Path(directory)
        os.environ |= {"XDG_DATA_HOME": directory, "SCHEDLAB_STATE_DIR": str(inside / "state")}
        if output.kernel is None:
            os.environ["XDG_CACHE_HOME"] = directory
        os.chdir(ROOT)
        try:
            (inside / "out").mkdir()
            yield inside / "out"
        finally:
            places.root = root
            os.chdir(here)
            os.environ.clear()
            os.environ.update(before)


def schema(output: Output) -> Schema:
    """Return the schema of what the sample commands print."""
    values = []
    for command in output.commands:
        with apart(output) as directory:
            values.append(printed(output, command, directory))
    found = merge([infer(value, output.maps, output.opaque) for value in values])
    for path, kind in output.admitted.items():
        admit(found, path, kind)
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
            "`knobs set` and `ext run` pass on what the command they run prints, and have no `--json`.",
            "",
            "## run",
            "",
            "The outcome's keys are the attributes of [`schedlab.Outcome`](python.md#schedlaboutcome), with `tasks` as",
            "[`schedlab.TaskOutcome`](python.md#schedlabtaskoutcome) and `groups` as [`schedlab.GroupOutcome`](python.md#schedlabgroupoutcome).",
            "",
        ]
    )
