"""Pictures of numbers: a tuning surface, a certification, compared decisions."""

import math
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pictures.svg import WIDTH, Drawing
from schedlab import Machine, Scheduler, simulate, simulate_many
from schedlab.experiment import stats

ROOT = Path(__file__).resolve().parents[2]
_MS = 1_000_000
_LEFT, _RIGHT = 96, WIDTH - 20


def surface() -> Drawing:
    """Turnaround of hackbench on a simulated 6.1 over two knobs."""
    knobs = ("latency", "wakeup_granularity")
    latencies = [1, 2, 3, 4, 6, 8, 12, 16, 24, 36, 48]
    granularities = [0.1, 0.2, 0.4, 0.8, 1.5, 3, 6, 12, 24]
    grid = np.array(
        [[int(x * _MS), int(y * _MS)] for y in granularities for x in latencies], dtype=np.int64
    )
    seeds = range(1, 9)
    found = [
        simulate_many(
            "hackbench:groups=2,loops=20",
            knobs=list(knobs),
            values=grid,
            scheduler=Scheduler("6.1"),
            machine=Machine(2, "reference"),
            seed=seed,
        )
        for seed in seeds
    ]
    means = np.mean(np.array(found, dtype=float), axis=0).reshape(-1) / _MS
    low, high = float(means.min()), float(means.max())
    picture = Drawing(
        430,
        "A tuning surface: turnaround of hackbench over two knobs",
        f"A grid of {len(latencies)} latencies by {len(granularities)} wakeup granularities. The "
        f"mean turnaround of eight seeds goes from {low:.1f} ms to {high:.1f} ms.",
    )
    wide, tall, top, left = 62.0, 34.0, 56.0, 130.0
    for place, value in enumerate(means):
        row, column = divmod(place, len(latencies))
        x, y = left + column * wide, top + (len(granularities) - 1 - row) * tall
        share = (value - low) / (high - low)
        picture.rect(x, y, wide - 2, tall - 2, "blue", opacity=round(0.08 + 0.72 * (1 - share), 3))
        picture.text(x + wide / 2 - 1, y + 21, f"{value:.1f}", anchor="middle")
        if value == low:
            picture.line(x, y, x + wide - 2, y, "red", width=3)
            picture.line(x, y + tall - 2, x + wide - 2, y + tall - 2, "red", width=3)
    for column, value in enumerate(latencies):
        picture.text(left + (column + 0.5) * wide, 380, f"{value:g}", "soft", anchor="middle")
    for row, value in enumerate(granularities):
        y = top + (len(granularities) - 1 - row) * tall + 21
        picture.text(left - 10, y, f"{value:g}", "soft", anchor="end")
    picture.text(
        16, 30, "Mean turnaround in ms; the stronger the blue, the faster. Red: the least.", size=15
    )
    picture.text(left + len(latencies) * wide / 2, 404, "latency (ms)", anchor="middle", size=15)
    picture.text(16, top + 21, "wakeup", size=15)
    picture.text(16, top + 39, "granularity", size=15)
    picture.text(16, top + 57, "(ms)", size=15)
    return picture


def certification() -> Drawing:
    """Ratios of a winner to the default over fresh seeds, one certified and one not.

    The confidence of each interval is that of `schedlab tune`, which answers several questions.
    """
    cases = (
        ("certified: better", "hackbench:groups=2,loops=20", 2, "7.8ms", "turnaround", 12, 0.992),
        ("not certified", "hackbench:groups=6,loops=10", 4, "13.1ms", "longest wait", 50, 0.975),
    )
    picture = Drawing(
        306,
        "A winner certified on fresh seeds, and one rejected",
        "Two rows of dots, each the change of a pair of runs with the same fresh seed. The "
        "interval of the first lies below no change, that of the second includes it.",
    )
    scale, middle = 13.0, 560.0
    for change in (-20, -10, 0, 10, 20):
        x = middle + change * scale
        picture.line(x, 40, x, 262, "ink" if change == 0 else "line")
        picture.text(x, 284, f"{change:+d} %" if change else "no change", "soft", anchor="middle")
    for place, (verdict, work, cpus, value, metric, pairs, confidence) in enumerate(cases):
        defaults, winners = _pairs(work, cpus, value, metric, pairs)
        ratios = [winner / default for winner, default in zip(winners, defaults, strict=True)]
        estimate = stats.paired_ratio(defaults, winners, confidence=confidence)
        low, mean, high = (
            100 * (part - 1)
            for part in (estimate.interval.low, estimate.value, estimate.interval.high)
        )
        y = 84 + place * 112
        picture.text(16, y - 22, f"wakeup_granularity={value}", size=15, bold=True)
        picture.text(16, y - 3, f"{metric}, {pairs} pairs", "soft", size=15)
        colour = "green" if high < 0 else "orange"
        picture.text(16, y + 16, verdict, colour, size=15, bold=True)
        for number, ratio in enumerate(ratios):
            spread = (number * 7 % 11 - 5) * 3
            picture.circle(middle + 100 * (ratio - 1) * scale, y - 14 + spread, 4, "blue")
        picture.line(middle + low * scale, y + 30, middle + high * scale, y + 30, colour, width=5)
        picture.circle(middle + mean * scale, y + 30, 7, colour)
    return picture


def _pairs(
    work: str, cpus: int, value: str, metric: str, pairs: int
) -> tuple[list[int], list[int]]:
    """Return what the default and the winner come to under each fresh seed."""
    machine = Machine(cpus, "reference")

    def measured(scheduler: Scheduler, seed: int) -> int:
        outcome = simulate(work, scheduler=scheduler, machine=machine, seed=seed)
        if metric == "turnaround":
            return outcome.turnaround_ns
        return max(task.max_delay_ns for task in outcome)

    seeds = range(2, 2 + pairs)
    winner = Scheduler("6.1", wakeup_granularity=value)
    return [measured(Scheduler("6.1"), seed) for seed in seeds], [
        measured(winner, seed) for seed in seeds
    ]


def decisions() -> Drawing:
    """Decisions compared and differing, from the page of the last comparison."""
    text = (ROOT / "docs" / "results" / "fidelity.md").read_text(encoding="utf-8")
    counts = counted(text)
    picture = Drawing(
        60 + 44 * len(counts),
        "Decisions compared with real kernels', and how many differ",
        "; ".join(
            f"{kind}: {differ:,} of {all_:,} differ" for kind, (differ, all_) in counts.items()
        ),
    )
    left, scale = 250.0, 82.0
    for power in range(7):
        x = left + power * scale
        picture.line(x, 30, x, 36 + 44 * len(counts))
        label = f"{10**power:,}" if power < 6 else "1 million"
        picture.text(x, 22, label, "soft", anchor="middle")
    for place, (kind, (differing, compared)) in enumerate(counts.items()):
        y = 40 + 44 * place
        picture.text(16, y + 20, kind, size=15)
        wide = math.log10(max(compared, 1)) * scale
        picture.rect(left, y, wide, 16, "blue")
        picture.rect(left, y + 18, math.log10(max(differing, 1)) * scale, 8, "red")
        picture.text(left + wide + 8, y + 14, f"{differing:,} differ", "ink")
    picture.text(16, 46 + 44 * len(counts), "Blue: compared. Red: differing. Log scale.", "soft")
    return picture


def counted(page: str) -> Mapping[str, tuple[int, int]]:
    """Return differing and compared decisions by kind, those of one level apart from the others.

    The table's columns after scenario, series and level are kinds of decisions.
    """
    part = page.split("## By scenario")[1].split("\n## ", maxsplit=1)[0]
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in part.splitlines()
        if line.startswith("|")
    ]
    names = {
        "pick": "picks",
        "tick": "ticks",
        "wakeup": "wake-up preemptions",
        "placement": "placements",
        "select": "CPU selections",
    }
    found: dict[str, tuple[int, int]] = {}
    for place, kind in enumerate(rows[0]):
        if kind not in names:
            continue
        cells = (re.match(r"(\d+) / (\d+)", row[place]) for row in rows[2:])
        pairs = [(int(cell[1]), int(cell[2])) for cell in cells if cell]
        found[names[kind]] = (sum(one for one, _ in pairs), sum(two for _, two in pairs))
    return found
