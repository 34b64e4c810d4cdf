"""Runs programs and commands where this process is: the part that `Virtual` starts in a guest.

Python and this package take many seconds to load in a guest whose instructions are translated, so
one process serves a guest's whole life: it reads a request from one pipe and writes the answer to
another, both JSON, one after the other.
"""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from schedlab.boundary.errors import SchedlabError
from schedlab.model import Attributes
from schedlab.processes import processes
from schedlab.processes.capture import matching
from schedlab.processes.disturbance import watching
from schedlab.programs import FAMILIES
from schedlab.programs.program import Start
from schedlab.targets import ext
from schedlab.targets.program_start import starting


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Do what a request asks for, and return its result or what went wrong.

    Args:
        request: ``program`` (its text) or ``command`` (words), ``attributes`` (None or those of
            `schedlab.model.Attributes`), ``timeout`` in seconds, and ``files``, the directory of a
            program's files, if it is not the usual one.

    >>> answer({"command": ["echo", "hello"], "attributes": None, "timeout": 9})["done"]["code"]
    0
    >>> answer({"program": "fio:speed=3", "attributes": None, "timeout": 9})["error"]
    'InputError'
    """
    try:
        wanted = request["attributes"]
        attributes = None if wanted is None else Attributes(**wanted)
        timeout = float(request["timeout"])
        if "program" in request:
            text = str(request["program"])
            program = FAMILIES[text.partition(":")[0]].parse(text)
            tempfile.tempdir = request.get("files")
            with ext.scheduling(attributes), watching() as watch:
                values = program.run(Start(attributes, timeout))
            return {"values": values, **watch.as_data()}
        with ext.scheduling(attributes), matching(request.get("matching")):
            prepare = starting(attributes)
            done = processes.watched(request["command"], timeout=timeout, prepare=prepare)
        return {"done": asdict(done)}
    except SchedlabError as error:
        return {"error": type(error).__name__, "message": str(error)}


def serve(place: Path) -> None:
    """Answer requests until the process is ended.

    Args:
        place: the directory with the pipes ``requests`` and ``answers``; the file ``ready`` is made
            there once everything is loaded.
    """
    (place / "ready").touch()
    while True:
        text = (place / "requests").read_text(encoding="utf-8")
        (place / "answers").write_text(json.dumps(answer(json.loads(text))), encoding="utf-8")
