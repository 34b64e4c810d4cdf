"""Real programs: what is read from recordings of them, and what of a workload is changed."""

import gzip
import json
from pathlib import Path

import pytest
from tests import needs

from fidelity.held_out.page import figure, page
from fidelity.held_out.plan import Goal, Plan
from fidelity.places import at
from fidelity.programs.collect import (
    Cell,
    Found,
    Values,
    life,
    predict,
    record_program,
    warm_up,
    with_tasks,
)
from fidelity.programs.register import Change, Program, Register
from fidelity.programs.section import programs
from schedlab.boundary.errors import InputError, RunError
from schedlab.measure.inference import infer
from schedlab.model import Costs

ROOT = Path(__file__).parents[2]
REGISTER = Register.read(ROOT / "validation/programs.toml")

# As the kernel writes them, cut to what is read.
FORK = "sched_process_fork: comm=sh pid=10 child_comm=sh child_pid="
EXIT = "sched_process_exit: comm="

# One that is there on every machine: it ends before the job beside it.
DD = Program(
    why="a program that copies from nowhere to nowhere",
    prepare="true",
    run="$BATCH gzip -c $MEMORY/file > /dev/null &\n"
    "$PROGRAM dd if=/dev/zero of=/dev/null bs=64k count=2000 2> /dev/null\nwait",
    client="dd",
    names=("dd",),
    batch=("gzip",),
    jobs=2000,
    unit="blocks",
)


def test_every_place_has_a_recording_and_five_changes() -> None:
    assert set(REGISTER.programs) == {"apache", "fio", "pgbench", "make"}
    for place in REGISTER.protocol.places:
        changes = REGISTER.changes_at(place)
        assert changes[0] == Change(name="recorded")
        assert len({change.name for change in changes}) == 6


@pytest.mark.parametrize(
    ("keys", "prefix"),
    [
        ({"policy": "SCHED_BATCH"}, "chrt -b 0"),
        ({"policy": "SCHED_IDLE", "priority": 3}, "chrt -i 0 nice -n 3"),
        ({}, ""),
    ],
)
def test_a_part_s_commands_begin_with_what_sets_them(keys: dict[str, object], prefix: str) -> None:
    assert Change(name="x", tasks={"program": keys}).prefix("program") == prefix
    assert Change(name="x", tasks={"program": keys}).prefix("batch") == ""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('policy = "SCHED_BATCH"', 'policy = "SCHED_FIFO"', "allowed: SCHED_BATCH, SCHED_IDLE"),
        ("priority = 10", "weight = 10", "'weight'; allowed: policy, priority"),
        (
            'name = "short slices"',
            'name = "short slices"\nplaces = ["vm:6.2"]',
            "no place 'vm:6.2'",
        ),
        ('name = "short slices"', 'name = "recorded"', "'recorded'"),
        ("jobs = 16", "jobs = 0", "programs.make.jobs"),
    ],
)
def test_what_is_wrong_in_the_file_is_refused_with_where(old: str, new: str, said: str) -> None:
    text = (ROOT / "validation/programs.toml").read_text()
    assert old in text
    with pytest.raises(InputError, match=said):
        Register.parse(text.replace(old, new))


def _trace(directory: Path, *events: tuple[float, str]) -> Path:
    path = directory / "trace.txt.gz"
    text = "".join(f"  sh-10  0.....  {second:.9f}: {event}\n" for second, event in events)
    path.write_bytes(gzip.compress(text.encode()))
    return path


def test_a_life_is_from_the_fork_to_the_end_of_the_longest_of_the_name(tmp_path: Path) -> None:
    # The one that began at 1 s ends at 4.5 s; a job of its own lives for 1 s; another program
    # and one that was there before do not count.
    trace = _trace(
        tmp_path,
        (1.0, f"{FORK}11"),
        (2.0, f"{FORK}12"),
        (2.5, f"{FORK}13"),
        (3.0, f"{EXIT}fio pid=12 prio=120"),
        (4.0, f"{EXIT}fio pid=7 prio=120"),
        (4.5, f"{EXIT}fio pid=11 prio=120"),
        (9.0, f"{EXIT}gzip pid=13 prio=120"),
    )
    assert life(trace, "fio") == 3_500_000_000
    with pytest.raises(RunError, match="ab did not begin and end"):
        life(trace, "ab")


def test_a_change_sets_the_tasks_of_its_part_alone() -> None:
    text = json.dumps({"tasks": {"ab-208": {}, "apache2-164": {}, "gzip-207": {}, "sh-206": {}}})
    change = Change(name="x", tasks={"program": {"policy": "SCHED_BATCH"}})
    found = json.loads(with_tasks(text, REGISTER.programs["apache"], change))["tasks"]
    batch = {"policy": "SCHED_BATCH"}
    assert found == {"ab-208": batch, "apache2-164": batch, "gzip-207": {}, "sh-206": {}}


def test_a_task_that_inherits_sets_itself_first() -> None:
    steps = {"set": {"nice": 1}, "run": "1ms"}
    text = json.dumps({"tasks": {"gzip-207": {"inherit": True, "steps": steps}}})
    change = Change(name="x", tasks={"batch": {"priority": 10}})
    found = json.loads(with_tasks(text, REGISTER.programs["apache"], change))["tasks"]["gzip-207"]
    assert list(found["steps"].items()) == [("set1", {"priority": 10}), *steps.items()]
    assert "priority" not in found


def test_errors_are_of_medians_and_keep_their_sign() -> None:
    # Medians 90 and 100: 10 % too little; real runs are 20 of 100 apart.
    cell = Cell(
        real=[{"throughput": value, "p99": 5.0} for value in (100.0, 90.0, 110.0)],
        predicted=[{"throughput": value, "p99": 5.0} for value in (80.0, 90.0, 200.0)],
    )
    assert cell.error("throughput") == pytest.approx(-0.1)
    assert cell.own("throughput") == pytest.approx(0.2)
    assert cell.error("p99") == 0.0
    assert Cell().error("p99") is None


def test_the_page_has_programs_with_their_errors() -> None:
    far: Values = {"throughput": 110.0, "p99": 3_000_000.0}
    near: Values = {"throughput": 100.0, "p99": 2_000_000.0}
    cells = {
        ("apache", "recorded"): Cell(real=[near, near], predicted=[near]),
        ("apache", "long slices"): Cell(real=[near, near], predicted=[far]),
        ("make", "recorded"): Cell(why_not="no compiler"),
    }
    text = programs(REGISTER, {"vm:6.1": Found("6.1.176", cells)})
    plan = Plan(2, 1, 2, ("host",), {"wait": Goal(0.15, 0.8)})
    drawn = {"prediction.svg": figure(plan, {})}
    whole = page(plan, {}, "Seeds.", drawn, programs=text)
    values = "110 requests/s / 100 requests/s | +10.0% | 0.0% | 3.000 ms / 2.000 ms | +50.0% | 0.0%"
    assert f"| apache | long slices | {values} |" in whole
    assert "* apache (requests): throughput 10.0%, p99 50.0%" in whole
    assert "| make | recorded | no compiler | - |" in whole


@needs.guest
def test_a_program_is_recorded_as_it_is_set_and_predicted(tmp_path: Path) -> None:
    # 2,000 blocks of 64 KiB take some 10 ms of CPU time beside a job of the same weight, then of
    # the least: of two tasks that compute, dd has half of the CPU, then nearly all of it.
    least = Change(name="least", tasks={"batch": {"policy": "SCHED_IDLE"}})
    paths = [tmp_path / "recorded.txt.gz", tmp_path / "least.txt.gz"]
    with at("vm:6.1") as there:
        there.command(["sh", "-c", "head -c 2000000 /dev/urandom > /dev/shm/file"])
        warm_up(there, DD, [least])
        for path, change in zip(paths, (Change(name="recorded"), least), strict=True):
            record_program(there, DD, change, path)
    shared, alone = (life(path, "dd") for path in paths)
    assert 1.5 < shared / alone < 2.6
    recorded = infer(paths[0], costs="ideal", ending="work")
    found = predict(recorded, DD, least, Costs.load("ideal"), 2)
    for one in found:
        assert one["throughput"] == pytest.approx(DD.jobs / (alone / 1e9), rel=0.15)
