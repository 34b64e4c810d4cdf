"""The page that says where each rule stands leads to it."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "concepts" / "rules.md"
LINK = re.compile(r"\[`(\w+)`\]\(([^)]+\.rs)\)")


def test_every_rule_is_a_function_or_module_of_the_file_that_the_page_names() -> None:
    links = LINK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(links) > 20
    for name, path in links:
        file = (PAGE.parent / path).resolve()
        text = file.read_text(encoding="utf-8")
        assert f"fn {name}" in text or file.parent.name == name, f"{name} is not in {path}"


def test_the_readme_leads_to_the_page() -> None:
    assert "(docs/concepts/rules.md)" in (PAGE.parents[2] / "README.md").read_text(encoding="utf-8")
