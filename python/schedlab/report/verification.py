"""Whether a gain lasts, on the terminal, in sentences and in the files that make it permanent."""

from collections.abc import Sequence
from typing import Any

from schedlab.report.terminal import heading, note, say, show
from schedlab.report.tuning_result import trade
from schedlab.report.words import counted
from schedlab.store import Store, StoredExperiment
from schedlab.tuning import Certificate, verification
from schedlab.tuning.conditions import Circumstances, Condition, Finding
from schedlab.tuning.verification import Certified, Session

COLUMNS = ("load", "kernel", "boot", "begun", "load average", "change", "gain")
"""Headings of `row`."""

_LETTERS = 8
"""Of a boot's identifier that are shown."""


def row(of: Certified, one: Condition) -> tuple[str, ...]:
    """Return a condition as the cells of a table."""
    under = one.circumstances
    if under is None:
        return (str(one), "", "", "", "", _trade(of, one), str(one.found))
    return (
        str(one),
        ", ".join(under.kernels),
        ", ".join(boot[:_LETTERS] for boot in under.boots) or "-",
        when(under),
        load_average(under) or "-",
        _trade(of, one),
        str(one.found),
    )


def when(under: Circumstances) -> str:
    """Return when runs were made, to the minute."""
    return under.begun.replace("T", " ")[:16] + " UTC"


def load_average(under: Circumstances) -> str:
    """Return the load average when runs began: the least to the greatest; empty of simulations."""
    if under.load_average is None:
        return ""
    low, _, high = (f"{one:.1f}" for one in under.load_average)
    return low if low == high else f"{low} to {high}"


def _trade(of: Certified, one: Condition) -> str:
    return trade(Certificate(of.setting, True, None, one.answers), of.aims)


def sentences(of: Certified, session: Session) -> list[str]:
    """Return where a gain holds and where not, and how sure all of it is together."""
    total = len(session.conditions)
    found = [f"{of.setting}: the gain holds in {session.holds} of {counted(total, 'condition')}"]
    for finding in (Finding.LOST, Finding.UNDECIDED, Finding.UNRELIABLE):
        named = [_named(session, one) for one in session.conditions if one.found is finding]
        if named:
            found.append(f"{finding}: {'; '.join(named)}")
    verdicts = len(session.result.settled.answers)
    found.append(
        f"all {verdicts} verdicts of this session are right together with "
        f"{session.result.plan['confidence']:.0%} confidence (Holm's rule over conditions, "
        "workloads, metrics and looks)"
    )
    return found


def later(stored: StoredExperiment, store: Store) -> list[str]:
    """Return a sentence for each time that a tuning's comparison was run again."""
    return [
        f"later: {sentences(of, session)[0]} ({session.experiment.begun[:10]}, experiment "
        f"{session.experiment.id[:8]})"
        for of, session in verification.of_tuning(stored, store)
    ]


def _named(session: Session, one: Condition) -> str:
    several = len({each.boot for each in session.conditions}) > 1
    return f"{one}, boot {one.boot}" if several else str(one)


def describe(of: Certified, first: Condition, later: Sequence[Session]) -> None:
    """Print under what a setting was certified, and what it came to later.

    Args:
        of: the setting.
        first: the condition under which it was certified.
        later: sessions, the oldest first; the sentences are about the last one.
    """
    heading(f"{of.setting} for {'; '.join(of.workloads)} on {of.place['target']}")
    rows = [row(of, first)]
    rows += [row(of, one) for session in later for one in session.conditions]
    show(rows, COLUMNS, left=len(COLUMNS))
    say()
    if not later:
        say(f"{of.setting}: not compared again since it was certified; --later does that")
        return
    session = later[-1]
    for name in session.result.suspicious:
        note(f"'{name}' differs from itself: do not rely on these results")
    for text in session.result.notes:
        note(text)
    for arm, why in session.result.settled.failures.items():
        note(f"'{arm}' was left out: {why}")
    for sentence in sentences(of, session):
        say(sentence)
    say(f"experiment {session.experiment.id}, {session.experiment.state}")


def conditions(of: Certified, first: Condition, later: Sequence[Session]) -> list[str]:
    """Return a line a condition, for a file that makes the setting permanent.

    Args:
        of: the setting.
        first: the condition under which it was certified.
        later: sessions, the oldest first.
    """
    found = [f"Certified: {_line(of, first)}"]
    found += [
        f"Later, {_named(session, one)}: {_line(of, one)}"
        for session in later
        for one in session.conditions
    ]
    return found


def _line(of: Certified, one: Condition) -> str:
    under = one.circumstances
    if under is None:
        return f"{one.found}, for nothing ran"
    parts = [f"Linux {', '.join(under.kernels)} ({of.place['target']})", when(under)]
    if under.boots:
        parts.append(f"boot {', '.join(boot[:_LETTERS] for boot in under.boots)}")
    if average := load_average(under):
        parts.append(f"load average {average}")
    return f"{', '.join(parts)}: {one.found}: {_trade(of, one)}"


def plain(of: Certified, first: Condition, later: Sequence[Session]) -> dict[str, Any]:
    """Return it for machines: the setting, how it was certified, and each session since."""
    return {
        "tuning": of.tuning.id,
        "comparison": of.comparison.id,
        "setting": dict(of.setting.values),
        "target": of.place["target"],
        **of.aims.as_data(),
        "certified": first.as_data(),
        "sessions": [session.as_data() for session in later],
    }
