"""Files that were written down beforehand: read whole, or refused with where."""

import tomllib
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from schedlab.boundary.errors import InputError

__all__ = ["Entry", "Named", "RegisterFile", "by_name", "told_with_where", "validated"]

_Model = TypeVar("_Model", bound=BaseModel)


class Entry(BaseModel):
    """Something in such a file: nothing in it is unknown, and nothing changes it."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RegisterFile(Entry):
    """All of such a file."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the file.

        Raises:
            InputError: it cannot be read, or something in it is wrong, with where.
        """
        try:
            return cls.parse(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"cannot read '{path}': {error.strerror}") from None
        except InputError as error:
            raise InputError(f"{path}: {error}") from None

    @classmethod
    @abstractmethod
    def parse(cls, text: str) -> Self:
        """Read the file's text.

        Raises:
            InputError: something in it is wrong, with where.
        """


class Named(Protocol):
    """A line with a name of its own."""

    @property
    def name(self) -> str: ...  # noqa: D102


_Line = TypeVar("_Line", bound=Named)


def by_name(lines: Iterable[_Line]) -> dict[str, _Line]:
    """Return lines by their names.

    Raises:
        InputError: a name is there twice.
    """
    found: dict[str, _Line] = {}
    for line in lines:
        if line.name in found:
            raise InputError(f"lines: {line.name} is there twice")
        found[line.name] = line
    return found


@contextmanager
def told_with_where() -> Iterator[None]:
    """Refuse what is no TOML, or what a model refuses, in one line with where.

    Raises:
        InputError: so it is.
    """
    try:
        yield
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"no TOML: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{where or 'a line'}: {first['msg']}") from None


def validated(text: str, model: type[_Model]) -> _Model:
    """Return a TOML text as a model.

    Raises:
        InputError: it is none, with where.
    """
    with told_with_where():
        return model.model_validate(tomllib.loads(text))
