"""Seeded changes to a valid file: random bytes, or valid syntax with values of the wrong type."""

import copy
import csv
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

Json = Any
ODD: tuple[Json, ...] = (
    None, True, False, 0, -1, 1, 4, 255, 2**31, 2**63, -(2**63), 10**400, 0.5, -0.0, 1e308, float("nan"), float("inf"),
    "", " ", "0", "A", "é", "\u202e", "\x00", "\x1b[2J", "a" * 5000, "../../x", "/dev/stdin", "=1+1", "3:30", "~",
    [], {}, [[]], [None], {"": ""}, {"a": {"a": {}}}, ["a", 1, None], [[[[[[[[]]]]]]]], list(range(300)),
)  # fmt: skip
_MOST = 64


def bytewise(data: bytes, chance: random.Random) -> bytes:
    """Apply one to eight changes: flip a byte; cut, double, move, or overwrite a range; or truncate the file."""
    made = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        if not made:
            break
        at = chance.randrange(len(made))
        to = min(len(made), at + chance.randint(1, _MOST))
        match chance.randrange(6):
            case 0:
                made[at] ^= 1 << chance.randrange(8)
            case 1:
                del made[at:to]
            case 2:
                made[at:at] = made[at:to] * chance.randint(1, 4)
            case 3:
                made[at:to] = chance.randbytes(to - at)
            case 4:
                del made[at:]
            case _:
                other = chance.randrange(len(made))
                made[other:other] = made[at:to]
    return bytes(made)


def _odd(chance: random.Random) -> Json:
    # Copied, because a value in the tree may be changed later.
    return copy.deepcopy(chance.choice(ODD))


def _places(tree: Json, found: list[tuple[Json, Any]]) -> None:
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for name, value in pairs:
        found.append((tree, name))
        _places(value, found)


def retyped(tree: Json, chance: random.Random) -> Json:
    """Change one to three values anywhere in the tree: odd values, omitted, doubled, renamed or swapped."""
    tree = json.loads(json.dumps(tree))
    for _ in range(chance.randint(1, 3)):
        places: list[tuple[Json, Any]] = []
        _places(tree, places)
        if not places or chance.random() < 0.03:
            return _odd(chance)
        parent, name = chance.choice(places)
        match chance.randrange(7):
            case 0 | 1 | 2:
                parent[name] = _odd(chance)
            case 3:
                del parent[name]
            case 4 if isinstance(parent, dict):
                parent[str(chance.choice(ODD))[:200]] = parent.pop(name)
            case 5:
                other, at = chance.choice(places)
                parent[name], swapped = json.loads(json.dumps(other[at])), parent[name]
                other[at] = swapped if not isinstance(swapped, list | dict) else []
            case _:
                parent[name] = [parent[name]]
    return tree


def _json(data: bytes, chance: random.Random) -> bytes:
    return json.dumps(retyped(json.loads(data), chance)).encode()


def _jsonl(data: bytes, chance: random.Random) -> bytes:
    return b"".join(
        json.dumps(row).encode() + b"\n" for row in _rows([json.loads(x) for x in data.splitlines()], chance)
    )


def _rows(rows: list[Json], chance: random.Random) -> list[Json]:
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(rows))
        rows[at] = retyped(rows[at], chance)
    if chance.random() < 0.2:
        rows.insert(chance.randrange(len(rows)), rows[chance.randrange(len(rows))])
    return rows


def _yaml(data: bytes, chance: random.Random) -> bytes:
    changed = retyped(yaml.safe_load(data), chance)
    return yaml.safe_dump(changed, allow_unicode=True).encode(errors="replace")


def _text(data: bytes, chance: random.Random) -> bytes:
    """Replace fields of a delimited file, or words of any other text, with odd ones."""
    lines = data.decode().splitlines()
    at = chance.randrange(len(lines))
    mark = "\t" if "\t" in lines[at] else ","
    cells = next(csv.reader([lines[at]], delimiter=mark))
    cells[chance.randrange(len(cells))] = str(chance.choice(ODD))
    if chance.random() < 0.3:
        cells = cells[:-1] if chance.random() < 0.5 else [*cells, "more"]
    out = io.StringIO()
    csv.writer(out, delimiter=mark, lineterminator="").writerow(cells)
    lines[at] = out.getvalue()
    return "\n".join(lines).encode(errors="surrogatepass")


def _parquet(data: bytes, chance: random.Random) -> bytes:
    table = pq.read_table(pa.BufferReader(data))
    at = chance.randrange(table.num_columns)
    name = table.column_names[at]
    n = table.num_rows
    types: tuple[Callable[[], pa.Array], ...] = (
        lambda: pa.nulls(n),
        lambda: pa.array([0.5] * n),
        lambda: pa.array(list(range(n)), pa.int64()),
        lambda: pa.array([b"\xff"] * n),
        lambda: pa.array(["x"] * n),
        lambda: pa.array([True] * n),
        lambda: pa.array([[1, 2]] * n),
        lambda: pa.array([{"a": 1}] * n),
        lambda: pa.array(["x"] * n).dictionary_encode(),
        lambda: pa.array([0] * n, pa.timestamp("us")),
        lambda: pa.array([float("nan")] * n),
    )
    match chance.randrange(4):
        case 0:
            table = table.drop_columns([name])
        case 1:
            table = table.slice(0, chance.choice((0, 1, n // 2)))
        case 2:
            table = table.append_column(name, table.column(at))
        case _:
            table = table.set_column(at, name, chance.choice(types)())
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def _header(data: bytes, chance: random.Random) -> bytes:
    """Change the JSON header of a safetensors file, with a correct or wrong length."""
    n = int.from_bytes(data[:8], "little")
    header = _json(data[8 : 8 + n], chance)
    said = len(header) if chance.random() < 0.8 else chance.choice((0, 1, 2**40, 2**63 - 1))
    return said.to_bytes(8, "little") + header + data[8 + n :]


_STRUCTURED: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "json": _json, "jsonl": _jsonl, "yaml": _yaml, "text": _text, "parquet": _parquet, "header": _header,
}  # fmt: skip


def structured(path: Path, form: str, chance: random.Random) -> bytes:
    """Return the file with valid syntax and odd values; `form` is json, jsonl, yaml, text, parquet or header."""
    return _STRUCTURED[form](path.read_bytes(), chance)
