"""``schedlab compare --against REF``: a regression gate between two revisions of a program."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from schedlab.cli.main import invoke

Capture = pytest.CaptureFixture[str]
GATE = "compare --on host --fail-if worse --blocks 12 --no-check --metric time\\s(.*)"


@pytest.fixture(name="repository")
def _repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose program takes 10, tagged `old`, in a directory of its own."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "tester")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "tester@localhost")
    top = tmp_path / "repository"
    (top / "bench").mkdir(parents=True)
    _write(top, 10)
    for words in ("init -q", "add .", "commit -q -m old", "tag old"):
        subprocess.run(["git", *words.split()], cwd=top, check=True)
    monkeypatch.chdir(top / "bench")
    return top


def _write(top: Path, takes: int) -> None:
    program = top / "bench" / "program"
    program.write_text(f"#!/bin/sh\necho time {takes}\n")
    program.chmod(0o755)


def _gate(capsys: Capture, more: str = "", command: str = "./program") -> tuple[int, Any, str]:
    line = [*GATE.split(), "--against", "old", *more.split()]
    code = invoke([*line, "--store", "../../runs.db", "--json", "--", *command.split()])
    captured = capsys.readouterr()
    return code, json.loads(captured.out) if captured.out else None, captured.err


@pytest.mark.parametrize(
    ("takes", "code", "verdict"), [(20, 1, "worse"), (5, 0, "better"), (10, 0, "same")]
)
def test_what_became_worse_fails(
    takes: int, code: int, verdict: str, repository: Path, capsys: Capture
) -> None:
    _write(repository, takes)
    found, value, said = _gate(capsys)
    assert found == code
    (answer,) = value["answers"]
    assert answer["judged"]["verdict"] == verdict
    assert answer["change"] == pytest.approx(takes / 10 - 1)
    assert ("--fail-if worse: 1 verdict" in said) == (code == 1)
    assert answer["question"]["treatment"].endswith("| working tree")
    assert "| old (" in answer["question"]["baseline"]


def test_runs_are_of_one_state_of_the_tree(repository: Path, capsys: Capture) -> None:
    # The same tree continues from the store; another one, committed or not, is measured anew.
    assert _gate(capsys)[1]["stored"] == 0
    assert _gate(capsys)[1]["stored"] == 24
    _write(repository, 5)
    _, changed, _ = _gate(capsys)
    assert (changed["stored"], changed["answers"][0]["change"]) == (0, pytest.approx(-0.5))
    (repository / "data").write_text("new")
    assert _gate(capsys)[1]["stored"] == 0
    subprocess.run(["git", "checkout", "-q", "."], cwd=repository, check=True)
    (repository / "data").unlink()
    assert _gate(capsys)[1]["stored"] == 24
    # The repository is as it was: no work tree, no branch.
    words = ["git", "worktree", "list", "--porcelain"]
    listed = subprocess.run(words, capture_output=True, text=True, check=True, cwd=repository)
    assert listed.stdout.count("worktree ") == 1


def test_both_trees_are_built_first(repository: Path, capsys: Capture, tmp_path: Path) -> None:
    build = "sh -c 'pwd > built'"
    # A program that needs what the build makes fails without.
    program = repository / "bench" / "program"
    program.write_text("#!/bin/sh\n[ -e built ] && echo time 10\n")
    subprocess.run(["git", "commit", "-qam", "new"], cwd=repository, check=True)
    subprocess.run(["git", "tag", "-f", "old"], cwd=repository, check=True, capture_output=True)
    code, _, said = _gate(capsys)
    assert code == 1
    assert "ended with code 1" in said
    line = [*GATE.split(), "--against", "old", "--build", build]
    assert invoke([*line, "--store", str(tmp_path / "b.db"), "--", "./program"]) == 0
    assert invoke([*line[:-1], "false", "--store", str(tmp_path / "b.db"), "--", "true"]) == 1
    assert "'false' failed in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--on host --against nosuch -- true", "no revision of this repository: nosuch"),
        ("--on host --against --all -- true", "git rev-parse"),
        ("--against old -- true", "--on is 'sim': write --on host"),
        ("--on host --against old pipe", "compares a command of this repository"),
        ("--on host --against old --policy other,batch -- true", "leave out --policy"),
        ("--on host --build make --policy other,batch -- true", "--build means nothing without"),
        ("--on host --against old --fail-if better -- true", "'better' is not"),
        ("--on host --against old --build 'x -- true", "--build: No closing quotation"),
    ],
)
def test_what_is_no_gate_is_refused(
    line: str, said: str, repository: Path, capsys: Capture
) -> None:
    del repository
    head, dashes, command = line.partition(" -- ")
    words = ["compare", *head.split(), "--store", "../../runs.db"]
    assert invoke([*words, *dashes.split(), *command.split()]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err


def test_a_revision_without_the_directory_is_refused(
    repository: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "later").mkdir()
    monkeypatch.chdir(repository / "later")
    code, _, said = _gate(capsys, command="true")
    assert code == 2
    assert "old has no directory 'later/'" in said


def test_outside_of_a_repository_is_refused(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert invoke(["compare", "--on", "host", "--against", "old", "--", "true"]) == 2
    assert "not a git repository" in capsys.readouterr().err


def test_a_project_file_makes_the_gate_a_word(repository: Path, capsys: Capture) -> None:
    # The guide's file, for this repository.
    guide = Path(__file__).parents[2] / "docs/guides/fail-a-build-that-became-slower.md"
    text = guide.read_text().split("```toml\n")[1].partition("```")[0]
    for theirs, ours in (
        ("./my-benchmark", "./program"),
        ("origin/main", "old"),
        ("time: ", "time "),
        ('"make"', '"true"'),
    ):
        assert theirs in text
        text = text.replace(theirs, ours)
    (repository / "bench" / "schedlab.toml").write_text(text)
    _write(repository, 20)
    assert invoke(["compare", "--blocks", "12", "--no-check", "--store", "../../runs.db"]) == 1
    assert "--fail-if worse: 1 verdict" in capsys.readouterr().err
    _write(repository, 9)
    assert invoke(["compare", "--blocks", "12", "--no-check", "--store", "../../runs.db"]) == 0
