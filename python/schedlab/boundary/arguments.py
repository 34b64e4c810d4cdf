"""Arguments of public functions: of the right type, and text that can be written."""

import operator
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import SupportsIndex, TypeVar

from schedlab.boundary.errors import InputError

_Text = TypeVar("_Text", bound="str | Path")

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
"""Control characters but newline and tab, those that turn the direction of writing, surrogates, and
the two that are no characters, which XML excludes."""


def visible(text: str, *, json: bool = False) -> str:
    r"""Return text for a terminal: what would steer the terminal is shown as its escape.

    Bytes of an argument that are no UTF-8, which Python keeps as surrogates, are shown as bytes.

    Args:
        text: any text.
        json: the text is JSON, whose strings know only the escapes with four digits.

    >>> visible("a\x1b[31mb\u202ec\udcff")
    'a\\x1b[31mb\\u202ec\\xff'
    >>> visible('"\x9b"', json=True)
    '"\\u009b"'
    """
    return _UNSAFE.sub(_escape_json if json else _escape, text)


def _escape_json(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def check_whole(
    value: object, name: str, allowed: str, *, least: int = -(2**63), most: int = 2**63 - 1
) -> int:
    """Return a value if it is a whole number, also one of NumPy's.

    Args:
        value: what was given.
        name: the argument's, for the message.
        allowed: what is allowed, for the message.
        least: the least that is.
        most: the most.

    Raises:
        InputError: it is of another type, or out of range.

    >>> check_whole(2, "cpus", "1 to 4096")
    2
    >>> check_whole("2", "cpus", "1 to 4096")
    Traceback (most recent call last):
    ...
    schedlab.boundary.errors.InputError: cpus is '2', a str; allowed: 1 to 4096
    """
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise InputError(f"{name} is {value!r}, a {type(value).__name__}; allowed: {allowed}")
    number = operator.index(value)
    if not least <= number <= most:
        raise InputError(f"{name} is {number}; allowed: {allowed}")
    return number


def check_text(value: _Text, name: str, *, path: bool = False) -> _Text:
    r"""Return a value if it is text that can be written as UTF-8.

    Args:
        value: what was given.
        name: the argument's, for the message.
        path: take a path too, whose bytes need not be UTF-8.

    Raises:
        InputError: it is of another type, or has bytes of an argument that are no UTF-8.

    >>> check_text("h\udcff", "workload")
    Traceback (most recent call last):
    ...
    schedlab.boundary.errors.InputError: workload 'h\xff' is not UTF-8 text
    """
    taken, kinds = ((str, Path), "text or a path") if path else ((str,), "text")
    if not isinstance(value, taken):
        raise InputError(f"{name} is {value!r}, a {type(value).__name__}; allowed: {kinds}")
    if not path and not str(value).isascii():
        try:
            str(value).encode()
        except UnicodeEncodeError:
            raise InputError(f"{name} '{visible(str(value))}' is not UTF-8 text") from None
    return value


def check_texts(values: Iterable[str], name: str) -> list[str]:
    """Return values if each is text, as `check_text`.

    Raises:
        InputError: one is not, or they are one text or no sequence at all.

    >>> check_texts(["/a"], "group")
    ['/a']
    """
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise InputError(f"{name} is {values!r}; allowed: a list of texts")
    return [check_text(value, name) for value in values]


def exists(path: Path) -> bool:
    """Return whether the file exists; False for names that no file can have.

    >>> exists(Path("x" * 5000))
    False
    """
    # `Path.exists` raises another error for a name that is too long, or has a zero byte.
    return os.path.exists(path)  # noqa: PTH110


def is_directory(path: Path) -> bool:
    """Return whether there is such a directory, as `exists`.

    >>> is_directory(Path("/")), is_directory(Path("x" * 5000))
    (True, False)
    """
    return os.path.isdir(path)  # noqa: PTH112
