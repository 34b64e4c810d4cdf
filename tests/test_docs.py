"""What the documentation points to is there."""

import re
from pathlib import Path

import pytest

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


def test_every_rule_is_a_function_or_module_of_the_file_that_the_page_names() -> None:
    links = re.findall(r"\[`(\w+)`\]\(([^)]+\.rs)\)", RULES.read_text(encoding="utf-8"))
    assert len(links) > 20
    for name, path in links:
        file = (RULES.parent / path).resolve()
        text = file.read_text(encoding="utf-8")
        assert f"fn {name}" in text or file.parent.name == name, f"{name} is not in {path}"


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
