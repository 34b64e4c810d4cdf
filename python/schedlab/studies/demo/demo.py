"""The main job: calibrate, validate, tune, verify and report, in one go."""

import json
import math
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from schedlab import __version__, programs
from schedlab.boundary import extras, files
from schedlab.measure import calibration, doctor, validation
from schedlab.measure.doctor import Diagnosis
from schedlab.model import Machine, Scheduler, short_time
from schedlab.report.study_progress import telling
from schedlab.report.summary import (
    calibration_json,
    diagnosis_json,
    equivalence_json,
    validation_json,
)
from schedlab.report.terminal import heading, note, say, to_json
from schedlab.report.text import (
    describe_calibration,
    describe_equivalence,
    describe_machine,
    describe_validation,
)
from schedlab.search import Progress
from schedlab.studies.scheduler_tuning import policy_and_slice, scheduler_tuning
from schedlab.studies.scheduler_tuning.tuning_summary import (
    describe_study,
    describe_verified,
    tuning_json,
    verified_json,
)
from schedlab.studies.study import Tell
from schedlab.targets.facts import Facts
from schedlab.targets.sim import simulate

WORKLOAD = "hackbench:groups=5,loops=20"
"""What policy and slice are tuned for: long enough for slices to matter, short enough to repeat."""

NEIGHBOURS = tuple(f"hackbench:groups=5,loops={loops}" for loops in range(16, 25))
"""What is simulated for that; means over these."""

TRACED = "hackbench:groups=5,loops=1"
"""What the Perfetto trace shows."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much of it is done.

    Attributes:
        seeds: of each swarm.
        repeats: real runs of each validated workload.
        pairs: real runs of default and best setting.
        messages: message counts validated.
        quick: whether the calibration is the short one.
    """

    seeds: int = 200
    repeats: int = 5
    pairs: int = 30
    messages: tuple[int, ...] = validation.MESSAGES
    quick: bool = False


FULL = Size()
QUICK = Size(seeds=5, repeats=2, pairs=6, messages=(1, 2, 5, 10), quick=True)


@dataclass(frozen=True, slots=True)
class Display:
    """What is shown while it is done.

    Attributes:
        printed: whether each part is printed as it comes out.
        telling: opens the display of progress, see `schedlab.studies.study.Tell`.
    """

    printed: bool
    telling: Callable[[], AbstractContextManager[Tell]]

    @contextmanager
    def part(self, title: str) -> Iterator[None]:
        """Head a part, and say at its end how long it took."""
        began = time.monotonic()
        if self.printed:
            heading(title)
        yield
        if self.printed:
            note(f"{title.partition('.')[0]}: {short_time((time.monotonic() - began) * 1e9)}")


@dataclass(frozen=True, slots=True)
class Measured:
    """What came out of the parts that measure and search.

    Attributes:
        summary: all of it, as plain data.
        searches: those on the simulated 2.6.24.
        machine: this one, with the costs that were measured.
        scheduler: this kernel's rules.
    """

    summary: dict[str, Any]
    searches: scheduler_tuning.Study
    machine: Machine
    scheduler: Scheduler


def run(directory: Path, size: Size = FULL) -> dict[str, Any]:
    """Do it all, print what comes out, write the files, and return the summary.

    Args:
        directory: where ``report.html``, ``hackbench.pftrace`` and ``summary.json`` go.
        size: how much of it.

    Raises:
        InputError: the directory cannot be made, or the native runner is not there.
        RunError: a run failed.
    """
    files.make_directory(directory)
    display = Display(printed=True, telling=partial(telling, math.inf))
    made = measured(size, display)
    with display.part("5. Results"):
        return _write(directory, made.summary, made.machine, made.scheduler)


def measured(size: Size, display: Display) -> Measured:
    """Do all parts but the last, which writes.

    Raises:
        InputError: the native runner is not there.
        RunError: a run failed.
    """
    began = time.monotonic()
    parts: dict[str, Any] = {}
    with display.part("1. This machine"):
        diagnosis = doctor.diagnose()
        if display.printed:
            describe_machine(diagnosis)
        with display.telling() as tell:
            tell("calibrating", 0, 1)
            costs = calibration.calibrate(quick=size.quick)
        if display.printed:
            heading("costs")
            describe_calibration(costs)
        calibration.save(costs)
        parts |= {"machine": diagnosis_json(diagnosis), "calibration": calibration_json(costs)}
    here = diagnosis.facts
    machine = Machine(here.cpus, costs.costs)
    scheduler = here.rules
    with display.part("2. The simulator against this kernel"):
        parts |= _validate(here, machine, scheduler, size, display)
    with display.part("3. Particle swarm against golden section, on the simulated 2.6.24"):
        searches = _searched(size, display)
        parts["tuning"] = tuning_json(searches)
    with display.part("4. Policy and slice for hackbench on this kernel"):
        parts["verified"] = _verify(diagnosis, machine, scheduler, size, display)
    summary = {
        "version": __version__,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        **parts,
        "seconds": round(time.monotonic() - began, 1),
    }
    return Measured(json.loads(to_json(summary)), searches, machine, scheduler)


def _validate(
    here: Facts, machine: Machine, scheduler: Scheduler, size: Size, display: Display
) -> dict[str, Any]:
    if here.stand_in:
        note(here.stand_in)
    settings = validation.figure_1(size.messages)
    beside = programs.hackbench_installed()
    total = (size.repeats + 1) * len(settings) * (1 + beside)
    if display.printed:
        say(f"hackbench, 5 groups (200 tasks), {_listed(size.messages)} messages")
    with display.telling() as tell:
        experiment = validation.measure(
            settings,
            repeats=size.repeats,
            beside=beside,
            progress=lambda one: tell("running hackbench", one.done, total),
        )
    result = validation.validate(settings, experiment, machine=machine, scheduler=scheduler)
    equivalence = validation.equivalence(settings, experiment) if beside else None
    if display.printed:
        describe_validation(result)
        if equivalence is not None:
            describe_equivalence(equivalence)
        else:
            note("rt-tests' hackbench is not installed, so ours was not compared with it")
    return {
        "validation": validation_json(result),
        "equivalence": None if equivalence is None else equivalence_json(equivalence),
    }


def _searched(size: Size, display: Display) -> scheduler_tuning.Study:
    with display.telling() as tell:

        def told(search: str, one: Progress) -> None:
            done = one.generation + (31 if search == "pso_default" else 0)
            tell("searching", done, 2 * 31)

        study = scheduler_tuning.study(seeds=range(size.seeds), progress=told)
    if display.printed:
        describe_study(study)
    return study


def _verify(
    diagnosis: Diagnosis,
    machine: Machine,
    scheduler: Scheduler,
    size: Size,
    display: Display,
) -> dict[str, Any]:
    with display.telling() as tell:
        verified = policy_and_slice.verify(
            WORKLOAD,
            policy_and_slice.settable(diagnosis),
            scheduler=scheduler,
            machine=machine,
            neighbours=NEIGHBOURS if not size.quick else (),
            repeats=size.pairs,
            progress=lambda one: tell("running hackbench", one.done, 2 * (size.pairs + 2)),
        )
    if display.printed:
        describe_verified(verified)
    return verified_json(verified)


def _write(
    directory: Path, summary: dict[str, Any], machine: Machine, scheduler: Scheduler
) -> dict[str, Any]:
    # Drawing loads a library that the other parts do without.
    from schedlab.report.study_page import report  # noqa: PLC0415
    from schedlab.studies.demo.summary import answers, as_study  # noqa: PLC0415

    trace = directory / "hackbench.pftrace"
    simulate(TRACED, scheduler=scheduler, machine=machine, trace=trace)
    page = directory / "report.html"
    file = directory / "summary.json"
    files.write_text(file, to_json(summary) + "\n")
    drawn = extras.installed("charts")
    if drawn:
        files.write_text(page, report(as_study(summary)))
    for sentence in answers(summary):
        say(sentence)
    say()
    if drawn:
        say(f"{page}: the figures, in one file")
    else:
        note(
            "no figures were drawn: pip install 'schedlab[charts]', then "
            f"schedlab report {shlex.quote(str(file))}"
        )
    say(f"{trace}: {TRACED} simulated, for https://ui.perfetto.dev")
    say(f"{file}: every number")
    return summary


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))
