"""Known divergences on the pages: one sentence each, with a link to the page of causes."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol


class Pinned(Protocol):
    """A line that may be a known divergence."""

    @property
    def workload(self) -> str: ...  # noqa: D102

    @property
    def place(self) -> str: ...  # noqa: D102

    @property
    def cause(self) -> str: ...  # noqa: D102

    @property
    def summary(self) -> str: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class KnownDivergence:
    """Lines of a workload at a place that diverge for one cause.

    Attributes:
        title: workload, place and metrics; a heading of the page of causes.
        summary: the cause in one sentence.
        cause: the cause with the figures that show it.
    """

    title: str
    summary: str
    cause: str

    @property
    def anchor(self) -> str:
        """The heading's anchor, as GitHub and MyST make it.

        >>> KnownDivergence("mp3, vm:5.10: p99", "", "").anchor
        'mp3-vm510-p99'
        """
        kept = re.sub(r"[^\w\- ]", "", self.title.lower())
        return kept.replace(" ", "-")


def divergences(lines: Iterable[tuple[Pinned, str]]) -> list[KnownDivergence]:
    """Return the known divergences among lines, each with its metric, one a cause."""
    groups: dict[tuple[str, str, str], tuple[Pinned, list[str]]] = {}
    for line, metric in lines:
        if line.cause:
            key = (line.workload, line.place, line.cause)
            groups.setdefault(key, (line, []))[1].append(metric)
    return [
        KnownDivergence(
            f"{line.workload}, {line.place}: {', '.join(metrics)}", line.summary, line.cause
        )
        for line, metrics in groups.values()
    ]


def known(found: Sequence[KnownDivergence]) -> list[str]:
    """Return a page's list of known divergences, each with a link to its cause."""
    if not found:
        return []
    lines = [
        f"- **{one.title}**: {one.summary or one.cause} [Cause](fidelity-causes.md#{one.anchor})"
        for one in found
    ]
    return ["## Known divergences", "", *lines, ""]
