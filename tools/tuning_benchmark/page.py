"""The page about the searches, generated from the tables and the trials on them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import spearmanr

from fidelity.markdown import circumstances, section, table
from fidelity.scatter import Picture
from schedlab.boundary.extras import Lazy
from schedlab.experiment import stats
from schedlab.report import charts as look
from schedlab.report import page as report_page
from tuning_benchmark.contenders import AS_USED, DIRECT, NAMES, OURS, REPEATS
from tuning_benchmark.outcomes import CIRCUMSTANCES, Trials
from tuning_benchmark.register import Register
from tuning_benchmark.replayed import Behaviour
from tuning_benchmark.table import Table
from tuning_benchmark.trials import CERTIFICATE, Trial, numbers_of

if TYPE_CHECKING:
    import altair as alt
else:
    alt = Lazy("altair")

_RECORDED, _DRIFTING, _SAME, _SAME_DRIFTING = (one.name for one in CIRCUMSTANCES)
_CALLED = {"random": "random", "tpe": "TPE", "cmaes": "CMA-ES", "pso": "PSO"}

Runs = Callable[[Trial], int | None]

CERTIFIED = 2 * CERTIFICATE.looks[0]
"""Real runs that a certificate takes at the least: pairs until the first look."""


@dataclass(frozen=True, slots=True)
class Tabled:
    """A table with the trials on it.

    Attributes:
        table: the table.
        behaviour: as it was replayed.
        correlation: Spearman's, of simulated and real means; None where simulation ranks nothing.
        trials: of the searches.
    """

    table: Table
    behaviour: Behaviour
    correlation: float | None
    trials: Trials

    @classmethod
    def of(cls, recorded: Table, trials: Trials) -> "Tabled":
        """Return a table with its trials, and what its simulation says of it."""
        behaviour = Behaviour.of(recorded)
        able = sorted(numbers_of(recorded).values())
        places = [
            place for place in range(len(recorded.settings)) if place not in recorded.failures
        ]
        simulated = np.array(recorded.simulated).T[places].mean(axis=1)
        finite = np.isfinite(simulated[1:])
        ranked, real = simulated[1:][finite], behaviour.means[able][1:][finite]
        flat = len(ranked) < 2 or float(np.ptp(ranked)) == 0
        correlation = None if flat else float(spearmanr(ranked, real).statistic)
        return cls(recorded, behaviour, correlation, trials)

    def gains(self, within: float) -> bool:
        """Return whether there is a better setting than the present one, by more than a share."""
        return self.behaviour.gain > within

    def runs(self, name: str, of: Runs) -> float:
        """Return a median over the seeds, infinite where most found nothing."""
        counts = [of(trial) for trial in self.trials[_RECORDED][name]]
        return median(math.inf if count is None else float(count) for count in counts)

    def certified(self, least: float = 0.0) -> tuple[int, int]:
        """Return how many of our searches certify a gain of at least a share, of how many."""
        ours = self.trials[_RECORDED][OURS]
        return sum(one.accepted and one.gain >= least for one in ours), len(ours)


def _observed(trial: Trial) -> int | None:
    return trial.first


def _used(trial: Trial) -> int | None:
    return trial.used


def fewer(tables: Sequence[Tabled], of: Runs, limit: int) -> float:
    """Return by how many times fewer real runs we need than TPE, in the median over tables.

    Where TPE found nothing, it needs the limit at least; where we found nothing, the ratio is 0.
    """
    ratios = []
    for one in tables:
        ours, theirs = one.runs(OURS, of), min(one.runs("tpe", of), limit)
        ratios.append(theirs / ours)
    return median(ratios) if ratios else math.nan


def reachable(tables: Sequence[Tabled], of: Runs, limit: int) -> float:
    """Return by how many times fewer real runs than TPE any search can need, see `fewer`.

    No search is certified in fewer runs than a certificate takes.
    """
    ratios = [min(one.runs("tpe", of), limit) / CERTIFIED for one in tables]
    return median(ratios) if ratios else math.nan


def false_accepts(tables: Sequence[Tabled], circumstance: str, name: str) -> tuple[int, int]:
    """Return how many searches accept a winner that is none, of how many that were asked."""
    trials = [trial for one in tables for trial in one.trials[circumstance].get(name, ())]
    return sum(one.accepted and not one.right for one in trials), len(trials)


def picture(tables: Sequence[Tabled]) -> Picture:
    """Draw the real runs of each search on each table, as used."""
    names = [_called(name) for name in NAMES]
    rows = [
        {"table": one.table.name, "search": _called(name), "runs": runs}
        for one in tables
        for name in NAMES
        if math.isfinite(runs := one.runs(name, _observed))
    ]
    colours = look.colours_of(names)
    chart = (
        alt.Chart({"values": rows})
        .mark_point(filled=True, size=70)
        .encode(
            x=alt.X("runs:Q", scale=alt.Scale(type="log"), title="real runs, median over seeds"),
            y=alt.Y("table:N", title=None, sort=[one.table.name for one in tables]),
            color=alt.Color(
                "search:N",
                scale=alt.Scale(domain=names, range=list(colours.values())),
                title=None,
                legend=alt.Legend(orient="top"),
            ),
        )
        .properties(width=560, height=24 * max(1, len(tables)))
        .configure(font="sans-serif", background="transparent")
        .configure_axis(gridOpacity=0.4, labelFontSize=11, labelLimit=220, titleFontWeight="normal")
    )
    told = f"Real runs that {len(NAMES)} searches need, a row each of {len(tables)} tables."
    return Picture(report_page.follows_screen(report_page.svg(chart.to_dict())), told)


def page(
    register: Register,
    tables: Sequence[Tabled],
    drawn: Picture,
    confirmed: Mapping[str, Any] | None,
    trade: Mapping[str, Any] | None = None,
) -> str:
    """Return the page as Markdown.

    Args:
        register: what was written down.
        tables: with their trials.
        drawn: the picture, beside the page.
        confirmed: one seed of each search for real.
        trade: what ``schedlab verify --json`` says of a setting for several aims.
    """
    protocol, goals = register.protocol, register.goals
    gaining = [one for one in tables if one.gains(protocol.within)]
    whole = len(register.places) * len(register.workloads)
    there = {(one.table.place, one.table.workload) for one in tables}
    missing = [
        f"{workload} on {place}"
        for place in register.places
        for workload in register.workloads
        if (place, workload) not in there
    ]
    observed, used = (fewer(gaining, of, protocol.limit) for of in (_observed, _used))
    rates = {name: _rate(tables, (_SAME, _SAME_DRIFTING), name) for name in NAMES}
    ours = rates[OURS].value
    lines = [
        "# Searches compared by real runs",
        "",
        f"**Until a certified winner is there, `--screen` takes {_against(observed)} if an "
        f"observer says when the best is found, and {_against(used)} if nothing says so "
        f"(goal: {goals.fewer:.0f} times fewer; {_met(min(observed, used) >= goals.fewer)}).**",
        f"False winners where all settings are the same: {ours:.1%} of the races (goal: at most "
        f"{goals.false_accepts:.0%}; {_met(ours <= goals.false_accepts)}), "
        f"{rates[REPEATS].value:.0%} by the usual rule of repeats, "
        f"{min(rates[name].value for name in DIRECT):.0%} to "
        f"{max(rates[name].value for name in DIRECT):.0%} of the direct searches.",
        f"{len(tables)} of {whole} tables, {len(gaining)} of them with a gain above "
        f"{protocol.within:.0%}" + (f"; missing: {', '.join(missing)}." if missing else "."),
        "",
        f"![{drawn.alternative}](tuning.svg)",
        "",
        circumstances(),
        "",
        *_limits(register, gaining),
        *_findings(register),
        *_runs_section(
            "Until a certified winner is found, if an observer says when to ask for it",
            f"Median real runs over {protocol.seeds} seeds until a certified winner is within "
            f"{protocol.within:.0%} of the best known. The observer knows the table: a search is "
            "certified as soon as its best setting is good; the rule of repeats counts from the "
            f"setting that it keeps. A dash: none within {protocol.limit} runs, or by the end of "
            f"the list, in most seeds. Certification takes {CERTIFIED} runs at least.",
            gaining,
            _observed,
        ),
        *_runs_section(
            "As they are used",
            "The same where nothing says when the best is there: a direct search is certified "
            "every "
            f"{AS_USED} runs, the rule of repeats goes through its list, a race ends by itself. A "
            "race that ends with another certified winner counts as one that found nothing.",
            gaining,
            _used,
        ),
        *_gains(register, tables),
        *_accepts(register, tables),
        *_tables(tables),
        *_confirmed(confirmed),
        *([] if trade is None else _traded(trade)),
        *_method(register, tables),
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def _against(ratio: float) -> str:
    """Say how our real runs compare with TPE's, of which they are a ratio-th.

    >>> _against(2.0), _against(0.5)
    ('2.0 times fewer real runs than TPE', '2.0 times as many real runs as TPE')
    >>> _against(1.03)
    'as many real runs as TPE'
    """
    if f"{ratio:.1f}" == "1.0":
        return "as many real runs as TPE"
    if ratio > 1:
        return f"{ratio:.1f} times fewer real runs than TPE"
    if ratio > 0:
        return f"{1 / ratio:.1f} times as many real runs as TPE"
    return "more real runs than are allowed"


def _met(holds: bool) -> str:
    return "met" if holds else "missed"


def _limits(register: Register, tables: Sequence[Tabled]) -> list[str]:
    """Say how many times fewer runs can be reached at all, and what was."""
    limit, goal = register.protocol.limit, register.goals.fewer
    rows = []
    for text, of in (("an observer asks", _observed), ("as used", _used)):
        theirs = median([min(one.runs("tpe", of), limit) for one in tables] or [math.nan])
        most, made = reachable(tables, of, limit), fewer(tables, of, limit)
        rows.append((text, f"{theirs:.0f}", str(CERTIFIED), f"{most:.1f}", f"{made:.1f}"))
    out = max(reachable(tables, of, limit) for of in (_observed, _used)) < goal
    if not out:
        return []
    text = (
        f"No search can take {goal:.0f} times fewer runs than TPE on these tables. A certificate "
        f"takes {CERTIFIED} runs, whichever search asks for it, and that is the least any search "
        "can take: the table says by what factor TPE exceeds it. Its own certificate is in its "
        "count; what a better search can save are the runs before it. All are medians over tables."
    )
    head = (
        "", "TPE's runs", "a certificate's runs", "times fewer, at most", "times fewer, reached",
    )  # fmt: skip
    return ["## What can be reached", "", text, "", *table(head, rows), ""]


def _findings(register: Register) -> list[str]:
    if not register.findings:
        return []
    lines = [f"- **{one.about}**: {one.cause}" for one in register.findings]
    return ["## What misses its goal, and why", "", *lines, ""]


def _rate(tables: Sequence[Tabled], under: Sequence[str], name: str) -> stats.Estimate:
    pairs = [false_accepts(tables, circumstance, name) for circumstance in under]
    return stats.proportion(sum(false for false, _ in pairs), sum(of for _, of in pairs) or 1)


def _called(name: str) -> str:
    return _CALLED.get(name, name)


def _count(runs: float) -> str:
    return f"{runs:.0f}" if math.isfinite(runs) else "-"


def _runs_section(title: str, text: str, tables: Sequence[Tabled], of: Runs) -> list[str]:
    rows = []
    for one in tables:
        counts = [one.runs(name, of) for name in NAMES]
        ours, theirs = one.runs(OURS, of), one.runs("tpe", of)
        both = math.isfinite(ours) and math.isfinite(theirs)
        rows.append((one.table.name, *map(_count, counts), f"{theirs / ours:.1f}" if both else "-"))
    head = ("table", *map(_called, NAMES), "TPE / ours")
    return [f"## {title}", "", text, "", *table(head, rows), ""]


def _gains(register: Register, tables: Sequence[Tabled]) -> list[str]:
    least = register.goals.gain
    rows = []
    for one in sorted(tables, key=lambda tabled: -tabled.behaviour.gain):
        large, seeds = one.certified(least)
        some, _ = one.certified()
        ours = one.trials[_RECORDED][OURS]
        gain = median(trial.gain for trial in ours)
        best = [*numbers_of(one.table)][int(one.behaviour.means.argmin())]
        whole = median(trial.whole for trial in ours)
        rows.append(
            (one.table.name, f"{one.behaviour.gain:.1%}", f"`{best}`", f"{gain:.1%}",
             f"{some} of {seeds}", f"{large} of {seeds}", f"{whole:.0f}")
        )  # fmt: skip
    many = [one.table.name for one in tables if one.certified(least)[0] > one.certified()[1] / 2]
    none = [one.table.name for one in tables if not one.certified()[0]]
    text = (
        f"A gain of {least:.0%} or more is certified in most races on {_list(many)}. No race "
        f"certifies anything on {_list(none)}. *best known*: cost of the best setting of the table "
        "against the present one; *certified gain*: what the winners are really worth, 0 where "
        "there "
        "is none, in the median; *runs*: until the race ends, without a winner where nothing gains."
    )
    head = (
        "table", "best known", "setting", "certified gain", "certified", f"{least:.0%} or more",
        "runs",
    )  # fmt: skip
    return ["## What gains", "", text, "", *table(head, rows), ""]


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) if names else "none of the tables"


def _accepts(register: Register, tables: Sequence[Tabled]) -> list[str]:
    rows = []
    for one in CIRCUMSTANCES:
        cells = []
        for name in NAMES:
            false, of = false_accepts(tables, one.name, name)
            found = stats.proportion(false, of or 1)
            between = f"({found.interval.low:.0%} to {found.interval.high:.0%})"
            cells.append(f"{false} of {of} {between}" if of else "-")
        rows.append((one.name, *cells))
    drift = register.drift
    text = (
        "A winner is false where it is not really better than the present setting. *A/A*: all "
        "settings have the present one's mean and scatter. *with drift*: values are multiplied by "
        "a "
        f"sine of {drift.wave:.0%} with a period of {drift.period} runs and, from run {drift.at} "
        "on, by "
        f"{1 + drift.step:.2f}. A direct search's winner is certified every {AS_USED} runs until "
        "one is certified, so it may be wrong more than once in twenty. As recorded, they ran "
        "where something gains; with drift, random search stands for them; TPE's controls are on "
        "one workload a place. In brackets, 95 % (Wilson), as if tables were independent; they "
        "share the seeds of what is drawn, so the counts are a little less certain."
    )
    head = ("", *map(_called, NAMES))
    return ["## False winners", "", text, "", *table(head, rows), ""]


def _tables(tables: Sequence[Tabled]) -> list[str]:
    rows = [
        (
            one.table.name,
            f"`{one.table.run}`",
            one.table.metric,
            one.table.kernel,
            f"{len(one.table.settings) - 1} x {one.table.blocks}",
            f"{one.behaviour.scatter:.1%}",
            f"{float(np.ptp(one.behaviour.drift)):.1%}",
            "-" if one.correlation is None else f"{one.correlation:.2f}",
        )
        for one in tables
    ]
    text = (
        "*scatter*: of single runs of a setting, the median setting; *drift*: between blocks; "
        "*correlation*: Spearman's, of simulated and real means."
    )
    head = (
        "table", "run", "metric", "kernel", "settings x blocks", "scatter", "drift", "correlation",
    )  # fmt: skip
    return ["## Tables", "", text, "", *table(head, rows), ""]


def _confirmed(confirmed: Mapping[str, Any] | None) -> list[str]:
    if confirmed is None:
        return ["## For real", "", "No search was repeated on a real kernel yet.", ""]
    rows = []
    for name, trial in confirmed["trials"].items():
        one = Trial(**trial)
        rows.append(
            (_called(name), *("-" if runs is None else str(runs) for runs in (one.first, one.used)),
             f"{one.gain:.1%}" if one.accepted else "no winner")
        )  # fmt: skip
    head = ("search", "runs, observed", "runs, as used", "gain of its winner, by the table")
    text = (
        f"One seed of each search on the kernel itself instead of its table: {confirmed['table']}."
    )
    return ["## For real", "", text, "", *table(head, rows), ""]


def _traded(trade: Mapping[str, Any]) -> list[str]:
    """Say what a setting gives for what, when it was certified and later."""
    conditions = [("certified", trade["certified"])]
    for session in trade["sessions"]:
        conditions += [(f"later, boot {one['boot']}", one) for one in session["conditions"]]
    rows = []
    for when, one in conditions:
        under = one["circumstances"]
        changes = [
            f"{answer['change']:+.1%} ({answer['verdict']}, {answer['pairs']} pairs)"
            for answer in one["answers"]
        ]
        rows.append(
            (when, ", ".join(under["kernels"]), ", ".join(boot[:8] for boot in under["boots"]),
             under["begun"], *changes, one["gain"])
        )  # fmt: skip
    setting = ", ".join(f"{name}={value}" for name, value in trade["setting"].items())
    aims = [f"{one['metric']} of {one['workload']}" for one in trade["certified"]["answers"]]
    text = (
        f"`{setting}` on {trade['target']}, found and certified by real runs for two aims that it "
        "serves at different prices, then compared again by `schedlab verify --later`. Each "
        "session's verdicts are right together with 95 %."
    )
    head = ("", "kernel", "boots", "begun", *aims, "gain")
    return ["## A certified trade", "", text, "", *table(head, rows), ""]


def _method(register: Register, tables: Sequence[Tabled]) -> list[str]:
    costs = sorted({one.table.costs for one in tables})
    direct = ", ".join(map(_called, DIRECT))
    rows = [
        (direct, "one run a setting; the setting with the least mean is certified in 12 to 20 "
         "pairs"),
        (REPEATS, "five runs in a row a setting, in a random order; kept if two standard "
         "deviations "
         "better than what is kept; not certified"),
        (OURS, "`tune --screen`: single runs of what a model expects most of, whose prior is the "
         "simulation, until its leader is expected to be within 2 % of the best; then heats"),
    ]  # fmt: skip
    return [
        *section("Searches", ("search", "what it does"), rows),
        "## Tables instead of kernels",
        "",
        register.protocol.why,
        "",
        "Each setting ran once in every block, in a random order. A run of a search is the "
        "setting's mean, times the drift of the block that it falls in, times one of the "
        "setting's own deviations with either sign. Guests have one CPU whose clock counts "
        "instructions, so other work on the machine is not in their tables; it is in those of this "
        f"machine. Simulated are {register.protocol.simulated} seeds a setting, with the costs of "
        f"{' and '.join(f'`{one}`' for one in costs)}; a described workload stands for each "
        "program.",
        "",
        *table(
            ("workload", "run", "simulated", "why"),
            [
                (name, f"`{one.run}`", "itself" if one.model is None else f"`{one.model}`", one.why)
                for name, one in register.workloads.items()
            ],
        ),
        "",
    ]
