"""Programs and commands in a guest, by the same calls as on the host."""

import platform
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import needs

from schedlab.boundary.errors import InputError, NotPermittedError, RunError, SchedlabError
from schedlab.experiment.settings import Setting
from schedlab.experiment.subjects import Conditions
from schedlab.model import Attributes, Workload
from schedlab.programs import subject
from schedlab.programs.command import Command
from schedlab.programs.guest_server import answer
from schedlab.targets import virtual
from schedlab.targets.virtual import Virtual
from schedlab.vm import archive, cached
from schedlab.vm.disk import LATENCY_NS
from schedlab.vm.kernels import KernelImage


@pytest.fixture(scope="module")
def guest() -> Iterator[Virtual]:
    """One guest with 5.10 for all tests; skipped, saying why, where it cannot be had."""
    needs.require(*needs.GUEST)
    if not any(kernel.series == "5.10" for kernel in cached()):
        try:
            archive.get("5.10", [])
        except SchedlabError as error:
            pytest.skip(f"NO KERNEL 5.10 TO BOOT: {error}")
    target = Virtual("5.10", cpus=2)
    yield target
    target.close()


def test_a_command_runs_on_the_guests_kernel(guest: Virtual) -> None:
    done = guest.execute(["uname", "-r"], timeout=60)
    assert done.output.startswith("5.10.")
    assert done.output.strip() != platform.release()
    assert guest.release.startswith("5.10")
    assert guest.facts()["kernel"] == done.output.strip()


def test_a_command_gets_policy_and_knobs(guest: Virtual) -> None:
    script = "chrt -p $$; cat /proc/sys/kernel/sched_latency_ns"
    knobs = {"latency": "20ms"}
    done = guest.execute(["sh", "-c", script], attributes=Attributes("rr:7"), knobs=knobs)
    assert "SCHED_RR" in done.output
    assert "priority: 7" in done.output
    assert done.output.endswith("\n20000000\n")
    # They are put back: two CPUs have 12 ms.
    again = guest.execute(["cat", "/proc/sys/kernel/sched_latency_ns"])
    assert again.output == "12000000\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("apache:time=1s,concurrency=4", marks=needs.debian("apache2", "wrk")),
        pytest.param("fio:size=1m,jobs=1", marks=needs.debian("fio")),
        pytest.param("rt-hackbench:groups=1,loops=2", marks=needs.debian("rt-tests")),
    ],
)
def test_programs_say_their_metric(guest: Virtual, text: str) -> None:
    one = subject(text)
    measured = one.measure(guest, Conditions())
    assert measured.values[one.metrics[0].name] > 0


def test_a_guest_has_a_disk_that_is_waited_for(guest: Virtual) -> None:
    steps = [
        {"read_file": {"file": "f", "bytes": 4096}},
        {"write_file": {"file": "f", "bytes": 4096}},
    ]
    work = Workload.from_dict(
        {
            "name": "past the page cache",
            "files": {"f": {"size": 65536, "open": "direct"}},
            "tasks": [
                {"name": "t", "instances": 1, "steps": [{"loop": {"count": 20, "steps": steps}}]}
            ],
        }
    )
    outcome = guest.run(work)
    # What lives in memory alone refuses O_DIRECT. Each of 40 accesses waits for the disk's timer.
    assert outcome.turnaround_ns >= 40 * LATENCY_NS
    assert outcome.tasks[0].voluntary >= 40
    # The disk is there for what comes later, and holds nothing of what went.
    assert guest.execute(["sh", "-c", "ls /disk | grep -v lost"]).output == ""


def test_what_goes_wrong_inside_is_told_as_here(guest: Virtual) -> None:
    with pytest.raises(InputError, match=r"cannot run '/no/such': No such file"):
        guest.execute(["/no/such"])
    with pytest.raises(RunError, match=r"'sleep' did not end within 0.5 s"):
        guest.execute(["sleep", "60"], timeout=0.5)
    with pytest.raises(RunError, match="printed nothing that matches"):
        Command(("echo", "hello"), "total ([0-9]+)", "lower").measure(guest, Conditions())
    # A guest that a command ended is booted anew for the next.
    with pytest.raises(RunError, match="ended while running"):
        guest.execute(["sh", "-c", "echo o > /proc/sysrq-trigger; sleep 60"], timeout=60)
    assert guest.execute(["echo", "up"]).output == "up\n"


def test_what_a_guest_cannot_have_is_refused_before_it_boots(guest: Virtual) -> None:
    with pytest.raises(InputError, match="has no knob 'base_slice'"):
        Setting({"base_slice": "3ms"}).check(guest)


def test_the_server_answers_with_what_went_wrong() -> None:
    plain = {"attributes": None, "timeout": 9}
    done = answer({**plain, "command": ["sh", "-c", "echo out; echo err >&2; exit 3"]})["done"]
    assert (done["code"], done["output"], done["errors"]) == (3, "out\n", "err\n")
    assert answer({**plain, "command": ["/no/such"]})["error"] == InputError.__name__
    assert answer({**plain, "program": "stress-ng:stressor=no-such"})["error"] == "RunError"
    refused = {"policy": "deadline:runtime=1ms,deadline=2ms,period=2ms"}
    said = answer({**plain, "command": ["true"], "attributes": refused})
    assert said["error"] in {InputError.__name__, NotPermittedError.__name__}


def test_a_guest_whose_clock_counts_instructions_has_one_cpu_unless_asked_for_more() -> None:
    assert Virtual("6.1@icount").cpus == 1
    assert Virtual("6.1@icount", cpus=2).cpus == 2


def test_a_programs_first_run_in_a_counting_guest_is_dropped(
    guest: Virtual, monkeypatch: pytest.MonkeyPatch
) -> None:
    del guest  # it sees to it that the kernel is there
    asked: list[tuple[str, object]] = []

    def ask(
        target: Virtual, request: dict[str, str], attributes: object, knobs: object, timeout: float
    ) -> dict[str, dict[str, int]]:
        del target, attributes, timeout
        asked.append((request["program"], knobs))
        return {"values": {"requests": len(asked)}}

    monkeypatch.setattr(Virtual, "_ask", ask)
    counting = Virtual("5.10@icount")
    knobs = {"latency": "20ms"}
    # The first is for its pages, under no knobs; the same program with other options has them.
    assert counting.measure_program("apache:concurrency=4", knobs=knobs)[0] == {"requests": 2}
    assert counting.measure_program("apache:concurrency=20", knobs=knobs)[0] == {"requests": 3}
    assert asked == [
        ("apache:concurrency=4", None),
        ("apache:concurrency=4", knobs),
        ("apache:concurrency=20", knobs),
    ]
    assert Virtual("5.10").measure_program("rt-hackbench")[0] == {"requests": 4}


def test_a_program_that_a_guest_does_not_see_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(virtual, "find_kernel", lambda _: KernelImage("6.1.0", tmp_path, None))
    monkeypatch.setattr(Virtual, "_ask", _cannot_run)
    monkeypatch.chdir(tmp_path)
    target = Virtual("6.1", cpus=1)
    (tmp_path / "bench").touch()
    with pytest.raises(InputError, match=f"'{tmp_path}': name it in SCHEDLAB_GUEST_DIRECTORIES"):
        target.execute(["./bench"])
    # What is not here either needs no hint, nor does what is looked for on the PATH.
    for command in ("./missing", "bench"):
        with pytest.raises(InputError, match=f"cannot run '{command}'$"):
            target.execute([command])


def _cannot_run(_: Virtual, request: dict[str, list[str]], *given: object) -> object:
    del given
    raise InputError(f"cannot run '{request['command'][0]}'")
