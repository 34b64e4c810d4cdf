"""Calibrations: measured, written, read back, refused."""

import datetime as dt
import json
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import schedlab
from schedlab.boundary.errors import InputError
from schedlab.cli.main import invoke
from schedlab.measure import calibration
from schedlab.measure.calibration import Calibration, Spread
from schedlab.model import Costs, calibration_file, parse_time
from schedlab.vm.kernels import KernelImage

SIZES = ("4_kib", "1_mib")
LEAST_COMPLETION_NS = 500
LINE = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]))


@given(
    kernel=LINE,
    cpu=LINE,
    note=LINE,
    switch=st.integers(0, 10**12),
    disk=st.integers(0, 10**12),
)
def test_what_is_written_is_read_back(
    kernel: str, cpu: str, note: str, switch: int, disk: int
) -> None:
    found = Calibration(
        costs=Costs.from_times(
            "calibrated", {"switch": f"{switch}ns"}, {"disk_latency": f"{disk}ns"}
        ),
        kernel=kernel,
        cpu_model=cpu,
        cpus=2,
        hz=250,
        date="2026-01-02T03:04:05+00:00",
        spread={"switch": Spread(1.5, 1.0, 2.0, 7)},
        later={"refill_of_64_kib": Spread(3.5, 3.0, 4.0, 8)},
        notes=(note,),
    )
    read = calibration_file._read(tomllib.loads(calibration.to_toml(found)), "calibrated")
    assert read == found


def test_a_calibration_is_measured_and_used(tmp_path: Path) -> None:
    found = calibration.calibrate(quick=True)
    file = calibration.save(found, tmp_path / "costs.toml")
    # A system call takes time on any machine; what was measured has quartiles in order.
    assert found.costs.times["system_call"] > 0
    for spread in found.spread.values():
        assert spread.p25_ns <= spread.p75_ns
        assert spread.samples > 0
    assert calibration.stale(found) is None
    machine = schedlab.Machine(2, file)
    assert machine.costs.times == found.costs.times
    assert schedlab.simulate("pipe", scheduler="6.1", machine=machine).turnaround_ns > 0


def test_of_several_calibrations_medians_are_kept() -> None:
    def calibrated(switch: float, note: str) -> Calibration:
        return Calibration(
            costs=Costs("calibrated", {"switch": round(switch)}, {"disk_latency": round(switch)}),
            kernel="6.1",
            elapsed_ns=5,
            spread={"switch": Spread(switch, switch - 1, switch + 1, 7)},
            notes=(note,),
        )

    several = [calibrated(switch, note) for switch, note in ((900, "a"), (100, "b"), (300, "a"))]
    found = calibration.median_of(several)
    assert found.costs.times == {"switch": 300}
    assert found.costs.devices == {"disk_latency": 300}
    # Quartiles of 100, 300, 900 lie halfway between neighbours; batches and times add up.
    assert found.spread["switch"] == Spread(300.0, 200.0, 600.0, 21)
    assert (found.elapsed_ns, found.notes) == (15, ("a", "b"))
    assert calibration.median_of(several[:1]) == several[0]


def test_a_cost_that_half_of_several_calibrations_missed_is_unknown() -> None:
    def calibrated(wakeup: int, *unknown: str) -> Calibration:
        times = {"wakeup": wakeup, "ipi": 0 if "ipi" in unknown else 10 * wakeup}
        return Calibration(costs=Costs("calibrated", times, unknown=unknown))

    # 10 and 50 are what two of three found; zero is no measurement.
    found = calibration.median_of([calibrated(1), calibrated(3, "ipi"), calibrated(5)])
    assert (found.costs.times, found.costs.unknown) == ({"wakeup": 3, "ipi": 30}, ())
    found = calibration.median_of([calibrated(1), calibrated(3, "ipi")])
    assert (found.costs.times, found.costs.unknown) == ({"wakeup": 2, "ipi": 0}, ("ipi",))


def test_medians_are_of_one_machine() -> None:
    here, there = (Calibration(Costs("calibrated", {}), kernel=name) for name in ("6.1", "6.12"))
    with pytest.raises(InputError, match=r"one machine only; kernel is 6\.1, 6\.12"):
        calibration.median_of([here, there])
    with pytest.raises(InputError, match="at least one"):
        calibration.median_of([])


def test_a_machine_is_calibrated_several_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = []
    for repeat in ("1", "2"):
        file = str(tmp_path / "costs.toml")
        arguments = [
            "calibrate",
            "--quick",
            "--force",
            "--repeat",
            repeat,
            "--output",
            file,
            "--json",
        ]
        assert invoke(arguments) == 0
        shown.append(json.loads(capsys.readouterr().out)["measured"]["memory_chase"]["samples"])
    # Memory is measured in as many batches each time: twice as many in two.
    assert shown[1] == 2 * shown[0]
    assert invoke(["calibrate", "--repeat", "0"]) == 2


def test_a_guest_is_calibrated_into_a_file_of_its_own(
    fetched: Callable[[str], KernelImage], capfd: pytest.CaptureFixture[str]
) -> None:
    kernel = fetched("6.1")
    code = invoke(["calibrate", "--quick", "--force", "--on", f"vm:{kernel.release}", "--json"])
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
    assert "kernel" in str(calibration.stale(found))


def test_a_simulation_is_not_calibrated(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["calibrate", "--on", "sim"]) == 2
    assert "'vm:KERNEL'" in capsys.readouterr().err
    assert invoke(["calibrate", "--cpus", "2"]) == 2
    assert "--cpus means nothing with --on host" in capsys.readouterr().err


def test_memory_and_disk_are_measured_and_charged(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    found = calibration.calibrate(quick=True, disk=tmp_path / "disk")
    assert list((tmp_path / "disk").iterdir()) == []
    # What the page cache serves is charged by nothing yet.
    cached = {"cached_file_read_of_4_kib", "cached_file_write_of_4_kib"}
    assert {name for name in found.later if not name.startswith("refill")} == cached
    direct = {name for name in found.measured if name.startswith(("disk", "memory"))}
    memory = {"memory_write_of_1_kib", "memory_read_of_1_kib", "memory_chase"}
    accesses = {f"disk_{verb}_of_{size}" for verb in ("read", "write") for size in SIZES}
    disk = accesses | {f"{access}_cpu" for access in accesses}
    flush = {f"disk_flush{end}" for end in ("", "_cpu", "_completion", "_runs")}
    devices = {"memory_per_kib", "memory_chase"}
    if any("in memory" in note for note in found.notes):
        assert direct == memory
    else:
        assert direct - {"disk_interrupt"} == memory | disk | flush
        devices |= {"disk_access", "disk_latency", "disk_per_kib"}
        # Whether a thread of the kernel completes writes depends on the file system.
        # So does whether one hands accesses over.
        runs, first, again = (
            found.measured[f"sync_{name}"].median_ns
            for name in ("overwrite_runs", "write_completion", "overwrite_completion")
        )
        # What of that is for flushes is known apart.
        flushes = "flush_latency" in found.costs.devices
        for_flush = found.measured["disk_flush_completion"].median_ns if flushes else 0
        handing = again - for_flush if again - for_flush >= LEAST_COMPLETION_NS else 0
        if handing:
            devices |= {"dispatch"}
        completion = found.measured.get("begun_overwrite_completion")
        if (
            completion is not None
            and completion.median_ns - handing - for_flush >= LEAST_COMPLETION_NS
        ):
            devices |= {
                "begun_write",
                "first_write",
                "completion",
                "first_completion",
                "completion_access",
            }
        # So does whether one ends the writeback of a first write.
        devices |= {"first_sync_write"}
        another = not handing or found.measured["sync_write_runs"].median_ns > runs
        if first - again >= LEAST_COMPLETION_NS and another:
            devices |= {"first_writeback"}
        # A disk may have a write cache, and its interrupts a CPU.
        optional = {"flush", "flush_dispatch", "flush_latency", "disk_interrupt", "disk_cpu"}
        devices |= optional & set(found.costs.devices)
    assert set(found.costs.devices) == devices
    quartiles = {name: found.later[name] for name in cached}
    quartiles |= {name: found.measured[name] for name in direct - flush}
    for spread in quartiles.values():
        assert 0 < spread.p25_ns <= spread.p75_ns
    machine = schedlab.Machine(1, calibration.save(found, tmp_path / "costs.toml"))
    assert machine.costs.devices == found.costs.devices
    charged = json.loads(machine.json)["devices"]
    for name, value in found.costs.devices.items():
        assert value == (charged[name] if name == "disk_cpu" else parse_time(charged[name]))
    assert "refill_of_64_kib_after_preemption" in found.later
    assert not set(found.later) & set(found.costs.times)


def test_the_cpu_of_the_disk_s_interrupts_is_a_number_among_times(tmp_path: Path) -> None:
    devices = {"disk_latency": 20_000, "flush_latency": 15_000, "disk_cpu": 1}
    found = Calibration(costs=Costs("calibrated", {"switch": 900}, devices), cpus=2)
    file = calibration.save(found, tmp_path / "costs.toml")
    assert "disk_cpu = 1" in file.read_text().splitlines()
    assert calibration.load(file).costs.devices == devices
    machine = schedlab.Machine(2, file)
    assert json.loads(machine.json)["devices"]["disk_cpu"] == 1
    assert schedlab.Machine.from_json(machine.json, machine.costs.name) == machine
    # Of calibrations that disagree no CPU takes all of them.
    other = replace(found, costs=replace(found.costs, devices={**devices, "disk_cpu": 0}))
    assert calibration.median_of([found, found]).costs.devices == devices
    assert "disk_cpu" not in calibration.median_of([found, other]).costs.devices


def test_a_kernel_that_does_not_preempt_is_simulated_as_such(tmp_path: Path) -> None:
    for preempt, lines in (("none", ['preempt = "none"']), ("full", [])):
        costs = Costs("calibrated", {"switch": 900}, preempt=preempt)
        file = calibration.save(Calibration(costs=costs, cpus=2), tmp_path / f"{preempt}.toml")
        written = file.read_text().splitlines()
        assert [line for line in written if line.startswith("preempt")] == lines
        machine = schedlab.Machine(2, file)
        assert json.loads(machine.json).get("preempt", "full") == preempt
        assert schedlab.Machine.from_json(machine.json, machine.costs.name) == machine
    other = tmp_path / "other.toml"
    other.write_text((tmp_path / "none.toml").read_text().replace('"none"', '"some"'))
    with pytest.raises(InputError, match="allowed: none, full"):
        calibration.load(other)


def test_a_calibrated_disk_is_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[costs]\n[devices]\ndisk_latency = "300us"\ndisk_per_kib = "5us"\n')
    write = {"write_file": {"file": "f", "bytes": 4096}}
    work = schedlab.Workload.from_dict(
        {
            "name": "ten writes",
            "files": {"f": {"size": 65536, "open": "sync"}},
            "tasks": [
                {"name": "w", "instances": 1, "steps": [{"loop": {"count": 10, "steps": [write]}}]}
            ],
        }
    )
    machine = schedlab.Machine(1, file)
    # Each of ten writes, one after the other, takes 300 us and 4 KiB of 5 us; the first also sets
    # the inode's times, which change once a tick of 4 ms, and writes its block of 1 KiB.
    found = schedlab.simulate(work, scheduler="6.1", machine=machine)
    assert found.turnaround_ns == 10 * 320_000 + 305_000
    # Without the table it is a small server's disk: 100 us and 2 us a KiB.
    plain = schedlab.Machine(1, "ideal")
    found = schedlab.simulate(work, scheduler="6.1", machine=plain)
    assert found.turnaround_ns == 10 * 108_000 + 102_000


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
        ('[costs]\nswitch = "2"\n', r"costs\.switch: '2' is not a time: it has no unit"),
        ("[costs]\nswitch = 2\n", "invalid type: integer `2`, expected a string$"),
        ('[costs]\nswatch = "2us"\n', "unknown field `swatch`"),
        ("[costs]\n[spread.switch]\ncolour = 1\n", "colour"),
        ('devices = 3\n[costs]\nswitch = "2us"\n', "devices is no table"),
        ('[costs]\n[devices]\ndisk_size = "2us"\n', "unknown field `disk_size`"),
        ("machine = 3\n[costs]\n", "machine is no table"),
        ("costs = 3\n", "costs is no table"),
        ('[machine]\ncpus = "x"\n[costs]\n', "machine.cpus is 'x'; a whole number"),
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
    assert "2.6.24-old" in (calibration.stale(old) or "")
    assert calibration.stale(Calibration(costs=Costs.load("linsched"))) is None


def test_a_machine_never_calibrated_has_reference_costs_and_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    reference = calibration.reference()
    machine = schedlab.Machine(cpus=2)
    assert machine.costs.times == reference.costs.times
    assert machine.costs.name == f"reference:{calibration.REFERENCE}"
    outcome = schedlab.simulate("pipe", scheduler="6.1", machine=machine)
    assert len(outcome.notes) == 1
    assert "never calibrated" in outcome.notes[0]
    assert reference.cpu_model in outcome.notes[0]
    assert "'schedlab calibrate'" in outcome.notes[0]
    # The command line has the same default, and says so beside its tables and in its JSON.
    assert invoke(["run", "pipe", "--kernel", "6.1", "--cpus", "2", "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["notes"] == list(outcome.notes)
    assert json.loads(shown.out)["turnaround_ns"] == outcome.turnaround_ns
    assert "note: this machine was never calibrated" in shown.err
    # Chosen by name they need no note.
    chosen = schedlab.Machine(2, "reference")
    assert chosen == machine
    assert schedlab.simulate("pipe", scheduler="6.1", machine=chosen).notes == ()


def test_a_calibrated_machine_has_its_own_costs_everywhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    own = Calibration(costs=Costs.from_times("calibrated", {"pipe_write": "123us"}), cpus=2)
    calibration.save(own)
    assert schedlab.Machine(2).costs.times["pipe_write"] == 123_000
    assert schedlab.Machine(2).costs.name == "calibrated"
    assert invoke(["run", "pipe:loops=10", "--kernel", "6.1", "--cpus", "2", "--json"]) == 0
    shown = capsys.readouterr()
    # Twenty writes, one after the other, and nothing else takes time.
    assert json.loads(shown.out)["turnaround_ns"] == 20 * 123_000
    assert "never calibrated" not in shown.err


def test_reference_costs_say_where_they_come_from() -> None:
    for name in calibration.references():
        found = calibration.reference(name)
        assert found.kernel, name
        assert found.cpu_model, name
        assert found.cpus >= 2, name
        assert dt.datetime.fromisoformat(found.date).tzinfo is not None
        # Measured on several CPUs, what lies between them is known.
        assert found.costs.unknown == (), name
        assert found.costs.times["ipi_idle"] > 0, name
    with pytest.raises(InputError, match="no reference costs are called 'pdp11'; allowed: "):
        schedlab.Machine(1, "reference:pdp11")


def test_unknown_costs_are_kept_apart_from_zero(tmp_path: Path) -> None:
    costs = Costs.from_times("calibrated", {"wakeup": "1us", "unknown": ["ipi_idle"]})
    file = calibration.save(Calibration(costs=costs, cpus=2), tmp_path / "costs.toml")
    text = tomllib.loads(file.read_text(encoding="utf-8"))["costs"]
    assert text["unknown"] == ["ipi_idle"]
    assert "ipi_idle" not in text
    assert text["ipi"] == "0ns"
    machine = schedlab.Machine(2, file)
    assert machine.costs.unknown == ("ipi_idle",)
    (note,) = schedlab.simulate("pipe:loops=3", scheduler="6.1", machine=machine).notes
    assert note.startswith("the cost ipi_idle is unknown: this run needed it ")
    with pytest.raises(InputError, match="'ipi_idel' is none"):
        Costs.from_times("mine", {"unknown": ["ipi_idel"]})


def test_a_calibration_of_before_does_not_know_what_it_leaves_out(tmp_path: Path) -> None:
    spread = "[spread.wakeup]\nmedian_ns = 1.0\np25_ns = 1.0\np75_ns = 1.0\nsamples = 1\n"
    times = '[costs]\nwakeup = "1us"\nwakeup_remote = "0ns"\nidle_exit = "0ns"\nmigration = "0ns"\n'
    file = tmp_path / "old.toml"
    file.write_text(f"[machine]\ncpus = 2\n{times}{spread}")
    assert schedlab.Machine(2, file).costs.unknown == ("ipi", "ipi_idle", "ipi_taken")
    # One CPU had measured none of what lies between several.
    file.write_text(f"[machine]\ncpus = 1\n{times}{spread}")
    between = ("wakeup_remote", "ipi", "ipi_idle", "ipi_taken", "idle_exit", "migration")
    assert schedlab.Machine(2, file).costs.unknown == between
    # Costs that a user wrote are what they say.
    file.write_text(times)
    assert schedlab.Machine(2, file).costs.unknown == ()
