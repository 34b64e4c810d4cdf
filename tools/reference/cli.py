"""Commands and options, from the program's own declarations."""

import inspect
import re
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

import typer.main

from reference.markdown import table
from schedlab.cli.main import EPILOG, app

_OPENING = """\
# Commands and options

`schedlab COMMAND --help` prints the same. Wrong input gets one line that says what is allowed, and exit code 2.
`schedlab --install-completion` completes commands and options in your shell.
"""


def page() -> str:
    """Return the page as Markdown."""
    commands = list(_leaves(typer.main.get_command(app), ("schedlab",)))
    rows = [
        (f"[`{' '.join(path)}`](#{'-'.join(path)})", _paragraphs(command)[0])
        for path, command in commands
    ]
    parts = [_OPENING, *table(("command", "what it does"), rows), ""]
    for path, command in commands:
        parts += _section(path, command)
    codes = EPILOG.removeprefix("Exit codes: ").rstrip(".").split("; ")
    parts += [
        "## Exit codes",
        "",
        *table(("code", "meaning"), [tuple(c.split(" ", 1)) for c in codes]),
    ]
    return "\n".join(parts) + "\n"


def _leaves(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Return each command that does something, with the words that name it."""
    inner = getattr(command, "commands", {})
    if inner and len(path) > 1 and not getattr(command, "no_args_is_help", True):
        yield path, command
    if not inner:
        yield path, command
    for name, one in inner.items():
        yield from _leaves(one, (*path, name))


def _section(path: tuple[str, ...], command: Any) -> list[str]:
    parts = [f"## {' '.join(path)}", "", *_with_blanks(_paragraphs(command))]
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    if arguments:
        rows = [(f"`{_metavar(one)}`", _text(getattr(one, "help", "") or "")) for one in arguments]
        parts += [*table(("argument", "meaning"), rows), ""]
    options = [
        one
        for one in command.params
        if one.param_type_name == "option" and not one.hidden and one.name != "help"
    ]
    if options:
        lines = [(_names(one), _text(one.help or ""), _default(one)) for one in options]
        parts += [*table(("option", "meaning", "default"), lines), ""]
    return parts


def _paragraphs(command: Any) -> list[str]:
    """Return the help's paragraphs in Markdown."""
    text = inspect.cleandoc(command.help or "")
    return [_text(part) for part in text.split("\n\n")] or [""]


def _text(text: str) -> str:
    """Return rich's markup as Markdown, on one line.

    >>> _text("Example: [bold]schedlab run pipe[/bold]")
    'Example: `schedlab run pipe`'
    """
    joined = " ".join(text.split())
    return re.sub(r"\[bold\](.*?)\[/bold\]", r"`\1`", joined).replace("<", "&lt;")


def _with_blanks(paragraphs: Sequence[str]) -> list[str]:
    return [line for part in paragraphs for line in (part, "")]


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _names(option: Any) -> str:
    names = ", ".join([*option.opts, *option.secondary_opts])
    if option.is_flag:
        return f"`{names}`"
    if option.metavar:
        return f"`{names} {option.metavar}`"
    kind = option.type_descriptor.annotation
    if inspect.isclass(kind) and issubclass(kind, Enum):
        words = [str(one.value) for one in kind]
        return f"`{names} {' or '.join(words)}`"
    return f"`{names} {option.name.upper()}`"


def _default(option: Any) -> str:
    value = option.default
    if isinstance(value, Enum):
        value = value.value
    if value is None or value is False or value in ((), [], "") or not option.show_default:
        return ""
    if option.is_flag:
        return f"`{option.opts[0]}`" if value else ""
    return f"`{value}`"
