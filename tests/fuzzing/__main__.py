"""Read one file of the corpus with so much memory; for test_corpus.py."""

import resource
import sys
from pathlib import Path

from tests.fuzzing import parser

LIMIT = 4 << 30
"""Bytes of memory, reservations of threads included."""


def main() -> None:
    """Read the file that is named."""
    path = Path(sys.argv[1])
    one = parser(path.parent.name)
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))
    one.check(path.read_bytes())


main()
