"""A parser with its good inputs, and what a fault of it is."""

import os
import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.fuzzing.mutation import mutated

from schedlab.boundary.errors import SchedlabError

LONGEST_MESSAGE = 2_000
"""Characters of an error: one line, whatever was given."""


class FaultError(AssertionError):
    """The program did what it must not do with an input."""


@dataclass(frozen=True, slots=True)
class Parser:
    """Something that reads what people give.

    Attributes:
        name: its directory in the corpus.
        read: reads an input; a refusal is a `SchedlabError`.
        share: how many of a million inputs are for it.
        seeds: good inputs, which are mutated.
        make: makes an input from a seed, where mutating its bytes at random would seldom get far.
    """

    name: str
    read: Callable[[bytes], object]
    share: int
    seeds: Callable[[], Sequence[bytes]]
    make: "Callable[[random.Random, bytes], bytes] | None" = None

    def input(self, seed: int, number: int) -> bytes:
        """Return one input: the same for the same seed and number, whatever else is asked for."""
        chance = random.Random(f"{seed}/{self.name}/{number}")
        found = chance.choice(self.seeds())
        return mutated(chance, found) if self.make is None else self.make(chance, found)

    def check(self, data: bytes) -> bool:
        """Read an input, and return whether it was taken rather than refused.

        Raises:
            FaultError: neither.
        """
        try:
            self.read(data)
        except SchedlabError as error:
            if len(str(error)) > LONGEST_MESSAGE:
                raise FaultError(f"a message of {len(str(error))} characters") from None
            return False
        except FaultError:
            raise
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            raise FaultError(f"{type(error).__name__}: {str(error)[:300]}") from error
        return True


@cache
def directory() -> Path:
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="schedlab-fuzz.", dir=memory if memory.is_dir() else None))


def file(data: bytes, name: str) -> Path:
    path = directory() / name
    path.write_bytes(data)
    return path


def word(data: bytes) -> str:
    """Return an argument as Python makes it of a command line's bytes."""
    return os.fsdecode(data.replace(b"\0", b""))


def texts(*texts: str) -> Callable[[], Sequence[bytes]]:
    return lambda: [text.encode() for text in texts]
