"""Knobs of a guest: set for the time of a run, and read back inside it.

A guest is thrown away, so nothing here needs the journal that the running kernel's knobs have; the
originals are put back only for the runs that share the boot.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatch

from schedlab import _core
from schedlab.boundary.errors import NotPermittedError, RunError
from schedlab.knobs.places import decode, encode, holds_value
from schedlab.knobs.table import Knob, find
from schedlab.model import Scheduler
from schedlab.vm.guest import Guest


@contextmanager
def applied(guest: Guest, settings: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Set knobs of a guest for the time of a block, and give what it then says they are.

    Args:
        guest: a guest that is up.
        settings: values with their units by knob name.

    Raises:
        InputError: a knob its kernel has not, or a value it cannot have.
        NotPermittedError: its kernel was built without one of them.
        RunError: its kernel refused a value.
    """
    wanted = checked(settings, guest.kernel.release, guest.cpus)
    if not wanted:
        yield {}
        return
    before = _read(guest, [knob for knob, _ in wanted])
    for knob, _ in wanted:
        if before[knob.name] is None:
            raise NotPermittedError(
                f"kernel {guest.kernel.release} was built without {knob.path} (knob '{knob.name}')"
            )
    try:
        yield _set(guest, [(knob, value) for knob, value in wanted])
    finally:
        if guest.up:
            _write(guest, [(knob, before[knob.name] or "") for knob, _ in wanted])


def checked(settings: Mapping[str, str], release: str, cpus: int) -> list[tuple[Knob, str]]:
    """Return the knobs to set, each with its value; nothing of this needs a guest that is up.

    Args:
        settings: values with their units by knob name.
        release: what ``uname -r`` prints in the guest.
        cpus: its CPUs.

    Raises:
        InputError: a knob that kernel has not, or a value it cannot have.

    >>> [(knob.path, value) for knob, value in checked({"latency": "9ms"}, "6.1.0-50-amd64", 1)]
    [('/sys/kernel/debug/sched/latency_ns', '9ms')]
    """
    rules = rules_of(release)
    values = Scheduler(rules, knobs=dict(settings)).knobs
    return [(find(name, rules, cpus), value) for name, value in values.items()]


def rules_of(release: str) -> str:
    """Return the release whose rules and knobs stand for a kernel's: the nearest, if need be.

    >>> rules_of("6.1.0-50-amd64")[:3]
    '6.1'
    """
    return str(json.loads(_core.release(release, nearest=True))["release"])


def _set(guest: Guest, wanted: list[tuple[Knob, str]]) -> dict[str, str]:
    complaint = _write(guest, [(knob, encode(knob, value)) for knob, value in wanted])
    found = {}
    now_there = _read(guest, [knob for knob, _ in wanted])
    for knob, value in wanted:
        raw = now_there[knob.name]
        if raw is None or not holds_value(knob, value, raw):
            now = "unreadable" if raw is None else decode(knob, raw)
            why = f": {complaint}" if complaint else ""
            raise RunError(
                f"the guest's kernel {guest.kernel.release} did not take {knob.name}={value} "
                f"({knob.path} is {now}){why}"
            )
        found[knob.name] = decode(knob, raw)
    return found


def _read(guest: Guest, knobs: list[Knob]) -> dict[str, str | None]:
    """Return what the files of some knobs hold, by name; None where there are none.

    It is one program for all: in a guest whose instructions are translated each takes long.
    """
    files = " ".join(_files(knob) for knob in knobs)
    done = guest.run(["sh", "-c", f"grep -sH '' {files}"])
    lines = [line.partition(":") for line in done.output.splitlines()]
    return {
        knob.name: _raw(
            knob,
            [
                word
                for path, _, text in lines
                if fnmatch(path, _files(knob))
                for word in text.split()
            ],
        )
        for knob in knobs
    }


def _raw(knob: Knob, words: list[str]) -> str | None:
    if not words:
        return None
    if knob.is_feature:
        name = knob.name.removeprefix("feature.")
        return next((flag for flag in (name, f"NO_{name}") if flag in words), None)
    number = re.compile(r"-?[0-9]{1,20}")
    # A knob that every CPU has must be the same on all.
    return words[0] if number.fullmatch(words[0]) and set(words) == {words[0]} else None


def _write(guest: Guest, values: list[tuple[Knob, str]]) -> str:
    lines = [
        f"for file in {_files(knob)}; do echo {shlex.quote(raw)} > $file; done"
        for knob, raw in values
    ]
    # Of two that limit each other, the second round writes what the first could not.
    done = guest.run(["sh", "-c", "\n".join([*lines, "exec 2>&1", *lines])])
    return (done.output.splitlines() or [""])[0]


def _files(knob: Knob) -> str:
    return str(knob.path).replace("/cpu0/", "/cpu[0-9]*/")
