"""What schedlab itself wrote: costs, journals, stores, outcomes, summaries."""

import contextlib
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from unittest.mock import patch

from tests.fuzzing.parser import directory, file
from tests.fuzzing.recordings import machine

from schedlab import _core
from schedlab.cli.main import invoke
from schedlab.knobs import journal
from schedlab.knobs.places import Place
from schedlab.measure import calibration
from schedlab.model import Scheduler, Workload
from schedlab.store import Store
from schedlab.studies.demo import demo

SUMMARIES = Path(__file__).resolve().parents[2] / "out" / "fuzz"
"""Where a demo's and a study's summaries are kept, as each takes seconds to make."""


@cache
def costs() -> Sequence[bytes]:
    costs = dict.fromkeys(json.loads(_core.costs("ideal")), "1us")
    lines = ["[machine]", 'kernel = "6.1"', "cpus = 2", "hz = 250", 'notes = ["a", "b"]', "[costs]"]
    lines += [f'{name} = "{time}"' for name, time in costs.items()]
    lines += ["[devices]", 'disk_sync = "1ms"']
    for table in ("spread.switch", "measured.pipe", "later.fork"):
        lines += [f"[{table}]", "median_ns = 1.0", "p25_ns = 0.5", "p75_ns = 2.0", "samples = 5"]
    return ["\n".join(lines).encode(), "\n".join(lines[:20]).encode()]


def read_costs(data: bytes) -> None:
    calibration.load(file(data, "costs.toml"))


@cache
def journals() -> Sequence[bytes]:
    places = [Place(Path("/proc/sys/kernel/sched_latency_ns")), Place(Path("/proc/x"), "FLAG")]
    entries = [journal.Entry("latency", place, "1", "2", "boot", 7) for place in places]
    return [journal.to_text(entries).encode(), b""]


@cache
def stores() -> Sequence[bytes]:
    path = directory() / "seed.db"
    with Store(path) as store:
        plan = {"cases": [{"name": "a", "metric": {"name": "time"}}], "arms": ["one"]}
        experiment = store.begin("compare", "a title", plan, ["schedlab"])
        for block in range(3):
            store.add(
                *(experiment, "one", block, 0),
                seed=1,
                begun="2026-01-01",
                seconds=0.5,
                definition={"a": block},
                facts={"kernel": "6.1"},
                outcome={"x": 1},
                values={"time": 0.5},
            )
        store.fail(experiment, "one", 9, "it failed")
        store.finish(experiment, "done", {"best": {}})
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("VACUUM")
    return [path.read_bytes()]


def read_store(data: bytes) -> None:
    path = file(data, "runs.db")
    for name in ("runs.db-wal", "runs.db-shm", "runs.db-journal"):
        (directory() / name).unlink(missing_ok=True)
    with Store(path, create=False) as store:
        for one in store.experiments():
            store.values(one.id)
            store.failures(one.id)
            list(store.runs(one.id))


@cache
def outcomes() -> Sequence[bytes]:
    workload = Workload.parse("hackbench:groups=1,fds=2,loops=2")
    scheduler = Scheduler("6.1")
    return [_core.simulate(workload.json, scheduler.json, machine().json, 1).encode()]


def summaries() -> Sequence[bytes]:
    """Return the summaries of a small demo and of two small studies, made if they are not there."""
    paths = [SUMMARIES / f"{name}.json" for name in ("demo", "cfs_parameters", "thread_fairness")]
    for path in paths:
        if not path.exists():
            _make_summary(path)
    return [path.read_bytes() for path in paths]


def _make_summary(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # A demo keeps the costs that it measured where its user's are.
    with (
        tempfile.TemporaryDirectory() as made,
        tempfile.TemporaryDirectory() as data,
        patch.dict(os.environ, XDG_DATA_HOME=data),
    ):
        if path.stem == "demo":
            demo.run(
                Path(made), demo.Size(seeds=2, repeats=1, pairs=2, messages=(1, 2), quick=True)
            )
        else:
            code = invoke(["study", path.stem, "--quick", "--output", made])
            if code != 0:
                raise RuntimeError(f"study {path.stem} ended with {code}")
        shutil.move(next(Path(made).rglob("summary.json")), path)
