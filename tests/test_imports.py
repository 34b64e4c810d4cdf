"""Python's modules have floors: no circle of imports, in functions and for types neither."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def name_of(path: Path, above: Path) -> str:
    parts = path.relative_to(above).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.Module, modules: set[str]) -> set[str]:
    """Return the modules that a module imports, wherever in it that stands."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                # The extension module has no file here.
                known = inner in modules or alias.name == "_core"
                found.add(inner if known else node.module)
    return found & modules


def circle(sources: dict[str, str]) -> list[str]:
    """Return the modules of a circle of imports, none where there is no circle."""
    modules = set(sources)
    graph = {name: imported(ast.parse(text), modules) - {name} for name, text in sources.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_a_circle_is_found() -> None:
    sources = {"a": "import b", "b": "def f():\n    from c import d", "c": "from a import e"}
    assert set(circle(sources)) == {"a", "b", "c"}
    assert not circle(sources | {"c": "import json"})


@pytest.mark.parametrize("place", ["python/schedlab", "tools/fidelity", "tools/tuning_benchmark"])
def test_there_are_no_circles(place: str) -> None:
    above = (ROOT / place).parent
    sources = {name_of(path, above): path.read_text() for path in (ROOT / place).rglob("*.py")}
    assert len(sources) > 10
    assert not circle(sources)
