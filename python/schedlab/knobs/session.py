"""Setting knobs of the running kernel for a while, without ever losing what they were.

Before the first write every original is in a journal on the disk; the journal goes when all are
back. Whoever finds a journal under the lock knows that its writer was killed, and puts the
originals back.
"""

import itertools
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from schedlab.errors import NotPermittedError, RunError
from schedlab.knobs import journal, operations, order, state
from schedlab.knobs.host import read
from schedlab.knobs.journal import Entry
from schedlab.knobs.places import Place, boot_id, decode, encode, holds_value, places
from schedlab.knobs.signals import OrderlySignals
from schedlab.knobs.table import Knob, find, table
from schedlab.model import Scheduler

_PARTNERS = {
    "rt_runtime": "rt_period",
    "rt_period": "rt_runtime",
    "fair_server_runtime": "fair_server_period",
    "fair_server_period": "fair_server_runtime",
}
"""Knobs that limit each other."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PutBack:
    """A place that a run which was killed had set.

    Attributes:
        knob: the knob's name.
        place: the file, and the flag in it.
        found: what was there, None where it could not be read.
        original: what is there now again.
    """

    knob: str
    place: str
    found: str | None
    original: str


@contextmanager
def applied(settings: Mapping[str, str], release: str, cpus: int) -> Iterator[None]:
    """Set knobs of the running kernel for the time of a block, and put back what they were.

    What a killed run left is put back first. SIGINT, SIGTERM and SIGHUP put back like any other way
    out; after a SIGKILL the next call does, or `restore`.

    Args:
        settings: values with their units by knob name.
        release: the running kernel's release.
        cpus: its CPUs.

    Raises:
        InputError: a knob this kernel has not, or a value it cannot have.
        NotPermittedError: a knob that may not be set here; none is then changed.
        RunError: another run has set knobs, the originals could not be written down, or the kernel
            refused a value; those set before are put back.
    """
    checked = _checked(settings, release, cpus)
    knobs = [(find(name, release, cpus), value) for name, value in checked.items()]
    for knob, _ in knobs:
        reading = read(knob)
        if not reading.settable:
            raise NotPermittedError(f"knob '{knob.name}' cannot be set here: {reading.why}")
    if not knobs:
        yield
        return
    with OrderlySignals() as signals, state.locked():
        recover()
        entries = _entries(knobs)
        with state.guarded("write the journal of knobs", state.NOTHING_DONE):
            journal.write(state.journal_file(), entries)
        try:
            _set(knobs, entries)
            signals.let_through()
            yield
        finally:
            signals.hold()
            _put_back(entries)
            with state.guarded("remove the journal of knobs", "every knob is what it was"):
                operations.remove(state.journal_file())


def restore(*, forget: bool = False) -> list[PutBack]:
    """Put back what a run that was killed had set, and return each place.

    Args:
        forget: keep a journal that cannot be carried out under another name, so that knobs can be
            set again.

    Raises:
        RunError: another run has set knobs and puts them back itself; or a value could not be put
            back.
        NotPermittedError: this user may not write them.
    """
    if not _leftovers() and not _unfinished().exists():
        return []
    with OrderlySignals(), state.locked():
        return _restore(by_hand=True, forget=forget)


def pending() -> tuple[Entry, ...]:
    """Return what a run set that has ended without putting it back, or that is still going on.

    >>> pending()
    ()
    """
    found: list[Entry] = []
    try:
        this = boot_id()
        for file in _leftovers():
            read_ = journal.read(file)
            found += [entry for entry in read_.entries if entry.boot == this] if read_ else []
    except (OSError, RunError):
        return ()
    return tuple(found)


def recover() -> list[PutBack]:
    """Put back what a killed run left, and say so. The lock must be held.

    Raises:
        RunError: a journal is damaged, or a value could not be put back.
    """
    return _restore(by_hand=False, forget=False)


def _checked(settings: Mapping[str, str], release: str, cpus: int) -> dict[str, str]:
    """Return the settings, checked one by one, and runtimes against their periods.

    Of such a pair the one that is not set counts with its present value, not with its default.
    """
    context = dict(settings)
    for name in settings:
        partner = _PARTNERS.get(name)
        if partner is not None and partner not in settings:
            (knob,) = (one for one in table(release, cpus) if one.name == partner)
            present = read(knob).value
            if present is not None and " " not in present:
                context[partner] = present
    checked = Scheduler(release, knobs=context).knobs
    return {name: value for name, value in checked.items() if name in settings}


def _entries(knobs: Iterable[tuple[Knob, str]]) -> list[Entry]:
    this = boot_id()
    entries = []
    for knob, value in knobs:
        for place in places(knob):
            try:
                original = place.read()
            except (OSError, ValueError) as error:
                raise RunError(f"knob '{knob.name}' cannot be read: {_reason(error)}") from None
            entries.append(
                Entry(knob.name, place, original, encode(knob, value), this, os.getpid())
            )
    return entries


def _set(knobs: Sequence[tuple[Knob, str]], entries: Iterable[Entry]) -> None:
    """Write every setting and read it back; say where the kernel holds another value.

    Raises:
        RunError: the kernel refused one.
    """
    for place, raw in order.steps([(entry.place, entry.setting) for entry in entries]):
        try:
            place.write(raw)
        except OSError as error:
            raise RunError(
                f"the kernel refused {raw} in {place}: {_reason(error)}{_hint(place)}"
            ) from None
    for knob, value in knobs:
        for place in places(knob):
            holds = place.present()
            if holds is None or not holds_value(knob, value, holds):
                present = "no value" if holds is None else decode(knob, holds)
                _log.warning("%s was set to %s; the kernel holds %s", knob.name, value, present)


def _put_back(entries: Sequence[Entry]) -> list[PutBack]:
    """Write every original that is not there, all that can be, and check each.

    Raises:
        RunError: some could not be put back; the others are.
    """
    found = {entry.place: entry.place.present() for entry in entries}
    refused: dict[Place, str] = {}
    for place, raw in order.steps([(entry.place, entry.original) for entry in entries]):
        try:
            place.write(raw)
        except OSError as error:
            refused[place] = _reason(error)
    failed = []
    for entry in entries:
        holds = entry.place.present()
        if holds != entry.original:
            why = refused.get(entry.place) or f"it holds {'no value' if holds is None else holds}"
            failed.append(f"{entry.place} to {entry.original}: {why}")
    if failed:
        raise RunError(
            f"could not put back {'; '.join(failed)}. The originals are kept in "
            f"'{state.journal_file()}': 'schedlab knobs restore' tries again"
        )
    return [
        PutBack(entry.knob, str(entry.place), found[entry.place], entry.original)
        for entry in entries
    ]


def _restore(*, by_hand: bool, forget: bool) -> list[PutBack]:
    this = boot_id()
    done: list[PutBack] = []
    if _unfinished().exists():  # whoever wrote it was killed before the first knob was set
        with state.guarded("remove an unfinished journal of knobs", "nothing was set"):
            operations.remove(_unfinished())
    for file in _leftovers():
        with state.guarded("read the journal of knobs", "nothing was set"):
            found = journal.read(file)
        if found is None:
            continue
        ours = [entry for entry in found.entries if entry.boot == this]
        if found.entries and not ours:
            if file == state.journal_file():
                aside = _set_aside(file, f"boot-{found.entries[0].boot}")
                _log.warning(
                    "knobs were set in another boot (%s) and never put back; this boot began with "
                    "values of its own, so nothing is written; the journal is kept as '%s'",
                    ", ".join(sorted({entry.knob for entry in found.entries})),
                    aside,
                )
            continue
        done += _carry_out(file, found, ours, by_hand=by_hand, forget=forget)
    return done


def _carry_out(
    file: Path, found: journal.Journal, ours: Sequence[Entry], *, by_hand: bool, forget: bool
) -> list[PutBack]:
    try:
        done = _put_back(ours)
    except RunError as error:
        if not forget:
            raise
        _log.warning("%s", error)
        _log.warning("the journal is kept as '%s'", _set_aside(file, "forgotten"))
        return []
    if found.damage:
        what = f"the journal of knobs '{file}' is damaged: {'; '.join(found.damage)}"
        back = f"put back: {', '.join(sorted({entry.knob for entry in ours})) or 'nothing'}"
        if not by_hand:
            raise RunError(f"{what}; {back}; 'schedlab knobs restore' clears it away")
        raise RunError(f"{what}; {back}; it is kept as '{_set_aside(file, 'damaged')}'")
    with state.guarded("remove the journal of knobs", "every knob is what it was"):
        operations.remove(file)
    if done:
        _log.warning(
            "a run that was killed (pid %d) had left knobs set; put back: %s",
            ours[0].pid,
            ", ".join(f"{one.place} = {one.original}" for one in done),
        )
    return done


def _leftovers() -> list[Path]:
    """Return the journal, and one that another boot set aside although it was of this one."""
    file = state.journal_file()
    try:
        aside = file.with_name(f"{file.name}.boot-{boot_id()}")
    except RunError:
        return [file] if file.exists() else []
    return [one for one in (file, aside) if one.exists()]


def _unfinished() -> Path:
    return operations.unfinished(state.journal_file())


def _set_aside(file: Path, why: str) -> Path:
    """Give a journal a name under which it is kept, and return that."""
    target = file.with_name(f"{file.name}.{why}")
    for count in itertools.count(2):
        if not target.exists():
            break
        target = file.with_name(f"{file.name}.{why}-{count}")
    with state.guarded("set the journal of knobs aside", "it stays where it is"):
        operations.rename(file, target)
    return target


def _hint(place: Place) -> str:
    """Say what may be behind a refusal that does not explain itself."""
    if place.file.name.startswith("sched_rt_"):
        return (
            " (real-time groups' cpu.rt_runtime_us may ask for more, deadline tasks may hold more, "
            "or the runtime is above the period)"
        )
    return ""


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
