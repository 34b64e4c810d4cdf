"""Files that were written down beforehand: read whole, or refused with where."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from schedlab.errors import InputError

__all__ = ["from_file", "validated"]

_Result = TypeVar("_Result")
_Model = TypeVar("_Model", bound=BaseModel)


def from_file(path: Path, parse: Callable[[str], _Result]) -> _Result:
    """Return what `parse` makes of a file's text.

    Raises:
        InputError: it cannot be read, or something in it is wrong, with where.
    """
    try:
        return parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read '{path}': {error.strerror}") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def validated(text: str, model: type[_Model]) -> _Model:
    """Return a TOML text as a model.

    Raises:
        InputError: it is none, with where.
    """
    try:
        return model.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"no TOML: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{where}: {first['msg']}") from None
