"""Tables of real runs, searches on them, and the page: against tables whose answer is known."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from fidelity.scatter import Picture
from schedlab.boundary.errors import InputError
from schedlab.model.direction import Better
from tuning_benchmark.contenders import NAMES, OURS, REPEATS
from tuning_benchmark.outcomes import CIRCUMSTANCES, trials_of
from tuning_benchmark.page import Tabled, fewer, page, picture, reachable
from tuning_benchmark.register import DriftLaw, Register
from tuning_benchmark.replayed import Behaviour, Kernel
from tuning_benchmark.table import Table, TableRun, read_table
from tuning_benchmark.trials import Trial, contest, simulated_of

REGISTER = Register.read(Path(__file__).parents[2] / "validation" / "tuning.toml")
PLACE = "vm:6.1"
SETTINGS = REGISTER.places[PLACE].settings
BEST = 7
"""The number of the setting that is best in the tables here, by half."""


def _table(
    noise: float, *, drift: float = 0.0, better: Better = "lower", blocks: int = 5, seed: int = 1
) -> Table:
    """A table in which setting BEST costs half of what the others cost, and block b more by "
    "drift."""
    random = np.random.default_rng(seed)
    effects = np.zeros(len(SETTINGS))
    effects[BEST] = math.log(0.5)
    runs = [
        TableRun(block, number, math.exp(sign * cost), 60.0 * block, "boot")
        for sign in (1 if better == "lower" else -1,)
        for block in range(blocks)
        for number in random.permutation(len(SETTINGS)).tolist()
        for cost in (effects[number] + drift * block + random.normal(0, noise),)
    ]
    simulated = [(effects + random.normal(0, 0.02, len(effects))).tolist() for _ in range(8)]
    return Table(
        "hackbench", "hackbench", PLACE, "6.1.0", 1, "turnaround", "s", better, "", SETTINGS,
        runs, {}, simulated, "reference",
    )  # fmt: skip


def test_the_committed_register_has_six_workloads_at_three_places() -> None:
    assert (len(REGISTER.workloads), len(REGISTER.places)) == (6, 3)
    for name, grid in REGISTER.places.items():
        # Every position of the searches' space is a setting of the table.
        for corner in (grid.parameters.space.low, grid.parameters.space.high):
            assert grid.parameters.setting(corner) in grid.settings
        for workload in REGISTER.workloads.values():
            assert workload.measured.name in [one.name for one in workload.subject(name).metrics]


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    table = _table(0.1)
    table.failures[3] = "it failed"
    table.write(tmp_path)
    again = read_table(tmp_path, PLACE, "hackbench")
    assert again is not None
    assert again.text() == table.text()
    assert again.settings == table.settings
    assert again.blocks == 5
    # Six digits of a value are kept.
    assert np.allclose(again.logs(), table.logs(), atol=1e-5)
    assert read_table(tmp_path, PLACE, "fio") is None
    (tmp_path / "vm-6.1-fio.json").write_text("{}")
    with pytest.raises(InputError, match=r"vm-6\.1-fio\.json: no table of runs"):
        read_table(tmp_path, PLACE, "fio")


def test_blocks_that_lack_a_setting_do_not_count() -> None:
    table = _table(0.1)
    table.runs.pop()
    assert (table.blocks, len(table.logs())) == (4, 4)


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_means_and_drift_are_those_of_the_table(better: Better) -> None:
    found = Behaviour.of(_table(0.0, drift=0.1, better=better))
    expected = np.zeros(len(SETTINGS))
    expected[BEST] = math.log(0.5)
    assert np.allclose(found.means, expected)
    assert np.allclose(found.drift, 0.1 * (np.arange(5) - 2))
    assert np.allclose(found.deviations, 0)
    assert found.best == pytest.approx(math.log(0.5))
    assert found.gain == pytest.approx(0.5)
    assert not found.same().means.any()


def test_deviations_have_the_variance_of_single_runs() -> None:
    # (blocks - 1) (settings - 1) = 192 degrees of freedom: the deviation is known within 5 %
    # (1 / sqrt(2 * 192)); four such errors are allowed.
    found = Behaviour.of(_table(0.1))
    assert np.sqrt((found.deviations**2).mean()) == pytest.approx(0.1, rel=0.2)


def test_a_kernel_answers_with_mean_drift_and_deviation() -> None:
    behaviour = Behaviour.of(_table(0.05, drift=0.1))
    kernel = Kernel(behaviour, 3)
    # Blocks come there and back, in 2 * 5 * 49 runs, whose drift has mean 0 but for the two ends.
    costs = [kernel.run(BEST) for _ in range(2 * 5 * len(SETTINGS))]
    assert kernel.runs == len(costs)
    assert np.mean(costs) == pytest.approx(behaviour.means[BEST], abs=0.02)
    assert np.ptp(costs) > 0.4  # the drift goes from -0.2 to 0.2
    again = Kernel(behaviour, 3)
    assert [again.run(BEST) for _ in range(20)] == costs[:20]


def test_an_injected_drift_is_the_one_that_is_stated() -> None:
    law = DriftLaw(wave=0.1, period=40, step=0.2, at=80)
    kernel = Kernel(Behaviour.of(_table(0.0)), 1, law)
    factors = np.exp([kernel.run(0) for _ in range(160)])
    # A wave of 10 % about 1, then about 1.2.
    assert factors[:80].min() == pytest.approx(0.9, abs=0.002)
    assert factors[:80].max() == pytest.approx(1.1, abs=0.002)
    assert factors[80:].max() == pytest.approx(1.2 * 1.1, abs=0.002)


def test_the_race_finds_the_best_and_the_repeats_believe_a_drift() -> None:
    table = _table(0.02)
    assert simulated_of(table).argmin() == BEST - 1
    found = contest(REGISTER, table, control=False, drifting=False, names=[OURS, "random"])
    # Simulation has the best far ahead: it runs first, and 12 pairs certify it.
    assert [trial.first for trial in found[OURS]] == [25] * 20
    assert all(trial.accepted and trial.right for trial in found[OURS])
    assert all(trial.gain == pytest.approx(0.5, abs=0.02) for trial in found[OURS])
    # A direct search needs its own runs before the 24 of a certificate.
    assert all(trial.first is not None and trial.first >= 25 for trial in found["random"])
    # Where all are the same, a race errs in 5 % at most: more than the 99.9 % quantile of that
    # would be no chance. The rule of repeats has no such bound under drift.
    same = contest(REGISTER, table, control=True, drifting=True, names=[OURS, REPEATS])
    assert sum(trial.accepted for trial in same[OURS]) <= binom.ppf(0.999, 20, 0.05)
    assert sum(trial.accepted for trial in same[REPEATS]) > 5


def test_trials_are_kept_and_repeat_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Optuna's samplers take minutes for this.
    asked = replace(CIRCUMSTANCES[2], names=("random", REPEATS, OURS))
    monkeypatch.setattr("tuning_benchmark.outcomes.CIRCUMSTANCES", (asked,))
    table, said = _table(0.02), list[str]()
    first = trials_of(REGISTER, table, tmp_path, said.append)
    assert said == [f"vm:6.1 hackbench, A/A: {name}" for name in asked.names]
    assert trials_of(REGISTER, table, tmp_path, said.append) == first
    assert len(said) == 3
    # Another table has trials of its own.
    trials_of(REGISTER, _table(0.02, seed=2), tmp_path, said.append)
    assert len(said) == 6


def test_controls_ask_every_search_and_tpe_on_the_first_workload_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(*_: object, names: list[str], **__: object) -> dict[str, list[Trial]]:
        return {name: [] for name in names}

    monkeypatch.setattr("tuning_benchmark.outcomes.contest", nothing)
    first = trials_of(REGISTER, _table(0.02), tmp_path, lambda _: None)
    assert list(first["A/A"]) == list(first["A/A with drift"]) == list(NAMES)
    assert list(first["with drift"]) == ["random", REPEATS, OURS]
    other = _table(0.02)
    other.workload = "schbench"
    assert list(trials_of(REGISTER, other, tmp_path, lambda _: None)["A/A"]) == [
        name for name in NAMES if name != "tpe"
    ]


def _tabled(runs: dict[str, int | None]) -> Tabled:
    def trials(name: str) -> list[Trial]:
        return [Trial(runs.get(name), runs.get(name), 100, True, True, 0.5)] * 20

    table = _table(0.02)
    return Tabled.of(table, {one.name: {n: trials(n) for n in one.names} for one in CIRCUMSTANCES})


def test_the_page_says_what_is_missed_and_which_tables_are_missing() -> None:
    names = ("random", "tpe", "cmaes", "pso", REPEATS, OURS)
    # TPE finds nothing within the limit of 480 runs, we do in 24: 20 times fewer. Ours finds
    # nothing on the second table: 0 times. Their median is 10.
    both = [_tabled({OURS: 24}), _tabled(dict.fromkeys(names[:5], 60))]
    assert fewer(both, lambda trial: trial.first, 480) == 10
    few = [_tabled({**dict.fromkeys(names, 48), OURS: 24})]
    # TPE is certified in 48 runs, of which a certificate takes 2 * 12.
    assert reachable(few, lambda trial: trial.first, 480) == 2
    text = page(REGISTER, few, Picture("<svg/>", "a picture"), None)
    assert "| as used | 48 | 24 | 2.0 | 2.0 |" in text
    assert "takes 2.0 times fewer real runs than TPE if" in text
    assert "(goal: 5 times fewer; missed)" in text
    assert "1 of 18 tables" in text
    assert "apache on vm:6.12" in text.split("missing: ")[1].splitlines()[0]
    assert "| vm:6.1 hackbench | 48 | 48 | 48 | 48 | 48 | 24 | 2.0 |" in text


def test_the_page_says_what_a_setting_gives_for_what() -> None:
    def condition(gain: str, boot: str, change: float) -> dict[str, Any]:
        return {
            "boot": 1,
            "gain": gain,
            "circumstances": {"kernels": ["6.1.0"], "boots": [f"{boot}-long"], "begun": "today"},
            "answers": [
                {
                    "workload": "hackbench",
                    "metric": "turnaround",
                    "change": change,
                    "verdict": "better",
                    "pairs": 12,
                }
            ],
        }

    trade = {
        "setting": {"policy": "batch"},
        "target": "vm:6.1",
        "certified": condition("holds", "11111111", -0.352),
        "sessions": [{"conditions": [condition("undecided", "22222222", -0.2)]}],
    }
    text = page(REGISTER, [_tabled({OURS: 24})], Picture("<svg/>", "a picture"), None, trade)
    part = text.split("## A certified trade")[1].split("## ")[0]
    assert "`policy=batch` on vm:6.1" in part
    first = "| certified | 6.1.0 | 11111111 | today | -35.2% (better, 12 pairs) | holds |"
    later = "| later, boot 1 | 6.1.0 | 22222222 | today | -20.0% (better, 12 pairs) | undecided |"
    assert first in part
    assert later in part


def test_the_picture_has_a_row_a_table_and_a_colour_a_search() -> None:
    names = ("random", "tpe", "cmaes", "pso", REPEATS, OURS)
    drawn = picture([_tabled({**dict.fromkeys(names, 48), OURS: 24})])
    assert "vm:6.1 hackbench" in drawn.svg
    assert all(name in drawn.svg for name in ("TPE", "CMA-ES", REPEATS, OURS))
    assert drawn.alternative.startswith("Real runs that 6 searches need, a row each of 1")
