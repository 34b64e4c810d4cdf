"""``schedlab knobs``."""

from schedlab.cli import options
from schedlab.knobs import Knob, read_all, table
from schedlab.model import Scheduler
from schedlab.report.terminal import emit_json, say, show
from schedlab.targets.facts import facts


def command(
    kernel: options.Kernel = None, cpus: options.Cpus = None, json: options.Json = False
) -> None:
    """List the scheduler's knobs: range, default and place.

    Without --kernel: this kernel's, with their present values.

    Example: [bold]schedlab knobs --kernel 6.1 --cpus 4[/bold]
    """
    here = facts()
    release = Scheduler(kernel).release if kernel is not None else here.release
    count = here.cpus if cpus is None else cpus
    rows = [knob for knob in table(release, count) if knob.exists]
    present = {}
    if kernel is None:
        present = {reading.knob.name: reading for reading in read_all(release, here.cpus)}
    if json:
        emit_json(
            {
                "release": release,
                "cpus": count,
                "knobs": [
                    {
                        **_plain(knob),
                        "present": present[knob.name].value if knob.name in present else None,
                    }
                    for knob in rows
                ],
            }
        )
        return
    say(f"knobs of {release} on {count} CPUs")
    say()
    columns = ["knob", "place", "range", "default"]
    cells = [[knob.name, knob.path or "", knob.range, knob.default_text or ""] for knob in rows]
    if present:
        columns.append("present")
        for row, knob in zip(cells, rows, strict=True):
            row.append(present[knob.name].value or "?")
    show(cells, columns, left=2)
    if any(reading.value is None for reading in present.values()):
        say()
        say("? cannot be read here; 'schedlab doctor' says why")


def _plain(knob: Knob) -> dict[str, object]:
    return {name: getattr(knob, name) for name in Knob.__dataclass_fields__}
