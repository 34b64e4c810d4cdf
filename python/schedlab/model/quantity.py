"""Values of metrics with their units, as reports and notebooks show them."""

from schedlab.model.times import short_time


def quantity(value: float, unit: str) -> str:
    """Return a value with its unit, scaled.

    >>> quantity(0.00931, "s"), quantity(24459.0, "1/s"), quantity(5.59e9, "B/s"), quantity(7, "")
    ('9.310 ms', '24,459 /s', '5.59 GB/s', '7')
    """
    if unit == "s":
        return short_time(value * 1e9)
    if unit == "1/s":
        return f"{value:,.0f} /s" if abs(value) >= 1000 else f"{value:.4g} /s"
    if unit == "B/s":
        for prefix, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
            if abs(value) >= size:
                return f"{value / size:.3g} {prefix}B/s"
    return f"{value:.6g}{' ' if unit else ''}{unit}"
