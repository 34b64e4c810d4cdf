"""Knobs, rules, costs, environment and files; tests and mutations."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reference.markdown import table
from schedlab import _core
from schedlab.model import format_time

ROOT = Path(__file__).resolve().parents[2]
CPUS = 8


def releases() -> list[str]:
    """Return the series whose rules are known, oldest first."""
    return [one["series"] for one in json.loads(_core.releases())]


def knobs() -> str:
    """Return the page of knobs by release."""
    series = releases()
    found = {one: json.loads(_core.knobs(one, CPUS)) for one in series}
    by_name: dict[str, dict[str, Any]] = {}
    for one, rows in found.items():
        for row in rows:
            by_name.setdefault(row["name"], {})[one] = row
    summaries = [
        (f"`{name}`", _newest(rows)["summary"], _range(_newest(rows)), _place(_newest(rows)))
        for name, rows in by_name.items()
    ]
    defaults = [
        (f"`{name}`", *(_known(rows.get(one)) for one in series)) for name, rows in by_name.items()
    ]
    return "\n".join(
        [
            "# Knobs by release",
            "",
            "A knob has one name on every release, the kernel's without prefix and unit. `--set KNOB=VALUE` sets it; times have units.",
            f"`schedlab knobs --kernel 6.1 --cpus {CPUS}` lists the same for one release, and without `--kernel` those of this machine's kernel.",
            "",
            "## Meaning, range and place",
            "",
            *table(
                ("knob", "meaning", "range", "place in the newest kernel that has it"), summaries
            ),
            "",
            f"## Defaults on {CPUS} CPUs",
            "",
            "-: the release does not have the knob.",
            "",
            *table(("knob", *series), defaults),
            "",
        ]
    )


def _newest(rows: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    having = [row for row in rows.values() if row["exists"]]
    return having[-1] if having else list(rows.values())[-1]


def _known(row: Mapping[str, Any] | None) -> str:
    return str(row["default_text"]) if row is not None and row["exists"] else "-"


def _range(row: Mapping[str, Any]) -> str:
    low, high = row["low"], row["high"]
    if row["kind"] == "time":
        text = f"{format_time(low)} to {format_time(high)}"
    else:
        text = "0 or 1" if (low, high) == (0, 1) else f"{low} to {high}"
    return text + (", or unlimited" if row["unlimited"] else "")


def _place(row: Mapping[str, Any]) -> str:
    return f"`{row['path']}`" if row["path"] else ""


def rules() -> str:
    """Return the page of rules by release."""
    series = releases()
    found = {one: json.loads(_core.rules(one)) for one in series}
    names = list(dict.fromkeys(row["name"] for rows in found.values() for row in rows))
    newest = {row["name"]: row for rows in found.values() for row in rows}
    on = {one: {row["name"] for row in rows if row["on"]} for one, rows in found.items()}
    parts = [
        "# Rules by release",
        "",
        "A row is one change of the kernel: its name, what it does, the mainline release and commit that brought it, and the releases that have it.",
        "`schedlab kernels rules RELEASE` prints the same for any point release, `schedlab kernels diff A B` the difference between two, and",
        "`--rule NAME=on|off` switches a rule in a simulation ([guide](../guides/compare-kernel-rules.md)).",
        "",
    ]
    kinds = (
        ("flag", "Rules", "Each may be switched alone."),
        (
            "structure",
            "Structures",
            "Other rules build on them; they are switched together with those.",
        ),
        ("fact", "Facts", "The form of recordings, or what is modelled; never switched."),
    )
    for kind, title, text in kinds:
        rows = [
            (
                f"`{name}`",
                newest[name]["does"],
                _since(newest[name]),
                *("yes" if name in on[one] else "-" for one in series),
            )
            for name in names
            if newest[name]["kind"] == kind
        ]
        if rows:
            parts += [
                f"## {title}",
                "",
                text,
                "",
                *table(("rule", "what it does", "from", *series), rows),
                "",
            ]
    return "\n".join(parts)


def _since(row: Mapping[str, Any]) -> str:
    text = f"{row['since']}" + (f" until {row['until']}" if row["until"] else "")
    if row["backports"]:
        text += "; " + ", ".join(
            one if isinstance(one, str) else str(one) for one in row["backports"]
        )
    if row["commit"]:
        text += f"; `{row['commit']['hash']}` {row['commit']['subject']}"
    else:
        text += f"; commit: {row['no_commit']}"
    return text


_BACKGROUND = """\
## Background

A costs file may have a table `[background]` with what else runs on the machine: [other work](../concepts/hardware.md#other-work). Files
without it have none. Its `version` is 1; `watched` is how long the machine was watched under load, and as long without; `paired`,
`unpaired` and `lost` count the switches that were followed, those that were not, and events beyond the trace's buffers.

Each `[[background.tasks]]` is one task of the simulation:

| key | meaning |
|---|---|
| `name`, `kind` | the task, and its class: a kernel thread's name without its CPU, `other` for programs |
| `policy`, `nice`, `affinity` | how the scheduler treats it, and its CPUs (any where the list is empty) |
| `interval`, `period`, `deviation` | from wake-up to wake-up: the mean, the distribution (`exponential` or `normal`) and its standard deviation |
| `runs` | the CPU time of a wake-up: means of eight equal parts of what was measured, each of which every eighth wake-up has |
| `wakeups` | how many wake-ups were measured |
| `idle_interval` | the mean interval on the machine without load; 0 where it did not run. Not simulated |

`[background.interrupts.NAME]` says how many interrupts, software interrupts and timers there were a second, and their mean time. They are
not simulated: they switch to no task, and the timer's time is in `tick`.""".splitlines()


def costs() -> str:
    """Return the page of costs: meaning and unit, and the shipped reference values."""
    source, files = (
        (ROOT / "crates" / "model" / "src" / name).read_text(encoding="utf-8")
        for name in ("machine.rs", "file.rs")
    )
    directory = ROOT / "python" / "schedlab" / "costs"
    shipped = {
        path.stem: tomllib.loads(path.read_text(encoding="utf-8"))
        for path in sorted(directory.glob("*.toml"))
    }
    rows = [
        (f"`{name}`", text, *(str(file["costs"].get(name, "-")) for file in shipped.values()))
        for name, text in _fields(source, "Costs")
        if name != "unknown"
    ]
    devices = [
        (
            f"`{name}`",
            text,
            *(str(file.get("devices", {}).get(name, "-")) for file in shipped.values()),
        )
        for name, text in _fields(files, "Devices")
    ]
    return "\n".join(
        [
            "# Costs",
            "",
            "What an operation costs in CPU time, beyond the work that a task does. Every cost has a physical meaning and is measured separately by",
            "`schedlab calibrate`; none is fitted to a workload. Values are times with a unit. A cost that could not be measured is *unknown*, and a run",
            "that would charge it says so in its notes.",
            "",
            "`--costs` takes `calibrated` (the default), `reference` or `reference:NAME` (the columns below), `ideal` (only the work takes time), a",
            "calibration's file, or `linsched` (the cost model of one [study](../guides/study-scheduler-tuning.md)).",
            "",
            *table(("cost", "meaning", *shipped), rows),
            "",
            "## Devices",
            "",
            *table(("device", "meaning", *shipped), devices),
            "",
            *_BACKGROUND,
            "",
        ]
    )


def _fields(source: str, struct: str) -> list[tuple[str, str]]:
    """Return the fields of a Rust struct with their documentation."""
    body = source.split(f"pub struct {struct} {{", 1)[1].split("\n}\n", 1)[0]
    found, text = [], []
    for line in (part.strip() for part in body.splitlines()):
        if line.startswith("///"):
            text.append(line.removeprefix("///").strip())
        elif field := re.match(r"pub (\w+):", line):
            found.append((field[1], " ".join(text)))
            text = []
    return found


def environment() -> str:
    """Return the page of environment variables and files, each held to the code by its name."""
    data = tomllib.loads((Path(__file__).parent / "environment.toml").read_text(encoding="utf-8"))
    variables = [(f"`{one['name']}`", one["meaning"]) for one in data["variable"]]
    files = [(f"`{one['path']}`", one["meaning"]) for one in data["file"]]
    return "\n".join(
        [
            "# Environment variables and files",
            "",
            *table(("variable", "meaning"), variables),
            "",
            "## Files",
            "",
            *table(("file", "meaning"), files),
            "",
        ]
    )


def mutations() -> str:
    """Return the page of mutations."""
    command = [sys.executable, str(ROOT / "scripts" / "mutations"), "--table"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    count = found.count("\n") - 2
    return (
        "# Mutations: does a test notice a wrong rule?\n\n"
        f"`make mutations` breaks each of these {count} rules once, in a copy, and runs the test that has to fail "
        "([how the rules are tested](../concepts/testing.md)). The last column says what the last run of the "
        "present row came to; those results are in `validation/mutations.json`.\n\n"
        f"{found}"
    )


def tests() -> str:
    """Return the page of test files, each with the first sentence of its documentation."""
    paths = [
        *sorted(ROOT.glob("crates/*/tests/**/*.rs")),
        *sorted(ROOT.glob("tests/**/test_*.py")),
    ]
    rows = []
    for path in paths:
        name, text = path.relative_to(ROOT), path.read_text(encoding="utf-8")
        rows.append((f"`{name}`", _sentence(text)))
    return "\n".join(
        [
            "# What each test file shows",
            "",
            "Generated from the files: the first sentence of each one's documentation",
            "([how the rules are tested](../concepts/testing.md)).",
            "",
            *table(("file", "what it shows"), rows),
            "",
        ]
    )


def _sentence(text: str) -> str:
    if match := re.match(r'"""(.*?)(?:"""|\n\n)', text, re.DOTALL):
        found = match[1]
    else:
        lines = []
        for line in text.splitlines():
            if not line.startswith("//!"):
                break
            lines.append(line.removeprefix("//!").strip())
        found = " ".join(lines)
    joined = " ".join(found.split())
    return re.split(r"(?<=[.:]) (?=[A-Z`])", joined)[0].replace("<", "&lt;")
