"""Versions are given in one place, and a release is made only of what is ready for one."""

import re
import runpy
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

import schedlab
from schedlab.cli.main import invoke

ROOT = Path(__file__).parents[1]
FILES = ("Cargo.toml", "Cargo.lock", "CHANGELOG.md")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A repository with what a release reads and writes, 1.0.0 of which is ready."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "release", tmp_path / "scripts")
    for file in ("Cargo.toml", "Cargo.lock"):
        shutil.copy(ROOT / file, tmp_path)
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changes\n\n## 1.0.0 (unreleased)\n\n### Added\n\n- A thing.\n\n## 0.1.0\n\n"
        "### Added\n\n- The first.\n"
    )
    (tmp_path / "Makefile").write_text(
        "test:\n\t@echo tested\nwheel:\n\t@mkdir -p dist; "
        "touch dist/schedlab-1.0.0-x.whl dist/schedlab-1.0.0.tar.gz\n"
    )
    (tmp_path / ".gitignore").write_text("/dist/\n__pycache__/\n")
    for command in (
        "init --quiet",
        "config user.name x",
        "config user.email x@x",
        "add --all",
        "commit --quiet --message first",
    ):
        _git(tmp_path, *command.split())
    return tmp_path


def _git(place: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=place, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _release(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, place / "scripts" / "release", *words],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_version_is_the_workspaces(capsys: pytest.CaptureFixture[str]) -> None:
    found = re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    assert found
    assert schedlab.__version__ == found[1]
    assert invoke(["--version"]) == 0
    assert capsys.readouterr().out == f"schedlab {found[1]}\n"


def test_this_versions_changes_can_be_released() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "release"))
    changes = (ROOT / "CHANGELOG.md").read_text()
    if f"## {schedlab.__version__} (unreleased)" in changes:
        assert "(unreleased)" not in script["dated"](changes, schedlab.__version__, "2026-01-01")
    else:
        assert re.search(rf"^## {schedlab.__version__} - \d{{4}}", changes, re.MULTILINE)


def test_a_dry_run_says_the_steps_and_changes_nothing(copy: Path) -> None:
    before = {file: (copy / file).read_bytes() for file in FILES}
    done = _release(copy, "1.0.0", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == [
        "would write Cargo.toml, Cargo.lock, CHANGELOG.md",
        "would run make test",
        "would run make wheel",
        "would commit and tag v1.0.0",
    ]
    assert {file: (copy / file).read_bytes() for file in FILES} == before
    assert _git(copy, "tag") == _git(copy, "status", "--porcelain") == ""


def test_a_release_sets_version_and_date_and_tags(copy: Path) -> None:
    done = _release(copy, "1.0.0")
    assert done.returncode == 0, done.stderr
    assert _git(copy, "tag") == "v1.0.0"
    assert _git(copy, "status", "--porcelain") == ""
    assert _git(copy, "log", "-1", "--format=%s") == "Release 1.0.0"
    assert 'version = "1.0.0"' in (copy / "Cargo.toml").read_text()
    # Every crate of the workspace stands in the lock file with it.
    crates = re.findall(
        r'name = "schedlab-\w+"\nversion = "(.*)"', (copy / "Cargo.lock").read_text()
    )
    assert set(crates) == {"1.0.0"}
    assert len(crates) == len(list((ROOT / "crates").glob("*/Cargo.toml")))
    changes = (copy / "CHANGELOG.md").read_text()
    assert f"\n## 1.0.0 - {datetime.now(UTC).date()}\n" in changes


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("1.0", "version '1.0': allowed: three numbers"),
        ("0.0.9", "0.0.9 comes before Cargo.toml's"),
        ("2.0.0", "CHANGELOG.md has no heading '## 2.0.0 (unreleased)'"),
    ],
)
def test_what_is_not_ready_is_refused(copy: Path, version: str, said: str) -> None:
    done = _release(copy, version)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_changes_and_tags_that_are_there_are_refused(copy: Path) -> None:
    _git(copy, "tag", "v1.0.0")
    assert "there is a tag v1.0.0" in _release(copy, "1.0.0").stderr
    _git(copy, "tag", "--delete", "v1.0.0")
    (copy / "Makefile").write_text("")
    assert "the work tree has changes: M Makefile" in _release(copy, "1.0.0").stderr


def test_a_failed_check_leaves_everything_as_it_was(copy: Path) -> None:
    for broken in ("test:\n\tfalse\n", "test:\nwheel:\n\tfalse\n"):
        (copy / "Makefile").write_text(broken)
        _git(copy, "commit", "--quiet", "--all", "--message", "broken")
        head = _git(copy, "rev-parse", "HEAD")
        assert _release(copy, "1.0.0").returncode == 2
        assert _git(copy, "rev-parse", "HEAD") == head
        assert _git(copy, "tag") == _git(copy, "status", "--porcelain") == ""
