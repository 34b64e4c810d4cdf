"""The web server's throughput as the report prints it: the report's table beside ours."""

from collections.abc import Mapping

from schedlab.studies.cfs_parameters.parameters import CONCURRENCIES, KNOBS
from schedlab.studies.study import Cell, Table

Speeds = Mapping[tuple[str, str, int], float]
"""Requests a second, or their deviation, by knob, value and concurrency."""

_LEVEL = 1.0005
"""Values whose best is not even so much above the worst do not differ."""


def normalised(values: Mapping[str, float | None], value: str) -> tuple[Cell, Cell, str]:
    """Return a value's throughput, its part of the best one's, and whether it is best or worst.

    >>> normalised({"1ms": 80.0, "5ms": 100.0}, "1ms")
    (80.0, 0.8, 'worst')
    """
    known = {one: speed for one, speed in values.items() if speed is not None}
    own = known.get(value)
    if own is None:
        return None, None, ""
    best, worst = max(known.values()), min(known.values())
    level = best < worst * _LEVEL
    mark = "" if level else "best" if own == best else "worst" if own == worst else ""
    return own, own / best, mark


def side_by_side(sources: Mapping[str, tuple[Speeds, Speeds]]) -> Table:
    """Return every source's throughput, a row a value, a column a concurrency.

    Args:
        sources: throughputs and their deviations (as parts of one), where there are any, by name.
    """
    rows: list[tuple[Cell, ...]] = []
    for knob, values in KNOBS.items():
        for name, (speeds, deviations) in sources.items():
            for value in values:
                cells = [
                    _cell(
                        {one: speeds.get((knob, one, concurrency)) for one in values},
                        value,
                        deviations.get((knob, value, concurrency)),
                    )
                    for concurrency in CONCURRENCIES
                ]
                if any(cells):
                    rows.append((knob, name, value, *(cell or None for cell in cells)))
    return Table(
        "side_by_side",
        "Requests a second at 4 to 1000 connections: part of the best value's, standard deviation, "
        "the best and the worst marked, as the report prints it",
        ("knob", "who", "value", *map(str, CONCURRENCIES)),
        tuple(rows),
    )


def _cell(values: Mapping[str, float | None], value: str, deviation: float | None) -> str:
    """Return a cell as the report prints it.

    >>> _cell({"1ms": 80.0, "5ms": 100.0}, "1ms", 0.012)
    '80: 80.0 %, ±1.2 %, worst'
    """
    own, part, mark = normalised(values, value)
    if own is None or part is None:
        return ""
    words = [f"{own:.0f}: {100 * float(part):.1f} %"]
    words += [f"±{100 * deviation:.1f} %"] if deviation is not None else []
    return ", ".join([*words, mark] if mark else words)
