"""What can go wrong, in one place.

The Rust core raises `InputError` for everything a person gave it that it cannot take, so the same
mistake reads the same from Python and from the command line.
"""


class SchedlabError(Exception):
    """Everything schedlab refuses or fails at."""


class InputError(SchedlabError, ValueError):
    """What was given is wrong: the message says what was found and what is allowed."""


class NotPermittedError(SchedlabError, PermissionError):
    """This user may not do that here: the message says what would be needed."""


class RunError(SchedlabError, RuntimeError):
    """A run that was started did not come to its end."""


class StorageError(SchedlabError, OSError):
    """What a run came to could not be kept: the disk is full or broken."""
