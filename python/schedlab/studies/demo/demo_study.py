"""The demo as a study: its parts, and the claims of the tuning paper that they touch."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from schedlab.boundary.errors import InputError
from schedlab.studies.demo import demo
from schedlab.studies.demo.summary import TITLE, as_study
from schedlab.studies.recording import timeline_of
from schedlab.studies.scheduler_tuning import tuning_searches
from schedlab.studies.scheduler_tuning.scheduler_tuning import SOURCE
from schedlab.studies.study import Claim, Figure, Request, Result, Study, Table, judged


def study(request: Request) -> Result:
    """Do the demo's parts on this kernel.

    Raises:
        InputError: another target is named: the demo always measures this kernel.
    """
    if not set(request.on) <= {"sim", "host"}:
        raise InputError("the demo measures this kernel: leave --on out")
    size = demo.QUICK if request.quick else demo.FULL
    made = demo.measured(
        size, demo.Display(printed=False, telling=lambda: nullcontext(request.tell))
    )
    told = as_study(made.summary)
    return Result(
        answers=tuple(told["answers"]),
        claims=(_figure_1(made.summary["validation"]), *tuning_searches.compared(made.searches)),
        tables=tuple(_table(one) for one in told["tables"]),
        figures=tuple(Figure(**one) for one in told["figures"]),
        timeline=timeline_of(
            demo.TRACED,
            made.scheduler,
            made.machine,
            f"{demo.TRACED}, simulated: {made.scheduler}; {made.machine}",
            until_ns=20_000_000,
        ),
        notes=(*told["sure"], *told["notes"]),
        repeat=told["repeat"],
    )


def _figure_1(validation: Mapping[str, Any]) -> Claim:
    squared = validation["r_squared"]
    return Claim(
        "Turnarounds simulated with this machine's own costs are linear in real ones",
        "Figure 1",
        f"R² = {squared:.4f} over {len(validation['points'])} message counts",
        judged(squared >= 0.95, against=squared < 0.5),
    )


def _table(table: Mapping[str, Any]) -> Table:
    rows = tuple(tuple(row) for row in table["rows"])
    return Table(table["name"], table["title"], tuple(table["columns"]), rows, table["shown"])


STUDY = Study(
    name="demo",
    title=TITLE,
    paper=SOURCE,
    summary="whether the simulator follows this kernel, and what serves hackbench here",
    run=study,
)
