"""``schedlab report``."""

import json as jsonlib
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from schedlab.boundary.errors import InputError, reading
from schedlab.boundary.files import read_text, write_text
from schedlab.cli import comparison, options
from schedlab.experiment import campaign
from schedlab.live import put_beside
from schedlab.report import answers, document, experiments, tuning_result, verification
from schedlab.report.terminal import emit_json, note, say, show
from schedlab.report.words import merit
from schedlab.store import Store, StoredExperiment
from schedlab.store.store import default_path
from schedlab.tuning import verification as tuning_verification

_DEMO = Path("out/demo/summary.json")


def command(
    what: Annotated[
        str | None,
        typer.Argument(
            help="An experiment's id or its beginning, or the summary.json of a demo or a study; "
            f"{_DEMO} otherwise.",
            metavar="WHAT",
            show_default=False,
        ),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    store: comparison.File = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="FILE",
            help="Write there: .md, .html, .csv (runs) or .json of an experiment, .html or .md of "
            "a demo or a study.",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Show an experiment's result from the store, or write its report again.

    Example: [bold]schedlab report --list[/bold]
    """
    options.output(output)
    if listed:
        _list(store, json=json)
    elif what is None or what.endswith(".json") or "/" in what or os.path.isfile(what):  # noqa: PTH113
        _demo(_DEMO if what is None else Path(what), output, json=json)
    else:
        _experiment(what, store, output, json=json)


def _list(file: Path | None, *, json: bool) -> None:
    found: list[StoredExperiment] = []
    if file is not None or default_path().exists():  # a store that was named has to be there
        with Store(file, create=False) as store:
            found = store.experiments()
    if not found and not json:
        say(
            f"no experiments in {file or default_path()}: compare, sweep and tune keep theirs there"
        )
        return
    if json:
        emit_json(
            [
                {
                    name: getattr(one, name)
                    for name in ("id", "kind", "title", "begun", "state", "runs", "session")
                }
                for one in found
            ]
        )
        return
    rows = [(one.id[:8], one.kind, one.begun, one.state, str(one.runs), one.title) for one in found]
    show(rows, ("id", "kind", "begun", "state", "runs", "title"), left=6)


def _experiment(identity: str, file: Path | None, output: Path | None, *, json: bool) -> None:
    with Store(file, create=False) as store, ExitStack() as stack:
        stored = store.experiment(identity)
        stack.enter_context(reading(f"store '{store.path}', experiment {stored.id}, is damaged"))
        if stored.kind == "study" and stored.result is None and not _plain(output):
            raise InputError(
                f"experiment {stored.id} holds runs of a study, or one that did not end: its runs "
                "can be written, with --output FILE.csv or FILE.json"
            )
        if stored.kind == "study" and not _plain(output):
            _rebuild(stored.result, output or Path("report.html"), json=json)
            return
        if output is not None:
            _write(stored, store, output)
            return
        if stored.kind == "tune":
            _tuned(stored, store, json=json)
        elif stored.kind == "verify":
            _verified(stored, store, json=json)
        else:
            comparison.tell_result(campaign.recall(stored, store), json=json, remarks=False)


def _verified(stored: StoredExperiment, store: Store, *, json: bool) -> None:
    of, session = tuning_verification.of_session(stored, store)
    first = tuning_verification.certification(of, store)
    if json:
        emit_json(verification.plain(of, first, [session]))
    else:
        verification.describe(of, first, [session])


def _plain(output: Path | None) -> bool:
    """Whether a file is to hold the runs, and no report."""
    return output is not None and output.suffix in (".csv", ".json")


def _tuned(stored: StoredExperiment, store: Store, *, json: bool) -> None:
    results = document.comparisons(stored, store)
    if json:
        compared = [comparison.plain(result) for result in results]
        told = {"experiment": stored.id, "state": stored.state, **(stored.result or {})}
        sessions = tuning_verification.of_tuning(stored, store)
        told["later"] = [
            {"setting": dict(of.setting.values), **session.as_data()} for of, session in sessions
        ]
        emit_json({**told, "comparisons": compared})
        return
    outcome = stored.result
    say(f"{stored.title}: {stored.state}")
    if outcome is not None:
        best = document.setting_text(outcome["best"])
        worth = merit(outcome["effect"], outcome.get("better"))
        say(f"best by {outcome['by']}: {best}; in the search, which flatters it: {worth}")
    for result in results:
        for sentence in answers.sentences(result):
            say(sentence)
        for text in result.notes:
            note(text)
    if outcome is not None and results and len(outcome.get("aims", ())) > 1:
        for sentence in tuning_result.conclusion(outcome):
            say(sentence)
    for sentence in verification.later(stored, store):
        say(sentence)
    if outcome is not None and not results:
        say("no fresh runs certify it")
    say()
    tried = document.tried(stored, store)
    show(tried.rows, tried.columns)


def _write(stored: StoredExperiment, store: Store, output: Path) -> None:
    make = {
        ".md": experiments.markdown,
        ".csv": experiments.csv_text,
        ".json": experiments.json_text,
        ".html": experiments.html,
    }.get(output.suffix)
    if make is None:
        allowed = ", ".join(experiments.FORMATS)
        raise InputError(f"cannot write '{output}': an experiment is written to {allowed}")
    if output.suffix == ".html":
        beside = bool(experiments.addresses(stored, store)) and put_beside(output.parent)
        write_text(output, experiments.html(stored, store, beside=beside))
    else:
        write_text(output, make(stored, store))
    say(f"written to {output}")


def _demo(summary: Path, output: Path | None, *, json: bool) -> None:
    try:
        value = jsonlib.loads(read_text(summary, "summary"))
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        said = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
        raise InputError(f"summary '{summary}' is no JSON: {said}") from None
    target = summary.with_name("report.html") if output is None else output
    options.output(target)
    with reading(f"summary '{summary}' is not what the demo or a study writes"):
        _rebuild(value, target, json=json)


def _rebuild(summary: Any, target: Path, *, json: bool) -> None:
    """Write a demo's or a study's report, as Markdown where the file's name says so."""
    if target.suffix not in (".html", ".md"):
        kind = "a study" if "study" in summary else "a demo"
        raise InputError(f"cannot write '{target}': {kind}'s report is written to .html or .md")
    # Drawing loads a library that the other commands do without.
    from schedlab.report import study_markdown, study_page  # noqa: PLC0415
    from schedlab.report.charts import drawing  # noqa: PLC0415
    from schedlab.studies.demo.summary import as_study  # noqa: PLC0415

    with drawing():
        study = summary if "study" in summary else as_study(summary)
        sentences = list(study["answers"])
        if target.suffix == ".md":
            study_markdown.write(study, target)
        else:
            beside = bool((study.get("timeline") or {}).get("live")) and put_beside(target.parent)
            write_text(target, study_page.report(study, beside=beside))
    if json:
        emit_json({"report": str(target), "answers": sentences})
        return
    for sentence in sentences:
        say(sentence)
    say(f"written to {target}")
