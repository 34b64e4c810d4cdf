"""Calibrations: measured, written, read back, refused."""

import datetime as dt
import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import schedlab
from schedlab import calibration
from schedlab.calibration import Calibration, Spread
from schedlab.cli.main import invoke
from schedlab.errors import InputError
from schedlab.model import Costs
from schedlab.vm.kernels import KernelImage

SIZES = ("4_kib", "1_mib")
LINE = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]))


@given(kernel=LINE, cpu=LINE, note=LINE, switch=st.integers(0, 10**12))
def test_what_is_written_is_read_back(kernel: str, cpu: str, note: str, switch: int) -> None:
    found = Calibration(
        costs=Costs.from_times("calibrated", {"switch": f"{switch}ns"}),
        kernel=kernel,
        cpu_model=cpu,
        cpus=2,
        hz=250,
        date="2026-01-02T03:04:05+00:00",
        spread={"switch": Spread(1.5, 1.0, 2.0, 7)},
        later={"disk_read_of_4_kib": Spread(3.5, 3.0, 4.0, 8)},
        notes=(note,),
    )
    read = calibration._read(tomllib.loads(calibration.to_toml(found)), "calibrated")
    assert read == found


def test_a_calibration_is_measured_and_used(tmp_path: Path) -> None:
    found = calibration.calibrate(quick=True)
    file = calibration.save(found, tmp_path / "costs.toml")
    # A system call takes time on any machine; what was measured has quartiles in order.
    assert found.costs.times["system_call"] > 0
    for spread in found.spread.values():
        assert spread.p25_ns <= spread.p75_ns
        assert spread.samples > 0
    assert found.stale() is None
    machine = schedlab.Machine(2, file)
    assert machine.costs.times == found.costs.times
    assert schedlab.simulate("pipe", scheduler="6.1", machine=machine).turnaround_ns > 0


def test_a_guest_is_calibrated_into_a_file_of_its_own(
    fetched: Callable[[str], KernelImage], capfd: pytest.CaptureFixture[str]
) -> None:
    kernel = fetched("6.1")
    code = invoke(["calibrate", "--quick", "--on", f"vm:{kernel.release}", "--json"])
    shown = json.loads(capfd.readouterr().out)
    assert code == 0
    file = Path(shown["file"])
    assert file.parent == calibration.path().parent
    assert file != calibration.path()
    found = calibration.load(file)
    assert (found.kernel, found.cpus, found.accelerator) == (
        kernel.release,
        2,
        shown["accelerator"],
    )
    assert found.accelerator in ("tcg", "kvm")
    assert dt.datetime.fromisoformat(found.date).tzinfo is not None
    assert found.cpu_model
    # With two CPUs everything can be measured; a system call takes time on any machine.
    assert {"switch", "system_call", "migration"} <= set(found.spread)
    assert found.costs.times["system_call"] > 0
    assert "kernel" in str(found.stale())


def test_a_simulation_is_not_calibrated(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["calibrate", "--on", "sim"]) == 2
    assert "'vm:KERNEL'" in capsys.readouterr().err
    assert invoke(["calibrate", "--cpus", "2"]) == 2
    assert "--cpus means nothing with --on host" in capsys.readouterr().err


def test_files_and_disk_are_measured_for_later(tmp_path: Path) -> None:
    found = calibration.calibrate(quick=True, disk=tmp_path)
    # Nothing is left behind, and what it cost is no cost of the simulator's.
    assert list(tmp_path.iterdir()) == []
    files = {name for name in found.later if not name.startswith("refill")}
    cached = {"cached_file_read_of_4_kib", "cached_file_write_of_4_kib"}
    if any("in memory" in note for note in found.notes):
        assert files == cached
    else:
        disk = {f"disk_{verb}_of_{size}" for verb in ("read", "write") for size in SIZES}
        assert files == cached | disk
    for name in files:
        assert 0 < found.later[name].p25_ns <= found.later[name].p75_ns
    assert "refill_of_64_kib_after_preemption" in found.later
    assert not set(found.later) & set(found.costs.times)


def test_a_disk_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file or directory"):
        calibration.calibrate(quick=True, disk=tmp_path / "none")


def test_a_file_of_ones_own_needs_costs_alone(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[costs]\nswitch = "2us"\n')
    costs = schedlab.Machine(1, file).costs
    assert costs.times["switch"] == 2_000
    assert sum(costs.times.values()) == 2_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("costs", "not TOML"),
        ("[machine]\n", r"no table \[costs\]"),
        ('[costs]\nswitch = "2"\n', "no unit"),
        ("[costs]\nswitch = 2\n", "invalid type"),
        ('[costs]\nswatch = "2us"\n', "unknown field `swatch`"),
        ("[costs]\n[spread.switch]\ncolour = 1\n", "colour"),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=said) as refusal:
        schedlab.Machine(1, file)
    assert "wrong.toml" in str(refusal.value)


def test_another_kernels_costs_are_stale() -> None:
    old = Calibration(costs=Costs.load("linsched"), kernel="2.6.24-old")
    assert "2.6.24-old" in (old.stale() or "")
    assert Calibration(costs=Costs.load("linsched")).stale() is None
