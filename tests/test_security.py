"""SECURITY.md: each test that it names is there."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_every_promise_has_its_test() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if "`tests/" in line]
    assert rows
    for row in rows:
        file = ""
        for name, test in re.findall(r"`(tests/[\w/]+\.py)?(?:::(\w+))?`", row):
            file = name or file
            source = (ROOT / file).read_text(encoding="utf-8")
            found = {node.name for node in ast.parse(source).body if hasattr(node, "name")}
            assert not test or test in found, f"{file} has no {test}"
    # A promise stands in a row of two cells, and the second names a test.
    promises = text.partition("## Promises")[2].partition("\n## ")[0]
    for line in promises.splitlines():
        if line.startswith("| ") and not line.startswith("| promise"):
            assert "`tests/" in line.split("|")[2], line
