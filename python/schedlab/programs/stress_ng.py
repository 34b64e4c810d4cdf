"""``stress-ng``: any of its stressors, by bogo operations a second."""

import re
from typing import ClassVar

from schedlab.boundary.errors import InputError, RunError
from schedlab.experiment.subjects import Metric
from schedlab.processes import leftovers
from schedlab.programs.program import Option, Program, Start, need, number


class StressNg(Program):
    """One stressor of stress-ng.

    With ``operations`` it ends after so many, else after ``time``.

    >>> StressNg.parse("stress-ng:stressor=pipe,workers=1,operations=1000").name
    'stress-ng:stressor=pipe,workers=1,time=2s,operations=1000'
    """

    __slots__ = ()
    family = "stress-ng"
    table: ClassVar = {
        "stressor": Option("cpu", "word"),
        "workers": Option("2", high=4096),
        "time": Option("2s", "time", low=1_000_000_000, high=3600_000_000_000),
        "operations": Option("0", low=0, high=10**12),
    }
    metrics = (Metric.known("operations", "1/s"), Metric.known("seconds"))

    def needs(self) -> tuple[str, ...]:
        """Return stress-ng."""
        return ("stress-ng",)

    def check(self) -> None:
        """Refuse fractions of a second, which stress-ng cannot read."""
        if self.count("time") % 1_000_000_000:
            raise InputError("stress-ng: time: allowed: whole seconds")

    def run(self, start: Start) -> dict[str, float]:
        """Run it once."""
        stressor = self.word("stressor")
        with leftovers.directory("stress-ng") as place:
            results = place / "results.yaml"
            limit = (
                [f"--{stressor}-ops", str(self.count("operations")), "--timeout", "0"]
                if self.count("operations")
                else ["--timeout", f"{int(self.seconds('time'))}s"]
            )
            start.run(
                [
                    need("stress-ng"),
                    f"--{stressor}",
                    str(self.count("workers")),
                    *limit,
                    "--metrics-brief",
                    "--yaml",
                    str(results),
                    "--temp-path",
                    str(place),
                ],
                directory=place,
            )
            if not results.is_file():
                raise RunError("stress-ng wrote no results")
            return read_stress_ng(results.read_text(encoding="utf-8", errors="replace"), stressor)


def read_stress_ng(text: str, stressor: str) -> dict[str, float]:
    r"""Read the results that stress-ng wrote as YAML.

    Raises:
        RunError: they are not what stress-ng writes.

    >>> read_stress_ng("metrics:\n    - stressor: cpu\n      bogo-ops: 660\n"
    ...                "      bogo-ops-per-second-real-time: 329.5\n"
    ...                "      wall-clock-time: 2.003\n", "cpu")
    {'operations': 329.5, 'seconds': 2.003}
    """
    _, found, rest = text.partition(f"- stressor: {stressor}\n")
    if not found:
        raise RunError(f"stress-ng wrote nothing of '{stressor}': {text.strip()[:200]!r}")
    block = re.split(r"^\s*- stressor:", rest, maxsplit=1, flags=re.MULTILINE)[0]
    return {
        "operations": number(r"bogo-ops-per-second-real-time:\s+([0-9.]+)", block, "stress-ng"),
        "seconds": number(r"wall-clock-time:\s+([0-9.]+)", block, "stress-ng"),
    }
