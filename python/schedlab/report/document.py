"""What an experiment came to, in parts that a page of any kind is made from."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schedlab import _core
from schedlab.experiment import campaign, stats
from schedlab.experiment.settings import TASK_SETTINGS, Setting
from schedlab.model import quantity
from schedlab.report import answers, tuning_result, verification
from schedlab.report.words import interval_words, merit, percent
from schedlab.store import Store, StoredExperiment
from schedlab.tuning import verification as tuning_verification
from schedlab.tuning.aims import Aims
from schedlab.tuning.conditions import Finding
from schedlab.tuning.verification import Certified, Session

_SIMULATION = ("kernel", "cpus", "hz", "costs", "topology", "speed", "weights", "group", "session")
"""Options that mean nothing on a real kernel."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table, each row with as many cells as there are columns."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Document:
    """What an experiment came to.

    Attributes:
        title: its kind and what was run.
        answers: what came out, a sentence each.
        why: why the next command is the next one.
        next_command: as typed.
        about: what the experiment was, in a paragraph.
        command: as it was typed.
        tables: its numbers.
        searched: all that a search tried; None of a comparison.
        remarks: what a reader has to know before relying on them.
        places: where it ran, as JSON.
    """

    title: str
    answers: Sequence[str]
    why: str
    next_command: str
    about: str
    command: str
    tables: Sequence[Table] = ()
    searched: Table | None = None
    remarks: Sequence[str] = ()
    places: Sequence[str] = field(default=(), repr=False)


def document(stored: StoredExperiment, store: Store) -> Document:
    """Return what an experiment came to, from the store alone.

    Raises:
        InputError: the store cannot be read.
    """
    results = comparisons(stored, store)
    if stored.kind == "tune":
        sentences = [
            *_tuned_sentences(stored, results),
            *_capital(verification.later(stored, store)),
        ]
        tables = [*_tables(results), *_gains(stored)]
        why, words = _after_tuning(stored, results)
    elif stored.kind == "verify":
        of, session = tuning_verification.of_session(stored, store)
        sentences = _capital(verification.sentences(of, session))
        rows = [verification.row(of, one) for one in session.conditions]
        tables = [Table("Conditions", verification.COLUMNS, rows), *_tables(results)]
        why, words = _after_verifying(stored, results[0], of, session)
    else:
        sentences = answers.sentences(results[0]) or ["No question has an answer yet."]
        tables = _tables(results)
        why, words = _after_comparing(stored, results[0])
    return Document(
        title=f"{stored.kind}: {stored.title}",
        answers=sentences,
        why=why,
        next_command=shlex.join(["schedlab", *words]),
        about=_about(stored),
        command=shlex.join(["schedlab", *stored.command]),
        tables=tables,
        searched=tried(stored, store) if stored.kind == "tune" else None,
        remarks=[text for result in results for text in _remarks(result)],
        places=_places(stored, store),
    )


def comparisons(stored: StoredExperiment, store: Store) -> list[campaign.Result]:
    """Return the comparisons of a tuning's winner with the default, or the one that it is itself.

    Raises:
        InputError: the store cannot be read.
    """
    if stored.kind != "tune":
        return [campaign.recall(stored, store)]
    known = {one.id: one for one in store.experiments()}
    wanted = [] if stored.result is None else stored.result.get("comparisons", [])
    return [campaign.recall(known[one], store) for one in wanted if one in known]


def means(stored: StoredExperiment, store: Store) -> list[dict[str, Any]]:
    """Return each arm of a tuning and metric of its case: its runs, their mean and the unit.

    Raises:
        InputError: the store cannot be read.
    """
    asked: dict[str, list[Mapping[str, Any]]] = {}
    for case in stored.plan["cases"]:
        asked.setdefault(case["name"], []).append(case["metric"])
    values: dict[tuple[str, str, str], list[float]] = {}
    for (arm, _), found in store.values(stored.id).items():
        group = arm.rpartition(" | ")[0]
        # Single runs on a real place beside the simulated ones name the place.
        known = asked.get(group) or asked.get(group.rpartition(" on ")[0])
        for metric in known or ({"name": "", "unit": ""},):
            name = metric["name"]
            numbers = values.setdefault((arm, name, metric.get("unit", "")), [])
            numbers.extend([found[name]] if name in found else [])
    return [
        {
            "arm": arm,
            "metric": name,
            "runs": len(numbers),
            "mean": stats.centre(numbers) if numbers else None,
            "unit": unit,
        }
        for (arm, name, unit), numbers in values.items()
    ]


def _about(stored: StoredExperiment) -> str:
    plan = stored.plan
    told = [f"seed {plan['seed']}" if "seed" in plan else f"seeds {plan.get('seeds')}"]
    if "looks" in plan:
        told.append(f"at most {plan['looks'][-1]} blocks, looked at after {plan['looks']}")
    told.append(f"what counts as the same: ± {plan['band']:.0%}")
    return (
        f"Experiment {stored.id}, session {stored.session}, {stored.state}; {stored.runs} runs, "
        f"begun {stored.begun}, schedlab {stored.version}; {'; '.join(told)}."
    )


def _tables(results: Sequence[campaign.Result]) -> list[Table]:
    return [
        Table(
            answers.heading(group, metric),
            ("setting", metric["name"], *answers.COLUMNS),
            answers.rows(result, group, metric),
        )
        for result in results
        for group in dict.fromkeys(cell["group"] for cell in result.plan["cells"])
        for metric in result.plan["metrics"][group]
    ]


def _remarks(result: campaign.Result) -> list[str]:
    found = [answers.STATISTIC, *result.notes]
    metrics = {one["name"] for metrics in result.plan["metrics"].values() for one in metrics}
    trends = {name: result.settled.drift(name) for name in sorted(metrics)}
    found += [
        f"{name} drifted by {percent(trend.change.value)} meanwhile."
        for name, trend in trends.items()
        if trend is not None and trend.found
    ]
    for name, judged in result.checks.items():
        ratio = judged.ratio
        told = judged.why if ratio is None else interval_words(ratio)
        found.append(f"Compared with itself, {name}: {judged.verdict} ({told}).")
    found += [f"{arm} was left out: {why}." for arm, why in result.settled.failures.items()]
    return found


def _tuned_sentences(stored: StoredExperiment, results: Sequence[campaign.Result]) -> list[str]:
    outcome = stored.result
    if outcome is None:
        return ["The search did not end: there is no winner yet."]
    best = setting_text(outcome["best"])
    found = [f"Best by {outcome['by']}: {best}."]
    if not outcome["best"]:
        found = ["No setting tried beats the present setting."]
    found += [text for result in results for text in answers.sentences(result)]
    worth = merit(outcome["effect"], outcome.get("better"))
    found.append(f"In the search, whose runs chose it and flatter it: {worth}.")
    if not results:
        found.append(tuning_result.UNCERTIFIED)
    elif len(outcome.get("aims", ())) > 1:
        # The recommendation is the answer: it comes first.
        *told, advice = tuning_result.conclusion(outcome)
        found = [advice, *found, *told]
    return _capital(found)


_OWN = ("recommended:", "certified:", "not certified:", "all ", "later:", *Finding)
"""Beginnings of sentences of `tuning_result.conclusion` and `verification.sentences`."""


def _capital(sentences: Sequence[str]) -> list[str]:
    """Return sentences that begin with a capital, if it is no name that they begin with."""
    return [f"{one[0].upper()}{one[1:]}" if one.startswith(_OWN) else one for one in sentences]


def setting_text(values: Mapping[str, str]) -> str:
    """Return a setting as text.

    >>> setting_text({"policy": "batch"}), setting_text({})
    ('policy=batch', 'default')
    """
    return ", ".join(f"{name}={value}" for name, value in values.items()) or "default"


def _gains(stored: StoredExperiment) -> list[Table]:
    if stored.result is None:
        return []
    rows = [tuning_result.gain_row(gain) for gain in stored.result["gains"]]
    found = [Table("The runs that chose the setting", tuning_result.GAIN_COLUMNS, rows)]
    if len(stored.result.get("aims", ())) > 1:
        columns = tuning_result.front_columns(Aims.from_data(stored.result))
        points = tuning_result.front_rows(stored.result["front"])
        found.insert(0, Table(tuning_result.FRONT, columns, points))
    return found


def tried(stored: StoredExperiment, store: Store) -> Table:
    """Return the settings that a tuning ran, with the mean of each one's runs."""
    names = {case["metric"]["name"] for case in stored.plan["cases"]}
    rows: list[tuple[str, ...]] = []
    for row in means(stored, store):
        mean = "-" if row["mean"] is None else quantity(row["mean"], row["unit"])
        metric = (row["metric"],) if len(names) > 1 else ()
        rows.append((row["arm"], *metric, str(row["runs"]), mean))
    columns = ("setting", *(("metric",) if len(names) > 1 else ()), "runs", "geometric mean")
    return Table("All that was tried", columns, rows)


def _after_comparing(stored: StoredExperiment, result: campaign.Result) -> tuple[str, list[str]]:
    """Return why a command is the next one, and its words."""
    words = list(stored.command)
    if stored.state != "done":
        return "It did not end: the same command continues where it stopped.", words
    if _undecided(result):
        blocks = str(2 * stored.plan["looks"][-1])
        return "Not every question has an answer: more blocks may give one.", with_option(
            words, "--blocks", blocks
        )
    if words and _simulated(result) and not _hybrid(result):
        for option in _SIMULATION:
            words = without_option(words, f"--{option}")
        return "This is a simulation: verify it on the running kernel.", with_option(
            words, "--on", "host"
        )
    return _all_runs(stored)


def _after_tuning(
    stored: StoredExperiment, results: Sequence[campaign.Result]
) -> tuple[str, list[str]]:
    """Return why a command is the next one, and its words."""
    words, outcome = list(stored.command), stored.result
    if stored.state != "done" or outcome is None:
        return "It did not end: the same command continues where it stopped.", words
    if not outcome["best"]:
        why, option = (
            "A wider search may find more.",
            ("--executions", 2 * stored.plan["executions"]),
        )
    elif not results:
        why, option = "Compare the winner with the default in fresh runs.", ("--verify", None)
    elif outcome.get("certified") and _hybrid(results[-1]):
        return _all_runs(stored)
    elif outcome.get("certified") and _simulated(results[-1]):
        why, option = "This is a simulation: verify it on the running kernel.", ("--verify", "host")
    elif outcome.get("certified"):
        best = Setting(outcome.get("recommended") or outcome["best"])
        why, option = "Make it permanent.", ("--export", export_kind(best))
    elif _undecided(results[-1]):
        more = 2 * results[-1].plan["looks"][-1]
        why, option = "Fresh runs do not decide: more of them may.", ("--blocks", more)
    else:
        return _all_runs(stored)
    name, value = option
    if value is None:
        return why, without_option(words, name)
    return why, with_option(words, name, str(value))


def _after_verifying(
    stored: StoredExperiment,
    result: campaign.Result,
    of: Certified,
    session: Session,
) -> tuple[str, list[str]]:
    """Return why a command is the next one, and its words."""
    if stored.state != "done":
        return "It did not end: the same command continues where it stopped.", list(stored.command)
    if _undecided(result):
        blocks = str(2 * stored.plan["looks"][-1])
        return "Not every question has an answer: more blocks may give one.", with_option(
            list(stored.command), "--blocks", blocks
        )
    if session.holds == len(session.conditions):
        return "Make it permanent, with its conditions.", [
            "verify",
            of.tuning.id[:8],
            "--export",
            export_kind(of.setting),
        ]
    return _all_runs(stored)


def export_kind(setting: Setting) -> str:
    """Return the format that has a word for what a setting sets.

    >>> export_kind(Setting({"policy": "batch"})), export_kind(Setting({"latency": "9ms"}))
    ('systemd', 'tuned')
    """
    return "systemd" if set(TASK_SETTINGS) & set(setting.values) else "tuned"


def _simulated(result: campaign.Result) -> bool:
    return all(cell["target"] == "sim" for cell in result.plan["cells"])


def _hybrid(result: campaign.Result) -> bool:
    """Whether the rules are a combination that no kernel has: none can verify it."""
    simulated = (cell["simulated"] for cell in result.plan["cells"] if cell["simulated"])
    return any(json.loads(_core.resolved_rules(one["scheduler"]))["hybrid"] for one in simulated)


def _undecided(result: campaign.Result) -> bool:
    deciding = [one.judged for one in result.settled.answers if one.question.decisive]
    return any(not judged.decided for judged in deciding)


def _all_runs(stored: StoredExperiment) -> tuple[str, list[str]]:
    short = stored.id[:8]
    return "All its runs, a line a run.", ["report", short, "--output", f"{short}.csv"]


def with_option(words: Sequence[str], name: str, value: str) -> list[str]:
    """Return a command's words with an option set, before a command of the user's.

    >>> with_option(["compare", "--blocks=9", "--", "./a", "--blocks", "1"], "--blocks", "18")
    ['compare', '--blocks', '18', '--', './a', '--blocks', '1']
    """
    cleared = without_option(words, name)
    place = cleared.index("--") if "--" in cleared else len(cleared)
    return [*cleared[:place], name, value, *cleared[place:]]


def without_option(words: Sequence[str], name: str) -> list[str]:
    """Return a command's words without an option and its value, however often it is given.

    >>> without_option(["compare", "pipe", "--cpus", "2", "--hz=250"], "--cpus")
    ['compare', 'pipe', '--hz=250']
    """
    place = list(words).index("--") if "--" in words else len(words)
    found, skip = [], False
    for word in words[:place]:
        if skip or word == name or word.startswith(f"{name}="):
            skip = word == name and not skip
            continue
        found.append(word)
    return [*found, *words[place:]]


def _places(stored: StoredExperiment, store: Store) -> list[str]:
    """Return where it was run, each place once."""
    seen = {json.dumps(run.facts, sort_keys=True): run.facts for run in store.runs(stored.id)}
    return [json.dumps(dict(facts), indent=1) for facts in seen.values()]
