"""Changes at random of texts, of JSON, and of SQLite files."""

import contextlib
import json
import random
import re
import sqlite3
import zlib

PIECES = [
    *(b"0", b"1", b"-1", b"4294967296", b"18446744073709551615", b"18446744073709551616"),
    *(b"-9223372036854775808", b"9223372036854775807", b"1e999", b"nan", b"NaN", b"inf", b"-0"),
    *(b"1e-400", b"0x10", b"1_000", "٣".encode(), "²".encode(), "é".encode(), b"\xff", b"\x00"),
    *(b"\x1b[31m", b"\xc2\x9b31m", "\u202e".encode(), b"\xed\xb2\x80", b"\n", b"\r", b"\t", b" "),
    *(b"[", b"]", b"{", b"}", b'"', b"'", b"\\", b",", b":", b"=", b"/", b"%", b"#", b"..", b"+"),
    *(b"null", b"true", b"[]", b"{}", b'""', b"[" * 2000, b'{"a":' * 500, b"9" * 400, b"a" * 5000),
    *(b"ns", b"us", b"ms", b"s", b"20ms", b"99999999999s", b"1.5ms", b"other", b"fifo:99"),
]
"""What parsers stumble over."""

NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")

EXTREMES = [
    *(b"0", b"1", b"-1", b"2", b"127", b"128", b"255", b"256", b"4095", b"4096", b"65536"),
    *(b"2147483647", b"2147483648", b"-2147483648", b"4294967295", b"4294967296"),
    *(b"9223372036854775807", b"-9223372036854775808", b"18446744073709551615"),
    *(b"9223372036854775808", b"-9223372036854775809", b"18446744073709551616", b"9" * 40),
]


def mutated(chance: random.Random, data: bytes, most: int = 4) -> bytes:
    """Return data with a few changes."""
    for _ in range(chance.randint(1, most)):
        at = chance.randint(0, len(data))
        end = min(len(data), at + chance.randint(1, 30))
        match chance.randrange(8):
            case 0:
                data = data[:at] + data[end:]
            case 1:
                data = data[:at] + chance.choice(PIECES) + data[at:]
            case 2:
                data = data[:at] + chance.choice(PIECES) + data[end:]
            case 3:
                data = data[:end] + data[at:end] * chance.randint(1, 3) + data[end:]
            case 4 if data:
                place = chance.randrange(len(data))
                flipped = data[place] ^ (1 << chance.randrange(8))
                data = data[:place] + bytes([flipped]) + data[place + 1 :]
            case 5 | 6 if numbers := list(NUMBER.finditer(data)):
                one = chance.choice(numbers)
                data = data[: one.start()] + chance.choice(EXTREMES) + data[one.end() :]
            case _:
                data = data[:at]
    return data


def mutated_json(chance: random.Random, data: bytes) -> bytes:
    """Return JSON whose values were exchanged, dropped or replaced; seldom no JSON any more."""
    if chance.random() < 0.2:
        return mutated(chance, data)
    value = json.loads(data)
    for _ in range(chance.randint(1, 3)):
        value = _wounded(chance, value)
    return json.dumps(value).encode()


def _wounded(chance: random.Random, value: object) -> object:
    odd: list[object] = [
        None,
        True,
        0,
        -1,
        1e308,
        float("nan"),
        2**64,
        10**400,
        "",
        "\x1b[2J",
        [],
        {},
    ]
    if isinstance(value, dict) and value and chance.random() < 0.9:
        changed = dict(value)
        key = chance.choice(list(changed))
        match chance.randrange(6):
            case 0:
                del changed[key]
            case 1:
                changed[chance.choice(["", "\x1b[2J", "x" * 300, "tasks"])] = changed[key]
            case _:
                changed[key] = _wounded(chance, changed[key])
        return changed
    if isinstance(value, list) and value and chance.random() < 0.9:
        items = list(value)
        at = chance.randrange(len(items))
        match chance.randrange(6):
            case 0:
                del items[at]
            case 1:
                items.append(items[at])
            case _:
                items[at] = _wounded(chance, items[at])
        return items
    return chance.choice(odd)


def mutated_store(chance: random.Random, data: bytes) -> bytes:
    """Return a store with bytes changed where there are any, or a value of a column."""
    if chance.random() < 0.5:
        return _with_other_value(chance, data)
    found = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        # Where there is something: most of a page is empty.
        at = chance.randrange(len(found))
        near = next((place for place in range(at, len(found)) if found[place]), at)
        found[near] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
    if chance.random() < 0.1:
        del found[chance.randrange(len(found)) :]
    return bytes(found)


def _with_other_value(chance: random.Random, data: bytes) -> bytes:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(data)
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        table = chance.choice(sorted(name for (name,) in tables))
        columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
        column, key = chance.choice(columns), columns[0]
        rows = connection.execute(f'SELECT "{key}", "{column}" FROM "{table}"').fetchall()
        if rows:
            row, old = chance.choice(rows)
            new = chance.choice([None, -1, 2**63 - 1, 1e308, "", b"\xff", "\x1b[2J", "[" * 5000])
            if isinstance(old, str):
                changed = mutated_json if old[:1] in ("{", "[") else mutated
                new = chance.choice([new, changed(chance, old.encode()).decode(errors="replace")])
            with contextlib.suppress(sqlite3.Error):
                connection.execute(
                    f'UPDATE "{table}" SET "{column}" = ? WHERE "{key}" IS ?', (new, row)
                )
                connection.commit()
        return connection.serialize()


def mutated_journal(chance: random.Random, data: bytes) -> bytes:
    """Return a journal with a line's content changed, and a checksum that holds for it."""
    lines = data.splitlines()
    if not lines or chance.random() < 0.3:
        return mutated(chance, data)
    at = chance.randrange(len(lines))
    body = mutated_json(chance, lines[at].partition(b" ")[2])
    lines[at] = b"%08x %s" % (zlib.crc32(body), body)
    return b"\n".join(lines) + b"\n"
