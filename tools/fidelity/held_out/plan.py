"""What is run of held-out workloads, and what is hoped for: ``validation/held-out.toml``."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self, get_args

from fidelity.observation import Metric
from schedlab.boundary.errors import InputError
from schedlab.boundary.files import read_text


@dataclass(frozen=True, slots=True)
class Goal:
    """How many workloads are to be predicted how well.

    Attributes:
        within: the largest error that is well, 0.05 for 5 % or, of shares, 5 points.
        share: of the workloads, 0 to 1.
    """

    within: float
    share: float


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run.

    Attributes:
        runs: real ones of each workload, left alone and recorded.
        simulations: simulated ones.
        workloads: that are drawn.
        places: where they run.
        goals: by metric.
        missed: why goals are missed in the draw of the page.
        others: what other draws came to, and why one was ended.
    """

    runs: int
    simulations: int
    workloads: int
    places: tuple[str, ...]
    goals: Mapping[Metric, Goal]
    missed: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a plan.

        Raises:
            InputError: the file is no plan.
        """
        try:
            value = tomllib.loads(read_text(path, "plan"))
            goals = {name: Goal(**goal) for name, goal in value.pop("goals").items()}
            unknown = set(goals) - set(get_args(Metric))
            if unknown:
                raise InputError(f"{path}: no such metric: {', '.join(sorted(unknown))}")
            places = tuple(value.pop("places"))
            missed, others = (tuple(value.pop(name, ())) for name in ("missed", "others"))
            found = cls(goals=goals, places=places, missed=missed, others=others, **value)
        except (tomllib.TOMLDecodeError, AttributeError, KeyError, TypeError) as error:
            raise InputError(f"{path} is no plan of held-out workloads: {error}") from None
        for name in ("runs", "simulations", "workloads"):
            number = getattr(found, name)
            if not isinstance(number, int) or number < 1:
                raise InputError(f"{path}: {name} is {number!r}; allowed: whole numbers from 1 on")
        return found
