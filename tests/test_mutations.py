"""The rules that `scripts/mutations` breaks: each fits the code."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_each_mutation_has_its_place_in_the_code() -> None:
    """What is replaced stands once in its file, and the test that is to notice exists."""
    for mutation in tomllib.loads((ROOT / "scripts" / "mutations.toml").read_text())["mutation"]:
        assert (ROOT / mutation["file"]).read_text().count(mutation["find"]) == 1, mutation["rule"]
        package, target, test = mutation["tests"]
        crate = ROOT / "crates" / package.removeprefix("schedlab-")
        tests = crate / "tests"
        sources = [*tests.glob(f"{target}.rs"), *(tests / target).rglob("*.rs")]
        if target == "lib":
            sources = [*(crate / "src").rglob("*.rs")]
        name = f"fn {test.rpartition('::')[2]}("
        assert any(name in source.read_text() for source in sources), mutation["rule"]


def test_an_unknown_option_or_word_is_refused() -> None:
    """A mistyped option is no word of a row, and a word of no row leaves nothing to run."""
    for argument, said in [
        ("--tabel", "unrecognized arguments: --tabel"),
        ("no-such-rule", "contains no-such-rule"),
    ]:
        command = [sys.executable, str(ROOT / "scripts" / "mutations"), argument]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr
