"""``schedlab verify``: whether a certified gain holds later, in another boot, under other loads."""

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.tuning.test_aims import BOTH, SEARCH

from schedlab.boundary.errors import InputError
from schedlab.cli.main import invoke
from schedlab.experiment import execution
from schedlab.experiment.group_sequential import Judged
from schedlab.experiment.sequential_experiment import Answer, LimitedQuestion, Question
from schedlab.experiment.stats import Estimate, Interval, Verdict
from schedlab.experiment.subjects import Described, Metric, Subject
from schedlab.model import Machine, Scheduler, Workload
from schedlab.model.outcome import Outcome
from schedlab.processes.processes import Completed
from schedlab.programs import subject
from schedlab.programs.command import Command
from schedlab.store import Store
from schedlab.store.store import NewRun
from schedlab.targets import facts
from schedlab.targets.facts import boot
from schedlab.targets.target import Host, Simulated
from schedlab.targets.virtual import Virtual
from schedlab.tuning.aims import Aim, Aims, Floor, Part
from schedlab.tuning.conditions import Finding, lasting
from schedlab.tuning.grid import loads
from schedlab.vm.kernels import KernelImage

Capture = pytest.CaptureFixture[str]

# Under batch p99 is 31 % lower at up to 8 connections, 5 % higher at 64, and 0.5 % lower at 128;
# throughput is 1.2 % lower everywhere.
SERVICE = """\
#!/bin/sh
case "$(chrt -p $$)" in
*BATCH*) throughput=9880; case $2 in 64) p99=10500;; 128) p99=9950;; *) p99=6900;; esac;;
*) throughput=10000; p99=10000;;
esac
echo p99 $p99 us; echo throughput $throughput
"""


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with a tuning of a service, which certified policy=batch at 4 connections."""
    place = tmp_path_factory.mktemp("tuned")
    (place / "service").write_text(SERVICE)
    (place / "service").chmod(0o755)
    assert invoke(_search(place / "service", place / "runs.db")) == 0
    return place / "runs.db"


def _search(script: Path, store: Path) -> list[str]:
    return [*SEARCH, *BOTH, "--store", str(store), f"--command={script} -c 4"]


@pytest.fixture
def service(tuned: Path, tmp_path: Path) -> str:
    """Return the id of that tuning, in a store of its own."""
    shutil.copy(tuned, tmp_path / "runs.db")
    with Store(tmp_path / "runs.db", create=False) as store:
        (found,) = (one for one in store.experiments() if one.kind == "tune")
    assert found.result is not None
    assert found.result["recommended"] == {"policy": "batch"}
    return found.id


Verify = Callable[..., Any]


@pytest.fixture
def verify(service: str, tmp_path: Path, capsys: Capture) -> Verify:
    """Return what runs ``schedlab verify`` on that tuning: its JSON, and what it remarks."""

    def run(*words: str, code: int = 0) -> tuple[Any, str]:
        line = ["verify", service, *words, "--store", str(tmp_path / "runs.db"), "--json"]
        assert invoke(line) == code
        out, err = capsys.readouterr()
        return (json.loads(out) if out else None), err

    return run


def _gains(session: dict[str, Any]) -> dict[str, str]:
    return {one["load"].get("-c", ""): one["gain"] for one in session["conditions"]}


def test_a_grid_of_loads_says_where_the_gain_holds(verify: Verify) -> None:
    value, _ = verify("--later", "--load=-c=8,64,128")
    (session,) = value["sessions"]
    # At 128 p99 is the same within 1 %, which is a verdict, and no gain.
    assert _gains(session) == {"8": "holds", "64": "does not hold", "128": "does not hold"}
    assert session["holds"] == 1
    changes = {
        one["load"]["-c"]: {answer["metric"]: answer["change"] for answer in one["answers"]}
        for one in session["conditions"]
    }
    for load, p99 in (("8", -0.31), ("64", 0.05), ("128", -0.005)):
        assert changes[load] == pytest.approx({"p99": p99, "throughput": -0.012})
    # One family: three loads, two metrics.
    assert (session["verdicts"], session["confidence"]) == (6, 0.95)
    assert value["certified"]["gain"] == "holds"


def test_conditions_are_those_of_the_runs(
    verify: Verify, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certified = verify()[0]["certified"]["circumstances"]
    assert certified["boots"] == [boot()]
    assert certified["kernels"] == [facts.facts().kernel]
    other = tmp_path / "boot_id"
    other.write_text("6d0e2b2a-0000-4000-8000-000000000001\n")
    monkeypatch.setattr(facts, "BOOT_ID", other)
    (session,) = verify("--later")[0]["sessions"]
    (condition,) = session["conditions"]
    assert condition["circumstances"]["boots"] == [other.read_text().strip()]
    with Store(tmp_path / "runs.db", create=False) as store:
        runs = list(store.runs(session["experiment"]))
    # With the check of the default against itself: 12 pairs of each.
    assert condition["circumstances"]["runs"] == len(runs) == 48
    loads = sorted(run.load for run in runs if run.load is not None)
    assert condition["circumstances"]["load_average"][::2] == [loads[0], loads[-1]]
    assert condition["circumstances"]["begun"] == min(run.begun for run in runs)


def test_a_run_of_before_boots_were_kept_has_none(verify: Verify, tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db", create=False) as store:
        rows = store._connection.execute("SELECT id, facts FROM place").fetchall()
        for identity, text in rows:
            place = {name: value for name, value in json.loads(text).items() if name != "boot"}
            store._connection.execute(
                "UPDATE place SET facts = ? WHERE id = ?", (json.dumps(place), identity)
            )
    assert verify()[0]["certified"]["circumstances"]["boots"] == []


def test_a_damaged_store_is_one_line(service: str, tmp_path: Path, capsys: Capture) -> None:
    with Store(tmp_path / "runs.db", create=False) as store:
        store._connection.execute(
            """UPDATE experiment SET result = '{"recommended": {"a": "b"}}'"""
        )
    assert invoke(["verify", service, "--store", str(tmp_path / "runs.db")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: store '")
    assert "is damaged" in error
    assert error.count("\n") == 1


def test_an_interrupted_session_goes_on_and_a_finished_one_is_followed(
    verify: Verify, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, left = execution.stored, 30

    def stopping(*given: Any, **options: Any) -> Any:
        arm = stored(*given, **options)

        def run(block: int, place: int) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
            return arm(block, place)

        return run

    with monkeypatch.context() as patch:
        patch.setattr(execution, "stored", stopping)
        _, said = verify("--later", code=130)
    assert "30 runs are kept in" in said
    assert said.endswith("error: interrupted\n")
    (stopped,) = verify()[0]["sessions"]
    assert stopped["state"] == "interrupted"
    assert _gains(stopped) == {"": "undecided"}
    (whole,) = verify("--later")[0]["sessions"]
    assert whole["experiment"] == stopped["experiment"]
    assert _gains(whole) == {"": "holds"}
    first, second = verify("--later")[0]["sessions"]
    assert first == whole
    assert _gains(second) == {"": "holds"}
    with Store(tmp_path / "runs.db", create=False) as store:
        certifying = verify()[0]["comparison"]
        seeds = [
            {run.seed for run in store.runs(one)}
            for one in (certifying, first["experiment"], second["experiment"])
        ]
        assert [len(list(store.runs(one["experiment"]))) for one in (first, second)] == [48, 48]
    # Orders and simulations of a session are drawn anew.
    assert not seeds[0] & seeds[1] | seeds[0] & seeds[2] | seeds[1] & seeds[2]


def test_a_file_names_the_conditions(verify: Verify, tmp_path: Path) -> None:
    unit = tmp_path / "service.conf"
    _, said = verify("--later", "--load=-c=4,64", "--export", f"systemd:{unit}")
    assert "the gain does not hold under every condition, as the file says" in said
    lines = unit.read_text().splitlines()
    this = f"Linux {facts.facts().kernel} (host), "
    trade = "p99 -31.0% for throughput -1.2%"
    assert lines[2].startswith(f"# Certified: {this}")
    assert lines[2].endswith(f": holds: {trade}")
    assert lines[3].startswith(f"# Later, -c=4: {this}")
    assert f"boot {str(boot())[:8]}" in lines[3]
    assert lines[3].endswith(f": holds: {trade}")
    assert lines[4].endswith(": does not hold: nothing certain for p99 +5.0% and throughput -1.2%")
    assert "CPUSchedulingPolicy=batch" in lines
    assert "UNCERTIFIED" not in unit.read_text()


def test_a_gain_that_is_gone_is_not_written(verify: Verify, tmp_path: Path) -> None:
    unit = tmp_path / "service.conf"
    export = ["--export", f"systemd:{unit}"]
    _, said = verify("--later", "--load=-c=64", *export, code=1)
    assert said.splitlines()[-1] == (
        f"error: '{unit}' was not written: the gain of policy=batch held in no condition of the "
        "last session; --uncertified writes it all the same"
    )
    assert not unit.exists()
    verify(*export, "--uncertified")
    assert "# UNCERTIFIED: " in unit.read_text()


def test_a_setting_is_found_by_its_text_and_a_tuning_writes_its_sessions(
    verify: Verify, service: str, tuned: Path, tmp_path: Path, capsys: Capture
) -> None:
    verify("--later", "--load=-c=8")
    store = ["--store", str(tmp_path / "runs.db")]
    assert invoke(["verify", "policy=batch", *store]) == 0
    told = capsys.readouterr().out
    assert "policy=batch: the gain holds in 1 of 1 condition\n" in told
    assert "all 2 verdicts of this session are right together with 95% confidence" in told
    # The tuning's own export, made again from the store, knows of it too.
    unit = tmp_path / "service.conf"
    line = _search(tuned.with_name("service"), tmp_path / "runs.db")
    assert invoke([*line, "--export", f"systemd:{unit}"]) == 0
    assert "# Later, -c=8: Linux " in unit.read_text()
    capsys.readouterr()
    assert invoke(["report", service[:8], *store]) == 0
    assert "later: policy=batch: the gain holds in 1 of 1 condition" in capsys.readouterr().out


def test_a_default_that_differs_from_itself_says_nothing(
    verify: Verify, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = execution.Cell.made

    def unsteady(cell: execution.Cell, once: execution.Once, *, arm: str, **where: int) -> NewRun:
        run = made(cell, once, arm=arm, **where)
        if not arm.startswith("A/A: again"):
            return run
        return replace(run, values={**run.values, "throughput": 1.05 * run.values["throughput"]})

    monkeypatch.setattr(execution.Cell, "made", unsteady)
    (session,) = verify("--later")[0]["sessions"]
    assert _gains(session) == {"": "unreliable"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("0123 --later", "no experiment with the id '0123'"),
        ("policy=idle --later", "no tuning certified 'policy=idle'"),
        ("ID --load=-c=8", "--load means nothing without --later: leave it out"),
        ("ID --boots 2", "--boots means nothing without --later: leave it out"),
        ("ID --blocks 9", "--blocks means nothing without --later: leave it out"),
        ("ID --timeout 9s", "--timeout means nothing without --later: leave it out"),
        ("ID --uncertified", "--uncertified means nothing without --export: leave it out"),
        ("ID --later --load=-t=8", "--load names '-t', which no workload has; allowed: -c"),
        ("ID --later --load=-c=8,8", "'-c=8,8' has a value twice"),
        ("ID --later --boots 2", "--boots is 2, and the setting was certified on host"),
        ("ID --later --timeout 0s", "--timeout is 0s; allowed: above 0"),
        ("ID --export toml", "--export is 'toml'; allowed: sysctl, tuned, systemd"),
    ],
)
def test_wrong_input_is_one_line(
    words: str, said: str, service: str, tmp_path: Path, capsys: Capture
) -> None:
    line = ["verify", *words.replace("ID", service).split(), "--store", str(tmp_path / "runs.db")]
    assert invoke(line) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert said in error
    with Store(tmp_path / "runs.db", create=False) as store:
        assert not [one for one in store.experiments() if one.kind == "verify"]


def test_a_comparison_and_a_tuning_without_a_gain_are_refused(
    tmp_path: Path, capsys: Capture
) -> None:
    store = ["--store", str(tmp_path / "runs.db")]
    small = ["hackbench:groups=1,fds=2,loops=1", "--kernel", "6.1", "--costs", "reference"]
    assert invoke(["compare", *small, "--policy", "other,batch", "--blocks", "3", *store]) == 0
    equal = ["tune", "--by", "random", "--executions", "3", "--policy", "other,batch"]
    assert invoke([*equal, *store, "--on", "host", "--command=true", "--blocks", "2"]) == 0
    capsys.readouterr()
    with Store(tmp_path / "runs.db", create=False) as kept:
        kinds = {one.kind: one.id for one in kept.experiments()}
    assert invoke(["verify", kinds["compare"][:8], *store]) == 2
    assert "is of kind 'compare'; allowed: a tuning" in capsys.readouterr().err
    assert invoke(["verify", kinds["tune"][:8], *store]) == 2
    assert "certified no setting" in capsys.readouterr().err


def _named(given: Mapping[str, Subject], *texts: str) -> list[list[str]]:
    """Return what each workload is called under each load, of a grid."""
    found = loads({name: one.definition() for name, one in given.items()}, texts)
    for load in found:
        for name, one in load.subjects.values():
            # A workload that has a name is the one of that name.
            assert isinstance(one, Command) or one.definition() == subject(name).definition()
    return [[load.subjects[name][0] for name in given] for load in found]


def test_a_load_is_set_in_every_workload_that_has_it() -> None:
    web, hack = "http:servers=2,concurrency=4", "hackbench:groups=2"
    served = Command(("./serve", "-c", "4", "--time=3"), "seconds")
    given: dict[str, Subject] = {web: subject(web), hack: subject(hack), served.name: served}
    own = [web, hack, served.name]
    assert _named(given) == [own]
    assert _named(given, "concurrency=8") == [["http:servers=2,concurrency=8", *own[1:]]]
    # What is not in a workload's text has a value all the same.
    assert _named(given, "loops=7")[0][1] == "hackbench:groups=2,loops=7"
    assert _named(given, "--time=9")[0][2] == "./serve -c 4 --time=9"
    assert [one[1:] for one in _named(given, "groups=3,4", "-c=5,6")] == [
        [f"hackbench:groups={groups}", f"./serve -c {clients} --time=3"]
        for groups in (3, 4)
        for clients in (5, 6)
    ]


def test_a_load_of_a_workload_in_groups_or_of_an_option_without_a_value_is_refused() -> None:
    hogs = "hogs:tasks=4"
    grouped = Described(Workload.parse(hogs).with_groups(["/a:tasks=1", "/b"]))
    with pytest.raises(InputError, match="is in groups or sessions, or its file was changed"):
        _named({hogs: grouped}, "tasks=8")
    served = Command(("./serve", "-v", "-c"), "seconds")
    for option in ("-v", "-c"):
        with pytest.raises(InputError, match=f"'{option}' has no value"):
            _named({served.name: served}, f"{option}=8")


P99, RATE = Metric("p99", "s", "lower"), Metric("throughput", "1/s", "higher")
FIRST, SECOND = Part("service", P99), Part("service", RATE)
BETTER, WORSE, SAME, KEPT, OPEN = (
    Verdict.BETTER, Verdict.WORSE, Verdict.SAME, Verdict.KEPT, Verdict.INCONCLUSIVE,
)  # fmt: skip


def _answers(p99: Verdict, rate: Verdict, *, floor: bool) -> dict[tuple[str, str], Answer]:
    judged = [Judged(Estimate(0.9, Interval(0.8, 1.0, 0.95), 12), one, 0.01) for one in (p99, rate)]
    rated = Question("old", "new", "throughput", "higher")
    floored = LimitedQuestion("old", "new", "throughput", "higher", limit=0.98)
    questions = [Question("old", "new", "p99"), floored if floor else rated]
    return {
        ("service", one.metric): Answer(one, found, 12)
        for one, found in zip(questions, judged, strict=True)
    }


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        # What gained gains again, and what was paid is paid again.
        ((BETTER, WORSE), (BETTER, WORSE), Finding.HOLDS),
        ((BETTER, WORSE), (BETTER, SAME), Finding.HOLDS),
        ((BETTER, SAME), (BETTER, BETTER), Finding.HOLDS),
        # A price that was not paid before, or another gain in the place of the one before.
        ((BETTER, SAME), (BETTER, WORSE), Finding.LOST),
        ((BETTER, WORSE), (WORSE, BETTER), Finding.LOST),
        ((BETTER, WORSE), (SAME, SAME), Finding.LOST),
        # Of two gains one is left.
        ((BETTER, BETTER), (BETTER, SAME), Finding.LOST),
        # A verdict is missing that could still be the one that is needed.
        ((BETTER, SAME), (OPEN, SAME), Finding.UNDECIDED),
        ((BETTER, SAME), (BETTER, OPEN), Finding.UNDECIDED),
        # What is certain already, no verdict of the other changes.
        ((BETTER, WORSE), (SAME, OPEN), Finding.LOST),
    ],
)
def test_a_gain_holds_where_what_was_better_is_better_again(
    before: tuple[Verdict, Verdict], after: tuple[Verdict, Verdict], found: Finding
) -> None:
    aims = Aims((Aim("p99", (FIRST,)), Aim("throughput", (SECOND,))))
    told = lasting(_answers(*after, floor=False), _answers(*before, floor=False), aims)
    assert told is found


@pytest.mark.parametrize(
    ("after", "found"),
    [
        ((BETTER, KEPT), Finding.HOLDS),
        ((BETTER, WORSE), Finding.LOST),
        ((BETTER, OPEN), Finding.UNDECIDED),
        ((SAME, KEPT), Finding.LOST),
    ],
)
def test_a_floor_has_to_be_kept_again(after: tuple[Verdict, Verdict], found: Finding) -> None:
    aims = Aims((Aim("p99", (FIRST,)),), (Floor(SECOND, 0.98),))
    before = _answers(BETTER, KEPT, floor=True)
    assert lasting(_answers(*after, floor=True), before, aims) is found
    assert lasting({}, before, aims) is Finding.UNDECIDED


OTHER = "6d0e2b2a-0000-4000-8000-00000000000"
KERNEL = "6.12"


@pytest.fixture
def guests(
    fetched: Callable[[str], KernelImage], monkeypatch: pytest.MonkeyPatch
) -> Iterator[pytest.MonkeyPatch]:
    """Stand in for guests: commands run here, in the second boot without any setting.

    Workloads are simulated, with the rules of the guest's kernel.
    """
    fetched(KERNEL)

    def second(place: Virtual) -> bool:
        return place.name.endswith("(boot 2)")

    def execute(place: Virtual, command: Sequence[str], **under: Any) -> Completed:
        return Host().execute(command, **under | ({"attributes": None} if second(place) else {}))

    def run(place: Virtual, workload: Workload, **under: Any) -> Outcome:
        simulated = Simulated(Scheduler(KERNEL), Machine(place.cpus, "reference"))
        return simulated.run(workload, **under)

    def told(place: Virtual) -> Mapping[str, Any]:
        return {"kernel": f"{KERNEL}.0", "boot": f"{OTHER}{2 if second(place) else 1}"}

    with monkeypatch.context() as patch:
        for name, stand_in in (("execute", execute), ("run", run), ("facts", told)):
            patch.setattr(Virtual, name, stand_in)
        yield patch


@pytest.mark.usefixtures("guests")
def test_boots_are_conditions_of_their_own(tuned: Path, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "guests.db"
    line = _search(tuned.with_name("service"), file)
    line[line.index("host")] = f"vm:{KERNEL}"
    assert invoke([*line, "--cpus", "1"]) == 0, capsys.readouterr().err
    capsys.readouterr()
    verify = ["verify", "policy=batch", "--later", "--store", str(file)]
    assert invoke([*verify, "--boots", "2", "--load=-c=4,8"]) == 0, capsys.readouterr().err
    told = capsys.readouterr().out
    assert "the gain holds in 2 of 4 conditions" in told
    assert "does not hold: -c=4, boot 2; -c=8, boot 2" in told
    # One family: two loads, two boots, two metrics.
    assert "all 8 verdicts of this session" in told
    assert invoke(["verify", "policy=batch", "--store", str(file), "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    found = {
        (one["load"]["-c"], one["boot"]): (one["gain"], one["circumstances"]["boots"])
        for one in value["sessions"][0]["conditions"]
    }
    # In the second boot the setting does nothing: both metrics are the same, and no gain.
    assert found == {
        (load, boot): ("holds" if boot == 1 else "does not hold", [f"{OTHER}{boot}"])
        for load in ("4", "8")
        for boot in (1, 2)
    }
    assert value["certified"]["circumstances"]["boots"] == [f"{OTHER}1"]
    for boots in ("0", "9"):
        assert invoke([*verify, "--boots", boots]) == 2
        assert capsys.readouterr().err == f"error: --boots is {boots}; allowed: 1 to 8\n"


def test_a_gain_is_seen_again_in_a_real_boot(
    guests: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    # Four tasks that compute share a CPU: by slices of 40 ms they take turns more seldom than by
    # the kernel's of 3 ms, simulated as in the guest. Only what certifies it is simulated.
    file = ["--store", str(tmp_path / "runs.db")]
    search = ["tune", "hogs:tasks=4,time=60ms", "--metric", "involuntary", "--no-screen"]
    search += ["--slice", "20ms,40ms", "--by", "random", "--executions", "3", "--blocks", "6"]
    assert invoke([*search, "--on", f"vm:{KERNEL}@icount", *file]) == 0
    guests.undo()
    with Store(tmp_path / "runs.db", create=False) as store:
        (found,) = (one for one in store.experiments() if one.kind == "tune")
    capsys.readouterr()
    assert invoke(["verify", found.id, "--later", *file, "--json"]) == 0, capsys.readouterr().err
    value = json.loads(capsys.readouterr().out)
    (condition,) = value["sessions"][0]["conditions"]
    assert condition["gain"] == "holds"
    circumstances = condition["circumstances"]
    assert [one.startswith(f"{KERNEL}.") for one in circumstances["kernels"]] == [True]
    assert re.fullmatch(r"[0-9a-f-]{36}", *circumstances["boots"])
    assert circumstances["boots"] != [boot()]
