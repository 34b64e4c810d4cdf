"""The Python API: signatures and docstrings of what users import."""

import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any

MODULES = {
    "schedlab": "What most programs need.",
    "schedlab.targets.host": "Runs on the running kernel.",
    "schedlab.targets.vm": "Runs in a guest.",
    "schedlab.vm": "Guests and their kernels.",
    "schedlab.targets.policy": "Scheduling policies written in Python.",
    "schedlab.experiment.blocks": "Interleaved comparisons of anything that returns a number.",
    "schedlab.experiment.stats": "Estimates, intervals and verdicts.",
    "schedlab.experiment.frames": "Runs as data frames.",
    "schedlab.store": "The store of runs.",
    "schedlab.search": "Searches, which know nothing of schedulers.",
    "schedlab.tuning": "Tuning, certification, and whether a gain lasts.",
    "schedlab.tuning.optuna_study": "Racing and screening for Optuna studies.",
    "schedlab.design": "Experimental designs and response surfaces.",
    "schedlab.measure.calibration": "Costs of a machine, measured.",
    "schedlab.measure.inference": "From a recording to a workload.",
}

_SECTIONS = ("Args", "Returns", "Raises", "Attributes", "Yields")
_OPENING = """\
# Python API

Times are integer nanoseconds where a name ends in `_ns`, and texts with a unit elsewhere (`"20ms"`). Everything raises
`schedlab.SchedlabError` or a subclass for what it refuses. The examples run in the test suite.
"""


def page() -> str:
    """Return the page as Markdown."""
    return "\n".join([_OPENING, *(line for name in MODULES for line in _module(name))]) + "\n"


def _module(name: str) -> Iterator[str]:
    module = importlib.import_module(name)
    yield from (f"## {name}", "", MODULES[name], "")
    names = getattr(module, "__all__", None) or [
        one
        for one, value in vars(module).items()
        if not one.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == name
    ]
    for one in names:
        value = getattr(module, one)
        if inspect.isclass(value):
            yield from _class(name, one, value)
        elif callable(value):
            yield from _function(f"{name}.{one}", value, 3)


def _class(module: str, name: str, value: type) -> Iterator[str]:
    yield from (f"### {module}.{name}", "")
    if issubclass(value, Enum):
        yield from (", ".join(f"`{one.value}`" for one in value), "")
    elif not issubclass(value, BaseException):
        yield from ("```text", f"{name}{_signature(value)}", "```", "")
    yield from _docstring(inspect.getdoc(value) or "")
    for attribute, found in sorted(vars(value).items()):
        if attribute.startswith("_") or issubclass(value, Enum):
            continue
        inner = found.__func__ if isinstance(found, classmethod | staticmethod) else found
        if isinstance(found, property):
            if found.__doc__ and not dataclasses.is_dataclass(found):
                yield from (f"**`{attribute}`**: {_first(found.__doc__)}", "")
        elif inspect.isfunction(inner):
            yield from _function(f"{name}.{attribute}", inner, 4)


def _function(name: str, value: Any, level: int) -> Iterator[str]:
    yield from (f"{'#' * level} {name}", "")
    yield from ("```text", f"{name.rpartition('.')[2]}{_signature(value)}", "```", "")
    yield from _docstring(inspect.getdoc(value) or "")


def _signature(value: Any) -> str:
    """Return a signature without the package's paths, wrapped where it is long."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(…)"
    found = [one for one in signature.parameters.values() if one.name not in ("self", "cls")]
    # What a default is called after its place in memory is no text of a reference.
    plain = [one.replace(default=...) if " at 0x" in repr(one.default) else one for one in found]
    text = str(signature.replace(parameters=plain))
    text = re.sub(r"\b(?:schedlab|collections|numpy|typing|pathlib)\.(?:\w+\.)*(?=\w)", "", text)
    text = text.replace("'", "") if "'" in text and "=" not in text else text
    if len(text) < 90:
        return text
    inside, _, after = text[1:].rpartition(")")
    parts = re.split(r", (?=\*?\*?\w+(?::|=|,|$)|\*,|/,)", inside)
    return "(\n    " + ",\n    ".join(parts) + f",\n){after}"


def _first(doc: str) -> str:
    return " ".join(inspect.cleandoc(doc).split("\n\n")[0].split())


def _docstring(doc: str) -> Iterator[str]:
    """Turn a docstring in Google's style into Markdown."""
    for part in re.split(r"\n\n+", doc.strip()):
        lines = part.splitlines()
        head = lines[0].rstrip(":") if lines else ""
        if head in _SECTIONS and lines[0].endswith(":"):
            yield from (f"*{head}*", "", *_items(lines[1:]), "")
        elif part.startswith(">>>"):
            yield from ("```pycon", part, "```", "")
        elif part:
            text = part.replace("``", "`")
            yield from (re.sub(r"\n(?!- |\* |  )", " ", text), "")


def _items(lines: list[str]) -> Iterator[str]:
    """Return the entries of a section as a list."""
    items: list[str] = []
    for line in inspect.cleandoc("\n".join(lines)).splitlines():
        if line.startswith(" ") and items:
            items[-1] += " " + line.strip()
        else:
            items.append(line)
    for item in (one.replace("``", "`") for one in items):
        name, colon, text = item.partition(": ")
        known = colon and re.fullmatch(r"\*{0,2}[\w.]+(?: \([^)]*\))?", name)
        yield f"- `{name}`: {text}" if known else f"- {item}"
