"""JSON Schemas of what commands print, from real outputs; and a check of outputs against them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

Schema = dict[str, Any]
_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}


def infer(
    value: Any, maps: Sequence[str] = (), opaque: Sequence[str] = (), path: str = ""
) -> Schema:
    """Return the schema of a value.

    Args:
        value: what was printed.
        maps: paths of objects whose keys are data, such as ``.knobs``.
        opaque: paths of objects that hold anything.
        path: where the value is.

    >>> infer({"n": 1, "knobs": {"a": "x"}}, [".knobs"])["required"]
    ['knobs', 'n']
    """
    if isinstance(value, Mapping):
        if path in opaque:
            return {"type": "object", "additionalProperties": {}}
        if path in maps:
            inner = [infer(one, maps, opaque, f"{path}.*") for one in value.values()]
            return {"type": "object", "additionalProperties": merge(inner)}
        properties = {
            key: infer(one, maps, opaque, f"{path}.{key}") for key, one in sorted(value.items())
        }
        return {
            "type": "object",
            "properties": properties,
            "required": sorted(properties),
            "additionalProperties": False,
        }
    if isinstance(value, list):
        items = [infer(one, maps, opaque, f"{path}[]") for one in value]
        return {"type": "array", "items": merge(items)}
    return {"type": _NAMES[type(value)]}


def merge(schemas: Sequence[Schema]) -> Schema:
    """Return a schema that holds all values that any of these holds; empty without any.

    >>> merge([{"type": "integer"}, {"type": "null"}])
    {'type': ['integer', 'null']}
    """
    found: Schema = {}
    for one in schemas:
        found = _both(found, one) if found and one else found or one
    return found


def admit(schema: Schema, path: str, kind: str) -> None:
    """Admit another type where the sampled values had none of it, such as a text beside null.

    Args:
        schema: is changed.
        path: of the value, as in `infer`.
        kind: the type that is admitted too.

    >>> found = infer({"a": [{"b": None}]})
    >>> admit(found, ".a[].b", "string")
    >>> mistakes({"a": [{"b": "x"}]}, found)
    []
    """
    inner = schema
    for name in re.findall(r"\.(\w+)|(\[\])", path):
        inner = inner["items"] if name[1] else inner["properties"][name[0]]
    kinds = sorted({*_kinds(inner), kind})
    inner["type"] = kinds[0] if len(kinds) == 1 else kinds


def _both(one: Schema, other: Schema) -> Schema:
    kinds = sorted({*_kinds(one), *_kinds(other)})
    if "number" in kinds and "integer" in kinds:
        kinds.remove("integer")
    found: Schema = {"type": kinds[0] if len(kinds) == 1 else kinds}
    if "array" in kinds:
        found["items"] = merge([part["items"] for part in (one, other) if "items" in part])
    objects = [part for part in (one, other) if "object" in _kinds(part)]
    named = [part for part in objects if "properties" in part]
    if named:
        keys = sorted({key for part in named for key in part["properties"]})
        found["properties"] = {
            key: merge([part["properties"][key] for part in named if key in part["properties"]])
            for key in keys
        }
        common = set(keys).intersection(*(part["required"] for part in named))
        found["required"] = sorted(common)
        found["additionalProperties"] = False
    elif objects:
        found["additionalProperties"] = merge([part["additionalProperties"] for part in objects])
    return found


def _kinds(schema: Schema) -> list[str]:
    kind = schema.get("type", [])
    return [kind] if isinstance(kind, str) else list(kind)


def mistakes(value: Any, schema: Schema, path: str = "") -> list[str]:
    """Return what of a value its schema does not allow, a line each.

    >>> mistakes({"a": 1}, infer({"a": "x"}))
    ['.a is integer, not string']
    """
    if not schema:
        return []
    kind = (
        "object"
        if isinstance(value, Mapping)
        else "array"
        if isinstance(value, list)
        else _NAMES[type(value)]
    )
    allowed = _kinds(schema)
    if kind not in allowed and not (kind == "integer" and "number" in allowed):
        return [f"{path or 'the value'} is {kind}, not {' or '.join(allowed)}"]
    found: list[str] = []
    if kind == "array":
        for one in value:
            found += mistakes(one, schema.get("items", {}), f"{path}[]")
    elif kind == "object" and "properties" in schema:
        found += [f"{path}.{key} is missing" for key in schema["required"] if key not in value]
        for key, one in value.items():
            if key in schema["properties"]:
                found += mistakes(one, schema["properties"][key], f"{path}.{key}")
            else:
                found.append(f"{path}.{key} is not in the schema")
    elif kind == "object":
        for key, one in value.items():
            found += mistakes(one, schema.get("additionalProperties", {}), f"{path}.{key}")
    return found
