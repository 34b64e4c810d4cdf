"""How many lines are within tolerance, known to diverge, or fail: the headline of each page."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, Self

__all__ = ["Judged", "Tally", "verdict"]


class Judged(Protocol):
    """What became of a line."""

    @property
    def holds(self) -> bool: ...  # noqa: D102

    @property
    def diverges(self) -> bool: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Tally:
    """Lines counted by their verdicts.

    Attributes:
        within: those within their tolerance.
        known: those with a known divergence that is as large as was written down; no agreement.
        failed: all others.
    """

    within: int
    known: int
    failed: int

    @classmethod
    def of(cls, findings: Iterable[Judged]) -> Self:
        """Count them."""
        verdicts = [verdict(finding) for finding in findings]
        return cls(*(verdicts.count(one) for one in (WITHIN, KNOWN, FAILS)))

    def headline(self, called: str = "criteria") -> str:
        """Say all three numbers, each verdict apart.

        >>> Tally(375, 101, 0).headline()
        '375 of 476 criteria within tolerance, 101 known to diverge, 0 fail'
        """
        whole = self.within + self.known + self.failed
        return (
            f"{self.within} of {whole} {called} within tolerance, {self.known} known to diverge, "
            f"{self.failed} fail"
        )


WITHIN, KNOWN, FAILS = "within tolerance", "known divergence", "**FAILS**"
"""The last column of a page's table."""


def verdict(finding: Judged) -> str:
    """Return what a page's table says of a line."""
    if not finding.holds:
        return FAILS
    return KNOWN if finding.diverges else WITHIN
