"""``schedlab kernels``."""

import json as jsonlib

from schedlab import _core
from schedlab.cli import options
from schedlab.report.terminal import emit_json, show


def command(json: options.Json = False) -> None:
    """List the kernel series whose rules are known.

    Example: [bold]schedlab kernels[/bold]
    """
    rows = jsonlib.loads(_core.releases())
    if json:
        emit_json(rows)
        return
    cells = [(row["series"], row["release"], "EEVDF" if row["eevdf"] else "CFS") for row in rows]
    show(cells, ("series", "newest known", "fair class"), left=3)
