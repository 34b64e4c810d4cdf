"""The documentation: links lead somewhere, pages are near the index, commands and snippets run."""

import ast
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer.main

from schedlab.cli import project_file
from schedlab.cli.main import app, invoke

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
RULES = DOCS / "concepts" / "rules.md"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md"), ROOT / "examples" / "README.md"])
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
NAMED = re.compile(
    r"`((?:crates|python|tests|tools|scripts|docs|examples|validation)/[\w./-]+\.\w+)(?:::[^`]*)?`"
)
BUILT = "python/schedlab/bin/"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_named_files_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    links = [link for link in LINK.findall(text) if "://" not in link]
    missing = [link for link in links if not (page.parent / link).exists()]
    if page.name != "CHANGELOG.md":  # which tells of files that are no more
        named = [name for name in NAMED.findall(text) if not name.startswith(BUILT)]
        missing += [name for name in named if not (ROOT / name).exists()]
    assert missing == []


def test_every_page_is_within_two_clicks_of_the_index() -> None:
    near = {DOCS / "index.md"}
    for _ in range(2):
        near |= {
            (page.parent / link).resolve()
            for page in near
            if page.suffix == ".md"
            for link in LINK.findall(page.read_text(encoding="utf-8"))
            if "://" not in link
        }
    assert [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if page not in near] == []


LONGEST = {"concepts": 200, "guides": 120, "tutorials": 120}


@pytest.mark.parametrize("kind", LONGEST)
def test_pages_are_short(kind: str) -> None:
    for page in (DOCS / kind).glob("*.md"):
        assert len(page.read_text("utf-8").splitlines()) <= LONGEST[kind], page.name


def test_every_rule_is_a_function_or_module_of_the_file_that_the_page_names() -> None:
    links = re.findall(r"\[`(\w+)`\]\(([^)]+\.rs)\)", RULES.read_text(encoding="utf-8"))
    assert len(links) > 20
    for name, path in links:
        file = (RULES.parent / path).resolve()
        text = file.read_text(encoding="utf-8")
        assert f"fn {name}" in text or file.parent.name == name, f"{name} is not in {path}"


@pytest.mark.parametrize(
    "name",
    [
        "place_entity",
        "update_curr",
        "check_preempt_tick",
        "check_preempt_wakeup",
        "check_preempt_wakeup_fair",
        "wakeup_preempt_fair",
        "pick_eevdf",
        "entity_eligible",
        "update_entity_lag",
        "select_task_rq_fair",
        "select_idle_sibling",
        "newidle_balance",
        "sched_balance_newidle",
    ],
)
def test_a_function_of_the_kernel_leads_to_the_file_that_has_its_rule(name: str) -> None:
    row = next(
        line
        for line in RULES.read_text(encoding="utf-8").splitlines()
        if line.startswith("|") and f"`{name}`" in line
    )
    files = {(RULES.parent / path).resolve() for path in re.findall(r"\]\(([^)]+\.rs)\)", row)}
    stands = re.compile(rf"fn {name}\b|doc\(alias = \"{name}\"\)")
    assert any(stands.search(file.read_text(encoding="utf-8")) for file in files)


def test_the_readme_leads_to_the_rules() -> None:
    assert "(docs/concepts/rules.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_commits_that_leaves_name_are_in_the_table_of_changes() -> None:
    rows = (ROOT / "crates" / "model" / "src" / "release" / "rows.rs").read_text(encoding="utf-8")
    table = re.findall(r'since (\([\d, ]+\))[^;]*?commit "([0-9a-f]{12})"', rows)
    commits = {commit: release for release, commit in table}
    leaves = ROOT / "crates" / "sched" / "src" / "fair" / "rules"
    named = [
        match
        for path in sorted(leaves.glob("*.rs"))
        for match in re.findall(r"([0-9a-f]{12}) \((\d[\d.]*)", path.read_text(encoding="utf-8"))
    ]
    assert named
    for commit, release in named:
        assert commits.get(commit) == f"({', '.join(release.split('.'))})", commit


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes:
        page: its page.
        kind: the fence's word, such as ``console``.
        text: what is in it.
        shown: why it is not run, from a comment ``<!-- shown: REASON -->`` above it.
    """

    page: Path
    kind: str
    text: str
    shown: str

    @property
    def commands(self) -> list[str]:
        """The commands of a console, those for root too."""
        lines = re.findall(r"^[$#] ((?:schedlab|grep) .*)$", self.text, re.MULTILINE)
        return lines if self.kind == "console" else []


FENCE = re.compile(
    r"(?:<!-- shown: (?P<why>[^>]*) -->\n)?^ *```(?P<kind>\w*)\n(?P<text>.*?)^ *```",
    re.MULTILINE | re.DOTALL,
)
WRITTEN = [page for page in PAGES if "results" not in page.parts and page.name != "CHANGELOG.md"]
BLOCKS = [
    Block(page, one["kind"], re.sub(r"(?m)^   (?=\S)", "", one["text"]), one["why"] or "")
    for page in WRITTEN
    for one in FENCE.finditer(page.read_text(encoding="utf-8"))
]
KINDS = {"console", "text", "python", "json", "sh", "rust", "pycon", "toml"}

ELSEWHERE = {
    "my-": "is about a program of the reader's",
    " --on vm:": "boots a kernel: tests/vm",
    " --on host": "runs on this kernel: tests/cli, tests/tuning, tests/targets",
    " host": "runs on this kernel: tests/cli, tests/tuning, tests/targets",
    "schedlab live": "serves until it is interrupted: tests/live",
    "schedlab record": "needs root: tests/measure/test_recording.py",
    "dask://": "needs a Dask scheduler: tests/targets/test_workers.py",
    "schedlab study": "takes long: tests/studies",
    "schedlab calibrate": "takes long: tests/measure/test_calibration.py",
    "schedlab validate": "takes long: tests/measure/test_validation.py",
    "schedlab bench": "takes long: tests/cli/test_commands.py",
    "schedlab knobs set": "needs root: tests/knobs",
    "schedlab knobs restore": "changes the machine: tests/knobs",
    "schedlab kernels get": "fetches a kernel: tests/vm/test_kernels.py",
    "schedlab ext": "needs root: tests/ext",
    "schedlab report 3f9a": "is about a stored experiment: tests/report",
    "schedlab verify 3f9a": "is about a stored experiment: tests/tuning/test_verification.py",
    "--verify vm:": "boots a kernel: tests/vm",
    "schedlab report out/": "is about a study's result: tests/studies",
    "schedlab run control.json": "is about the file above: tests/test_examples.py",
    "schedlab infer trace.txt.gz": "is about a recording of the reader's",
    "schedlab replay sleepers-7.3": "is about a recording of the reader's",
    "schedlab replay trace.txt.gz": "is about a recording of the reader's",
    "tune hackbench:groups=4 --metrics max_delay": "takes a minute: tests/tuning",
    "alt_period=on": "is refused: tests/cli/test_rules.py",
}
"""Parts of commands that are not run here, and why; their options are checked all the same."""


def _every(kind: str) -> Iterator[Any]:
    for block in BLOCKS:
        if block.kind == kind and not block.shown:
            yield block


COMMANDS = list(dict.fromkeys((block.page, line) for block in BLOCKS for line in block.commands))


def _words(command: str) -> list[str]:
    return shlex.split(command, comments=True)[1:]


def test_blocks_are_of_kinds_that_are_known() -> None:
    found = {(str(block.page.relative_to(ROOT)), block.kind) for block in BLOCKS}
    assert {one for one in found if one[1] not in KINDS} == set()


OURS = [(page, line) for page, line in COMMANDS if line.startswith("schedlab ")]


@pytest.mark.parametrize(
    ("page", "command"), OURS, ids=[f"{page.stem}: {line[:70]}" for page, line in OURS]
)
def test_options_of_commands_are_known(page: Path, command: str) -> None:
    """Whether or not the command is run here: its words are read as the program reads them."""
    del page
    words, group = _words(command), typer.main.get_command(app)
    if " -- " in command:
        words = words[: words.index("--")]
    while words and (inner := getattr(group, "commands", {}).get(words[0])):
        group, words = inner, words[1:]
    known = {name for one in group.params for name in (*one.opts, *one.secondary_opts)}
    assert [one for one in words if one.startswith("--") and one.split("=")[0] not in known] == []


DECLARED = [
    (block.page, block.text, command)
    for block in BLOCKS
    if block.kind == "toml"
    for command in tomllib.loads(block.text)
]


@pytest.mark.parametrize(
    ("page", "text", "command"), DECLARED, ids=[f"{page.stem}: {of}" for page, _, of in DECLARED]
)
def test_what_a_project_file_declares_is_known(
    page: Path, text: str, command: str, tmp_path: Path
) -> None:
    del page
    file = tmp_path / "schedlab.toml"
    file.write_text(text, encoding="utf-8")
    parameters = vars(typer.main.get_command(app))["commands"][command].params
    words = project_file.with_file([command], parameters, file)
    # Each key is a word, or several; workloads are words by themselves.
    assert len(words) > len(tomllib.loads(text)[command])


RUN = [
    (page, line)
    for page, line in COMMANDS
    if not any(part in line for part in ELSEWHERE)
    and not any(line in block.text and block.shown for block in BLOCKS if block.page == page)
]
PAGES_WITH_COMMANDS = list(dict.fromkeys(page for page, _ in RUN))


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory that has the repository's files and a store of its own."""
    for name in ("crates", "examples", "validation"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


@pytest.mark.parametrize("page", PAGES_WITH_COMMANDS, ids=lambda page: page.stem)
def test_commands_of_a_page_run_in_their_order(
    page: Path, elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    declared = [one.text for one in BLOCKS if one.page == page and one.kind == "toml"]
    if declared:
        (elsewhere / "schedlab.toml").write_text("\n".join(declared), encoding="utf-8")
    for line in (line for of, line in RUN if of == page):
        if line.startswith("grep "):
            done = subprocess.run(shlex.split(line), capture_output=True, text=True, check=False)
            code, printed, errors = done.returncode, done.stdout, done.stderr
        else:
            code, (printed, errors) = invoke(_words(line)), capsys.readouterr()
        assert code == 0, f"{line}: {errors}"
        for shown in _shown_after(page, line):
            assert shown in printed, line


def _shown_after(page: Path, command: str) -> list[str]:
    """What a page shows of a command's output: in its console, or right after that as `text`."""
    text = page.read_text(encoding="utf-8")
    within = re.search(re.escape(command) + r"\n((?:(?! *(?:[$#] |```)).*\n)+)", text)
    after = re.search(
        re.escape(command) + r"\n```\n\n(?:[^`\n]+\n\n|.*?prints[^`\n]*:\n\n)?```text\n(.*?)^```",
        text,
        re.MULTILINE | re.DOTALL,
    )
    return [shown[1] for shown in (within, after) if shown is not None]


def test_outputs_that_pages_show_are_found() -> None:
    """Of these pages, so that a changed form of a page does not end the comparison unnoticed."""
    shown = {page.stem for page, line in RUN if _shown_after(page, line)}
    assert shown >= {
        "compare-kernel-rules",
        "find-a-better-setting",
        "read-decisions",
        "see-what-the-scheduler-does",
    }


PROGRAMS = list(dict.fromkeys(block.page for block in _every("python")))


@pytest.mark.parametrize("page", PROGRAMS, ids=lambda page: page.stem)
@pytest.mark.usefixtures("elsewhere")
def test_python_of_a_page_runs_in_its_order(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    namespace: dict[str, object] = {}
    for block in _every("python"):
        if block.page == page:
            exec(compile(block.text, str(page), "exec"), namespace)
    printed = capsys.readouterr().out
    for shown in re.findall(
        r"It prints:\n\n```text\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
    ):
        assert shown in printed


def test_what_python_that_boots_a_kernel_imports_is_there() -> None:
    shown = [block for block in BLOCKS if block.kind == "python" and block.shown]
    assert shown
    for block in shown:
        body = ast.parse(block.text, str(block.page)).body
        imports: list[ast.stmt] = [
            one for one in body if isinstance(one, ast.Import | ast.ImportFrom)
        ]
        exec(compile(ast.Module(imports, []), str(block.page), "exec"), {})
