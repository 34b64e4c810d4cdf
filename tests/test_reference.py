"""Generated pages agree with the code; JSON output agrees with the schemas."""

import json
import re
from pathlib import Path

import pytest

from pictures.__main__ import PICTURES
from reference.__main__ import PAGES, main
from reference.commands import OUTPUTS, Output
from reference.output import apart, lacking, printed
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


def test_a_check_writes_nothing_and_names_what_is_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # One page is as it would be written, one is not, one is missing.
    kept, stale, missing = (tmp_path / f"{name}.md" for name in ("kept", "stale", "missing"))
    kept.write_text("new", encoding="utf-8")
    stale.write_text("old", encoding="utf-8")
    pages = dict.fromkeys((kept, stale, missing), lambda: "new")
    monkeypatch.setattr("reference.__main__.PAGES", pages)
    monkeypatch.setattr("reference.__main__.ROOT", tmp_path)
    assert main(["--check", "--pages"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "stale.md is stale: run scripts/reference",
        "missing.md is stale: run scripts/reference",
    ]
    assert (stale.read_text(encoding="utf-8"), missing.exists()) == ("old", False)
    assert main(["--pages"]) == 0
    assert {page.read_text(encoding="utf-8") for page in pages} == {"new"}
    assert main(["--check", "--pages"]) == 0


def test_a_schema_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["tuning"])
    assert refused.value.code == 2
    assert "no schema is called tuning; there are run, compare" in capsys.readouterr().err


_OTHER = {
    "run": "run hackbench:groups=1,fds=2,loops=2 --costs ideal --kernel 7.2 --cpus 4",
    "compare": "compare pipe:loops=20 --costs reference --kernel 6.1 --cpus 2 --policy other,batch",
    "tune": "tune pipe:loops=20 --costs reference --kernel 6.1 --cpus 2 --knobs latency=1ms..9ms "
    "--by golden --blocks 6",
    "replay": "replay crates/replay/tests/fixtures/groups-6.12.txt.gz",
    "knobs": "knobs --kernel 5.10 --cpus 2",
    "kernels-rules": "kernels rules 7.2",
    "kernels-diff": "kernels diff 6.18 7.2",
    "workload": "workload schbench:duration=100ms",
    "study": "study rt_runtime --quick --output {directory}",
    "validate": "validate hackbench --messages 1,5 --repeats 2 --costs reference",
    "record": "record -o {directory}/trace.txt.gz --on vm:6.1 --level L0 -- sleep 0.1",
    "ext-report": "ext run --weights none --on vm:7.2 --quiet --report {directory}/report.json "
    "-- sleep 1",
}
"""Commands that the schemas are not made from, by the schema's name."""


@pytest.mark.parametrize("output", OUTPUTS, ids=lambda output: output.name)
def test_what_is_printed_is_what_the_schema_says(output: Output) -> None:
    if (why := lacking(output)) is not None:
        pytest.skip(f"NEEDS {why}")
    schema = json.loads(output.path.read_text(encoding="utf-8"))
    with apart(output) as directory:
        value = printed(output, _OTHER.get(output.name, output.commands[-1]), directory)
    assert mistakes(value, schema) == [], "stale, or not JSON as before: scripts/reference"


def test_every_command_with_json_has_a_schema() -> None:
    cli = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    commands = {word for one in OUTPUTS for word in one.title.split(", ")}
    titles = {title.partition(" --")[0] for title in commands}
    names = {re.sub(r" [A-Z]+$| hackbench$", "", title) for title in titles}
    with_json = {
        part.split("\n", 1)[0] for part in cli.split("\n## schedlab ")[1:] if "| `--json` |" in part
    }
    assert with_json
    assert with_json - names == set()


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
