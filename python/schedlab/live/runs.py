"""The page's address of runs made elsewhere: of an experiment, or of a study's timeline."""

import html
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from schedlab.boundary.errors import InputError
from schedlab.boundary.files import read_text
from schedlab.experiment import campaign
from schedlab.experiment.settings import TASK_SETTINGS
from schedlab.experiment.stats import Verdict
from schedlab.model import Scheduler, Workload
from schedlab.model.calibration_file import references

LONGEST = 60_000
"""Letters of an address that a report links to; a workload made of a recording has more."""

_LINK = re.compile(r'data-live="([^"]+)"')


@dataclass(frozen=True, slots=True)
class Side:
    """One of the page's two kernels.

    Attributes:
        scheduler: the release, ticks, knobs, rules and weights, as `Scheduler.json` has them.
        values: what is set besides: knobs, and ``policy``, ``slice`` and ``nice`` of every task.
    """

    scheduler: Mapping[str, Any]
    values: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """Return it as the address has it.

        >>> Side({"release": "6.12.95"}, {"policy": "batch", "base_slice": "5ms"}).text()
        '6.12.95;base_slice=5ms;task.policy=batch'
        """
        knobs = {name: _value(one) for name, one in self.scheduler.get("knobs", {}).items()}
        knobs |= {name: one for name, one in self.values.items() if name not in TASK_SETTINGS}
        parts = [str(self.scheduler["release"]), *(f"{name}={one}" for name, one in knobs.items())]
        for name, on in self.scheduler.get("rules", {}).items():
            parts.append(f"rule.{name}={'on' if on else 'off'}")
        if weights := self.scheduler.get("weights"):
            parts.append(f"weights={weights}")
        parts += [
            f"task.{name}={self.values[name]}" for name in TASK_SETTINGS if name in self.values
        ]
        return ";".join(parts)


def runs_address(
    workload: Workload,
    sides: tuple[Side, Side],
    machine: Mapping[str, Any],
    costs: str,
    seed: int = 1,
) -> str:
    """Return the part of the page's address after ``#`` that shows two runs.

    Args:
        workload: what runs on both sides.
        sides: the kernels of A and B.
        machine: as `Machine.json` has it.
        costs: what its costs are called.
        seed: of every random stream.
    """
    a, b = sides
    words = [("workload", workload.name) if _builtin(workload) else ("json", workload.json)]
    named = f"reference:{costs}" if costs in references() else costs
    words += [("a", a.text()), ("b", b.text()), ("cpus", str(machine["cpus"])), ("costs", named)]
    rest = {name: one for name, one in machine.items() if name != "cpus"}
    if rest:
        words.append(("machine", json.dumps(rest, separators=(",", ":"))))
    if (hz := a.scheduler.get("hz", 250)) != 250:
        words.append(("hz", str(hz)))
    return urlencode([*words, ("seed", str(seed))])


def compared(result: campaign.Result) -> dict[str, str]:
    """Return an address for each group of an experiment: its baseline as A, its best setting as B.

    Where no setting is better B is the first that is not the baseline. Groups that run a command,
    of which no workload is known, have none.
    """
    better = {
        (answer.question.treatment, answer.question.metric): answer.judged.ratio.value
        for answer in result.settled.answers
        if answer.judged.verdict is Verdict.BETTER and answer.judged.ratio is not None
    }
    found = {}
    for group in dict.fromkeys(cell["group"] for cell in result.plan["cells"]):
        cells = [cell for cell in result.plan["cells"] if cell["group"] == group]
        others = cells[1:] or cells
        metric = result.plan["metrics"][group][0]
        name, lower = metric["name"], metric["better"] == "lower"
        named = [cell for cell in others if (cell["name"], name) in better]
        named.sort(key=lambda cell: better[cell["name"], name], reverse=not lower)
        address = _of_cells(cells[0], (named or others)[0], result.plan.get("seed", 1))
        if address is not None:
            found[group] = address
    return found


def tuned(plan: Mapping[str, Any], best: Mapping[str, str]) -> dict[str, str]:
    """Return an address for each workload of a tuning: the default as A, the best setting as B.

    Args:
        plan: the tuning's, as the store has it.
        best: the setting.
    """
    found = {}
    for case in plan["cases"]:
        address = _of_cells(case, {**case, "values": best}, plan["seeds"][0])
        if address is not None:
            found[case["name"]] = address
    return found


def of_report(path: Path) -> str:
    """Return the first address that a report links to.

    Args:
        path: a report (.html), or the summary.json of a study.

    Raises:
        InputError: it has none, or cannot be read.
    """
    text = read_text(path, "report")
    if path.suffix == ".json":
        try:
            address = (json.loads(text).get("timeline") or {}).get("live")
        except (ValueError, AttributeError, RecursionError):
            address = None
    else:
        link = _LINK.search(text)
        address = None if link is None else html.unescape(link[1])
    if not isinstance(address, str):
        raise InputError(
            f"'{path}' names no run that the live page could show; allowed: a report (.html) or "
            "summary.json that compare, tune or study wrote"
        )
    return address


def links(addresses: Mapping[str, str], command: Iterable[str], *, beside: bool) -> str:
    """Return a report's paragraph that leads into the live page; nothing where there is no address.

    Args:
        addresses: by what they show.
        command: the words that open the first from a terminal.
        beside: whether the page is a file ``live.html`` beside the report.
    """
    short = {name: one for name, one in addresses.items() if len(one) <= LONGEST}
    if not short:
        return ""
    items = []
    for name, one in short.items():
        said, where = html.escape(name), html.escape(one)
        if beside:
            said = f'<a href="live.html#{where}">{said}</a>'
        items.append(f'<li data-live="{where}">{said}</li>')
    line = html.escape(" ".join(command))
    return (
        "<p>See it move: baseline and setting beside each other in the live page, with the rule "
        f'behind each wait.</p><ul class="live">{"".join(items)}</ul><pre>$ {line}</pre>'
    )


def _of_cells(baseline: Mapping[str, Any], other: Mapping[str, Any], seed: int) -> str | None:
    subject = baseline["subject"]
    if "json" not in subject:
        return None
    workload = Workload(subject["workload"], subject["json"])
    simulated = baseline["simulated"]
    if simulated is not None:
        machine, costs = json.loads(simulated["machine"]), simulated["costs"]
        a, b = (json.loads(one["simulated"]["scheduler"]) for one in (baseline, other))
    else:
        try:
            Scheduler(baseline["release"])
        except InputError:
            return None
        machine, costs = {"cpus": baseline["cpus"]}, "reference"
        a = b = {"release": baseline["release"]}
    sides = Side(a, baseline["values"]), Side(b, other["values"])
    return runs_address(workload, sides, machine, costs, seed)


def _builtin(workload: Workload) -> bool:
    try:
        return Workload.parse(workload.name).json == workload.json
    except InputError:
        return False


def _value(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
