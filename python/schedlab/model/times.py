"""Times as text with their unit, and back."""

from schedlab import _core
from schedlab.boundary.arguments import check_text


def parse_time(text: str) -> int:
    """Return the nanoseconds of a time written with its unit.

    >>> parse_time("1.5ms")
    1500000
    """
    return _core.parse_time(check_text(text, "time"))


def format_time(nanoseconds: float) -> str:
    """Return a time in its largest fitting unit, to whole nanoseconds, exactly.

    >>> format_time(1_500_000)
    '1.5ms'
    """
    return _core.format_time(round(nanoseconds))


def short_time(nanoseconds: float) -> str:
    """Return a time for tables: four digits and its unit.

    >>> short_time(1_234_567), short_time(20_000_000), short_time(0)
    ('1.235 ms', '20.00 ms', '0 ns')
    """
    if nanoseconds == 0:
        return "0 ns"
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if abs(nanoseconds) >= size:
            value = nanoseconds / size
            digits = 3 if value < 10 else 2 if value < 100 else 1 if value < 1000 else 0
            return f"{value:.{digits}f} {unit}"
    return f"{nanoseconds:.0f} ns"
