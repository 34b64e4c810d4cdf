"""A ``schedlab.toml`` declares what ``schedlab tune`` and ``compare`` repeat."""

import json
from pathlib import Path
from typing import Any

import pytest

from schedlab.cli.main import invoke
from schedlab.store import Store

Capture = pytest.CaptureFixture[str]

SIMULATED = """
[tune]
workloads = ["http:servers=2,concurrency=4,duration=50ms"]
metric = ["p99", "throughput"]
keep = "throughput>=-5%"
knobs = "base_slice=1ms..10ms"
by = "random"
kernel = 6.12
cpus = 1
costs = "linsched"
executions = 4
store = "runs.db"

[compare]
workloads = "hackbench:groups=1,fds=2,loops=1"
policy = "other,batch"
kernel = "6.12"
cpus = 1
costs = "linsched"
blocks = 6
check = false
"""


@pytest.fixture(name="project")
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "schedlab.toml"
    file.write_text(SIMULATED)
    return file


def _json(line: str, capsys: Capture) -> tuple[dict[str, Any], str]:
    assert invoke([*line.split(), "--json"]) == 0, capsys.readouterr().err
    captured = capsys.readouterr()
    return json.loads(captured.out), captured.err


@pytest.mark.usefixtures("project")
def test_the_command_alone_repeats_what_a_file_declares(tmp_path: Path, capsys: Capture) -> None:
    value, said = _json("tune", capsys)
    assert [aim["name"] for aim in value["aims"]] == ["p99", "throughput"]
    typed = (
        "tune http:servers=2,concurrency=4,duration=50ms --metric=p99 --metric=throughput"
        " --keep=throughput>=-5% --knobs=base_slice=1ms..10ms --by=random --kernel=6.12 --cpus=1"
        " --costs=linsched --executions=4 --store=runs.db"
    )
    assert "schedlab.toml says: schedlab tune http:" in said
    again, said = _json(typed, capsys)
    # The same experiment, which is in the store already; and the store knows how to repeat it.
    assert (again["experiment"], again["stored"]) == (value["experiment"], value["runs"])
    assert "schedlab.toml" not in said
    with Store(tmp_path / "runs.db", create=False) as store:
        (stored,) = [one for one in store.experiments() if one.kind == "tune"]
    assert list(stored.command) == [*typed.split(), "--json"]


def test_the_guides_file_is_one(project: Path, capsys: Capture) -> None:
    guide = Path(__file__).parents[2] / "docs/guides/tune-my-program.md"
    text = guide.read_text().split("```toml\n")[1].partition("```")[0]
    project.write_text(text)
    value, _ = _json("tune --executions 6 --cpus 2 --costs reference --store runs.db", capsys)
    assert [aim["name"] for aim in value["aims"]] == ["p99", "throughput"]
    assert [floor["limit"] for floor in value["keep"]] == [0.98]


@pytest.mark.usefixtures("project")
def test_typed_options_replace_the_files(capsys: Capture) -> None:
    value, said = _json("tune --metric p99 --executions=3", capsys)
    assert [aim["name"] for aim in value["aims"]] == ["p99"]
    assert value["executions"] == [3]
    assert "throughput>=-5%" in said


@pytest.mark.usefixtures("project")
def test_a_typed_workload_leaves_the_file_alone(capsys: Capture) -> None:
    line = "compare --policy other,batch pipe:loops=5 --kernel 6.1 --cpus 1 --costs linsched"
    value, said = _json(f"{line} --blocks 6 --store other.db", capsys)
    assert "schedlab.toml" not in said
    assert list(value["checks"]) == []
    value, said = _json("compare --store other.db", capsys)
    assert "--no-check" in said
    assert "hackbench" in said


def test_a_number_is_taken_as_it_is_written(project: Path, capsys: Capture) -> None:
    # 6.10 and 6.1 are one number, and two releases.
    project.write_text("[compare]\nworkloads = 'pipe'\nkernel = 6.10\npolicy = 'other,batch'\n")
    assert invoke(["compare", "--costs", "ideal", "--blocks", "x"]) == 2
    assert "--kernel=6.10 " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tune", "is no TOML"),
        ("tune = 3", "'tune' is no table; write [tune]"),
        ("[tune]\nmetrik = 'p99'", "[tune] has no option 'metrik'; allowed: workloads, afresh"),
        ("[tune]\nworkloads = true", "workloads is True; allowed: text, a number"),
        ("[tune]\nafresh = 'yes'", "[tune] afresh is 'yes'; allowed: true, false"),
        ("[tune]\nknobs = ['a', 'b']", "[tune] knobs is a list; allowed: one value"),
        ("[tune]\nknobs = {a = 1}", "[tune] knobs is {'a': 1}; allowed: text, a number"),
        ("[tune]\nworkloads = 'nosuch'\nknobs = 'latency'", "known: hackbench"),
        ("[compare]\nworkloads = 'pipe'", "nothing to run"),
    ],
)
def test_a_wrong_file_is_one_line(text: str, said: str, project: Path, capsys: Capture) -> None:
    project.write_text(text)
    assert invoke(["tune", "--kernel", "6.1", "--costs", "ideal"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err.splitlines()[-1]
