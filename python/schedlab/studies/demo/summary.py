"""The demo's summary as that of a study, whose pages it shares."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlab.model import short_time
from schedlab.report import figures
from schedlab.report.figures import search_name
from schedlab.report.words import counted, percent
from schedlab.studies.scheduler_tuning.scheduler_tuning import SOURCE

Values = Mapping[str, Any]

SEARCHES = ("pso_optimized", "pso_default", "golden_section_1", "golden_section_2")

TITLE = "Tuning the scheduler for hackbench"


def as_study(summary: Values) -> dict[str, Any]:
    """Return a demo's summary as a study's, from which every page of a study is made.

    Args:
        summary: what the demo's ``summary.json`` holds.

    Raises:
        KeyError: it is not what the demo writes.
    """
    facts = summary["machine"]["facts"]
    parts = (
        _machine(summary),
        _verified(summary["verified"]),
        _validation(summary["validation"], summary.get("equivalence")),
        _tuning(summary["tuning"]),
    )
    verified, simulator, *others = answers(summary)
    return {
        "study": "demo",
        "title": TITLE,
        "paper": SOURCE,
        "answers": [verified, *others],
        "sure": [simulator],
        "next": {
            "why": "Try it with a program of yours.",
            "command": _compared(summary["verified"]),
        },
        "claims": [],
        "tables": [table for part in parts for table in part.tables],
        "figures": [figure for part in parts for figure in part.figures],
        "notes": [note for part in parts for note in part.notes],
        "repeat": {
            "release": summary["validation"]["release"],
            "workload": summary["verified"]["workload"],
            "seeds": summary["tuning"]["seeds"],
            "repeats": summary["validation"]["repeats"],
            "pairs": summary["verified"]["repeats"],
        },
        "command": "schedlab demo",
        "version": summary["version"],
        "date": summary["date"],
        "host": f"kernel {facts['kernel']}, {facts['cpu_model']}, {counted(facts['cpus'], 'CPU')}",
        "seconds": summary["seconds"],
    }


def _compared(verified: Values) -> str:
    """Return the command that tries a program of the reader's under such settings."""
    policy, _, piece = verified["setting"].partition(", slice ")
    policies = ",".join(dict.fromkeys([verified["baseline"], policy]))
    what = ["tune", "--slice", "100us..100ms"] if piece else ["compare"]
    return shlex.join(["schedlab", *what, "--on", "host", "--policy", policies, "--", "./program"])


@dataclass(frozen=True, slots=True)
class _Part:
    """What a part of the demo adds to its report."""

    tables: Sequence[Values] = ()
    figures: Sequence[Values] = ()
    notes: Sequence[str] = ()


def answers(summary: Values) -> list[str]:
    """Return what came out, a sentence a part."""
    validation, tuning = summary["validation"], summary["tuning"]
    facts = summary["machine"]["facts"]
    busy = (
        [
            f"Other work was running (load average {facts['load']} on {facts['cpus']} CPUs): what "
            "was measured is disturbed by it, and a real-time policy takes time from it too."
        ]
        if facts["busy"]
        else []
    )
    return [
        verified_answer(summary["verified"]),
        f"The simulator follows this kernel over {len(validation['points'])} message counts with "
        f"R² = {validation['r_squared']:.4f} and a median absolute error of "
        f"{validation['median_absolute_error']:.1%}; a constant cost per message has an error of "
        f"{validation['constant_cost']['median_absolute_error']:.1%}.",
        tuning_answer(tuning),
        *busy,
    ]


def verified_answer(verified: Values) -> str:
    """Return what the real runs say of the tuned setting."""
    low, high = verified["interval"]
    interval = f"95% interval {low - 1:+.1%} to {high - 1:+.1%}, {verified['repeats']} pairs"
    change = f"turnaround {percent(verified['effect'])}"
    setting, baseline = verified["setting"], verified["baseline"]
    match verified["verdict"]:
        case "better":
            return f"On this kernel hackbench runs faster with {setting}: {change} ({interval})."
        case "worse":
            return (
                f"On this kernel hackbench runs slower with {setting}, which the simulator "
                f"preferred: {change} ({interval}); {baseline} stays the better setting."
            )
        case "same":
            return (
                f"On this kernel {setting} makes no difference to hackbench: {change} ({interval})."
            )
    return (
        f"On this kernel no difference between {setting} and {baseline} was shown for hackbench: "
        f"{change} ({interval})."
    )


def tuning_answer(tuning: Values) -> str:
    """Return what the search study found."""
    swarm, section = tuning["pso_optimized"], tuning["golden_section_1"]
    other = tuning["golden_section_2"]
    best = min(tuning[key]["minimum_jiffies"] for key in SEARCHES)
    gain = percent(swarm["minimum_turnaround_ns"] / tuning["default_turnaround_ns"])
    attained = [search_name(key) for key in SEARCHES if tuning[key]["minimum_jiffies"] == best]
    still = [sweep["knob"] for sweep in tuning["sweeps"] if not sweep["moves"]]
    return (
        f"On the simulated {tuning['release']} the swarm's median minimum is "
        f"{swarm['minimum_jiffies']:.0f} jiffies ({gain} against the defaults), golden section's "
        f"{section['minimum_jiffies']:.0f} and {other['minimum_jiffies']:.0f}; the least, "
        f"{best:.0f}, is attained by {_listed(attained)}."
        + f" {tuning['random_share']:.0%} of settings drawn at random attain it too."
        + (f" Moving {_listed(still)} alone changes nothing." if still else "")
    )


def _machine(summary: Values) -> _Part:
    machine, costs = summary["machine"], summary["calibration"]
    facts = machine["facts"]
    allowed = [one["name"] for one in machine["policies"] if one["allowed"]]
    if machine["slices"]["allowed"]:
        allowed.append("slices")
    allowed += [one["name"] for one in machine["knobs"] if one["settable"]]
    refused: dict[str, list[str]] = {}
    for one in machine["knobs"]:
        if not one["settable"]:
            path = one["path"] or ""
            refused.setdefault(one["why"].replace(f" {path}", " its file"), []).append(one["name"])
    rows = []
    for name, value in costs["costs_ns"].items():
        spread = costs["spread"].get(name)
        ends = ["-", "-"]
        if spread is not None:
            ends = [short_time(max(0.0, spread[end])) for end in ("p25_ns", "p75_ns")]
        rows.append((name.replace("_", " "), short_time(value), *ends))
    return _Part(
        tables=[
            _table(
                "costs",
                "This machine's costs, measured alone, with no workload used below",
                ("cost", "median", "lower quartile", "upper quartile"),
                rows,
            )
        ],
        notes=[
            f"Run by {'root' if facts['root'] else 'an ordinary user'} on a kernel of "
            f"{facts['hz']} Hz, at a load average of {facts['load']}, who may set "
            f"{', '.join(allowed)}.",
            *(f"Not set: {', '.join(names)}: {why}." for why, names in refused.items()),
        ],
    )


def _validation(validation: Values, equivalence: Values | None) -> _Part:
    rows = [
        (
            str(point["messages"]),
            short_time(point["simulated_ns"]),
            short_time(point["measured_ns"]),
            f"{point['log_error']:+.3f}",
            short_time(point["constant_cost_ns"]),
            f"{point['constant_cost_log_error']:+.3f}",
        )
        for point in validation["points"]
    ]
    constant = validation["constant_cost"]
    fit = (
        f"measured = {short_time(validation['intercept_ns'])} + {validation['slope']:.3f} * "
        f"simulated, R² = {validation['r_squared']:.4f}"
    )
    return _Part(
        figures=[
            _figure(
                "simulated_measured",
                f"Measured against simulated turnaround. {fit}.",
                figures.validation_line(validation),
            ),
            _figure(
                "errors",
                "Errors on a log scale. Median absolute error "
                f"{validation['median_absolute_error']:.1%}; with a constant "
                f"{short_time(constant['message_cost_ns'])} a message (one write, one read, one "
                f"switch) {constant['median_absolute_error']:.1%}.",
                figures.validation_errors(validation),
            ),
        ],
        tables=[
            _table(
                "validation",
                "The simulator against this kernel: hackbench with 5 groups (200 tasks), simulated "
                f"under {validation['release']} with {counted(validation['cpus'], 'CPU')} at "
                f"{validation['hz']} Hz and the costs above, and run {validation['repeats']} "
                "times in turns; medians",
                (
                    "messages",
                    "simulated",
                    "measured",
                    "ln(sim/real)",
                    "constant cost",
                    "ln(const/real)",
                ),
                rows,
            )
        ],
        notes=[*(f"{text}." for text in validation.get("notes", ())), *_beside(equivalence)],
    )


def _beside(equivalence: Values | None) -> list[str]:
    """Return how our hackbench compares with the one of rt-tests, if that was run too."""
    if equivalence is None:
        return []
    work = "did the same work" if equivalence["same_work"] else "did NOT do the same work"
    said = f"rt-tests' hackbench, run in the same blocks, {work}."
    if (ratio := equivalence["ratio"]) is not None:
        low, high = ratio["interval"]["low"], ratio["interval"]["high"]
        said += (
            f" Ours against its turnaround: {percent(ratio['value'])} "
            f"(95% interval {low - 1:+.1%} to {high - 1:+.1%})."
        )
    return [said]


def _tuning(tuning: Values) -> _Part:
    rows = []
    for key in SEARCHES:
        found, paper = tuning[key], tuning[key]["paper"]
        rows.append(
            (
                search_name(key),
                _with_interval(found, "minimum_jiffies"),
                _number(paper["minimum"]),
                _with_interval(found, "executions_to_minimum"),
                _number(paper["to_minimum"]),
                _with_interval(found, "executions_to_golden_minimum"),
                _number(paper["to_golden"]),
                _with_interval(found, "executions"),
                str(found["clamped"]),
            )
        )
    moves = " ".join(
        f"{sweep['knob']} {'moves' if sweep['moves'] else 'does not move'} the turnaround."
        for sweep in tuning["sweeps"]
    )
    return _Part(
        figures=[
            _figure(
                "minima",
                "Minimum turnaround of each search, median over seeds.",
                figures.tuning_minima(tuning),
            ),
            _figure(
                "executions",
                "Executions to each search's own minimum; a dot's size is the number of runs.",
                figures.tuning_distributions(tuning),
            ),
            _figure(
                "sweeps",
                f"Each knob moved alone, the others at their defaults. {moves}",
                figures.tuning_sweeps(tuning),
            ),
        ],
        tables=[
            _table(
                "searches",
                f"Particle swarm against golden section: {tuning['workload']} on the simulated "
                f"{tuning['release']} at {tuning['hz']} Hz, {counted(tuning['cpus'], 'CPU')}, "
                f"{tuning['costs']} costs; {tuning['seeds']} seeds a swarm",
                (
                    "search",
                    "minimum (jiffies)",
                    "paper",
                    "executions to it",
                    "paper",
                    "to golden's",
                    "paper",
                    "executions",
                    "clamped",
                ),
                rows,
            )
        ],
        notes=[
            "Every callback takes a whole jiffy, and the objective is whole jiffies. A swarm has "
            f"{tuning['particles']} particles and at most {tuning['iterations']} iterations; "
            "golden section draws nothing, so one run is every run. A repeated position is no "
            f"execution. Golden section's minimum is the {tuning['golden_minimum_jiffies']} "
            "jiffies that both its runs attain; the defaults take "
            f"{short_time(tuning['default_turnaround_ns'])}. The paper's columns are single runs "
            "of a different simulator.",
        ],
    )


def _verified(verified: Values) -> _Part:
    rows = [(row["setting"], short_time(row["simulated_ns"])) for row in verified["candidates"]]
    return _Part(
        figures=[
            _figure(
                "candidates",
                f"Simulated turnaround of each setting that this user may give; the fastest, "
                f"{verified['setting']}, promises {percent(verified['predicted'])}.",
                figures.verified_candidates(verified),
            ),
            _figure(
                "runs",
                f"Every real run of {verified['setting']} and of {verified['baseline']}, in "
                f"{verified['repeats']} pairs. {verified_answer(verified)}",
                figures.verified_runs(verified),
            ),
        ],
        tables=[
            _table(
                "candidates",
                f"Policy and slice for {verified['workload']}, simulated under "
                f"{verified['release']}",
                ("setting", "simulated"),
                rows,
            )
        ],
    )


def _with_interval(found: Values, key: str) -> str:
    value = found[key]
    if value is None:
        return "never"
    low, high = found["intervals"][key]
    text = f"{value:.0f}" if value == round(value) else f"{value:.1f}"
    return text if low == high else f"{text} ({low:.0f} to {high:.0f})"


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _figure(name: str, caption: str, chart: Values) -> Values:
    """Return a figure whose caption is its text alternative: its numbers stand in the tables."""
    return {"name": name, "caption": caption, "alternative": caption, "chart": chart}


def _table(name: str, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Values:
    return {"name": name, "title": title, "columns": columns, "rows": rows, "shown": True}
