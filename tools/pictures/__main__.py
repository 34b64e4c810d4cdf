"""Draw the pictures: ``scripts/pictures [NAME…]``."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from pictures import diagrams, measured, schedules, virtual_time
from pictures.svg import Drawing

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"

PICTURES: Mapping[Path, Callable[[], Drawing]] = {
    IMAGES / "two-kernels.svg": schedules.two_kernels,
    IMAGES / "shorter-slice.svg": schedules.shorter_slice,
    IMAGES / "lag.svg": virtual_time.lag,
    IMAGES / "architecture.svg": diagrams.architecture,
    IMAGES / "replay.svg": diagrams.replay,
    IMAGES / "surface.svg": measured.surface,
    IMAGES / "certification.svg": measured.certification,
    ROOT / "docs" / "results" / "fidelity.svg": measured.decisions,
}


def main() -> int:
    """Draw those that are named, or all."""
    known = {path.stem: path for path in PICTURES}
    names = sys.argv[1:] or list(known)
    if unknown := [name for name in names if name not in known]:
        print(f"no picture '{unknown[0]}'; known: {', '.join(known)}", file=sys.stderr)  # noqa: T201
        return 2
    for name in names:
        known[name].write_text(PICTURES[known[name]]().svg(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
