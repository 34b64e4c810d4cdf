"""Real guests of four series: knobs set and read back inside, faults, and nothing left behind."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from schedlab.boundary.errors import InputError, NotPermittedError, RunError
from schedlab.model import Attributes, Costs, Machine, Workload
from schedlab.targets import vm
from schedlab.targets.sim import simulate
from schedlab.vm import Guest
from schedlab.vm.command import TURN_US, counting, counts_several, qemu_command
from schedlab.vm.kernels import KernelImage
from schedlab.vm.workplace import workplace

SMALL = "hackbench:groups=1,fds=2,loops=2"
# A group of 2 senders and 2 receivers: each sender sends 2 messages to each receiver, and each of
# the four says that it is ready.
MESSAGES = 2 * 2 * 2 + 4


def test_a_microvm_takes_its_jobs_over_a_device() -> None:
    # QEMU's microvm has one serial line of its own, the console; q35 has four.
    image = KernelImage("6.1.0", Path("vmlinuz"), None)
    for machine, option in (
        ("q35", "chardev:control"),
        ("microvm", "isa-serial,index=1,chardev=control"),
    ):
        command = qemu_command(
            image, Path("archive"), Path("console"), accelerator="tcg", machine=machine
        )
        assert option in command


def test_a_counted_guest_moves_no_single_bytes() -> None:
    # QEMU counts each byte of a `rep movsb` as an instruction. Every QEMU from 4.1 on knows `erms`
    # and `fsrm`; a feature that it does not know it refuses, and then a guest does not start.
    image = KernelImage("6.1.0", Path("vmlinuz"), None)

    def processor(options: tuple[str, ...], accelerator: str = "tcg") -> str:
        command = qemu_command(
            image, Path("archive"), Path("console"), accelerator=accelerator, options=options
        )
        return command[command.index("-cpu") + 1]

    assert processor(counting(1)).startswith("max,-erms,-fsrm")
    assert [processor(()), processor((), "kvm")] == ["max", "host"]


def test_a_guest_knows_how_long_a_round_of_turns_takes() -> None:
    # Four CPUs have turns of 2.5 us. One CPU has none, and no guest by another clock.
    image = KernelImage("6.1.0", Path("vmlinuz"), None)

    def parameters(cpus: int, options: tuple[str, ...]) -> str:
        command = qemu_command(
            image, Path("archive"), Path("console"), accelerator="tcg", cpus=cpus, options=options
        )
        return command[command.index("-append") + 1]

    counted = ("-icount", "shift=1")
    assert "schedlab.round=10" in parameters(4, counted).split()
    assert "schedlab.round" not in parameters(1, counted) + parameters(4, ())


def test_simulated_turns_are_as_long_as_a_guests() -> None:
    # The second of two tasks begins to compute beside the first. On average T * (2 - 1)^2 / (2 * 2)
    # of turns T go by before it sees that its time is up, in whole ns of work, each of which takes
    # two, as the 1 ns of its look at the clock takes two.
    compute = [{"cpus": [cpu], "steps": {"run": 1000}} for cpu in (0, 1)]
    both = Workload.from_dict({"name": "both", "tasks": dict(zip("ab", compute, strict=True))})
    costs = Costs.from_times("clocks", {"compute": "1ns"})
    outcome = simulate(
        both, scheduler="6.12", machine=Machine(2, costs, speed="turns", background="none")
    )
    late = 2 * (1 + int(TURN_US * 1000 / 8))
    assert outcome.tasks[1].run_ns == 1_000_000 + late


def _processes_of(directory: Path) -> list[int]:
    """Return the processes whose command names a file in a directory."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if entry.name.isdigit() and str(directory).encode() in command:
            found.append(int(entry.name))
    return found


@pytest.mark.parametrize(
    ("series", "knobs", "read_back"),
    [
        # Each is no kernel's default: CFS scales 6 ms by 1 + log2(CPUs), EEVDF 0.7 ms to 3 ms.
        ("5.10", {"latency": "20ms"}, ["sysctl", "-n", "kernel.sched_latency_ns"]),
        ("6.1", {"latency": "20ms"}, ["cat", "/sys/kernel/debug/sched/latency_ns"]),
        ("6.12", {"base_slice": "20ms"}, ["cat", "/sys/kernel/debug/sched/base_slice_ns"]),
        ("7.2", {"base_slice": "20ms"}, ["cat", "/sys/kernel/debug/sched/base_slice_ns"]),
    ],
)
def test_a_boot_serves_many_runs_with_knobs_read_back_inside(
    fetched: Callable[[str], KernelImage],
    series: str,
    knobs: dict[str, str],
    read_back: list[str],
) -> None:
    with Guest.boot(fetched(series), cpus=2) as guest:
        assert guest.run(["uname", "-r"]).output.strip() == guest.kernel.release
        # Ports that stay awake; until 6.5 none is suspended.
        control = "cat /sys/bus/serial-base/devices/*/power/control"
        if series in ("6.12", "7.2"):
            assert set(guest.run(["sh", "-c", control]).output.split()) == {"on"}
        before = guest.run(read_back).output
        with vm.guest_knobs.applied(guest, knobs) as said:
            assert guest.run(read_back).output == "20000000\n"
            assert said == knobs
        assert guest.run(read_back).output == before != "20000000\n"
        outcome = vm.run(SMALL, guest, knobs={**knobs, "feature.WAKEUP_PREEMPTION": "0"})
        assert outcome.knobs == {**knobs, "feature.WAKEUP_PREEMPTION": "0"}
        assert (outcome.target, outcome.release, outcome.cpus) == ("vm", guest.kernel.release, 2)
        assert outcome.accelerator in ("tcg", "kvm")
        assert outcome.messages == MESSAGES
        fifo = vm.run(SMALL, guest, attributes=Attributes("fifo:5"))
        assert fifo.messages == MESSAGES
        assert fifo.knobs == {}
    assert not guest.shared.exists()
    assert not _processes_of(guest.shared.parent)


HOG = {"loop": -1, "run": 1000}
GROUPS = Workload.from_dict(
    {
        "global": {"duration": 1},
        "groups": {"/heavy": {"weight": 300}, "/limited": {"max": {"quota": "10ms"}}},
        "tasks": {
            "heavy": {**HOG, "taskgroup": "/heavy"},
            "light": {**HOG, "taskgroup": "/light"},
            "limited": {**HOG, "taskgroup": "/limited"},
        },
    }
)


SESSIONS = Workload.from_dict(
    {
        "global": {"duration": 1},
        "tasks": {
            "alone": {**HOG, "session": "tty1"},
            "crowd": {**HOG, "session": "tty2", "instance": 3},
        },
    }
)


def test_weights_and_limits_of_groups_and_sessions_act_in_a_guest(
    fetched: Callable[[str], KernelImage],
) -> None:
    with Guest.boot(fetched("6.12"), clock="instructions") as guest:
        before = guest.run(["ls", "/sys/fs/cgroup"]).output
        assert "cgroup.controllers" in before
        outcome = vm.run(GROUPS, guest)
        assert guest.run(["ls", "/sys/fs/cgroup"]).output == before
        together = vm.run(SESSIONS, guest, knobs={"autogroup": "1"})
        apart = vm.run(SESSIONS, guest, knobs={"autogroup": "0"})
    # One of four tasks has as much as the other three where sessions are groups, else a quarter.
    shares = {group.name: group.share for group in together.groups}
    assert shares == pytest.approx({"session tty1": 0.5, "session tty2": 0.5}, abs=0.01)
    alone = next(task.run_ns for task in apart if task.name.startswith("alone"))
    assert alone / sum(task.run_ns for task in apart) == pytest.approx(0.25, abs=0.01)
    assert apart.groups == ()
    run = {task.name: task.run_ns for task in outcome}
    # 300 against 100: three quarters. A slice of each, some ms of the second, may be missing.
    assert run["heavy"] / (run["heavy"] + run["light"]) == pytest.approx(0.75, abs=0.01)
    # The second has ten periods of 100 ms, or eleven where the run begins within one. Each gives
    # 10 ms, half of what the weights would, and may be overdrawn by a tick of 4 ms.
    assert 9 * 10e6 < run["limited"] <= 11 * 14e6
    (limited,) = [group for group in outcome.groups if group.name == "/limited"]
    assert limited.throttled_periods >= 9


def test_files_and_streams_pass_both_ways_and_the_host_is_left_alone(
    fetched: Callable[[str], KernelImage],
) -> None:
    mark = Path("/root/schedlab-test-mark")
    with Guest.boot(fetched("6.1")) as guest:
        (guest.shared / "given").write_text("given\n")
        done = guest.run(
            [
                "sh",
                "-c",
                f"cat; cat $OUT/given; echo 1 > {mark}; cp {mark} $OUT/back; pwd >&2; exit 7",
            ],
            text="typed\n",
        )
        assert (done.code, done.output) == (7, "typed\ngiven\n")
        assert Path(done.errors.strip()) == Path.cwd()
        assert (guest.shared / "back").read_text() == "1\n"
        assert guest.run(["cat", str(mark)]).output == "1\n"
        assert guest.run(["no-such-program"]).code == 127
    assert not mark.exists()


def test_a_guest_that_hangs_is_ended_at_its_limit_and_its_console_kept(
    fetched: Callable[[str], KernelImage],
) -> None:
    with Guest.boot(fetched("6.1")) as guest:
        guest.run(["sh", "-c", "echo a last word > /dev/kmsg; dmesg -n 8"])
        guest.run(["sh", "-c", "echo a last word > /dev/kmsg"])
        with pytest.raises(RunError, match="more than 3 s; its console: ") as caught:
            guest.run(["sleep", "1000"], timeout=3)
        assert not guest.up
        assert not _processes_of(guest.shared.parent)
    console = Path(str(caught.value).rpartition("console: ")[2])
    assert "a last word" in console.read_text(errors="replace")
    console.unlink()


def test_a_guest_that_panics_is_ended_and_its_console_kept(
    fetched: Callable[[str], KernelImage],
) -> None:
    with (
        Guest.boot(fetched("6.1")) as guest,
        pytest.raises(RunError, match=r"Kernel panic .*its console: ") as caught,
    ):
        guest.run(["sh", "-c", "echo c > /proc/sysrq-trigger"])
    console = Path(str(caught.value).rpartition("console: ")[2])
    assert "Kernel panic" in console.read_text(errors="replace")
    console.unlink()


def test_a_guest_dies_with_a_schedlab_that_is_killed(fetched: Callable[[str], KernelImage]) -> None:
    kernel = fetched("6.1").release
    program = (
        "import time\nfrom schedlab.vm import Guest\n"
        f"with Guest.boot({kernel!r}) as guest:\n"
        "    print(guest.shared, flush=True)\n    time.sleep(1000)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    directory = Path(process.stdout.readline().strip()).parent
    assert _processes_of(directory)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    for _ in range(100):
        if not _processes_of(directory):
            break
        time.sleep(0.1)
    assert not _processes_of(directory)
    # Its directory goes with the next guest.
    assert directory.is_dir()
    with workplace():
        assert not directory.exists()


def test_knobs_a_kernel_lacks_are_refused_with_what_took_their_place(
    fetched: Callable[[str], KernelImage],
) -> None:
    with Guest.boot(fetched("6.12")) as guest:
        with pytest.raises(InputError, match="base_slice"):
            vm.run(SMALL, guest, knobs={"latency": "20ms"})
        with pytest.raises((InputError, NotPermittedError)) as caught:
            vm.run(SMALL, guest, attributes=Attributes("other", 0, None, (63,)))
        assert re.search("CPU|affinity", str(caught.value))


COMPUTING = Workload.from_dict(
    {"global": {"duration": 1}, "tasks": {"hog": {"loop": -1, "run": 1000, "instance": 3}}}
)


# What is refused without it is tested with any QEMU, in test_booting.py.
@pytest.mark.skipif(not counts_several(), reason="QEMU before 8.1 counts for one CPU alone")
def test_several_cpus_that_count_instructions_have_turns(
    fetched: Callable[[str], KernelImage],
) -> None:
    # Three tasks that compute for a second have two CPUs, of which none stands still for as long as
    # a tick: all of both, but for what 250 ticks a second and starting take.
    with Guest.boot(fetched("6.12"), cpus=2, clock="instructions") as guest:
        outcome = vm.run(COMPUTING, guest)
    used = sum(task.run_ns for task in outcome.tasks)
    assert outcome.cpus == 2
    assert 1.9e9 < used <= 2.01e9


def test_a_clock_that_counts_instructions_has_no_kvm(
    fetched: Callable[[str], KernelImage],
) -> None:
    image = fetched("6.12")
    for clock, accelerator, said in (
        ("sundial", None, "host and instructions"),
        ("instructions", "kvm", "has no KVM"),
    ):
        with (
            pytest.raises(InputError, match=said),
            Guest.boot(image, clock=clock, accelerator=accelerator),
        ):
            pass
