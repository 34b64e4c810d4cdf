"""``schedlab report``."""

import json as jsonlib
from pathlib import Path
from typing import Annotated, Any

import typer

from schedlab.cli import options
from schedlab.errors import InputError
from schedlab.files import write_text
from schedlab.report.terminal import emit_json, say


def command(
    summary: Annotated[
        Path, typer.Argument(help="The summary.json of a demo or a study.", metavar="SUMMARY")
    ] = Path("out/demo/summary.json"),
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="Write there; report.html beside it else."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Make the HTML report of a demo's or a study's summary anew.

    Example: [bold]schedlab report out/demo/summary.json --output report.html[/bold]
    """
    target = summary.with_name("report.html") if output is None else output
    options.output(target)
    try:
        value = jsonlib.loads(summary.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"summary '{summary}': {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"summary '{summary}' is no JSON: {error}") from None
    try:
        text, sentences = _page(value)
    except (KeyError, TypeError) as error:
        raise InputError(
            f"summary '{summary}' is not what the demo or a study writes: {error}"
        ) from None
    write_text(target, text)
    if json:
        emit_json({"report": str(target), "answers": sentences})
        return
    for sentence in sentences:
        say(sentence)
    say(f"written to {target}")


def _page(summary: Any) -> tuple[str, list[str]]:
    """Return the page and what it says first."""
    # Drawing loads a library that the other commands do without.
    if "study" in summary:
        from schedlab.report import study_page  # noqa: PLC0415

        return study_page.report(summary), list(summary["answers"])
    from schedlab.report import html  # noqa: PLC0415

    return html.report(summary), html.answers(summary)
