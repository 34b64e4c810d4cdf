"""What people read has no private words, and pages are short."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_pages_help_errors_and_docstrings_have_no_private_words() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "style")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_each_word_is_found_and_has_another_in_its_place() -> None:
    """The pattern of each entry finds a text of refused words."""
    words = tomllib.loads((ROOT / "scripts" / "style.toml").read_text(encoding="utf-8"))["words"]
    refused = (
        "whoever whom nobody somebody who wakes lingers told to go to be had one's own hangs on "
        "by lot comes to a CPU agenda in the midst had better for want of stands there "
        "what it takes the same of what came of pinned line foretell. So is it dear the rules "
        "of the user's own stands once is told "
        "their coming lest it will do. believed whatever came for who cannot see it"
    )
    assert [one["word"] for one in words if not re.search(one["pattern"], refused)] == []
    assert all(one["instead"] for one in words)
