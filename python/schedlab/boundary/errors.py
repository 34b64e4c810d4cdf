"""What can go wrong, in one place.

The Rust core raises `InputError` for everything a person gave it that it cannot take, so the same
mistake reads the same from Python and from the command line.
"""

from collections.abc import Iterator
from contextlib import contextmanager

_LONGEST = 1_500
"""Characters of a message; what is longer quotes a whole input."""


class SchedlabError(Exception):
    """Everything schedlab refuses or fails at.

    A message that quotes a long input is shortened in its middle.

    >>> len(str(SchedlabError("x" * 10_000)))
    1500
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*(_shortened(one) if isinstance(one, str) else one for one in args))


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    gap = f" [... {len(text)} characters ...] "
    end = _LONGEST // 3
    return text[: _LONGEST - end - len(gap)] + gap + text[-end:]


class InputError(SchedlabError, ValueError):
    """What was given is wrong: the message says what was found and what is allowed."""


class NotPermittedError(SchedlabError, PermissionError):
    """This user may not do that here: the message says what would be needed."""


class RunError(SchedlabError, RuntimeError):
    """A run that was started did not come to its end."""


class StorageError(SchedlabError, OSError):
    """What a run came to could not be kept: the disk is full or broken."""


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Refuse data that have another shape than what schedlab writes.

    For files that schedlab wrote and that were changed since: what is missing shows only where it
    is used.

    Args:
        what: the file, and what should be in it, for the message.

    Raises:
        InputError: a value is missing, of another type, or impossible.

    >>> with reading("summary 'a.json' is not what a study writes"):
    ...     _ = {}["title"]
    Traceback (most recent call last):
    ...
    schedlab.boundary.errors.InputError: summary 'a.json' is not what a study
    writes: KeyError: 'title'
    """
    try:
        yield
    except SchedlabError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        said = " ".join(str(error).split())
        raise InputError(f"{what}: {type(error).__name__}: {said}") from error
    except RecursionError as error:
        raise InputError(f"{what}: it is nested too deeply") from error
