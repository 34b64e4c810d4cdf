"""Missing packages are named, asked for or installed, and skipped tests are counted."""

import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest
from tests import needs

ROOT = Path(__file__).parents[1]
LINE = "apt-get install --yes --no-install-recommends not-there"


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """The script with a list of its own, and an apt-get and a sudo that only note what they do."""
    shutil.copy(ROOT / "scripts" / "debian-packages", tmp_path)
    (tmp_path / "debian-packages.list").write_text(
        "# a comment\n"
        "build there       sh /\n"
        "test  not-there   no-such-program-of-schedlab\n"
        "other neither     no-such-program-either\n"
    )
    (tmp_path / "bin").mkdir()
    for name, text in (
        ("apt-get", f'echo apt-get "$@" >>{tmp_path}/calls'),
        ("sudo", '[ "$1" != --non-interactive ] || shift; exec "$@"'),
    ):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


def _run(
    scripts: Path, *parts: str, given: str | None = None, ci: bool = False
) -> tuple[int, str, str]:
    """Run it, on a terminal that answers where ``given`` is a text."""
    environment = {"PATH": f"{scripts / 'bin'}:{os.environ['PATH']}", "CI": "true" if ci else ""}
    command = [str(scripts / "debian-packages"), *parts]
    if given is None:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        code, said = done.returncode, done.stderr
    else:
        ours, theirs = pty.openpty()
        os.write(ours, given.encode())
        ended = subprocess.run(command, env=environment, stdin=theirs, stderr=theirs, check=False)
        os.close(theirs)
        said, code = "", ended.returncode
        try:
            while part := os.read(ours, 65536):
                said += part.decode()
        except OSError:  # how Linux says that nobody is left at the other end
            os.close(ours)
    calls = scripts / "calls"
    return code, said, calls.read_text() if calls.exists() else ""


def test_nothing_missing_says_nothing(scripts: Path) -> None:
    assert _run(scripts, "build") == (0, "", "")


def test_what_is_missing_is_named_with_its_line(scripts: Path) -> None:
    code, said, calls = _run(scripts, "build", "test")
    assert (code, calls) == (0, "")
    assert said.count("\n") == 1
    assert said.strip().endswith(LINE)


def test_continuous_integration_installs_it(scripts: Path) -> None:
    code, said, calls = _run(scripts, "test", ci=True)
    assert (code, said) == (0, "installed: not-there\n")
    update, install = calls.splitlines()
    assert update.startswith("apt-get update")
    assert install.split()[-1] == "not-there"
    assert "--yes" in install


def test_a_terminal_is_asked(scripts: Path) -> None:
    code, said, calls = _run(scripts, "test", given="n\n")
    assert (code, calls) == (0, "")
    assert LINE in said
    code, said, calls = _run(scripts, "test", given="y\n")
    assert code == 0
    assert "not-there" in calls


def test_an_install_that_fails_fails(scripts: Path) -> None:
    (scripts / "bin" / "apt-get").write_text("#!/bin/sh\nexit 100\n")
    assert _run(scripts, "test", ci=True)[0] != 0


def test_what_was_skipped_is_counted_with_one_line_that_installs_it() -> None:
    reasons = [needs.reason(["wrk", "apache2"]), needs.reason(["wrk"]), "NO KERNEL", "NO KERNEL"]
    lines = needs.skipped_lines(reasons)
    assert lines[0] == "== 4 tests were skipped"
    assert "    2 NO KERNEL" in lines
    assert lines[-1].endswith("apt-get install --no-install-recommends apache2 wrk")
    assert needs.skipped_lines([]) == []


@pytest.mark.parametrize(
    ("found", "said"),
    [("cargo 1.63.0 (x)", "cargo is of Rust 1.63.0"), ("", "there is no cargo on PATH")],
)
def test_an_old_rust_is_refused_in_a_line(tmp_path: Path, found: str, said: str) -> None:
    cargo = tmp_path / "cargo"
    cargo.write_text(f"#!/bin/sh\n[ -n '{found}' ] && echo '{found}'\n")
    cargo.chmod(0o755)
    done = subprocess.run(
        [ROOT / "scripts" / "rust-toolchain"],
        env={"PATH": os.environ["PATH"], "CARGO": str(cargo)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert said in done.stderr
    assert "Rust 1.90 or newer is needed: https://rustup.rs" in done.stderr


def test_ci_only_calls_the_readmes_command() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    told = [line for line in lines if line and not line.startswith(("#", "set ", "cd "))]
    assert told == ["export CI=true", "make test"]
