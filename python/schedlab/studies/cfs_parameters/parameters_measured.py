"""The web server's report, judged by A/A; on real kernels Apache under wrk, settings interleaved.

A difference between settings counts where its interval excludes none *and* it is further than what
the default differs from itself, which is measured among the other settings like any of them.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import median

import numpy as np

from schedlab.experiment import stats
from schedlab.experiment.settings import Setting
from schedlab.programs.apache import Apache
from schedlab.studies.cfs_parameters.parameters import (
    BAND,
    CONCURRENCIES,
    DEFAULTS,
    KNOBS,
    SHORTEST,
)
from schedlab.studies.study import Cell, Claim, Judgement, Request, Table, judged

Runs = Mapping[tuple[str, str, int], Sequence[float]]
"""Requests a second by knob, value and concurrency, a number a block; the knob ``A/A`` is the
default once more."""

SHORTER = ("latency", "wakeup_granularity")
"""Knobs that are to be made smaller for shorter delays."""

_FEW = 2.0
"""Answers a connection: with fewer a run measures mostly how connections are made."""

_MANY = 500
"""Connections from which on a run takes longer: in a slow guest they are all made in a second."""


def measured(request: Request, target: str) -> Runs:
    """Run Apache under every value of the knobs that a target has, interleaved."""
    assert request.measure is not None
    knobs = settable(target)
    usual = {knob: DEFAULTS[knob] for knob in knobs} | (SHORTEST if "latency" in knobs else {})
    levels = request.levels_of([str(one) for one in CONCURRENCIES], ("20",))
    found: dict[tuple[str, str, int], Sequence[float]] = {}
    for concurrency in map(int, levels):
        time = _seconds(target, concurrency)
        program = Apache.parse(f"apache:concurrency={concurrency},time={time}s")
        arms = {name: (program, Setting(usual)) for name in ("default", "A/A")}
        for knob in knobs:
            # The first but the default is the furthest from it.
            for value in KNOBS[knob][1:2] if request.quick else KNOBS[knob][1:]:
                arms[f"{knob} {value}"] = (program, Setting({**usual, knob: value}))
        title = f"cfs_parameters at {concurrency}"
        blocks = request.blocks_of(target, 12, 4 if request.quick else 6)
        runs = request.measure(title, arms, target, blocks=blocks)
        for name, values in runs.items():
            knob, _, value = name.partition(" ")
            found[knob, value, concurrency] = [one["requests"] for one in values]
    return found


def _seconds(target: str, concurrency: int) -> int:
    """Return how long Apache is loaded."""
    return 1 if concurrency < _MANY else 5 if target.endswith("@icount") else 2


def few_answers(target: str, runs: Runs) -> list[str]:
    """Say where a run is so short that most connections have an answer or two.

    >>> keys = (("default", ""), ("A/A", ""), ("rr_timeslice", "10ms"))
    >>> few_answers("host", {(*key, 4): [4000.0, 4000.0] for key in keys})
    []
    >>> few_answers("vm:5.10@icount", {(*key, 1000): [200.0, 300.0] for key in keys})[0][:68]
    'vm:5.10@icount: at 1000 connections each has 1.2 answers in the 5 s '
    """
    found = []
    for concurrency in sorted({concurrency for _, _, concurrency in runs}):
        here = {key: values for key, values in runs.items() if key[2] == concurrency}
        seconds = _seconds(target, concurrency)
        answers = median(_all(here, "default", "")) * seconds / concurrency
        idle = [
            run for (knob, _, _), each in here.items() if knob == "rr_timeslice" for run in each
        ]
        if answers < _FEW and idle:
            found.append(
                f"{target}: at {concurrency} connections each has {answers:.1f} answers in the "
                f"{seconds} s of a run, so that mostly their making is measured: whatever "
                f"rr_timeslice is, which cannot act, runs have {min(idle):.0f} to {max(idle):.0f} "
                "requests/s there."
            )
    return found


def settable(target: str) -> tuple[str, ...]:
    """Return the knobs that a target's kernel has: all four on CFS, two of them elsewhere.

    >>> settable("vm:6.12@icount")
    ('rr_timeslice', 'rt_runtime')
    """
    series = target.removeprefix("vm:").removesuffix("@icount")
    if series.startswith(("5.", "6.1")) and not series.startswith(("6.12", "6.18")):
        return tuple(KNOBS)
    return ("rr_timeslice", "rt_runtime")


def claims(target: str, runs: Runs, paper: Mapping[str, str]) -> list[Claim]:
    """Judge the report's claims, and whether a knob does anything, on a real kernel.

    Args:
        target: where it ran.
        runs: of it.
        paper: what the report has for its claims, by the value that leads, or ``default KNOB``.
    """
    knobs = [one for one in KNOBS if any(knob == one for knob, _, _ in runs)]
    found = [_acts(target, knob, runs) for knob in knobs]
    for knob, value in (
        ("latency", "20ms"),
        ("wakeup_granularity", "1ms"),
        ("rt_runtime", "500ms"),
    ):
        if (knob, value) in {(one, setting) for one, setting, _ in runs}:
            words = f"{target}: {knob} = {value} has the highest throughput"
            found.append(_leads(words, paper[knob], runs, knob, value))
    found += [
        _leads(
            f"{target}: the default of {knob} performs worst",
            paper[f"default {knob}"],
            runs,
            knob,
            DEFAULTS[knob],
            last=True,
        )
        for knob in knobs
    ]
    found += [_threshold(target, runs, knob) for knob in knobs if knob in SHORTER]
    return found


def _threshold(target: str, runs: Runs, knob: str) -> Claim:
    """Judge whether smaller values help up to a point, and then harm."""
    ordered = sorted(_values(runs, knob), key=lambda value: float(value.removesuffix("ms")))
    least = noise(runs)
    largest = _all(runs, knob, ordered[-1])
    means = [float(np.log(_all(runs, knob, value)).mean()) for value in ordered]
    best = int(np.argmax(means))
    peak = _all(runs, knob, ordered[best])
    smaller = stats.paired_ratio(largest, peak)
    rest = [stats.paired_ratio(_all(runs, knob, value), peak) for value in ordered[:best]]
    rises = best < len(ordered) - 1 and _apart(smaller, least)
    declines = any(_apart(one, least) for one in rest)
    return Claim(
        f"{target}: with smaller {knob} throughput improves up to a threshold, then declines",
        "section 5, of the latency-like parameters",
        f"best is {ordered[best]}, {smaller.value - 1:+.1%} of {ordered[-1]}"
        + ("" if best else "; there is no smaller one")
        + (f"; {ordered[0]} is {1 / rest[0].value - 1:+.1%} of the best" if rest else ""),
        judged(rises and declines, against=not rises and best == len(ordered) - 1),
        (smaller.interval.low, smaller.interval.high),
    )


def _values(runs: Runs, knob: str) -> list[str]:
    """Return the values of a knob that were run, its default first."""
    return [DEFAULTS[knob], *dict.fromkeys(value for one, value, _ in runs if one == knob)]


def _all(runs: Runs, knob: str, value: str) -> stats.FloatArray:
    """Return a value's runs, at one concurrency after the other, block by block."""
    key = ("default", "") if DEFAULTS.get(knob) == value else (knob, value)
    concurrencies = sorted({concurrency for _, _, concurrency in runs})
    return np.concatenate([np.array(runs[*key, one]) for one in concurrencies])


def noise(runs: Runs) -> float:
    """Return how far the default may be from itself: the further end of its interval, as a log."""
    again = stats.paired_ratio(_all(runs, "default", ""), _all(runs, "A/A", ""))
    return float(max(abs(np.log(again.interval.low)), abs(np.log(again.interval.high))))


def _apart(ratio: stats.Estimate, least: float) -> bool:
    beyond = abs(np.log(ratio.value)) > least
    return bool(beyond and (ratio.interval.low > 1 or ratio.interval.high < 1))


def _acts(target: str, knob: str, runs: Runs) -> Claim:
    """Judge whether a knob does anything at all.

    Concurrency by concurrency where each has pairs enough for a verdict, else all together.
    """
    concurrencies = sorted({concurrency for _, _, concurrency in runs})
    alone = min(map(len, runs.values())) >= stats.minimum_pairs()
    parts = [{one} for one in concurrencies] if alone else [set(concurrencies)]
    apart, tried, worst = 0, 0, None
    for part in parts:
        here = {key: values for key, values in runs.items() if key[2] in part}
        base, least = _all(here, "default", ""), noise(here)
        where = ", ".join(map(str, sorted(part)))
        for value in _values(here, knob)[1:]:
            ratio = stats.paired_ratio(base, _all(here, knob, value))
            tried += 1
            apart += _apart(ratio, least)
            if worst is None or abs(np.log(ratio.value)) > abs(np.log(worst[1].value)):
                worst = (f"{value} at {where}", ratio)
    assert worst is not None
    name, ratio = worst
    return Claim(
        f"{target}: {knob} changes Apache's throughput",
        "gaps of up to threefold",
        f"{apart} of {tried} settings differ from the default beyond its difference from itself; "
        f"furthest {name}: {ratio.value - 1:+.1%}",
        Judgement.CONFIRMED
        if 2 * apart > tried
        else Judgement.CONTRADICTED
        if apart == 0 and abs(ratio.value - 1) < 0.1
        else Judgement.NOT_CONFIRMED,
        (ratio.interval.low, ratio.interval.high),
    )


def _leads(
    words: str, paper: str, runs: Runs, knob: str, value: str, *, last: bool = False
) -> Claim:
    """Judge whether a value is the best of its knob, or the worst, over all concurrencies."""
    own, least = _all(runs, knob, value), noise(runs)
    ratios = {}
    for other in _values(runs, knob):
        if other != value:
            theirs = _all(runs, knob, other)
            # Above one where the claim holds.
            ratios[other] = stats.paired_ratio(*((own, theirs) if last else (theirs, own)))
    name = min(ratios, key=lambda other: ratios[other].value)
    nearest = ratios[name]
    holds = all(_apart(ratio, least) and ratio.value > 1 for ratio in ratios.values())
    other_way = _apart(nearest, least) and nearest.value < 1
    same = all(
        ratio.interval.low >= 1 / (1 + BAND) and ratio.interval.high <= 1 + BAND
        for ratio in ratios.values()
    )
    kind = "time" if last else "throughput"
    said = f"; all values the same within {BAND:.0%}" if same else ""
    return Claim(
        words,
        paper,
        f"{nearest.value - 1:+.2%} {kind} against {name}{said}; the default differs from itself by "
        f"up to {np.expm1(least):.2%}",
        judged(holds, against=other_way or same),
        (nearest.interval.low, nearest.interval.high),
    )


def answer(where: str, runs: Runs) -> str:
    """Say in a sentence what each knob does to a web server somewhere, by its furthest value."""
    base, least = _all(runs, "default", ""), noise(runs)
    words = []
    for knob in KNOBS:
        if any(one == knob for one, _, _ in runs):
            ratios = {
                value: stats.paired_ratio(base, _all(runs, knob, value))
                for value in _values(runs, knob)[1:]
            }
            value = max(ratios, key=lambda one: abs(np.log(ratios[one].value)))
            ratio = ratios[value]
            apart = "" if _apart(ratio, least) else ", no more than noise"
            words.append(f"{knob} {value} {ratio.value - 1:+.1%}{apart}")
    return (
        f"{where}, all connections together, against the default: {'; '.join(words)}. "
        f"The default run twice differs from itself by up to {np.expm1(least):.1%}."
    )


def tables(real: Mapping[str, Runs]) -> tuple[Table, ...]:
    """Return every setting's runs as the report prints them, and each against the default."""
    return _ratios(real), _rows(real)


def _ratios(real: Mapping[str, Runs]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for target, runs in real.items():
        base = _all(runs, "default", "")
        for knob in ("A/A", *KNOBS):
            for value in dict.fromkeys(value for one, value, _ in runs if one == knob):
                ratio = stats.paired_ratio(base, _all(runs, knob, value))
                ends = (ratio.interval.low - 1, ratio.interval.high - 1)
                change = (f"{one:+.2%}" for one in (ratio.value - 1, *ends))
                rows.append((target, knob, value, len(base), *change))
    title = (
        "Apache, simulated and real: throughput against the default's, all concurrencies together"
    )
    columns = ("target", "knob", "value", "pairs", "change", "from", "to (95 %)")
    return Table("measured_changes", title, columns, tuple(rows))


def _rows(real: Mapping[str, Runs]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for target, runs in real.items():
        for concurrency in sorted({concurrency for _, _, concurrency in runs}):
            here = {key: values for key, values in runs.items() if key[2] == concurrency}
            for knob in ("A/A", *(one for one in KNOBS if any(key[0] == one for key in here))):
                values = {value: _all(here, knob, value) for value in _of(here, knob)}
                best = max(median(speeds) for speeds in values.values())
                worst = min(median(speeds) for speeds in values.values())
                for value, speeds in values.items():
                    own = median(speeds)
                    mark = "best" if own == best else "worst" if own == worst else ""
                    deviation = float(speeds.std(ddof=1) / speeds.mean())
                    mark = "" if knob == "A/A" else mark
                    numbers = (len(speeds), own, own / best, deviation, mark)
                    rows.append((target, concurrency, knob, value, *numbers))
    title = "Requests a second, normalised to the best value, deviation"
    columns = (
        *("target", "concurrency", "knob", "value", "runs", "median requests/s"),
        *("normalised", "deviation", "mark"),
    )
    return Table("measured", title, columns, tuple(rows), shown=False)


def _of(runs: Runs, knob: str) -> list[str]:
    return [""] if knob == "A/A" else _values(runs, knob)


def speeds(runs: Runs) -> dict[tuple[str, str, int], float]:
    """Return the median of each value's runs by knob, value and concurrency, defaults included."""
    return _each(runs, lambda speeds: float(median(speeds)))


def deviations(runs: Runs) -> dict[tuple[str, str, int], float]:
    """Return their standard deviations, as parts of their means, in the same way."""
    return _each(runs, lambda speeds: float(speeds.std(ddof=1) / speeds.mean()))


def _each(
    runs: Runs, number: Callable[[stats.FloatArray], float]
) -> dict[tuple[str, str, int], float]:
    found = {}
    for concurrency in sorted({concurrency for _, _, concurrency in runs}):
        here = {key: values for key, values in runs.items() if key[2] == concurrency}
        for knob in KNOBS:
            if any(key[0] == knob for key in here):
                for value in _values(here, knob):
                    found[knob, value, concurrency] = number(_all(here, knob, value))
    return found
