"""Recordings of perf, trace-cmd and Perfetto: what they say of waits, and what they cannot show."""

import gzip
import json
import subprocess
from pathlib import Path

import pytest
from tests.needs import GUEST, debian, recordable

from schedlab.attribution.waiting import why_recorded
from schedlab.boundary.errors import InputError
from schedlab.cli.main import invoke
from schedlab.measure import trace_text
from schedlab.measure.inference import infer
from schedlab.vm.guest import Guest

FIXTURES = Path("crates/trace/tests/fixtures")
ONE_CPU = ("perf-sched-6.18.txt.gz", "one-cpu.perfetto-trace", "one-cpu-compact.perfetto-trace")
TWO_CPUS = (
    "perf-sched-2-cpus-6.18.txt.gz",
    "two-cpus.perfetto-trace",
    "two-cpus-compact.perfetto-trace",
)

ABOVE = """\
# os release : 6.12.10
 rt 7 [000] 1.000000000: sched:sched_waking: comm=fair pid=8 prio=120 target_cpu=000
 rt 7 [000] 1.003000000: sched:sched_switch: prev_comm=rt prev_pid=7 prev_prio=89 prev_state=S ==> \
next_comm=fair next_pid=8 next_prio=120
 x 20 [001] 1.003000000: sched:sched_waking: comm=y pid=21 prio=120 target_cpu=001
"""
"""Two CPUs; a fair task waits 3 ms behind one of real-time priority 10 (99 - 89)."""


@pytest.mark.parametrize("name", [*ONE_CPU, *TWO_CPUS])
def test_why_takes_the_kernel_of_the_file_and_says_what_it_cannot_show(name: str) -> None:
    found = why_recorded(FIXTURES / name)
    assert found.release.startswith("6.18.44")
    assert found.task is not None
    assert found.wait_ns > 0
    assert any("kernel's settings" in note for note in found.notes)
    assert any("need_resched" in note for note in found.notes)
    assert any("several CPUs" in note for note in found.notes) == (name in TWO_CPUS)
    for task in found.tasks:
        assert sum(cause.wait_ns for cause in task.causes) == task.wait_ns


@pytest.mark.parametrize("names", [ONE_CPU, TWO_CPUS])
def test_waits_are_the_same_whichever_program_tells_them(names: tuple[str, ...]) -> None:
    """Events' times and tasks are the same, so the waits that ended are.

    Those that the recording's end cuts off last longer where perf's last event is a charge.
    """
    perf, single = (
        [
            (wait.task, wait.length_ns)
            for wait in why_recorded(FIXTURES / name, task="hackbench", worst=10_000).worst
            if wait.ran
        ]
        for name in names[:2]
    )
    assert len(perf) > 50
    assert perf == single


def test_priorities_alone_decide_between_classes_on_several_cpus(tmp_path: Path) -> None:
    trace = tmp_path / "trace.txt"
    # Both CPUs are busy: an idle one would be the cause.
    first = (
        " x 20 [001] 0.998000000: sched:sched_switch: prev_comm=b prev_pid=10 prev_prio=120 "
        "prev_state=S ==> next_comm=x next_pid=20 next_prio=120\n"
        " a 9 [000] 0.999000000: sched:sched_switch: prev_comm=a prev_pid=9 prev_prio=120 "
        "prev_state=S ==> next_comm=rt next_pid=7 next_prio=89\n"
    )
    head, _, rest = ABOVE.partition("\n")
    trace.write_text(f"{head}\n{first}{rest}")
    found = why_recorded(trace, task="fair")
    assert found.wait_ns == 3_000_000
    assert [(cause.cause, cause.behind) for cause in found.tasks[0].causes] == [
        ("realtime_above", "rt")
    ]


def test_a_recording_without_a_kernel_asks_for_one(tmp_path: Path) -> None:
    trace = tmp_path / "trace.txt"
    trace.write_text(ABOVE.partition("\n")[2])
    with pytest.raises(InputError, match=r"does not say its kernel: name it \(--kernel 6\.1, say"):
        why_recorded(trace)
    assert why_recorded(trace, kernel="6.12").release.startswith("6.12")


def test_infer_and_regress_take_them(capsys: pytest.CaptureFixture[str]) -> None:
    source = str(FIXTURES / TWO_CPUS[0])
    inferred = infer(FIXTURES / TWO_CPUS[0])
    assert inferred.scheduler is not None
    assert inferred.scheduler.release.startswith("6.18")
    assert inferred.cpus == 2
    assert len(inferred.limits) == 3
    words = ["regress", source, "--from", "6.18", "--to", "7.2", "--costs", "ideal", "--runs", "2"]
    assert invoke([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["old"].startswith("6.18")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"PERFILE2" + bytes(64), "perf does not print it"),
        (b"\n\x03\n\x01\x08", "packet 1"),
        (b"\n\xff\xff\xff\x7f", "at most 8 MiB"),
    ],
)
@debian("linux-perf")
def test_a_hostile_file_is_refused_in_a_line(
    data: bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(data)
    assert invoke(["why", str(path)]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1


def test_a_program_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trace.dat"
    path.write_bytes(b"\x17\x08\x44tracing6\0" + bytes(64))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"install it \(Debian's trace-cmd\)"):
        why_recorded(path)
    with trace_text.readable(FIXTURES / ONE_CPU[0]) as same:
        assert same == FIXTURES / ONE_CPU[0]


@debian("linux-perf", "rt-tests")
@recordable
def test_perf_data_is_read_by_calling_perf(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    command = ["perf", "sched", "record", "-o", str(path), "--", "hackbench", "-g", "1", "-l", "5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        pytest.skip("PERF MAY NOT RECORD HERE")
    found = why_recorded(path)
    assert any(task.name == "hackbench" for task in found.tasks)


@pytest.mark.parametrize(
    ("name", "cpus"), [("trace-cmd-6.12.txt.gz", 1), ("trace-cmd-2-cpus-6.12.txt.gz", 2)]
)
def test_the_text_of_trace_cmd_is_read_and_says_what_it_cannot_show(
    name: str, cpus: int, tmp_path: Path
) -> None:
    """What trace-cmd 3.1.6 printed of six tracepoints, without `sched_stat_runtime`."""
    with pytest.raises(InputError, match="does not say its kernel"):
        why_recorded(FIXTURES / name)
    found = why_recorded(FIXTURES / name, kernel="6.12", task="hackbench")
    assert any("kernel's settings" in note for note in found.notes)
    assert any("sched_stat_runtime" in note for note in found.notes)
    assert any("several CPUs" in note for note in found.notes) == (cpus == 2)
    assert found.task is not None
    # hackbench -g 1 -f 3: three senders, three receivers and the first task.
    assert found.task.tasks == 7
    for task in found.tasks:
        assert sum(cause.wait_ns for cause in task.causes) == task.wait_ns
    # As `readable` makes it of a trace.dat, which names its kernel.
    named = tmp_path / "named.txt"
    with gzip.open(FIXTURES / name, "rt") as text:
        named.write_text(f"# os release : 6.12.117+deb13-amd64\n{text.read()}")
    inferred = infer(named)
    assert inferred.cpus == cpus
    assert any("kernel's settings" in note for note in inferred.limits)


@debian("trace-cmd", "rt-tests", *GUEST)
def test_a_file_of_trace_cmd_is_read_by_calling_it() -> None:
    """A guest's `trace.dat`; it names its kernel, which the text does not."""
    events = " ".join(
        f"-e sched:sched_{name}" for name in ("switch", "waking", "wakeup", "wakeup_new")
    )
    script = (
        f"cd /dev/shm && trace-cmd record -q -C mono {events} -e sched:sched_process_fork "
        "-o trace.dat hackbench -g 1 -f 2 -l 2 && cp trace.dat $OUT/"
    )
    with Guest.boot("6.12", clock="instructions") as guest:
        done = guest.run(["sh", "-c", script], timeout=120)
        assert done.code == 0, done.errors
        found = why_recorded(guest.shared / "trace.dat", task="hackbench")
    assert found.release.startswith("6.12.")
    assert found.wait_ns > 0
    assert found.task is not None
    # Two senders, two receivers and the first task.
    assert found.task.tasks == 5
