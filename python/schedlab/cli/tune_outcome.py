"""What ``schedlab tune`` came to: certified or not, as data, and made permanent."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlab import tuning
from schedlab.boundary.errors import RunError
from schedlab.cli import comparison, setting_file
from schedlab.experiment import campaign
from schedlab.experiment.settings import Setting
from schedlab.experiment.subjects import Subject
from schedlab.programs.command import Command
from schedlab.report import answers, tuning_result
from schedlab.report import verification as verification_words
from schedlab.report.terminal import note
from schedlab.report.tuning_result import family, trade
from schedlab.store import Store
from schedlab.targets.target import Target
from schedlab.tuning import verification
from schedlab.tuning.result import summary


@dataclass(frozen=True, slots=True)
class Verified:
    """What fresh runs say of a winner, or of points of a front.

    Attributes:
        found: the tuning.
        settings: what was compared with the default; none where nothing could be.
        results: of each place, the one that decides last.
    """

    found: tuning.Tuning
    settings: tuple[Setting, ...]
    results: tuple[campaign.Result, ...]

    @property
    def points(self) -> list[tuning.Certificate]:
        """What fresh runs say of each setting."""
        return tuning.certificates(self.results, self.settings, self.found.aims)

    @property
    def recommended(self) -> tuning.Certificate | None:
        """The setting that fresh runs recommend; None where they certify none as better."""
        return tuning.recommended(self.points)

    @property
    def setting(self) -> Setting | None:
        """The setting that is recommended, else the first that was compared."""
        best = self.recommended
        return next(iter(self.settings), None) if best is None else best.setting

    @property
    def certified(self) -> bool:
        """Whether fresh runs certify a setting as better."""
        return self.recommended is not None

    def sentences(self) -> list[str]:
        """Return a sentence a place, workload and metric."""
        return [text for one in self.results for text in answers.sentences(one)]

    def conclusion(self) -> list[str]:
        """Return what is recommended of several aims, with its trade, and how sure all of it is."""
        if len(self.found.aims.aims) == 1 or not self.results:
            return []
        return tuning_result.conclusion(self.as_data())

    def as_data(self) -> dict[str, Any]:
        """Return it for the store, from which the comparisons themselves can be recalled."""
        best = self.recommended
        return {
            "candidate": None if self.setting is None else dict(self.setting.values),
            "certified": self.certified,
            "comparisons": [one.id for one in self.results],
            "verdicts": self.sentences(),
            "points": [
                {
                    "setting": dict(one.setting.values),
                    "certified": one.certified,
                    "worth": one.worth,
                    "trade": trade(one, self.found.aims),
                }
                for one in self.points
            ],
            "recommended": None if best is None else dict(best.setting.values),
            "family": family(self.results),
        }


def write(
    file: tuple[str, Path],
    target: Target,
    what: Sequence[tuple[str, Subject]],
    outcome: Verified,
    *,
    uncertified: bool,
    conditions: Sequence[str],
) -> None:
    """Write the setting that is recommended to a file, or what the search found best.

    Args:
        file: the format and the file.
        target: where it was searched.
        what: what it was tuned for.
        outcome: what it came to.
        uncertified: write also what is not certified.
        conditions: under what it was certified, and what it came to since.

    Raises:
        RunError: it is not certified, and nothing says that it is to be written all the same.
    """
    path = file[1]
    recommended = outcome.recommended
    best = outcome.found.best if recommended is None else recommended.setting
    if not best.values:
        note(f"'{path}' was not written: the present setting served best")
        return
    if not (outcome.certified or uncertified):
        raise RunError(
            f"'{path}' was not written: {best} is not certified as better; --uncertified writes it "
            "all the same"
        )
    subject = what[0][1]
    words = subject.words if isinstance(subject, Command) else ()
    told = "; ".join(name for name, _ in what)
    said = [text for one in outcome.results for text in answers.sentences(one, best)]
    setting_file.write(
        file,
        best,
        target.release,
        target.cpus,
        command=words,
        why="; ".join([f"for {told}", *said]),
        certified=outcome.certified,
        conditions=conditions,
    )


def conditions(found: tuning.Tuning, outcome: Verified, store: Store) -> list[str]:
    """Return under what the recommended setting was certified, and what it came to since."""
    if not outcome.certified:
        return []
    of = verification.find(found.id, store)
    return verification_words.conditions(
        of, verification.certification(of, store), verification.sessions(of, store)
    )


def plain(found: tuning.Tuning, outcome: Verified) -> dict[str, Any]:
    """Return a tuning for machines: ``verified`` decides, ``fresh_seeds`` came before it."""
    winner = None if outcome.setting is None else dict(outcome.setting.values)
    told = [
        {
            "setting": winner,
            "target": one.plan["cells"][0]["target"],
            **comparison.plain(one),
        }
        for one in outcome.results
    ]
    return {
        "experiment": found.id,
        **summary(found),
        "stored": found.stored,
        **{
            name: value
            for name, value in outcome.as_data().items()
            if name in ("certified", "points", "recommended", "family")
        },
        "fresh_seeds": told[0] if len(told) > 1 else None,
        "verified": told[-1] if told else None,
    }
