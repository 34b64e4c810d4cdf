"""Write the reference pages: ``scripts/reference``."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from fidelity import causes
from reference import api, cli, output, tables

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"
RESULTS = ROOT / "docs" / "results"

PAGES: Mapping[Path, Callable[[], str]] = {
    REFERENCE / "cli.md": cli.page,
    REFERENCE / "python.md": api.page,
    REFERENCE / "json.md": output.page,
    REFERENCE / "knobs.md": tables.knobs,
    REFERENCE / "rules.md": tables.rules,
    REFERENCE / "costs.md": tables.costs,
    REFERENCE / "environment.md": tables.environment,
    RESULTS / "mutations.md": tables.mutations,
    RESULTS / "tests.md": tables.tests,
    RESULTS / "fidelity-causes.md": causes.page,
}


def main() -> int:
    """Write the pages and the schemas of JSON output: ``--pages`` alone, or those that are named."""
    for path, page in PAGES.items():
        path.write_text(page(), encoding="utf-8")
    if sys.argv[1:] != ["--pages"]:
        named = sys.argv[1:]
        for one in (one for one in output.OUTPUTS if not named or one.name in named):
            if (why := output.lacking(one)) is not None:
                print(f"{one.path.name} is left as it is: {why} is missing", file=sys.stderr)  # noqa: T201
                continue
            one.path.parent.mkdir(exist_ok=True)
            text = json.dumps(output.schema(one), indent=1, ensure_ascii=False) + "\n"
            one.path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
