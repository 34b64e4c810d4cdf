"""``schedlab doctor``."""

import typer

from schedlab.cli import options
from schedlab.measure.doctor import diagnose
from schedlab.report.summary import diagnosis_json
from schedlab.report.terminal import emit_json, heading, show
from schedlab.report.text import describe_machine


def command(json: options.Json = False) -> None:
    """Show this machine, what can be set here, and why the rest cannot.

    Exits with 1 where something is missing without which nothing works.

    Example: [bold]schedlab doctor[/bold]
    """
    diagnosis = diagnose()
    if json:
        emit_json({**diagnosis_json(diagnosis), "sound": diagnosis.sound})
    else:
        describe_machine(diagnosis)
        heading("programs and files")
        show(
            [
                (check.name, "ok" if check.present else "missing", check.detail)
                for check in diagnosis.checks
            ],
            ("what", "", "detail"),
            left=3,
            wrap=True,
        )
    if not diagnosis.sound:
        raise typer.Exit(1)
