"""Alternative texts of figures, made from the data drawn."""

from collections.abc import Iterable, Mapping
from typing import Any


def spans(rows: Iterable[Mapping[str, Any]], value: str, by: str = "who") -> str:
    """Return the range of each line or group of bars, in the order of their first rows.

    Args:
        rows: the data drawn.
        value: the field on the axis; rows without it are not drawn.
        by: the field that names a line.

    >>> spans([{"who": "paper", "s": 3.0}, {"who": "ours", "s": 2}, {"who": "ours", "s": 2.5}], "s")
    'paper: 3; ours: 2 to 2.5'
    """
    found: dict[str, tuple[float, float]] = {}
    for row in rows:
        if row.get(value) is None:
            continue
        number, name = float(row[value]), str(row[by])
        low, high = found.get(name, (number, number))
        found[name] = (min(low, number), max(high, number))
    return "; ".join(
        f"{name}: {low:.4g}" + (f" to {high:.4g}" if f"{high:.4g}" != f"{low:.4g}" else "")
        for name, (low, high) in found.items()
    )
