"""The table of programs of ``docs/results/prediction.md``."""

from collections.abc import Mapping

import numpy as np

from fidelity.markdown import section
from fidelity.programs.collect import Cell, Found
from fidelity.programs.register import METRICS, Metric, Register
from fidelity.whatif.register import RECORDED
from schedlab.model import short_time

_ABOUT = """\
Each program runs in a guest of one CPU beside a job that compresses a file
(`validation/programs.toml`). The first recording of the setting *recorded* is inferred as a
workload; all settings are predicted from that workload alone, with costs that were calibrated at
the same place, and then really set. Throughput is what the client gets done from its start to its
end; p99 is that of all tasks' wake-up latencies. *Apart* is how far the real runs of a setting are
from each other."""


def programs(register: Register, found: Mapping[str, Found]) -> list[str]:
    """Return the section's lines; none where nothing was recorded.

    Args:
        register: what was written down.
        found: by place.
    """
    if not any(cell.real for there in found.values() for cell in there.cells.values()):
        return []
    lines = ["## Real programs", "", _ABOUT, ""]
    for place, there in found.items():
        lines += [
            f"Median error without its sign over the changed settings, {place} ({there.kernel}):",
            "",
        ]
        lines += [f"* {sentence}" for sentence in _medians(register, place, there)]
        lines += [""]
        head = ("program", "setting", *_head())
        title, blank, *table = section(f"{place}: programs", head, _rows(register, there))
        lines += ["#" + title, blank, *table]
    return lines


def _head() -> tuple[str, ...]:
    return tuple(
        text for metric in METRICS for text in (f"{metric}: predicted / real", "error", "apart")
    )


def _medians(register: Register, place: str, there: Found) -> list[str]:
    found = []
    for name, program in register.programs.items():
        cells = [
            cell for (of, change), cell in there.cells.items() if of == name and change != RECORDED
        ]
        texts = []
        for metric in METRICS:
            errors = [abs(error) for cell in cells if (error := cell.error(metric)) is not None]
            texts.append(f"{metric} {np.median(errors):.1%}" if errors else f"{metric} -")
        cause = register.causes.get(place, {}).get(name, "")
        found.append(f"{name} ({program.unit}): {', '.join(texts)}{'. ' if cause else ''}{cause}")
    return found


def _rows(register: Register, there: Found) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for (name, change), cell in there.cells.items():
        if cell.why_not and not cell.real:
            rows.append((name, change, cell.why_not, *["-"] * (3 * len(METRICS) - 1)))
            continue
        unit = register.programs[name].unit
        rows.append(
            (name, change, *(text for metric in METRICS for text in _texts(cell, metric, unit)))
        )
    return rows


def _texts(cell: Cell, metric: Metric, unit: str) -> tuple[str, str, str]:
    ours, real = (
        _shown(metric, float(np.median([one[metric] for one in runs])), unit) if runs else "-"
        for runs in (cell.predicted, cell.real)
    )
    error, own = cell.error(metric), cell.own(metric)
    return (
        f"{ours} / {real}",
        "-" if error is None else f"{error:+.1%}",
        "-" if own is None else f"{own:.1%}",
    )


def _shown(metric: Metric, value: float, unit: str) -> str:
    return short_time(round(value)) if metric == "p99" else f"{value:.4g} {unit}/s"
