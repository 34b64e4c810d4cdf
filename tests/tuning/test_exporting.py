"""A setting made permanent, in three formats."""

import configparser
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests import needs

from schedlab.boundary.errors import InputError
from schedlab.experiment.settings import Setting
from schedlab.tuning import export

KNOBS = Setting({"latency": "9ms", "rt_runtime": "unlimited"})


def test_sysctls_are_the_kernels_own_files() -> None:
    # On 5.10 latency is /proc/sys/kernel/sched_latency_ns, in nanoseconds; -1 lifts rt_runtime.
    made = export("sysctl", KNOBS, "5.10", 2)
    lines = [line for line in made.text.splitlines() if not line.startswith("#")]
    assert lines == ["kernel.sched_latency_ns = 9000000", "kernel.sched_rt_runtime_us = -1"]
    assert made.left_out == ()


def test_what_is_no_sysctl_is_said() -> None:
    # From 5.13 on latency is in debugfs.
    made = export("sysctl", KNOBS, "6.1", 2)
    assert "sched_latency" not in made.text.replace("latency=9ms", "")
    assert "kernel.sched_rt_runtime_us = -1" in made.text
    (said,) = made.left_out
    assert "latency is no sysctl of this kernel (/sys/kernel/debug/sched/latency_ns)" in said
    with pytest.raises(InputError, match="take tuned or systemd"):
        export("sysctl", Setting({"latency": "9ms"}), "6.1", 2)


def test_a_tuned_profile_has_both_plugins() -> None:
    made = export("tuned", KNOBS, "6.1", 2)
    profile = configparser.ConfigParser(delimiters="=", interpolation=None)
    profile.read_string(made.text)
    assert profile["sysctl"]["kernel.sched_rt_runtime_us"] == "-1"
    assert profile["sysfs"]["/sys/kernel/debug/sched/latency_ns"] == "9000000"
    assert "summary" in profile["main"]


def test_a_unit_runs_the_command_under_its_policy(tmp_path: Path) -> None:
    setting = Setting({"policy": "fifo:3", "latency": "9ms", "slice": "3ms"})
    made = export("systemd", setting, "6.1", 2, command=["/bin/echo", "a b", "$HOME", "100%"])
    assert "CPUSchedulingPolicy=fifo\nCPUSchedulingPriority=3\n" in made.text
    assert 'ExecStart=/bin/echo "a b" $$HOME 100%%\n' in made.text
    assert "echo 9000000 > $$file" in made.text
    assert "systemd cannot ask for a slice (3ms)" in made.left_out[0]
    _verified(made.text, tmp_path)


def test_a_unit_for_knobs_alone_writes_them_at_boot(tmp_path: Path) -> None:
    made = export("systemd", Setting({"fair_server_runtime": "40ms"}), "6.12", 2)
    assert "Type=oneshot" in made.text
    assert "/sys/kernel/debug/sched/fair_server/cpu*/runtime" in made.text
    _verified(made.text, tmp_path)


def test_a_policy_alone_is_a_drop_in() -> None:
    made = export("systemd", Setting({"policy": "batch"}), "6.1", 2)
    assert made.text.endswith("[Service]\nCPUSchedulingPolicy=batch\n")
    assert made.place.endswith(".service.d/schedlab.conf")


def test_nothing_to_export_is_refused() -> None:
    with pytest.raises(InputError, match="served best"):
        export("sysctl", Setting({}), "6.1", 2)
    with pytest.raises(InputError, match="allowed: sysctl, tuned, systemd"):
        export("toml", KNOBS, "6.1", 2)
    with pytest.raises(InputError, match="belongs to tasks"):
        export("sysctl", Setting({"policy": "batch"}), "6.1", 2)


def test_conditions_are_comments_of_every_format(tmp_path: Path) -> None:
    lines = ["Certified: Linux 6.1.0 (host): holds", "Later, -c=64: Linux 6.1.0\n[sysctl]: lost"]
    for kind in ("sysctl", "tuned", "systemd"):
        made = export(kind, KNOBS, "5.10", 2, conditions=lines)
        head = made.text.splitlines()[2:4]
        # A line break in a workload's name begins no line of its own.
        assert head == [f"# {' '.join(line.split())}" for line in lines]
    _verified(made.text, tmp_path)


@needs.tuned
@needs.unshare
def test_tuned_applies_verifies_and_takes_back_a_profile(tmp_path: Path) -> None:
    made = export("tuned", KNOBS, "6.1", 2, conditions=["Certified: Linux 6.1.0 (host): holds"])
    profiles = tmp_path / "profiles"
    (profiles / "schedlab").mkdir(parents=True)
    (profiles / "schedlab" / "tuned.conf").write_text(made.text)
    # In a mount namespace of its own these files are /sys and /proc/sys, with 6.1's names.
    before = {
        "sys/kernel/debug/sched/latency_ns": "6000000",
        "proc/sys/kernel/sched_rt_runtime_us": "950000",
    }
    for name, value in before.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True)
        file.write_text(f"{value}\n")
    mounts = f"mount --bind {tmp_path}/sys /sys; mount --bind {tmp_path}/proc/sys /proc/sys"
    inside = f'{mounts}; mount -t tmpfs run /run; exec "$@"'
    words = [sys.executable, str(TUNED), str(needs.UNPACKED), str(profiles), *before]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", inside, "sh", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    # What TuneD read, what its own check says, and what is in the files with the profile and after.
    assert told["read"] == {
        "sysctl": {"kernel.sched_rt_runtime_us": "-1"},
        "sysfs": {"/sys/kernel/debug/sched/latency_ns": "9000000"},
    }
    assert told["verified"] is True
    assert told["applied"] == ["9000000", "-1"]
    assert told["taken_back"] == list(before.values())


TUNED = Path(__file__).with_name("tuned_profile.py")


def _verified(text: str, directory: Path) -> None:
    """Have systemd itself read a unit."""
    needs.require("systemd")
    program = shutil.which("systemd-analyze")
    assert program is not None
    file = directory / "schedlab-tuned.service"
    file.write_text(text)
    done = subprocess.run(
        [program, "verify", "--man=no", str(file)], capture_output=True, text=True, check=False
    )
    assert "Unknown" not in done.stderr
    assert done.returncode == 0, done.stderr
