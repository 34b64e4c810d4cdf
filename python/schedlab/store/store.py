"""The store of runs: every run with what is needed to repeat it."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from schedlab._core import __version__
from schedlab.boundary.errors import InputError, reading
from schedlab.store.schema import connect, failures, transaction

STATES = ("running", "interrupted", "failed", "done")
"""Of an experiment. One that says ``running`` and is not was killed."""


def default_path() -> Path:
    """Return where runs are stored by default."""
    base = os.environ.get("XDG_DATA_HOME", "")
    directory = Path(base) if base.startswith("/") else Path.home() / ".local" / "share"
    return directory / "schedlab" / "runs.db"


def digest(value: object) -> str:
    """Return sixteen hexadecimal digits that stand for a value.

    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(to_text(value).encode()).hexdigest()[:16]


def to_text(value: object) -> str:
    """Return the one JSON text of a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=True)


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run that has just finished.

    Attributes:
        arm: the arm's name.
        block: the block it belongs to.
        position: its place in the block's order.
        seed: of every random stream.
        begun: when, UTC.
        seconds: how long it took.
        load: the load average when it began; None where it was not read.
        definition: what was run and how, whole.
        facts: where.
        outcome: all that came out.
        values: by metric.
    """

    arm: str
    block: int
    position: int
    seed: int
    begun: str
    seconds: float
    load: float | None
    definition: Mapping[str, Any]
    facts: Mapping[str, Any]
    outcome: Mapping[str, Any]
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class StoredRun(NewRun):
    """A run in the store.

    Attributes:
        experiment: the experiment's id.
        version: of the schedlab that made it.
    """

    experiment: str
    version: str


@dataclass(frozen=True, slots=True)
class StoredExperiment:
    """An experiment.

    Attributes:
        id: sixteen hexadecimal digits.
        kind: ``compare``, ``sweep``, ``verify`` or ``tune``.
        title: for people.
        plan: arms, questions, protocol, seed.
        session: from 1.
        command: the words that started it.
        version: of schedlab.
        begun: when, UTC.
        state: one of `STATES`.
        result: what it came to; None before its end.
        runs: finished runs.
    """

    id: str
    kind: str
    title: str
    plan: Mapping[str, Any]
    session: int
    command: Sequence[str]
    version: str
    begun: str
    state: str
    result: Mapping[str, Any] | None
    runs: int


class Store:
    """A file of experiments and runs.

    Each run is one transaction: it is there whole, or not at all, whatever ends the program.

    Args:
        path: the file; `default_path` otherwise, whose directory is made.
        create: make the file where there is none.

    Raises:
        InputError: it is no store, or may not be read or made.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name, Store(Path(name) / "runs.db") as store:
    ...     experiment = store.begin("compare", "a title", {"arms": ["one"]}, [])
    ...     store.add(experiment, "one", 0, 0, seed=1, begun="", seconds=0.5, definition={},
    ...               facts={}, outcome={}, values={"time": 0.5})
    ...     store.values(experiment)
    {('one', 0): {'time': 0.5}}
    """

    def __init__(self, path: Path | None = None, *, create: bool = True) -> None:
        if path is None:
            path = default_path()
            if create:
                try:
                    path.parent.mkdir(parents=True, exist_ok=True)
                except OSError as error:
                    raise InputError(f"store '{path}': {error.strerror}") from None
        self.path = path
        self._connection = connect(path, create=create)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def begin(
        self,
        kind: str,
        title: str,
        plan: Mapping[str, Any],
        command: Sequence[str],
        *,
        afresh: bool = False,
        meaning: Callable[[Mapping[str, Any]], object] | None = None,
    ) -> str:
        """Begin an experiment, or go on with the one of the same plan, and return its id.

        Args:
            kind: ``compare``, ``sweep``, ``verify`` or ``tune``.
            title: for people.
            plan: what determines it; the same plan is the same experiment.
            command: the words that started it.
            afresh: begin a new session of the plan, whatever was run before.
            meaning: what of a plan matters, where an earlier schedlab may have written the same one
                otherwise; plans that are equal in it are the same. Without it those are that are
                equal to the letter.
        """
        with failures(self.path), transaction(self._connection):
            rows = self._sessions(kind, plan, meaning)
            if rows and not afresh:
                found = str(rows[-1][0])
                self._connection.execute(
                    "UPDATE experiment SET state = 'running' WHERE id = ?", (found,)
                )
                return found
            session = rows[-1][1] + 1 if rows else 1
            identity = digest([kind, plan, session])
            self._connection.execute(
                "INSERT INTO experiment VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'running', NULL)",
                (
                    identity,
                    kind,
                    title,
                    to_text(plan),
                    session,
                    to_text(list(command)),
                    __version__,
                    now(),
                ),
            )
        return identity

    def _sessions(
        self,
        kind: str,
        plan: Mapping[str, Any],
        meaning: Callable[[Mapping[str, Any]], object] | None,
    ) -> list[tuple[str, int]]:
        """Return id and session of a plan's experiments, the one to go on with last."""
        text = to_text(plan)
        if meaning is None:
            found = self._connection.execute(
                "SELECT id, session FROM experiment WHERE plan = ? AND kind = ? ORDER BY session",
                (text, kind),
            )
            return [(str(identity), int(session)) for identity, session in found]
        wanted = meaning(plan)
        rows = self._connection.execute(
            "SELECT id, session, plan FROM experiment WHERE kind = ?"
            " ORDER BY session, plan = ?, begun",
            (kind, text),
        ).fetchall()
        return [
            (str(identity), int(session))
            for identity, session, other in rows
            if other == text or meaning(json.loads(other)) == wanted
        ]

    def finish(self, experiment: str, state: str, result: Mapping[str, Any] | None = None) -> None:
        """Note how an experiment ended."""
        assert state in STATES
        with failures(self.path), transaction(self._connection):
            self._connection.execute(
                "UPDATE experiment SET state = ?, result = coalesce(?, result) WHERE id = ?",
                (state, None if result is None else to_text(result), experiment),
            )

    def add(
        self,
        experiment: str,
        arm: str,
        block: int,
        position: int,
        *,
        seed: int,
        begun: str,
        seconds: float,
        definition: Mapping[str, Any],
        facts: Mapping[str, Any],
        outcome: Mapping[str, Any],
        values: Mapping[str, float],
        load: float | None = None,
    ) -> None:
        """Store a finished run.

        Raises:
            StorageError: the disk is full; what was stored before is kept.
        """
        self.add_all(
            experiment,
            [
                NewRun(
                    arm=arm,
                    block=block,
                    position=position,
                    seed=seed,
                    begun=begun,
                    seconds=seconds,
                    load=load,
                    definition=definition,
                    facts=facts,
                    outcome=outcome,
                    values=values,
                )
            ],
        )

    def add_all(self, experiment: str, runs: Iterable[NewRun]) -> None:
        """Store finished runs, all of them or none.

        Raises:
            StorageError: the disk is full; what was stored before is kept.
        """
        with failures(self.path), transaction(self._connection):
            for run in runs:
                self._add(experiment, run)

    def _add(self, experiment: str, run: NewRun) -> None:
        execute = self._connection.execute
        configuration, place = digest(run.definition), digest(run.facts)
        execute(
            "INSERT OR IGNORE INTO configuration VALUES (?, ?)",
            (configuration, to_text(run.definition)),
        )
        execute("INSERT OR IGNORE INTO place VALUES (?, ?)", (place, to_text(run.facts)))
        row = execute(
            "INSERT INTO run (experiment, arm, block, position, configuration, place, seed,"
            " version, begun, seconds, load, outcome) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",
            (
                experiment,
                run.arm,
                run.block,
                run.position,
                configuration,
                place,
                str(run.seed),
                __version__,
                run.begun,
                run.seconds,
                run.load,
                to_text(run.outcome),
            ),
        ).lastrowid
        self._connection.executemany(
            "INSERT INTO value VALUES (?, ?, ?)",
            [(row, metric, float(value)) for metric, value in run.values.items()],
        )

    def fail(self, experiment: str, arm: str, block: int, message: str) -> None:
        """Note that a run failed; a run that is made again and succeeds is stored beside it."""
        with failures(self.path), transaction(self._connection):
            self._connection.execute(
                "INSERT OR REPLACE INTO failure VALUES (?, ?, ?, ?, ?)",
                (experiment, arm, block, now(), message),
            )

    def values(self, experiment: str) -> dict[tuple[str, int], dict[str, float]]:
        """Return the metrics of an experiment's finished runs, by arm and block, as they were run.

        Raises:
            InputError: the file cannot be read.
        """
        found: dict[tuple[str, int], dict[str, float]] = {}
        with failures(self.path), self._reading():
            rows = self._connection.execute(
                "SELECT arm, block, metric, value FROM run LEFT JOIN value ON value.run = run.id"
                " WHERE experiment = ? ORDER BY run.id",
                (experiment,),
            )
            for arm, block, metric, value in rows:
                metrics = found.setdefault((arm, block), {})
                if metric is not None:
                    metrics[metric] = value
        return found

    def boots(self, experiment: str) -> dict[tuple[str, int], str | None]:
        """Return in which boot of its kernel each finished run was made, by arm and block.

        None for a simulation, and where the kernel did not tell.

        Raises:
            InputError: the file cannot be read.
        """
        with failures(self.path), self._reading():
            rows = self._connection.execute(
                "SELECT arm, block, json_extract(facts, '$.boot') FROM run"
                " JOIN place ON place.id = run.place WHERE experiment = ? ORDER BY run.id",
                (experiment,),
            )
            return {(arm, block): boot for arm, block, boot in rows}

    def forget(self, experiment: str, runs: Iterable[tuple[str, int]]) -> None:
        """Remove finished runs, named by arm and block, all of them or none."""
        with failures(self.path), transaction(self._connection):
            for arm, block in runs:
                which = (experiment, arm, block)
                self._connection.execute(
                    "DELETE FROM value WHERE run IN"
                    " (SELECT id FROM run WHERE experiment = ? AND arm = ? AND block = ?)",
                    which,
                )
                self._connection.execute(
                    "DELETE FROM run WHERE experiment = ? AND arm = ? AND block = ?", which
                )

    def notes(self, experiment: str) -> tuple[str, ...]:
        """Return the notes of an experiment's runs (`schedlab.Outcome.notes`), each once."""
        with failures(self.path):
            rows = self._connection.execute(
                "SELECT note.value FROM run, json_each(run.outcome, '$.notes') AS note"
                " WHERE experiment = ? GROUP BY note.value ORDER BY min(run.id)",
                (experiment,),
            )
            return tuple(str(text) for (text,) in rows)

    def failures(self, experiment: str) -> dict[tuple[str, int], str]:
        """Return what went wrong, by arm and block."""
        with failures(self.path):
            rows = self._connection.execute(
                "SELECT arm, block, message FROM failure WHERE experiment = ?", (experiment,)
            )
            return {(arm, block): message for arm, block, message in rows}

    def made_again(self, experiment: str) -> dict[tuple[str, int], str]:
        """Return why runs failed that were made again and did not, by arm and block."""
        with failures(self.path):
            rows = self._connection.execute(
                "SELECT arm, block, message FROM failure JOIN run USING (experiment, arm, block)"
                " WHERE experiment = ? ORDER BY run.id",
                (experiment,),
            )
            return {(arm, block): message for arm, block, message in rows}

    def experiments(self) -> list[StoredExperiment]:
        """Return all experiments, the oldest first."""
        with failures(self.path), self._reading():
            rows = self._connection.execute(
                "SELECT id, kind, title, plan, session, command, version, begun, state, result,"
                " (SELECT count(*) FROM run WHERE run.experiment = experiment.id)"
                " FROM experiment ORDER BY begun, rowid"
            ).fetchall()
            return [
                StoredExperiment(
                    id=row[0],
                    kind=row[1],
                    title=row[2],
                    plan=json.loads(row[3]),
                    session=row[4],
                    command=json.loads(row[5]),
                    version=row[6],
                    begun=row[7],
                    state=row[8],
                    result=None if row[9] is None else json.loads(row[9]),
                    runs=row[10],
                )
                for row in rows
            ]

    def circumstances(
        self, experiment: str
    ) -> list[tuple[str, str, float | None, Mapping[str, Any]]]:
        """Return arm, begin, load average and place of each run of an experiment, as they were run.

        Raises:
            InputError: the file cannot be read.
        """
        with failures(self.path), self._reading():
            rows = self._connection.execute(
                "SELECT arm, begun, load, facts FROM run JOIN place ON place.id = run.place"
                " WHERE experiment = ? ORDER BY run.id",
                (experiment,),
            ).fetchall()
            places = {facts: json.loads(facts) for *_, facts in rows}
            return [(arm, begun, load, places[facts]) for arm, begun, load, facts in rows]

    def _reading(self) -> AbstractContextManager[None]:
        return reading(f"store '{self.path}' is damaged")

    def experiment(self, identity: str) -> StoredExperiment:
        """Return the experiment whose id begins so.

        Raises:
            InputError: none or several do.
        """
        found = [one for one in self.experiments() if one.id.startswith(identity)]
        if len(found) != 1:
            many = "no experiment" if not found else f"{len(found)} experiments"
            raise InputError(
                f"store '{self.path}': {many} with the id '{identity}'; "
                "'schedlab report --list' shows them"
            )
        return found[0]

    def runs(self, experiment: str | None = None) -> Iterator[StoredRun]:
        """Yield finished runs, in the order in which they were run, of one experiment or of all."""
        values: dict[int, dict[str, float]] = {}
        with failures(self.path):
            for run, metric, value in self._connection.execute("SELECT * FROM value"):
                values.setdefault(run, {})[metric] = value
            rows = self._connection.execute(
                "SELECT run.id, experiment, arm, block, position, seed, version, begun, seconds,"
                " load, definition, facts, outcome FROM run"
                " JOIN configuration ON configuration.id = run.configuration"
                " JOIN place ON place.id = run.place"
                " WHERE ?1 IS NULL OR experiment = ?1 ORDER BY run.id",
                (experiment,),
            ).fetchall()
        for row in rows:
            with self._reading():
                run = StoredRun(
                    experiment=row[1],
                    arm=row[2],
                    block=row[3],
                    position=row[4],
                    seed=int(row[5]),
                    version=row[6],
                    begun=row[7],
                    seconds=row[8],
                    load=row[9],
                    definition=json.loads(row[10]),
                    facts=json.loads(row[11]),
                    outcome=json.loads(row[12]),
                    values=values.get(row[0], {}),
                )
            yield run


def now() -> str:
    """Return the time as it is stored: UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
