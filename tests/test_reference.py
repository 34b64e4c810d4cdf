"""Generated pages are what the code says; what commands print as JSON is what the schemas say."""

import json
import re
from pathlib import Path

import pytest

from pictures.__main__ import PICTURES
from reference.__main__ import PAGES
from reference.output import OUTPUTS, Output, printed
from reference.schema import mistakes

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_generated_page_is_current(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == PAGES[path](), "stale: run scripts/reference"


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_a_picture_is_current(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == PICTURES[path]().svg(), "stale: run scripts/pictures"


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_a_picture_has_alternative_text_and_a_dark_palette(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert '<title id="title">' in text
    assert '<desc id="description">' in text
    assert "prefers-color-scheme:dark" in text


_OTHER = {
    "run": "run hackbench:groups=1,fds=2,loops=2 --costs ideal --kernel 7.2 --cpus 4",
    "compare": "compare pipe:loops=20 --costs reference --kernel 6.1 --cpus 2 --policy other,batch",
    "tune": "tune pipe:loops=20 --costs reference --kernel 6.1 --cpus 2 --knobs latency=1ms..9ms "
    "--by golden --blocks 6",
    "replay": "replay crates/replay/tests/fixtures/groups-6.12.txt.gz",
    "knobs": "knobs --kernel 5.10 --cpus 2",
    "kernels-rules": "kernels rules 7.2",
    "kernels-diff": "kernels diff 6.18 7.2",
}
"""Commands that the schemas are not made from, by the schema's name."""


@pytest.mark.parametrize("output", OUTPUTS, ids=lambda output: output.name)
def test_what_is_printed_is_what_the_schema_says(
    output: Output, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    schema = json.loads(output.path.read_text(encoding="utf-8"))
    command = _OTHER.get(output.name, output.commands[-1])
    assert mistakes(printed(command), schema) == [], (
        "stale, or not JSON as before: scripts/reference"
    )


def test_every_command_with_json_has_a_schema_or_is_named_as_without() -> None:
    cli = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    for part in cli.split("\n## schedlab ")[1:]:
        name = part.split("\n", 1)[0]
        if "`--json`" in part and name != "sweep":  # with compare
            assert f"`{name}`" in page or f"`{name}," in page or f"`{name} --list`" in page, name


def test_environment_variables_are_those_of_the_code() -> None:
    page = (ROOT / "docs" / "reference" / "environment.md").read_text(encoding="utf-8")
    code = "".join(path.read_text("utf-8") for path in (ROOT / "python").rglob("*.py"))
    named = {
        line.split("`")[1]
        for line in page.splitlines()
        if line.startswith(("| `SCHEDLAB", "| `XDG"))
    }
    used = {word for word in named if f'"{word}"' in code}
    assert used == named
    assert set(re.findall(r'"(SCHEDLAB_[A-Z_]+)"', code)) <= named
