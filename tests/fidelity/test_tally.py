"""Headlines of the fidelity pages: agreement and known divergences, each counted apart."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from fidelity import command
from fidelity.tally import FAILS, KNOWN, WITHIN, Tally, verdict

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {
    "fidelity.md": "criteria",
    "fidelity-behaviour.md": "criteria",
    "fidelity-prediction.md": "rankings",
    "fidelity-what-if.md": "criteria",
}


@dataclass(frozen=True)
class _Line:
    name: str


@dataclass(frozen=True)
class _Finding:
    line: _Line
    failure: str
    diverges: bool

    @property
    def holds(self) -> bool:
        return not self.failure


def _finding(*, fails: bool, diverges: bool) -> _Finding:
    return _Finding(_Line("pi vm:6.1 p99"), "gone" if fails else "", diverges)


def test_a_known_divergence_is_no_agreement() -> None:
    findings = [
        *[_finding(fails=False, diverges=False)] * 3,
        *[_finding(fails=False, diverges=True)] * 2,
        # A divergence that moved or disappeared fails as any line does.
        _finding(fails=True, diverges=True),
    ]
    assert Tally.of(findings) == Tally(within=3, known=2, failed=1)
    headline = "3 of 6 criteria within tolerance, 2 known to diverge, 1 fail"
    assert Tally.of(findings).headline() == headline
    assert [verdict(finding) for finding in findings[2:]] == [WITHIN, KNOWN, KNOWN, FAILS]


def test_the_commands_last_line_has_both_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.tell([_finding(fails=False, diverges=True)], "rankings")
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "0 of 1 rankings within tolerance, 1 known to diverge, 0 fail"


@pytest.mark.parametrize("name", PAGES)
def test_a_pages_headline_is_what_its_tables_say(name: str) -> None:
    """The last column of the rows counted, which are one a line."""
    text = (DOCS / "results" / name).read_text(encoding="utf-8")
    rows = [line.rstrip(" |").rpartition("| ")[2] for line in text.splitlines() if line[:1] == "|"]
    counted = Tally(*(rows.count(one) for one in (WITHIN, KNOWN, FAILS)))
    assert counted.within > 0
    assert f"**{counted.headline(PAGES[name])}.**" in text


def test_no_page_calls_known_divergences_agreement() -> None:
    """Nothing says that all lines or rankings hold, whatever the page."""
    for page in (*DOCS.rglob("*.md"), DOCS.parent / "README.md"):
        found = re.search(
            r"all (of them|lines|rankings) hold", page.read_text(encoding="utf-8"), re.IGNORECASE
        )
        assert found is None, page
