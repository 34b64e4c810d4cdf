"""Real runs that are kept, so that what was interrupted goes on where it stopped."""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

from fidelity.observation import Observation
from fidelity.places import WAITS, Anew, Place, calibrated
from schedlab.boundary.errors import InputError
from schedlab.boundary.files import make_directory, write_text
from schedlab.measure import calibration
from schedlab.measure.calibration import Calibration
from schedlab.model import Workload
from schedlab.targets import host


class RunStore:
    """The runs and costs of one place in a file each, below a directory.

    A run is found again by what was run, with what, and on which kernel, whatever it is called; so
    a changed workload, runner or kernel is measured anew and nothing else is.

    Args:
        directory: where the files are.
        place: the place's name.
    """

    def __init__(self, directory: Path, place: str) -> None:
        self._directory = make_directory(directory)
        self._place = place
        self._stem = place.replace(":", "-").replace("=", "-")
        self._path = self._directory / f"{self._stem}.jsonl"
        self._runs: dict[str, Observation] = {}
        self.kernel = ""
        self.clock = ""
        for number, line in enumerate(self._lines(), start=1):
            try:
                value = json.loads(line)
                self._runs[value["key"]] = Observation.from_json(value["run"])
                self.kernel, self.clock = value["kernel"], value["clock"]
            except (ValueError, KeyError, TypeError):
                raise InputError(f"{self._path}, line {number}: no kept run") from None

    def _lines(self) -> list[str]:
        # The last line of a run that was killed may be cut off.
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        return text[: text.rfind("\n") + 1].splitlines()

    def find(self, what: str) -> Observation | None:
        """Return a run that is there."""
        return self._runs.get(what)

    def add(self, what: str, run: Observation, place: Place) -> None:
        """Keep a run."""
        self._runs[what] = run
        self.kernel, self.clock = place.kernel, place.clock
        value: dict[str, Any] = {
            "key": what,
            "kernel": place.kernel,
            "clock": place.clock,
            "run": run.json,
        }
        whole = "".join(f"{line}\n" for line in self._lines())
        if self._path.exists() and self._path.stat().st_size != len(whole.encode()):
            write_text(self._path, whole)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(value) + "\n")

    def costs(self, *, recorded: bool, anew: Anew | None) -> Calibration:
        """Return the costs of the place, measured once.

        Args:
            recorded: while waiting times are recorded, or left alone.
            anew: how, if they may be measured.

        Raises:
            InputError: there are none, and none are to be measured.
        """
        name = "recorded" if recorded else "alone"
        path = self._directory / f"{self._stem}-{name}-{_runner()}.toml"
        if path.exists():
            return calibration.load(path)
        if anew is None:
            raise InputError("its costs were never measured")
        level = WAITS if recorded else None
        found = calibrated(self._place, recorded=level, how=anew)
        calibration.save(found, path)
        return found


def key(workload: Workload, block: str, *, setting: str = "", recorded: bool) -> str:
    """Return what a run is found again by."""
    text = json.dumps([workload.json, block, setting, recorded, _runner()])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@cache
def _runner() -> str:
    # Once, so that what is built meanwhile is not taken for what runs.
    return hashlib.sha256(host.runner().read_bytes()).hexdigest()[:12]
