"""Results as JSON has them."""

from dataclasses import asdict

from schedlab.measure.calibration import Calibration
from schedlab.measure.doctor import Diagnosis
from schedlab.measure.validation import Equivalence, Validation


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
        "notes": result.scheduler.notes,
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
        "background": calibration.background,
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
