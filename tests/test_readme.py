"""The README is short, its numbers are those of the pages, and its commands exist."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
RESULTS = ROOT / "docs" / "results"


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 120


def test_make_has_the_targets() -> None:
    targets = re.findall(r"^\$ (make \w+)$", README, re.MULTILINE)
    assert targets == ["make demo", "make test"]
    for command in (*targets, "make docs", "make wheel"):
        done = subprocess.run(
            [*command.split(), "--dry-run"], cwd=ROOT, capture_output=True, check=False
        )
        assert done.returncode == 0


def test_the_picture_has_alternative_text() -> None:
    (text,) = re.findall(r"^!\[([^\]]+)\]\(docs/images/two-kernels\.svg\)", README, re.MULTILINE)
    assert "CFS" in text
    assert "EEVDF" in text


def test_decisions_are_counted_as_on_their_page() -> None:
    """The page's first line has all three numbers, and its own test holds them to the table."""
    page = (RESULTS / "fidelity.md").read_text(encoding="utf-8")
    numbers = re.findall(
        r"([\d,]+) of ([\d,]+)(?= picks| CPU selections|\.)", page.split("\n\n")[1]
    )
    rows = re.findall(r"\| ([\d,]+) of ([\d,]+) differ \|", README)
    full, select, less = numbers
    assert rows == [full, less, select]


@pytest.mark.parametrize("name", ["fidelity-behaviour", "fidelity-prediction", "fidelity-what-if"])
def test_agreement_and_known_divergences_are_both_told(name: str) -> None:
    headline = re.search(
        r"\*\*(\d+ of \d+) \w+ within tolerance, (\d+ known to diverge), 0 fail",
        (RESULTS / f"{name}.md").read_text(encoding="utf-8"),
    )
    assert headline is not None
    (row,) = [line for line in README.splitlines() if f"({'docs/results/' + name}.md)" in line]
    assert f"{headline[1]}" in row
    assert f"within tolerance, {headline[2]}" in row
