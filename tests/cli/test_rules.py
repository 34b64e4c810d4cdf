"""Rules of kernels: listed, compared, and switched in simulations."""

import json
from pathlib import Path
from typing import Any

import pytest

from schedlab.boundary.errors import InputError
from schedlab.cli.main import invoke
from schedlab.model import Machine, Scheduler, Workload
from schedlab.targets.sim import simulate
from schedlab.tuning import tune

Capture = pytest.CaptureFixture[str]
SIMULATED = ["--costs", "ideal", "--cpus", "1"]


def _json(words: list[str], capsys: Capture) -> Any:
    assert invoke([*words, "--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def test_the_rules_of_a_release_are_listed_with_their_commits(capsys: Capture) -> None:
    found = _json(["kernels", "rules", "6.12"], capsys)
    rows = {row["name"]: row for row in found["rules"]}
    # Documentation/scheduler/sched-eevdf.rst: EEVDF came with 6.6, by 147f3efaa241.
    assert rows["eevdf"]["on"]
    assert rows["eevdf"]["since"] == "6.6"
    assert rows["eevdf"]["commit"]["hash"] == "147f3efaa241"
    assert not rows["wakeup_preempt_entity"]["on"]
    assert rows["yield_forfeits"]["backports"] == ["6.12.63", "6.18.2"]
    assert invoke(["kernels", "rules", "6.12"]) == 0
    said = capsys.readouterr().out
    assert "147f3efaa241 sched/fair: Implement an EEVDF-like scheduling policy" in said
    assert "wakeup_preempt_entity" not in said
    assert invoke(["kernels", "rules", "6.12", "--all"]) == 0
    assert "wakeup_preempt_entity (off)" in capsys.readouterr().out


def test_two_releases_differ_by_what_came_in_between(capsys: Capture) -> None:
    changed = _json(["kernels", "diff", "6.12.62", "6.12.63"], capsys)["changed"]
    assert [(row["name"], row["on"]) for row in changed] == [("yield_forfeits", True)]
    back = _json(["kernels", "diff", "6.12.63", "6.12.62"], capsys)["changed"]
    assert [(row["name"], row["on"]) for row in back] == [("yield_forfeits", False)]
    assert invoke(["kernels", "diff", "6.1", "6.1"]) == 0
    assert "have the same rules" in capsys.readouterr().out
    assert invoke(["kernels", "diff", "6.1", "6.8"]) == 2


LABEL = "hybrid: yield_forfeits=off"
SWITCHED = ["--kernel", "6.12", *SIMULATED, "--rule", "yield_forfeits=off"]


def _outputs(words: list[str], capsys: Capture) -> dict[str, str]:
    """Return what a command prints for people and for machines."""
    found = {}
    for form in ([], ["--json"]):
        assert invoke([*words, *form]) == 0, capsys.readouterr().err
        found[" ".join([words[0], *form])] = capsys.readouterr().out
    return found


def _run_outputs(tmp_path: Path, capsys: Capture) -> dict[str, str]:
    line = ["run", "hogs:tasks=2,time=20ms", *SWITCHED]
    found = _outputs(line, capsys)
    for option, name in (
        ("--trace", "run.pftrace"),
        ("--trace", "run.txt"),
        ("--reasons", "why.txt"),
        ("--reasons", "why.jsonl"),
    ):
        assert invoke([*line, option, str(tmp_path / name)]) == 0
        found[name] = (tmp_path / name).read_bytes().decode(errors="replace")
    # Whichever decision is looked at says so.
    found["why.jsonl"] = found["why.jsonl"].splitlines()[-1]
    scheduler = Scheduler("6.12", rules={"yield_forfeits": False})
    outcome = simulate("hogs:tasks=2,time=20ms", scheduler=scheduler, machine=Machine(1, "ideal"))
    found["Outcome"] = outcome._repr_html_()
    found["Outcome.plot"] = json.dumps(outcome.plot().to_dict())
    return found


def _experiment_outputs(
    kind: str, words: list[str], tmp_path: Path, capsys: Capture
) -> dict[str, str]:
    store = ["--store", str(tmp_path / f"{kind}.db")]
    found = _outputs([kind, *words, *SWITCHED, *store], capsys)
    identity = next(
        one["id"] for one in _json(["report", "--list", *store], capsys) if one["kind"] == kind
    )
    reports = _outputs(["report", identity, *store], capsys) | _outputs(
        ["report", "--list", *store], capsys
    )
    found |= {f"{kind}, {name}": text for name, text in reports.items()}
    for form in ("md", "html", "csv", "json"):
        file = tmp_path / f"{kind}.{form}"
        assert invoke(["report", identity, *store, "--output", str(file)]) == 0
        found[file.name] = file.read_text()
    return found


def _tuning_outputs() -> dict[str, str]:
    found = tune(
        "hogs:tasks=3,time=50ms",
        knobs=["base_slice=1ms..9ms"],
        by="random",
        executions=3,
        scheduler=Scheduler("6.12", rules={"yield_forfeits": False}),
        machine=Machine(1, "ideal"),
    )
    return {"Tuning": found._repr_html_(), "Tuning.plot": json.dumps(found.plot().to_dict())}


def _why_outputs(tmp_path: Path, capsys: Capture) -> dict[str, str]:
    page = tmp_path / "why.html"
    line = ["why", "sleepers:tasks=3,loops=5", *SWITCHED, "--worst", "1", "--runs", "2"]
    found = _outputs([*line, "--output", str(page)], capsys)
    return {**found, page.name: page.read_text()}


def test_every_output_of_switched_rules_is_labelled_hybrid(capsys: Capture, tmp_path: Path) -> None:
    searched = ["--knobs", "base_slice=1ms..9ms", "--by", "random", "--executions", "3"]
    found = {
        **_run_outputs(tmp_path, capsys),
        **_experiment_outputs(
            "compare", ["pipe:loops=20", "--policy", "other,fifo"], tmp_path, capsys
        ),
        **_experiment_outputs(
            "sweep", ["pipe:loops=20", "--set", "base_slice=1ms,3ms"], tmp_path, capsys
        ),
        **_experiment_outputs("tune", ["hogs:tasks=3,time=50ms", *searched], tmp_path, capsys),
        **_tuning_outputs(),
        **_why_outputs(tmp_path, capsys),
    }
    assert [name for name, text in found.items() if LABEL not in text] == []


def test_only_what_no_kernel_has_is_labelled_hybrid(capsys: Capture, tmp_path: Path) -> None:
    # A kernel's own rule switched to what it is makes no hybrid.
    reasons = tmp_path / "why.txt"
    line = ["run", "hogs:tasks=2,time=20ms", "--kernel", "6.12", *SIMULATED]
    assert invoke([*line, "--rule", "yield_forfeits=on", "--reasons", str(reasons)]) == 0
    told = capsys.readouterr()
    assert "hybrid" not in told.out + told.err + reasons.read_text()
    assert invoke([*line, "--rule", "yield_forfeits=off"]) == 0
    assert "note: the rules are a hybrid that no kernel has" in capsys.readouterr().err


def test_a_hybrid_is_not_to_be_verified_on_a_kernel(capsys: Capture, tmp_path: Path) -> None:
    store = ["--store", str(tmp_path / "runs.db")]
    line = ["compare", "pipe:loops=20", "--policy", "other,fifo", *SIMULATED, *store]
    pages = {}
    for name, rules in (("own", []), ("hybrid", ["--rule", "yield_forfeits=off"])):
        assert invoke([*line, "--kernel", "6.12", *rules]) == 0
        capsys.readouterr()
        newest = _json(["report", "--list", *store], capsys)
        identity = next(one["id"] for one in newest if ("hybrid" in one["title"]) == bool(rules))
        page = tmp_path / f"{name}.md"
        assert invoke(["report", identity, *store, "--output", str(page)]) == 0
        pages[name] = page.read_text()
    # A simulation is verified next; no kernel can verify rules that none has.
    assert "verify it on the running kernel" in pages["own"]
    assert "verify it on the running kernel" not in pages["hybrid"]


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("yield_forfeits", "allowed: NAME=on or NAME=off"),
        ("yield_forfeits=1", "allowed: NAME=on or NAME=off"),
        ("no_such=on", "there is no such rule"),
        ("wide_weights=off", "fact of a kernel"),
        ("alt_period=on", "add eevdf=off"),
    ],
)
def test_what_cannot_be_switched_is_refused_in_a_line(
    rule: str, said: str, capsys: Capture
) -> None:
    line = ["run", "pipe:loops=2", "--kernel", "6.12", *SIMULATED, "--rule", rule]
    assert invoke(line) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_rules_are_the_simulators_alone(capsys: Capture) -> None:
    for words in (["run", "pipe", "--on", "host"], ["compare", "pipe", "--on", "host"]):
        assert invoke([*words, "--rule", "eevdf=off"]) == 2
        assert "--rule means nothing" in capsys.readouterr().err


def test_a_structure_brings_its_knobs() -> None:
    # 6.12 as CFS has CFS's knobs, 6.1's, and its slices are none of the task's.
    cfs = Scheduler("6.12", rules={"eevdf": False}, latency="20ms")
    assert not cfs.has_slices
    assert cfs.knobs_release == "6.1.192"
    with pytest.raises(InputError, match="base_slice"):
        Scheduler("6.12", rules={"eevdf": False}, base_slice="3ms")
    eevdf = Scheduler("6.1", rules={"eevdf": True}, base_slice="3ms")
    assert eevdf.has_slices
    assert str(eevdf) == "6.1.192, hybrid: eevdf=on, 250 Hz, base_slice=3ms"


def test_a_switched_rule_acts() -> None:
    # Three hogs on a CPU. Under CFS with a latency of 6 ms and 250 Hz a tick ends a slice of 2 ms
    # at 4 ms; under EEVDF with a slice of 20 ms none ends before 20 ms: fewer switches.
    hogs = Workload.parse("hogs:tasks=3,time=200ms")
    machine = Machine(1, "ideal")

    def switches(rules: dict[str, bool], **knobs: object) -> int:
        scheduler = Scheduler("6.12", rules=rules, knobs=knobs)
        return simulate(hogs, scheduler=scheduler, machine=machine).switches

    own = switches({}, base_slice="20ms")
    cfs = switches({"eevdf": False}, latency="6ms")
    assert cfs > 2 * own
