"""Write the reference pages: ``scripts/reference``."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from fidelity import causes
from reference import api, cli, output, tables
from reference.commands import OUTPUTS

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


def texts(arguments: argparse.Namespace) -> Iterator[tuple[Path, str]]:
    """Yield each file that is asked for with what belongs there.

    Schemas whose commands cannot be run on this machine are left out, with a line on standard error.
    """
    yield from ((path, page()) for path, page in PAGES.items())
    named = arguments.schemas
    for one in OUTPUTS:
        if arguments.pages or (named and one.name not in named):
            continue
        if (why := output.lacking(one)) is not None:
            _tell(f"{one.path.name} is left as it is: {why} is missing")
            continue
        yield one.path, json.dumps(output.schema(one), indent=1, ensure_ascii=False) + "\n"


def main(words: Sequence[str] | None = None) -> int:
    """Write the pages and the schemas of JSON output, or say which of them are stale.

    Args:
        words: the command's; those of the process otherwise.
    """
    names = [one.name for one in OUTPUTS]
    parser = argparse.ArgumentParser(prog="scripts/reference", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if one is stale"
    )
    parser.add_argument(
        "--pages", action="store_true", help="without the schemas, which run commands"
    )
    parser.add_argument("schemas", nargs="*", metavar="NAME", help="these schemas alone")
    arguments = parser.parse_args(words)
    if unknown := set(arguments.schemas) - set(names):
        parser.error(
            f"no schema is called {', '.join(sorted(unknown))}; there are {', '.join(names)}"
        )
    stale = 0
    for path, text in texts(arguments):
        if not arguments.check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            _tell(f"{path.relative_to(ROOT)} is stale: run scripts/reference")
            stale += 1
    return 1 if stale else 0


def _tell(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
