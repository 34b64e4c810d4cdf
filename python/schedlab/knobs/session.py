"""Setting knobs of the running kernel for a while, without ever losing what they were.

Before the first write every original is in a journal on the disk; the journal goes when all are
back. A process that finds a journal under the lock knows that its writer was killed, and puts the
originals back.

An original is put back only where the kernel still holds a value that we wrote. Where another
process wrote a value meanwhile, that one stays, and both are said.
"""

import itertools
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from schedlab.boundary.errors import NotPermittedError, RunError
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
        original: what was there before the run.
        setting: what the run wrote.
        left: whether ``found`` is another process's value, which is still there; otherwise the
            original is there again.
    """

    knob: str
    place: str
    found: str | None
    original: str
    setting: str
    left: bool = False

    def __str__(self) -> str:
        if self.left:
            return (
                f"{self.place} is {self.found}, which is not the {self.setting} that was set: "
                f"left as it is (it was {self.original} before)"
            )
        return f"{self.place} = {self.original}"


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
            refused a value; those set before are put back. Or another process set one of the knobs
            during the block: its value stays, the other knobs are put back.
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
            try:
                _set(knobs, entries)
            finally:
                entries = _note_held(entries)
            signals.let_through()
            yield
        finally:
            signals.hold()
            _note_passing(state.journal_file(), entries)
            done = _put_back(entries)
            with state.guarded("remove the journal of knobs", "every knob is what it was"):
                operations.remove(state.journal_file())
            left = [str(one) for one in done if one.left]
            if left:
                raise RunError(f"another process set knobs during the run: {'; '.join(left)}")


def restore(*, forget: bool = False) -> list[PutBack]:
    """Put back what a run that was killed had set, and return each place.

    A place that holds neither what the run wrote nor the original was set by another process since
    then: it is left as it is, and the journal is kept under another name.

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


def commands() -> list[str]:
    """Return what `restore` would do, as lines for a shell; nothing is changed.

    Raises:
        RunError: the state directory cannot be trusted.
        NotPermittedError: the state directory may not be read.

    >>> commands()
    []
    """
    if not _leftovers():
        return []
    state.check_directory()
    entries = pending()
    ours = [entry for entry in entries if entry.is_own(entry.place.present() or "")]
    lines = [
        f"echo {raw} > {place.file}"
        for place, raw in order.steps([(entry.place, entry.original) for entry in ours])
    ]
    return [*lines, *(f"# {one}" for one in _found(entries) if one.left)]


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
            setting = encode(knob, value)
            entries.append(
                Entry(knob.name, place, original, setting, this, os.getpid(), (setting,))
            )
    return _passing(entries)


def _note_held(entries: Sequence[Entry]) -> list[Entry]:
    """Write down what the kernel made of each setting as our own value, where it is another."""
    held = [replace(entry, own=(entry.place.present() or entry.setting,)) for entry in entries]
    if held != entries:
        _write_again(state.journal_file(), held)
    return held


def _note_passing(file: Path, entries: Sequence[Entry]) -> None:
    """Write down which values our own will be on the way back, before the first is written."""
    passing = _passing(entries)
    if passing != list(entries):
        _write_again(file, passing)


def _write_again(file: Path, entries: Sequence[Entry]) -> None:
    """Write a journal in the place of one that has the originals already.

    That one stays, and is enough, where the disk is full by now.
    """
    with suppress(OSError):
        journal.write(file, entries)


def _passing(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries with the values on the way, to a setting or back, as our own, too."""
    together = [entry.place for entry in entries]
    return [
        replace(entry, own=(*(entry.own or (entry.setting,)), order.UNLIMITED))
        if order.passes_unlimited(entry.place, together) and order.UNLIMITED not in entry.own
        else entry
        for entry in entries
    ]


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


def _found(entries: Sequence[Entry]) -> list[PutBack]:
    """Return how each place is found, and whether what it holds is another process's."""
    rows = []
    for entry in entries:
        holds = entry.place.present()
        left = holds is not None and holds != entry.original and not entry.is_own(holds)
        rows.append(
            PutBack(entry.knob, str(entry.place), holds, entry.original, entry.setting, left)
        )
    return rows


def _put_back(entries: Sequence[Entry]) -> list[PutBack]:
    """Write every original where our own value still is, all that can be, and check each.

    Raises:
        RunError: some could not be put back; the others are.
    """
    rows = _found(entries)
    ours = [entry for entry, row in zip(entries, rows, strict=True) if not row.left]
    refused: dict[Place, str] = {}
    for place, raw in order.steps([(entry.place, entry.original) for entry in ours]):
        try:
            place.write(raw)
        except OSError as error:
            refused[place] = _reason(error)
    failed = []
    for entry in ours:
        holds = entry.place.present()
        if holds != entry.original:
            why = refused.get(entry.place) or f"it holds {'no value' if holds is None else holds}"
            failed.append(f"{entry.place} to {entry.original}: {why}")
    if failed:
        left = "".join(f"; {row}" for row in rows if row.left)
        raise RunError(
            f"could not put back {'; '.join(failed)}{left}. The originals are kept in "
            f"'{state.journal_file()}': 'schedlab knobs restore' tries again"
        )
    return rows


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
    if not found.damage:
        _note_passing(file, ours)
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
    back = ", ".join(str(one) for one in done if not one.left) or "nothing"
    left = "; ".join(str(one) for one in done if one.left)
    if left:
        aside = _set_aside(file, "changed")
        if not by_hand:
            _log.warning(
                "a run that was killed (pid %d) had left knobs set, and another process has set "
                "some since: %s; put back: %s",
                ours[0].pid,
                left,
                back,
            )
        _log.warning("the journal is kept as '%s'", aside)
        return done
    with state.guarded("remove the journal of knobs", "every knob is what it was"):
        operations.remove(file)
    if done:
        _log.warning(
            "a run that was killed (pid %d) had left knobs set; put back: %s", ours[0].pid, back
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
