"""fio's asynchronous writes under every value of rt_runtime, interleaved: the report's own case."""

from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np

from schedlab.experiment import stats
from schedlab.experiment.settings import Setting
from schedlab.programs.fio import Fio
from schedlab.studies import papers
from schedlab.studies.study import Cell, Claim, Judgement, Request, Table

VALUES = (
    *(f"{100 * step}ms" for step in range(1, 10)),
    "950ms",
    "1s",
    "unlimited",
)
"""Steps of 100 ms, the default of 950 ms, and no limit (-1)."""

DEFAULT = "950ms"

Runs = Mapping[str, Sequence[float]]
"""MB/s of real runs by value; ``A/A`` is the default once more."""

_SAME = 1.05


def printed() -> list[tuple[str, float, float, float]]:
    """Return the report's rows: value, MB/s, standard error, standard deviation in per cent.

    >>> printed()[0]
    ('1s', 111.06, 0.55, 0.86)
    """
    return [
        (
            f"{int(row['sched_rt_runtime_us']) // 1000}ms".replace("1000ms", "1s"),
            float(row["aio_stress_mb_per_s"]),
            float(row["standard_error"]),
            float(row["standard_deviation_percent"]),
        )
        for row in papers.table("aio_stress_rt_runtime")
    ]


def measured(request: Request, target: str) -> Runs:
    """Run fio under every value, and under the default twice."""
    assert request.measure is not None
    # Kernels with real-time groups take none below what their root group has.
    values = ("300ms", DEFAULT, "1s") if request.quick else VALUES
    # A guest that counts instructions is slow, and its disk in its memory; on a host four files are
    # together as large as the report's, for less is over in milliseconds.
    slow = target.endswith("@icount")
    full = "512m" if target == "host" else "64m"
    size = "2m" if slow else "8m" if request.quick else full
    program = Fio.parse(f"fio:size={size}")
    arms = {value: (program, Setting({"rt_runtime": value})) for value in values}
    arms["A/A"] = (program, Setting({"rt_runtime": DEFAULT}))
    runs = request.measure("rt_runtime", arms, target, blocks=request.blocks_of(target, 15, 6))
    return {name: [one["bandwidth"] / 1e6 for one in values] for name, values in runs.items()}


def claims(measured: Mapping[str, Runs]) -> list[Claim]:
    """Judge the report's claims wherever there is something to compare."""
    found = []
    for target, runs in measured.items():
        if DEFAULT in runs and set(runs) - {DEFAULT, "A/A"}:
            found += [_varies(target, runs), _noisy(target, runs)]
    return found


def _varies(target: str, runs: Runs) -> Claim:
    """Judge the report's claim on a real kernel: any value against the default, and A/A."""
    base = np.array(runs[DEFAULT])
    names = [name for name in runs if name != DEFAULT]
    # All values at once: each is held to its part of the error rate (Bonferroni).
    wide = 1 - 0.05 / len(names)
    ratios = {
        name: stats.paired_ratio(base, np.array(runs[name]), confidence=wide) for name in names
    }
    apart = [
        name for name, ratio in ratios.items() if ratio.interval.low > 1 or ratio.interval.high < 1
    ]
    effects = [name for name in apart if name != "A/A"]
    worst = max(ratios, key=lambda name: abs(np.log(ratios[name].value)))
    again = ratios.get("A/A")
    noise = "" if again is None else f"; the default is {again.value - 1:+.1%} off itself"
    enough = len(base) >= stats.minimum_pairs(wide)
    if effects and "A/A" not in apart and enough:
        verdict = Judgement.CONFIRMED
    else:
        same = all(
            one.interval.low > 1 / _SAME and one.interval.high < _SAME for one in ratios.values()
        )
        verdict = Judgement.CONTRADICTED if same else Judgement.NOT_CONFIRMED
    interval = stats.paired_ratio(base, np.array(runs[worst])).interval
    rows = printed()
    return Claim(
        f"{target}: the bandwidth of asynchronous writes varies with rt_runtime",
        f"{min(row[1] for row in rows):.1f} to {max(row[1] for row in rows):.1f} MB/s",
        f"{len(effects)} of {len(names) - ('A/A' in names)} values differ from the default{noise}; "
        f"furthest {worst}: {ratios[worst].value - 1:+.1%}, {len(base)} interleaved pairs",
        verdict,
        (interval.low, interval.high),
    )


def _noisy(target: str, runs: Runs) -> Claim:
    """Judge whether the values of the report that scatter most scatter most here, too."""
    theirs = [row[0] for row in printed() if row[2] > 3]
    errors = {name: _error(values) for name, values in runs.items() if name != "A/A"}
    most = sorted(errors, key=lambda name: errors[name], reverse=True)[: len(theirs)]
    both = [name for name in theirs if name in most]
    return Claim(
        f"{target}: {', '.join(theirs)} have the highest standard errors",
        "Figure 3",
        f"highest here: {', '.join(most)}",
        Judgement.CONFIRMED
        if len(both) == len(theirs)
        else Judgement.CONTRADICTED
        if not both
        else Judgement.NOT_CONFIRMED,
    )


def reach(runs: Runs) -> tuple[float, float]:
    """Return how far medians are apart over all values, and the default's two, each as a ratio - 1.

    >>> reach({"950ms": [100.0], "1s": [103.0], "A/A": [101.0]})
    (0.03, 0.01)
    """
    middles = {name: median(values) for name, values in runs.items()}
    again = sorted((middles[DEFAULT], middles["A/A"]))
    own = [value for name, value in middles.items() if name != "A/A"]
    return round(max(own) / min(own) - 1, 9), round(again[1] / again[0] - 1, 9)


def _error(values: Sequence[float]) -> float:
    return float(np.array(values).std(ddof=1)) / float(np.sqrt(len(values)))


def table(measured: Mapping[str, Runs]) -> tuple[Table, ...]:
    """Return every value's runs as the report prints them."""
    if not measured:
        return ()
    rows: list[tuple[Cell, ...]] = []
    for target, runs in measured.items():
        for name, values in runs.items():
            deviation = 100 * float(np.array(values).std(ddof=1) / np.mean(values))
            rows.append((target, name, len(values), median(values), _error(values), deviation))
    columns = ("target", "rt_runtime", "runs", "median MB/s", "standard error", "deviation (%)")
    return (Table("measured", "fio on real kernels, no real-time task", columns, tuple(rows)),)


def rows(measured: Mapping[str, Runs]) -> list[dict[str, object]]:
    """Return what figures 2 and 3 draw: a row a value and place, the report's own first."""
    found: list[dict[str, object]] = [
        {
            "value": milliseconds(value),
            "speed": speed,
            "low": speed - error,
            "high": speed + error,
            "error": 100 * error / speed,
            "who": "paper",
        }
        for value, speed, error, _ in printed()
    ]
    for target, runs in measured.items():
        found += [
            {
                "value": milliseconds(name),
                "speed": median(values),
                "low": median(values) - _error(values),
                "high": median(values) + _error(values),
                "error": 100 * _error(values) / float(np.mean(values)),
                "who": f"fio, {target}",
            }
            for name, values in runs.items()
            if name not in ("A/A", "unlimited")
        ]
    return found


def milliseconds(value: str) -> float:
    """Return a value in milliseconds.

    >>> milliseconds("1s"), milliseconds("0ns"), milliseconds("950ms")
    (1000.0, 0.0, 950.0)
    """
    if value == "0ns":
        return 0.0
    return float(value[:-2]) if value.endswith("ms") else 1000 * float(value[:-1])
