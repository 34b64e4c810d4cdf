"""Every example of ``examples/`` runs, and its output follows from the rules."""

import ast
import json
import re
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

import schedlab

EXAMPLES = Path(__file__).parents[1] / "examples"


def lines(name: str, capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """Run an example as a program; return the cells of what it prints, two spaces apart."""
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return [re.split(r"\s{2,}", line.strip()) for line in capsys.readouterr().out.splitlines()]


def test_the_table_names_every_example() -> None:
    named = re.findall(r"^\| \[`([^`]+)`\]", (EXAMPLES / "README.md").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(
        path.name
        for path in EXAMPLES.iterdir()
        if path.suffix in {".json", ".py", ".ipynb"} or (path / "Cargo.toml").exists()
    )


def test_a_control_loop_takes_its_fifth() -> None:
    outcome = schedlab.simulate(
        str(EXAMPLES / "control_loop.json"), machine=schedlab.Machine(cpus=2, costs="ideal")
    )
    control = next(task for task in outcome if task.name == "control")
    # 2 ms in each 10 ms for 2 s, above all other tasks: 400 ms, where nothing costs anything.
    assert control.run_ns == pytest.approx(400e6, rel=0.001)


def test_a_sleeper_waits_under_eevdf_and_not_under_cfs() -> None:
    delays = {}
    for kernel in ("6.1", "6.12"):
        outcome = schedlab.simulate(
            str(EXAMPLES / "sleeper_beside_hogs.json"),
            scheduler=kernel,
            machine=schedlab.Machine(cpus=8, costs="ideal"),
        )
        sleeper = next(task for task in outcome if task.name == "sleeper")
        # 1.5 ms of every 13 ms for 2 s: 153 whole periods and the beginning of one.
        assert sleeper.run_ns == pytest.approx(154 * 1.5e6, rel=0.02)
        delays[kernel] = sleeper.delay_ns / sleeper.delays
    # CFS: a sleeper's credit (half of 24 ms) is above wakeup_granularity (4 ms), so it preempts.
    # EEVDF: a request of the same length as the others' (2.8 ms) waits for theirs.
    assert delays["6.1"] < 0.3e6
    assert delays["6.12"] > 1e6


def test_two_users_get_half_each() -> None:
    machine = schedlab.Machine(cpus=1, costs="ideal")
    outcome = schedlab.simulate(str(EXAMPLES / "two_users.json"), machine=machine)
    # Groups of equal weight; within a slice (some ms) of 2 s.
    assert [group.share for group in outcome.groups] == pytest.approx([0.5, 0.5], abs=0.01)


def test_kernels_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    table = lines("kernels_compared.py", capsys)[2:]
    assert [row[0] for row in table] == ["2.6.24", "5.10", "6.1", "6.12", "6.18", "7.2", "7.3"]


def test_a_short_slice_bounds_the_wait(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {
        row[0]: [float(cell.split()[0]) for cell in row[1:]]
        for row in lines("slice_for_latency.py", capsys)[1:]
    }
    # The task that wakes for 1 ms has a quarter of the weight: due 4 ms after it is eligible.
    assert rows["1ms"][1] <= 4
    # Four requests of 1 ms a turn, or of 24 ms: switches fall, at most by that factor.
    assert rows["1ms"][2] / 24 < rows["24ms"][2] < rows["1ms"][2]


def test_searches_find_the_minimum(capsys: pytest.CaptureFixture[str]) -> None:
    swarm, surface, sampler = lines("own_objective.py", capsys)[1:]
    # A search and its sampler are asked for the same positions.
    assert swarm[1:] == sampler[1:]
    # The minimum is 0 at (1, 0.5); 0.05 away from it in both the quadratic terms are 0.01 at most.
    for _, x, y, value, _ in (swarm, surface):
        assert [float(x), float(y)] == pytest.approx([1, 0.5], abs=0.05)
        assert 0 <= float(value) <= 0.01


def test_interleaving_sees_through_the_drift(capsys: pytest.CaptureFixture[str]) -> None:
    same, faster = lines("is_it_better.py", capsys)[1:]
    effect = {
        name: float(text.split()[0]) for name, text in (("fair", same[1]), ("unfair", same[-1]))
    }
    # Half of the drift of 10 % lies between the middles of the two halves; thirty pairs with 3 % of
    # noise each leave 3 % · √2 / √30 = 0.77 % of standard error.
    assert abs(effect["fair"]) < 3 * 0.78
    assert effect["unfair"] == pytest.approx(5, abs=3 * 0.78)
    assert "better" in " ".join(faster)


def test_shortest_first_is_in_the_order_of_need(capsys: pytest.CaptureFixture[str]) -> None:
    rows = lines("shortest_remaining_first.py", capsys)[1:]
    # Shortest first: 10, then 20 more, then 50 more, then 80 more.
    assert [(row[0], row[1]) for row in rows] == [
        ("needs 80 ms", "160.0 ms"),
        ("needs 20 ms", "30.0 ms"),
        ("needs 50 ms", "80.0 ms"),
        ("needs 10 ms", "10.0 ms"),
        ("mean", "70.0 ms"),
    ]
    # No order of the four has a smaller mean, EEVDF's among them.
    assert float(rows[-1][2].split()[0]) > 70


def test_the_template_of_a_policy_is_a_crate_that_builds_from_a_copy(tmp_path: Path) -> None:
    """Its source is run by crates/sim/tests/simulation/custom.rs; here it is found and locked."""
    for name in ("crates", "Cargo.toml", "Cargo.lock"):
        (tmp_path / name).symlink_to(EXAMPLES.parent / name)
    copy = tmp_path / "examples" / "my-policy"
    shutil.copytree(EXAMPLES / "policy", copy, ignore=shutil.ignore_patterns("target"))
    command = ["cargo", "metadata", "--locked", "--format-version=1", "--no-deps"]
    done = subprocess.run(
        [*command, f"--manifest-path={copy / 'Cargo.toml'}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    names = {package["name"] for package in json.loads(done.stdout)["packages"]}
    assert names == {"policy"}


def _shown(namespace: dict[str, object], source: str) -> object:
    """Run a cell and return the value of its last line, if that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "notebook", "exec"), namespace)
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    return eval(compile(ast.Expression(last.value), "notebook", "eval"), namespace)


def test_the_notebook_runs_and_each_result_shows_itself() -> None:
    cells = json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))["cells"]
    namespace: dict[str, object] = {}
    shown = [
        _shown(namespace, "".join(cell["source"])) for cell in cells if cell["cell_type"] == "code"
    ]
    results = [one for one in shown if one is not None]
    assert len(results) == 6
    for table, chart in zip(results[::2], results[1::2], strict=True):
        page = table._repr_html_()  # type: ignore[attr-defined]
        assert page.startswith("<table><caption>")
        described = chart.to_dict()  # type: ignore[attr-defined]
        assert described["width"] == 620
    # Hostile names are text.
    assert (
        "<script>"
        not in schedlab.simulate(
            schedlab.Workload.from_dict(
                {"name": "<script>", "tasks": {"<b>": {"loop": 1, "run": 1}}}
            ),
            scheduler="6.1",
            machine=schedlab.Machine(1, "ideal"),
        )._repr_html_()
    )
