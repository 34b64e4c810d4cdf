"""The tables of the store, and how a file is opened as one."""

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from schedlab.boundary.arguments import exists, is_directory
from schedlab.boundary.errors import InputError, SchedlabError, StorageError

VERSION = 1
"""Of the tables, kept in the file's ``user_version``."""

APPLICATION = 0x5C4EDAB1 & 0x7FFFFFFF
"""Marks a file as ours (``application_id``)."""

_PATIENCE = 30_000
"""Milliseconds to wait for another process that writes."""

_LONGEST = 256 << 20
"""Bytes of a value, such as a run's outcome: a damaged file may say any length."""

_TABLES = """
CREATE TABLE experiment (
    id      TEXT PRIMARY KEY,    -- a digest of the plan and the session
    kind    TEXT NOT NULL,       -- compare, sweep, tune
    title   TEXT NOT NULL,
    plan    TEXT NOT NULL,       -- JSON: arms, questions, protocol, seed
    session INTEGER NOT NULL,    -- from 1; a plan that is run afresh gets the next
    command TEXT NOT NULL,       -- JSON: the words that started it
    version TEXT NOT NULL,       -- of schedlab
    begun   TEXT NOT NULL,       -- UTC
    state   TEXT NOT NULL,       -- running, interrupted, failed, done
    result  TEXT                 -- JSON, at the end
) STRICT;
CREATE TABLE configuration (
    id         TEXT PRIMARY KEY, -- a digest of the definition
    definition TEXT NOT NULL     -- JSON: workload, target, scheduler, machine, attributes
) STRICT;
CREATE TABLE place (
    id    TEXT PRIMARY KEY,      -- a digest of the facts
    facts TEXT NOT NULL          -- JSON: kernel, CPUs, HZ, …
) STRICT;
CREATE TABLE run (
    id            INTEGER PRIMARY KEY,
    experiment    TEXT NOT NULL REFERENCES experiment,
    arm           TEXT NOT NULL,
    block         INTEGER NOT NULL,
    position      INTEGER NOT NULL,
    configuration TEXT NOT NULL REFERENCES configuration,
    place         TEXT NOT NULL REFERENCES place,
    seed          TEXT NOT NULL, -- up to 2^64 - 1, which is no SQLite integer
    version       TEXT NOT NULL,
    begun         TEXT NOT NULL,
    seconds       REAL NOT NULL,
    load          REAL,          -- load average when it began
    outcome       TEXT NOT NULL, -- JSON, all that was measured
    UNIQUE (experiment, arm, block)
) STRICT;
CREATE TABLE value (
    run    INTEGER NOT NULL REFERENCES run,
    metric TEXT NOT NULL,
    value  REAL NOT NULL,
    PRIMARY KEY (run, metric)
) STRICT, WITHOUT ROWID;
CREATE TABLE failure (
    experiment TEXT NOT NULL REFERENCES experiment,
    arm        TEXT NOT NULL,
    block      INTEGER NOT NULL,
    begun      TEXT NOT NULL,
    message    TEXT NOT NULL,
    UNIQUE (experiment, arm, block)
) STRICT;
"""


def connect(path: Path, *, create: bool) -> sqlite3.Connection:
    """Open a store, making it where there is none.

    Raises:
        InputError: it is no store, of a newer schedlab, or may not be read or made.
    """
    if not exists(path):
        if not create:
            raise InputError(f"store '{path}': No such file")
    elif not path.is_file():
        raise InputError(f"store '{path}' is no regular file; allowed: a store, or a new file")
    if not is_directory(path.parent):
        raise InputError(f"store '{path}': there is no directory '{path.parent}'")
    readable = not exists(path) or os.access(path, os.W_OK)
    mode = "rwc" if create else "rw" if readable else "ro"
    with failures(path):
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None
        )
        try:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
            _prepare(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute(f"PRAGMA busy_timeout = {_PATIENCE}")
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if application != APPLICATION and (application or tables):
        raise InputError(f"store '{path}' is another program's SQLite database")
    if version > VERSION:
        raise InputError(
            f"store '{path}' was written by a newer schedlab (tables {version}; known: {VERSION})"
        )
    # A run that was told to be stored is on the disk, whatever happens next.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    if application != APPLICATION:
        with transaction(connection):
            # Another process may have made the tables since we looked.
            if not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                for statement in _TABLES.split(";\n"):
                    if statement.strip():
                        connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {VERSION}")
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
    _refuse_other_tables(connection, path)


def _refuse_other_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file whose tables are not ours: a view of that name could run for ever."""
    rows = connection.execute("SELECT type, name, sql FROM sqlite_schema").fetchall()
    kinds = {str(name): (kind, _bare(str(sql))) for kind, name, sql in rows}
    for statement in _TABLES.split(";\n"):
        text = _bare(statement)
        if not text:
            continue
        name = text.split()[2]
        if name not in kinds:
            raise InputError(f"store '{path}' is damaged: it has no table '{name}'")
        if kinds[name] != ("table", text):
            raise InputError(f"store '{path}' is damaged: its table '{name}' is another")
    foreign = [name for name, (kind, _) in kinds.items() if kind in ("trigger", "view")]
    if foreign:
        raise InputError(f"store '{path}' has a trigger or view '{foreign[0]}', which is not ours")


def _bare(statement: str) -> str:
    """Return a statement without comments and line breaks."""
    return " ".join(re.sub(r"--[^\n]*", "", statement).split())


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Write all of a block or nothing.

    An interrupt may come between any two steps, so each of them is within the reach of the way
    back; one that left even so is undone before the next.
    """
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite ends some failed ones by itself
            connection.execute("ROLLBACK")
        raise


@contextmanager
def failures(path: Path) -> Iterator[None]:
    """Turn what SQLite refuses into one line."""
    try:
        yield
    except SchedlabError:
        raise
    except sqlite3.OperationalError as error:
        if "full" in str(error) or "disk I/O" in str(error):
            raise StorageError(
                f"store '{path}': {error}; the runs that were finished before are kept"
            ) from None
        raise InputError(f"store '{path}': {error}") from None
    except sqlite3.DatabaseError as error:
        raise InputError(f"store '{path}': {error}") from None
    except UnicodeDecodeError as error:
        # SQLite's own message may quote bytes of a damaged file.
        raise InputError(f"store '{path}' is damaged: {error}") from None
