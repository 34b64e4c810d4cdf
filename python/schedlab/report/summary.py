"""Results as JSON has them."""

from dataclasses import asdict

from schedlab.calibration import Calibration
from schedlab.doctor import Diagnosis
from schedlab.stats import Estimate
from schedlab.studies.policy_and_slice import Verified
from schedlab.studies.scheduler_tuning import KNOBS, PAPER, Study
from schedlab.validation import Equivalence, Validation

MEDIANS = (
    "minimum_jiffies",
    "minimum_ns",
    "executions",
    "executions_to_minimum",
    "executions_to_golden_minimum",
    "generation_of_minimum",
)
"""What the tuning study reports of each search, over seeds."""


def diagnosis_json(diagnosis: Diagnosis) -> dict[str, object]:
    """Return a diagnosis."""
    return {
        "facts": {**asdict(diagnosis.facts), "busy": diagnosis.facts.busy is not None},
        "policies": diagnosis.policies,
        "slices": diagnosis.slices,
        "knobs": [
            {
                "name": reading.knob.name,
                "value": reading.value,
                "settable": reading.settable,
                "why": reading.why,
                "path": reading.knob.path,
            }
            for reading in diagnosis.knobs
        ],
        "checks": diagnosis.checks,
    }


def validation_json(result: Validation) -> dict[str, object]:
    """Return a validation."""
    return {
        "r_squared": result.fit.r_squared,
        "median_absolute_error": result.median_absolute_error,
        "slope": result.fit.slope,
        "intercept_ns": result.fit.intercept,
        "release": result.scheduler.release,
        "hz": result.scheduler.hz,
        "cpus": result.machine.cpus,
        "repeats": result.repeats,
        "constant_cost": {
            "message_cost_ns": result.message_cost_ns,
            "r_squared": result.constant_cost_fit.r_squared,
            "median_absolute_error": result.constant_cost_error,
        },
        "points": [
            {
                "workload": point.settings.text,
                "messages": point.settings.loops,
                "simulated_ns": point.simulated_ns,
                "measured_ns": point.measured_ns,
                "runs_ns": point.runs_ns,
                "log_error": point.log_error,
                "constant_cost_ns": point.constant_cost_ns,
                "constant_cost_log_error": point.constant_cost_log_error,
            }
            for point in result.points
        ],
    }


def calibration_json(calibration: Calibration) -> dict[str, object]:
    """Return a calibration."""
    return {
        "kernel": calibration.kernel,
        "cpu_model": calibration.cpu_model,
        "cpus": calibration.cpus,
        "hz": calibration.hz,
        "date": calibration.date,
        "costs_ns": calibration.costs.times,
        "spread": calibration.spread,
        "measured": calibration.measured,
        "notes": calibration.notes,
    }


def equivalence_json(equivalence: Equivalence) -> dict[str, object]:
    """Return how our hackbench compares with rt-tests'."""
    return {
        "same_work": equivalence.same_work,
        "ratio": equivalence.ratio,
        "verdict": equivalence.verdict,
        "band": equivalence.band,
        "ours_ns": equivalence.ours_ns,
        "theirs_ns": equivalence.theirs_ns,
    }


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
