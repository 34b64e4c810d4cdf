"""The live page as a file beside a report, so that the report can link into it."""

from pathlib import Path

from schedlab.boundary.files import write_text
from schedlab.live.server import PAGE

_SIGN = "<title>schedlab live</title>"


def put_beside(directory: Path, page: Path = PAGE) -> bool:
    """Write the page as ``live.html`` into a directory; return whether it is there.

    It is not where the page was not built, or another file has that name.
    """
    if not page.is_file():
        return False
    target = directory / "live.html"
    if target.exists():
        try:
            if _SIGN not in target.read_text(encoding="utf-8")[:4096]:
                return False
        except (OSError, UnicodeDecodeError):
            return False
    write_text(target, page.read_text(encoding="utf-8"))
    return True
