"""Loads under which a comparison is run again: what each workload is then."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from schedlab.boundary.errors import InputError
from schedlab.experiment.settings import axes
from schedlab.experiment.subjects import Subject
from schedlab.programs import FAMILIES, from_definition, subject


@dataclass(frozen=True, slots=True)
class Load:
    """What workloads are under one load.

    Attributes:
        values: what is set, by key of the workloads; empty for the load as it is.
        subjects: what each workload then is, with its name, by its own name.
    """

    values: Mapping[str, str]
    subjects: Mapping[str, tuple[str, Subject]]


def loads(workloads: Mapping[str, Mapping[str, Any]], texts: Sequence[str]) -> list[Load]:
    """Return every combination of loads; without any the load as it is.

    Args:
        workloads: the definition of each workload (`Subject.definition`), by its name.
        texts: each ``KEY=VALUE,VALUE,…``, KEY being one of a workload's or an option of a command's
            words. It is set in every workload that has it.

    Raises:
        InputError: a key that no workload has, or a value that it does not take.

    >>> one = subject("http:concurrency=4")
    >>> found = loads({"http:concurrency=4": one.definition()}, ["concurrency=8,16"])
    >>> [load.subjects["http:concurrency=4"][0] for load in found]
    ['http:concurrency=8', 'http:concurrency=16']
    """
    grid = axes(texts)
    for key in grid:
        if not any(_has(key, definition) for definition in workloads.values()):
            raise InputError(_unknown(key, workloads))
    found = []
    for values in product(*grid.values()):
        load = dict(zip(grid, values, strict=True))
        subjects = {name: _under(name, definition, load) for name, definition in workloads.items()}
        found.append(Load(load, subjects))
    return found


def _under(
    name: str, definition: Mapping[str, Any], load: Mapping[str, str]
) -> tuple[str, Subject]:
    """Return a workload under a load, with its name."""
    given = {key: value for key, value in load.items() if _has(key, definition)}
    own = from_definition(definition)
    if not given:
        return name, own
    if "command" in definition:
        words = list(definition["command"])
        for key, value in given.items():
            words = _with_option(words, key, value)
        return shlex.join(words), from_definition({**definition, "command": words})
    if subject(name).definition() != definition:
        raise InputError(
            f"--load: '{name}' is in groups or sessions, or its file was changed: its load cannot "
            "be set"
        )
    text = name
    for key, value in given.items():
        text = _with_key(text, key, value)
    try:
        return text, subject(text)
    except InputError as error:
        raise InputError(f"--load {', '.join(map('='.join, given.items()))}: {error}") from None


def _keys(definition: Mapping[str, Any]) -> list[str]:
    """Return what a workload or program may be told, in the order of its text."""
    if "command" in definition:
        words = definition["command"][1:]
        return list(dict.fromkeys(one.partition("=")[0] for one in words if one[:1] == "-"))
    if "program" in definition:
        return list(FAMILIES[str(definition["program"]).partition(":")[0]].table)
    pairs = str(definition["workload"]).partition(":")[2].split(",")
    return [pair.partition("=")[0] for pair in pairs if "=" in pair]


def _has(key: str, definition: Mapping[str, Any]) -> bool:
    return key in _keys(definition)


def _unknown(key: str, workloads: Mapping[str, Mapping[str, Any]]) -> str:
    known = dict.fromkeys(one for each in workloads.values() for one in _keys(each))
    allowed = ", ".join(known) or "none, for these workloads have no such key"
    return f"--load names '{key}', which no workload has; allowed: {allowed}"


def _with_key(text: str, key: str, value: str) -> str:
    """Return a workload's text with a key set.

    >>> _with_key("http:concurrency=4,servers=2", "concurrency", "9")
    'http:concurrency=9,servers=2'
    >>> _with_key("pipe", "loops", "3")
    'pipe:loops=3'
    """
    family, _, rest = text.partition(":")
    pairs = [pair.partition("=") for pair in rest.split(",") if pair]
    if all(name != key for name, _, _ in pairs):
        pairs.append((key, "=", value))
    told = (f"{name}={value if name == key else old}" for name, _, old in pairs)
    return f"{family}:{','.join(told)}"


def _with_option(words: Sequence[str], key: str, value: str) -> list[str]:
    """Return a command's words with an option set: the word behind it, or behind its ``=``.

    >>> _with_option(["./serve", "-c", "4", "--time=3"], "-c", "9")
    ['./serve', '-c', '9', '--time=3']
    >>> _with_option(["./serve", "-c", "4", "--time=3"], "--time", "9")
    ['./serve', '-c', '4', '--time=9']

    Raises:
        InputError: the option has no value.
    """
    found = list(words)
    for place, word in enumerate(found):
        name, equals, _ = word.partition("=")
        if name != key:
            continue
        if equals:
            found[place] = f"{key}={value}"
        elif place + 1 < len(found) and found[place + 1][:1] != "-":
            found[place + 1] = value
        else:
            raise InputError(f"--load: '{key}' has no value in '{shlex.join(words)}'")
    return found
