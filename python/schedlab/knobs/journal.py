"""The journal of knobs: what each was, written down before it is set.

The file holds a line a place, each with a checksum over all that is needed to put it back. So a
line that survives is enough for its place, whatever became of the others.
"""

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from schedlab.knobs import operations
from schedlab.knobs.places import Place


@dataclass(frozen=True, slots=True)
class Entry:
    """One place that is going to be set, or was.

    Attributes:
        knob: the knob's name.
        place: the place.
        original: what it held before, as it can be written back.
        setting: the text to write.
        boot: the boot in which this was so.
        pid: the process that set it.
        own: all values that the place may hold because of us; `setting` where none are given. The
            kernel may round a setting, and on the way to it a place may hold another value.
    """

    knob: str
    place: Place
    original: str
    setting: str
    boot: str
    pid: int
    own: tuple[str, ...] = ()

    def is_own(self, raw: str) -> bool:
        """Whether a value that the place holds is ours, and not another program's."""
        return raw in (self.own or (self.setting,))


@dataclass(frozen=True, slots=True)
class Journal:
    """What a journal file holds.

    Attributes:
        entries: the places whose lines are whole.
        damage: what is wrong with the file, a sentence each; empty where it is whole.
    """

    entries: tuple[Entry, ...]
    damage: tuple[str, ...] = ()


def to_text(entries: Iterable[Entry]) -> str:
    """Return a journal's text."""
    rows = list(entries)
    return "".join(_line(entry, number, len(rows)) for number, entry in enumerate(rows, 1))


def _line(entry: Entry, number: int, of: int) -> str:
    body = json.dumps(
        {
            "number": number,
            "of": of,
            "knob": entry.knob,
            "file": str(entry.place.file),
            "flag": entry.place.flag,
            "original": entry.original,
            "setting": entry.setting,
            "boot": entry.boot,
            "pid": entry.pid,
            "own": entry.own,
        }
    )
    return f"{zlib.crc32(body.encode()):08x} {body}\n"


def from_text(text: str) -> Journal:
    """Read a journal, as much of it as is whole.

    >>> entry = Entry("latency", Place(Path("/proc/sys/kernel/sched_latency_ns")), "1", "2", "b", 7)
    >>> whole = to_text([entry])
    >>> from_text(whole).entries == (entry,), from_text(whole).damage
    (True, ())
    >>> from_text(whole[:-5]).damage
    ('line 1 is broken: {"number": 1, "of": 1, "knob": "latency", ...',)
    """
    entries: dict[int, Entry] = {}
    damage: list[str] = []
    of = 0
    for count, line in enumerate(text.splitlines(), 1):
        found = _entry(line)
        if found is None:
            damage.append(f"line {count} is broken: {_start(line)}")
        else:
            number, of, entry = found
            entries[number] = entry
    if not entries and not damage:
        damage.append("it is empty")
    elif not damage and len(entries) != of:
        damage.append(f"{len(entries)} of its {of} lines are there")
    return Journal(tuple(entry for _, entry in sorted(entries.items())), tuple(damage))


def _entry(line: str) -> tuple[int, int, Entry] | None:
    sum_, _, body = line.partition(" ")
    if sum_ != f"{zlib.crc32(body.encode()):08x}":
        return None
    try:
        value = json.loads(body)
        place = Place(Path(value["file"]), value["flag"])
        texts = [value[name] for name in ("knob", "original", "setting", "boot")]
        own = tuple(value.get("own", ()))
        numbers = [value[name] for name in ("number", "of", "pid")]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    wanted = place.known and all(isinstance(text, str) for text in (place.flag, *texts, *own))
    if not wanted or not all(isinstance(number, int) for number in numbers):
        return None
    knob, original, setting, boot = texts
    number, of, pid = numbers
    # What is put back may be pasted into a shell: nothing but what the place can hold.
    if not all(place.can_hold(raw) for raw in (original, setting, *own)):
        return None
    return number, of, Entry(knob, place, original, setting, boot, pid, own)


def _start(line: str) -> str:
    body = line.partition(" ")[2] or line
    return body if len(body) <= 42 else f"{body[:42]}..."


def write(file: Path, entries: Iterable[Entry]) -> None:
    """Write a journal so that it is on the disk, whole, when this returns.

    Raises:
        OSError: it cannot be written; there is then none.
    """
    operations.replace_file(file, to_text(entries))


def read(file: Path) -> Journal | None:
    """Read a journal; None if it does not exist.

    Raises:
        OSError: there is one that cannot be read.
    """
    try:
        return from_text(operations.read_text(file))
    except FileNotFoundError:
        return None
