"""A condition under which a setting is compared: its load, its boot, and what it came to there."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from schedlab.experiment.sequential_experiment import Answer, LimitedQuestion
from schedlab.experiment.stats import Verdict
from schedlab.tuning.aims import Aims
from schedlab.tuning.certification import GAINING

AS_CERTIFIED = "as certified"
"""What the load is called under which a setting was certified."""


class Finding(StrEnum):
    """What a condition says of a gain."""

    HOLDS = "holds"
    LOST = "does not hold"
    UNDECIDED = "undecided"
    UNRELIABLE = "unreliable"


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Under what runs were made, as the runs say.

    Attributes:
        kernels: releases.
        boots: identifiers of boots; empty where there is none, or it was not kept.
        begun: when the first began, UTC.
        ended: when the last began, UTC.
        load_average: least, median and greatest load average of this machine when a run began; None
            of simulations.
        runs: how many.
    """

    kernels: tuple[str, ...]
    boots: tuple[str, ...]
    begun: str
    ended: str
    load_average: tuple[float, float, float] | None
    runs: int

    @classmethod
    def of(
        cls, runs: Iterable[tuple[str, str, float | None, Mapping[str, Any]]]
    ) -> "Circumstances | None":
        """Return the circumstances of runs, see `Store.circumstances`; None where there is none."""
        kept = list(runs)
        if not kept:
            return None
        averages = [load for _, _, load, _ in kept if load is not None]
        spread = (min(averages), float(np.median(averages)), max(averages)) if averages else None
        boots = dict.fromkeys(place.get("boot") for _, _, _, place in kept)
        times = sorted(begun for _, begun, _, _ in kept)
        return cls(
            tuple(dict.fromkeys(_kernel(place) for *_, place in kept)),
            tuple(str(boot) for boot in boots if boot),
            times[0],
            times[-1],
            spread,
            len(kept),
        )


@dataclass(frozen=True, slots=True)
class Condition:
    """What a setting came to under one load in one boot.

    Attributes:
        load: what was set of the workloads; empty for the load that was certified.
        boot: which boot of the session, from 1.
        found: what it says of the gain.
        answers: by workload, as it is called in the certified comparison, and metric.
        circumstances: under what it ran; None where nothing ran yet.
    """

    load: Mapping[str, str]
    boot: int
    found: Finding
    answers: Mapping[tuple[str, str], Answer]
    circumstances: Circumstances | None

    def __str__(self) -> str:
        """What was set of the workloads, as text."""
        return ", ".join(f"{key}={value}" for key, value in self.load.items()) or AS_CERTIFIED

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data; an interval is that of treatment / baseline."""
        return {
            "load": dict(self.load),
            "boot": self.boot,
            "gain": str(self.found),
            "circumstances": None if self.circumstances is None else asdict(self.circumstances),
            "answers": [
                {
                    "workload": workload,
                    "metric": metric,
                    "better": answer.question.better,
                    "change": answer.change,
                    "interval": None
                    if answer.judged.ratio is None
                    else asdict(answer.judged.ratio.interval),
                    "verdict": str(answer.judged.verdict),
                    "pairs": answer.blocks,
                }
                for (workload, metric), answer in self.answers.items()
            ],
        }


def _kernel(place: Mapping[str, Any]) -> str:
    """Return the kernel of a place (`Target.facts`)."""
    if "scheduler" in place:
        return f"{json.loads(place['scheduler'])['release']}, simulated"
    return str(place["kernel"])


def lasting(
    answers: Mapping[tuple[str, str], Answer], before: Mapping[tuple[str, str], Answer], aims: Aims
) -> Finding:
    """Return whether a gain holds.

    It does where each aim that gained is certain to gain again, no other one and no metric beside
    them is worse that was not, and every floor is kept. It does not where a verdict contradicts
    that, and is undecided where one is missing. An aim gains as in `schedlab.tuning.certified`.

    Args:
        answers: by workload and metric.
        before: those that certified the gain.
        aims: what both are judged by.
    """
    holds, lost = bool(answers), False
    of_aims: set[tuple[str, str]] = set()
    for aim in aims.aims:
        keys = [(part.workload, part.metric.name) for part in aim.parts]
        of_aims |= set(keys)
        if not answers or not _gained([before[key] for key in keys]):
            continue
        now = [answers[key] for key in keys]
        gained = _gained(now)
        holds = holds and gained
        lost = lost or (not gained and all(one.judged.decided for one in now))
    for key, answer in answers.items():
        verdict, then = answer.judged.verdict, before.get(key)
        floor = isinstance(answer.question, LimitedQuestion)
        worse_before = then is not None and then.judged.verdict is Verdict.WORSE and not floor
        if verdict is Verdict.WORSE and not worse_before:
            holds, lost = False, True
        decides = answer.question.decisive or key in of_aims
        if decides and not answer.judged.decided:
            holds = False
    return Finding.HOLDS if holds else Finding.LOST if lost else Finding.UNDECIDED


def _gained(answers: Sequence[Answer]) -> bool:
    verdicts = [one.judged.verdict for one in answers]
    return Verdict.BETTER in verdicts and set(verdicts) <= set(GAINING)
