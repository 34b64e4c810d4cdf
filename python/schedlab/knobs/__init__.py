"""The knobs: what they are, and their values on the running kernel.

The table itself is Rust's (crate ``model``): one name, unit and range everywhere.
"""

from schedlab.knobs.host import Reading, applied, read_all
from schedlab.knobs.table import Knob, find, table

__all__ = ["Knob", "Reading", "applied", "find", "read_all", "table"]
