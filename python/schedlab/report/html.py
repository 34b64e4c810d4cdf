"""The report: one HTML file with everything in it, made from a summary."""

import html
from collections.abc import Mapping, Sequence
from typing import Any

from schedlab.model import short_time
from schedlab.report import figures
from schedlab.report.figures import search_name
from schedlab.report.words import percent

Values = Mapping[str, Any]

SEARCHES = ("pso_optimized", "pso_default", "golden_section_1", "golden_section_2")

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1f2933; background: #fff; margin: 0 auto;
       max-width: 60rem; padding: 1.5rem; }
h1 { font-size: 1.6rem; margin: 0 0 .5rem; } h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; }
p.answer { font-size: 1.05rem; border-left: 4px solid #2563a8; padding-left: .8rem; }
table { border-collapse: collapse; font-size: .85rem; margin: .5rem 0; display: block;
        overflow-x: auto; }
th, td { text-align: right; padding: .15rem .6rem; border-bottom: 1px solid #e4e7eb; }
th:first-child, td:first-child { text-align: left; }
figure { display: inline-block; margin: .5rem 1rem .5rem 0; vertical-align: top; }
figure svg { max-width: 100%; height: auto; }
figcaption { font-size: .8rem; color: #52606d; max-width: 30rem; }
footer { margin-top: 2rem; font-size: .8rem; color: #52606d; }
"""


def report(summary: Values) -> str:
    """Return the report of a demo's summary.

    Args:
        summary: what ``summary.json`` holds.
    """
    facts = summary["machine"]["facts"]
    title = "Tuning the scheduler for hackbench"
    parts = [
        f"<h1>{_text(title)}</h1>",
        *[f'<p class="answer">{_text(sentence)}</p>' for sentence in answers(summary)],
        _machine(summary),
        _validation(summary["validation"], summary.get("equivalence")),
        _tuning(summary["tuning"]),
        _verified(summary["verified"]),
        f"<footer>schedlab {_text(summary['version'])}, {_text(summary['date'])}, kernel "
        f"{_text(facts['kernel'])}, {_text(facts['cpu_model'])}, {summary['seconds']:.0f} s"
        "</footer>",
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


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


def _machine(summary: Values) -> str:
    machine, costs = summary["machine"], summary["calibration"]
    facts = machine["facts"]
    allowed = [one["name"] for one in machine["policies"] if one["allowed"]]
    if machine["slices"]["allowed"]:
        allowed.append("slices")
    knobs = [one["name"] for one in machine["knobs"] if one["settable"]]
    refused: dict[str, list[str]] = {}
    for one in machine["knobs"]:
        if not one["settable"]:
            path = one["path"] or ""
            refused.setdefault(one["why"].replace(f" {path}", " its file"), []).append(one["name"])
    reasons = "".join(
        f"<li>{_text(', '.join(names))}: {_text(why)}</li>" for why, names in refused.items()
    )
    rows = []
    for name, value in costs["costs_ns"].items():
        spread = costs["spread"].get(name)
        ends = ["-", "-"]
        if spread is not None:
            ends = [short_time(max(0.0, spread[end])) for end in ("p25_ns", "p75_ns")]
        rows.append((name.replace("_", " "), short_time(value), *ends))
    return _section(
        "This machine",
        f"<p>Kernel {_text(facts['kernel'])}, {facts['hz']} Hz; {facts['cpus']} CPUs "
        f"({_text(facts['cpu_model'])}); {'root' if facts['root'] else 'an ordinary user'}; "
        f"load average {facts['load']} at the start. "
        f"Can be set here: {_text(', '.join([*allowed, *knobs]))}. Cannot:</p><ul>{reasons}</ul>"
        "<p>Costs, measured alone, with no workload used below:</p>"
        + _table(("cost", "median", "lower quartile", "upper quartile"), rows),
    )


def _validation(validation: Values, equivalence: Values | None) -> str:
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
    beside = ""
    if equivalence is not None:
        work = "did the same work" if equivalence["same_work"] else "did NOT do the same work"
        beside = f" rt-tests' hackbench, run in the same blocks, {work}."
        if (ratio := equivalence["ratio"]) is not None:
            low, high = ratio["interval"]["low"], ratio["interval"]["high"]
            beside += (
                f" Ours against its turnaround: {percent(ratio['value'])} "
                f"(95% interval {low - 1:+.1%} to {high - 1:+.1%})."
            )
    fit = (
        f"measured = {short_time(validation['intercept_ns'])} + {validation['slope']:.3f} * "
        f"simulated, R² = {validation['r_squared']:.4f}"
    )
    notes = "".join(f"<p>Note: {_text(text)}.</p>" for text in validation.get("notes", ()))
    return _section(
        "The simulator against this kernel",
        notes
        + f"<p>hackbench with 5 groups (200 tasks), simulated under {_text(validation['release'])} "
        f"with {validation['cpus']} CPUs, {validation['hz']} Hz and the costs above, and run "
        f"{validation['repeats']} times in turns; medians.{_text(beside)}</p>"
        + _figure(
            figures.validation_line(validation),
            f"Measured against simulated turnaround. {fit}.",
        )
        + _figure(
            figures.validation_errors(validation),
            f"Errors on a log scale. Median absolute error "
            f"{validation['median_absolute_error']:.1%}; with a constant "
            f"{short_time(constant['message_cost_ns'])} a message (one write, one read, one "
            f"switch) {constant['median_absolute_error']:.1%}.",
        )
        + _table(
            (
                "messages",
                "simulated",
                "measured",
                "ln(sim/real)",
                "constant cost",
                "ln(const/real)",
            ),
            rows,
        ),
    )


def _tuning(tuning: Values) -> str:
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
    return _section(
        "Particle swarm against golden section",
        f"<p>{_text(tuning['workload'])} on the simulated {_text(tuning['release'])} at "
        f"{tuning['hz']} Hz, {tuning['cpus']} CPU, {_text(tuning['costs'])} costs (every callback "
        f"takes a whole jiffy). The objective is whole jiffies. {tuning['seeds']} seeds a swarm of "
        f"{tuning['particles']} particles and at most {tuning['iterations']} iterations; golden "
        "section draws nothing, so one run is every run. A repeated position is no execution. "
        f"Golden section's minimum is the {tuning['golden_minimum_jiffies']} jiffies that both its "
        "runs attain. Defaults: "
        f"{short_time(tuning['default_turnaround_ns'])}. The paper's columns are single runs of a "
        "different simulator.</p>"
        + _table(
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
        + _figure(figures.tuning_minima(tuning), "Minimum turnaround, median over seeds.")
        + _figure(
            figures.tuning_distributions(tuning),
            "Executions to each search's own minimum; a dot's size is the number of runs.",
        )
        + _figure(
            figures.tuning_sweeps(tuning),
            "Each knob moved alone, the others at their defaults. "
            + " ".join(
                f"{sweep['knob']} {'moves' if sweep['moves'] else 'does not move'} the turnaround."
                for sweep in tuning["sweeps"]
            ),
        ),
    )


def _verified(verified: Values) -> str:
    rows = [(row["setting"], short_time(row["simulated_ns"])) for row in verified["candidates"]]
    return _section(
        "Policy and slice on this kernel",
        f"<p>{_text(verified['workload'])}: what this user may set here, simulated under "
        f"{_text(verified['release'])}; the fastest, {_text(verified['setting'])}, promises "
        f"{percent(verified['predicted'])} and was run {verified['repeats']} times in turns with "
        f"{_text(verified['baseline'])}. {_text(verified_answer(verified))}</p>"
        + _figure(figures.verified_candidates(verified), "Simulated turnaround of each setting.")
        + _figure(figures.verified_runs(verified), "Every real run, in pairs.")
        + _table(("setting", "simulated"), rows),
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


def _section(title: str, body: str) -> str:
    return f"<section>\n<h2>{_text(title)}</h2>\n{body}\n</section>"


def _figure(svg: str, caption: str) -> str:
    """Place a drawing with its text alternative; numbers stand in the tables beside."""
    return (
        f'<figure><div role="img" aria-label="{_text(caption)}">{svg}</div>'
        f"<figcaption>{_text(caption)}</figcaption></figure>"
    )


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{_text(column)}</th>' for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>\n" for row in rows
    )
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>"


def _text(text: object) -> str:
    return html.escape(str(text))
