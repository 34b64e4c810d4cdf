"""What a ``schedlab.toml`` declares: a command's options, so that the command alone repeats it.

A table has the name of its command, a key that of an option without its dashes, and ``workloads``
that of the arguments. The file is read where neither a workload nor a command is typed; an option
that is typed replaces the file's.
"""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from schedlab.boundary.errors import InputError
from schedlab.boundary.files import read_text

FILE = Path("schedlab.toml")
"""In the current directory."""

_ARGUMENTS = "workloads"


class Parameter(Protocol):
    """A parameter of a command, as Click has it."""

    opts: list[str]
    secondary_opts: list[str]
    multiple: bool
    is_flag: bool


def with_file(
    words: Sequence[str], parameters: Sequence[Parameter], file: Path = FILE
) -> list[str]:
    """Return a command's words with those that a file declares.

    Args:
        words: the command and its words, as typed.
        parameters: of the command.
        file: the file.

    Raises:
        InputError: the file cannot be read, or declares something that the command has not.
    """
    given, *typed = words
    options = {
        name: one
        for one in parameters
        for name in (*one.opts, *one.secondary_opts)
        if name[:2] == "--"
    }
    if _runs_something(typed, options):
        return list(words)
    table = _table(given, file)
    named = {word.partition("=")[0] for word in typed}
    found: list[str] = []
    for key, value in table.items():
        if key == _ARGUMENTS:
            found += _texts(value, f"{file}: [{given}] {key}")
            continue
        name = f"--{key}"
        if name not in options:
            known = ", ".join(sorted(one.removeprefix("--") for one in options))
            raise InputError(
                f"{file}: [{given}] has no option '{key}'; allowed: {_ARGUMENTS}, {known}"
            )
        names = {*options[name].opts, *options[name].secondary_opts}
        if not names & named:
            found += _words(name, value, options[name], f"{file}: [{given}] {key}")
    return [given, *found, *typed]


def _runs_something(typed: Sequence[str], options: Mapping[str, Parameter]) -> bool:
    """Whether a workload or a command is among the words, or only help is asked for."""
    rest = list(typed)
    while rest:
        name, equals, _ = rest.pop(0).partition("=")
        if name in ("--command", "--help") or not name.startswith("--"):
            return True
        if not equals and name in options and not options[name].is_flag and rest:
            rest.pop(0)
    return False


def _table(command: str, file: Path) -> Mapping[str, Any]:
    try:
        # As it is written: 6.10 is another release than 6.1.
        data = tomllib.loads(read_text(file, "project file"), parse_float=str)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{file} is no TOML: {error}") from None
    table = data.get(command, {})
    if not isinstance(table, dict):
        raise InputError(f"{file}: '{command}' is no table; write [{command}], then its options")
    return table


def _words(name: str, value: Any, parameter: Parameter, where: str) -> list[str]:
    """Return the words of an option."""
    if parameter.is_flag:
        if not isinstance(value, bool):
            raise InputError(f"{where} is {value!r}; allowed: true, false")
        off = [one for one in parameter.secondary_opts if one[:2] == "--"]
        return [name] if value else off[:1]
    texts = _texts(value, where)
    if len(texts) > 1 and not parameter.multiple:
        raise InputError(f"{where} is a list; allowed: one value, several in it with commas")
    return [f"{name}={text}" for text in texts]


def _texts(value: Any, where: str) -> list[str]:
    """Return values as one would type them."""
    values = value if isinstance(value, list) else [value]
    for one in values:
        if isinstance(one, bool) or not isinstance(one, str | int):
            raise InputError(f"{where} is {one!r}; allowed: text, a number, or a list of them")
    return [str(one) for one in values]
