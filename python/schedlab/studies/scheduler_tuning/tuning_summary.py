"""What the studies of the main job came to, on the terminal and as JSON."""

from schedlab.experiment.stats import Estimate
from schedlab.model import short_time
from schedlab.report.terminal import say, show
from schedlab.report.words import percent, verdict_words
from schedlab.studies.scheduler_tuning.policy_and_slice import Verified
from schedlab.studies.scheduler_tuning.scheduler_tuning import JIFFY, KNOBS, PAPER, Study

SEARCHES = {
    "pso_optimized": "PSO, optimised (0.4365, 3.020, 3.020)",
    "pso_default": "PSO, default (0.9, 4, 4)",
    "golden_section_1": "golden section, algorithm 1",
    "golden_section_2": "golden section, algorithm 2",
}

MEDIANS = (
    "minimum_jiffies",
    "minimum_ns",
    "executions",
    "executions_to_minimum",
    "executions_to_golden_minimum",
    "generation_of_minimum",
)
"""What the tuning study reports of each search, over seeds."""


def describe_study(study: Study) -> None:
    """Print the searches beside the paper's figures."""
    say(
        f"{study.workload.name}; {study.scheduler}; {study.machine} (every callback takes a whole "
        "jiffy)"
    )
    say(
        f"{len(study.runs['pso_optimized'])} seeds a swarm of {study.particles} particles and at "
        f"most {study.iterations} iterations; medians with 95% intervals; golden section draws "
        "nothing"
    )
    say()
    rows = []
    for key, name in SEARCHES.items():
        paper = PAPER[key]
        rows.append(
            (
                name,
                _cell(study.median(key, "minimum_jiffies")),
                _paper(paper["minimum"]),
                _cell(study.median(key, "executions_to_minimum")),
                _paper(paper["to_minimum"]),
                _cell(study.median(key, "executions_to_golden_minimum")),
                _paper(paper["to_golden"]),
                _cell(study.median(key, "executions")),
            )
        )
    show(
        rows,
        (
            "search",
            "minimum (jiffies)",
            "paper",
            "executions to it",
            "paper",
            "to golden's",
            "paper",
            "executions",
        ),
    )
    say()
    default = -(-study.default_ns // JIFFY)
    say(
        f"defaults: {default} jiffies; golden's minimum: the {study.golden_minimum_jiffies} "
        "jiffies that both its runs attain; a repeated position is no execution"
    )
    for sweep in study.sweeps:
        low, high = (-(-end // JIFFY) for end in (min(sweep.turnarounds), max(sweep.turnarounds)))
        told = f"{low} to {high} jiffies" if sweep.moves else "does not move the turnaround"
        say(f"{sweep.knob} alone: {told}")
    share = study.random_share
    say(
        f"{share.value:.1%} ({share.interval.low:.1%} to {share.interval.high:.1%}) of settings "
        "drawn at random attain the least turnaround: the easier that is, the less a search shows"
    )
    clamped = sum(one.clamped for one in study.runs["golden_section_2"])
    say(f"algorithm 2 undercut the least min granularity in {clamped} executions (clamped)")


def _cell(estimate: Estimate | None) -> str:
    if estimate is None:
        return "never"
    low, high = estimate.interval.low, estimate.interval.high
    return f"{estimate.value:g}" if low == high else f"{estimate.value:g} ({low:g}-{high:g})"


def _paper(value: int | None) -> str:
    return "-" if value is None else str(value)


def tuning_json(study: Study) -> dict[str, object]:
    """Return the study of the searches, medians over seeds with their 95% intervals."""
    return {
        "workload": study.workload.name,
        "release": study.scheduler.release,
        "hz": study.scheduler.hz,
        "cpus": study.machine.cpus,
        "costs": study.machine.costs.name,
        "seeds": len(study.runs["pso_optimized"]),
        "particles": study.particles,
        "iterations": study.iterations,
        "default_turnaround_ns": study.default_ns,
        "random_share": _value(study.random_share),
        "random_share_interval": [
            study.random_share.interval.low,
            study.random_share.interval.high,
        ],
        "golden_minimum_jiffies": study.golden_minimum_jiffies,
        **{search: _search(study, search) for search in study.runs},
        "sweeps": [
            {
                "knob": sweep.knob,
                "moves": sweep.moves,
                "values_ns": sweep.values,
                "turnarounds_ns": sweep.turnarounds,
            }
            for sweep in study.sweeps
        ],
    }


def _search(study: Study, search: str) -> dict[str, object]:
    estimates = {attribute: study.median(search, attribute) for attribute in MEDIANS}
    runs = study.runs[search]
    best = min(runs, key=lambda one: one.minimum_jiffies)
    return {
        "minimum_turnaround_ns": _value(estimates["minimum_ns"]),
        **{
            attribute: _value(estimate)
            for attribute, estimate in estimates.items()
            if attribute != "minimum_ns"
        },
        "intervals": {
            attribute: None if estimate is None else [estimate.interval.low, estimate.interval.high]
            for attribute, estimate in estimates.items()
        },
        "clamped": sum(one.clamped for one in runs),
        "best_settings_ns": dict(zip(KNOBS, best.settings, strict=True)),
        "distribution": {
            attribute: [getattr(one, attribute) for one in runs] for attribute in MEDIANS
        },
        "paper": PAPER[search],
    }


def describe_verified(verified: Verified) -> None:
    """Print the candidates and what the real runs say."""
    say(f"{verified.workload.name}; {verified.scheduler}; {verified.machine}")
    if len(verified.simulated) > 1:
        say(
            f"simulated: means over {len(verified.simulated)} neighbours, {verified.simulated[0]} "
            f"to {verified.simulated[-1]}, since a single run is chaotic"
        )
    say()
    show(
        [(str(one.attributes), short_time(one.simulated_ns)) for one in verified.candidates],
        ("what may be set here", "simulated" if len(verified.simulated) == 1 else "mean simulated"),
    )
    say()
    say(
        f"simulated best: {verified.best.attributes}, {percent(verified.predicted)} against "
        f"{verified.default.attributes}"
    )
    say(f"{verified.repeats} interleaved real runs of each: {verdict_words(verified.comparison)}")


def verified_json(verified: Verified) -> dict[str, object]:
    """Return the best policy and slice against the default."""
    comparison = verified.comparison
    return {
        "setting": str(verified.best.attributes),
        "baseline": str(verified.default.attributes),
        "effect": comparison.ratio.value,
        "interval": [comparison.ratio.interval.low, comparison.ratio.interval.high],
        "verdict": comparison.verdict,
        "repeats": verified.repeats,
        "band": comparison.band,
        "predicted": verified.predicted,
        "workload": verified.workload.name,
        "simulated": verified.simulated,
        "release": verified.scheduler.release,
        "candidates": [
            {"setting": str(one.attributes), "simulated_ns": one.simulated_ns}
            for one in verified.candidates
        ],
        "baseline_runs_ns": verified.default_runs_ns,
        "setting_runs_ns": verified.best_runs_ns,
    }


def _value(estimate: Estimate | None) -> float | None:
    return None if estimate is None else estimate.value
