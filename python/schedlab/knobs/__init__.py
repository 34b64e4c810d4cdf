"""The knobs: what they are, and their values on the running kernel.

The table itself is Rust's (crate ``model``): one name, unit and range everywhere.
"""

from schedlab.knobs.host import Reading, read, read_all
from schedlab.knobs.session import PutBack, applied, commands, pending, restore
from schedlab.knobs.table import Knob, find, table

__all__ = [
    "Knob",
    "PutBack",
    "Reading",
    "applied",
    "commands",
    "find",
    "pending",
    "read",
    "read_all",
    "restore",
    "table",
]
