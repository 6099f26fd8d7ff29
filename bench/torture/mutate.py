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
CELLS = (None, 0.5, 7, b"\xff", "x", True, [1, 2], {"a": 1}, float("nan"))
TREES: dict[str, tuple[Callable[[bytes], Json], Callable[[Json], str]]] = {
    "json": (json.loads, json.dumps),
    "jsonl": (
        lambda data: [json.loads(line) for line in data.splitlines()],
        lambda rows: "".join(f"{json.dumps(row)}\n" for row in rows),
    ),
    "yaml": (yaml.safe_load, lambda tree: yaml.safe_dump(tree, allow_unicode=True)),
}


def bytewise(data: bytes, chance: random.Random) -> bytes:
    """Apply one to eight changes: flip a byte; cut, double, move, or overwrite a range; or truncate the file."""
    made = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        if not made:
            break
        at, other = chance.randrange(len(made)), chance.randrange(len(made))
        to = min(len(made), at + chance.randint(1, 64))
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
                made[other:other] = made[at:to]
    return bytes(made)


def _places(tree: Json) -> list[tuple[Json, Any]]:
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [place for name, value in pairs for place in ((tree, name), *_places(value))]


def retyped(tree: Json, chance: random.Random) -> Json:
    """Change one to three values anywhere in the tree: odd values, omitted, doubled, renamed, or nested."""
    for _ in range(chance.randint(1, 3)):
        places = _places(tree)
        # Copied, because a value in the tree may be changed later.
        odd = copy.deepcopy(chance.choice(ODD))
        if not places or chance.random() < 0.03:
            return odd
        parent, name = chance.choice(places)
        match chance.randrange(7):
            case 0 | 1 | 2:
                parent[name] = odd
            case 3:
                del parent[name]
            case 4 if isinstance(parent, dict):
                parent[str(odd)[:200]] = parent.pop(name)
            case 5:
                other, at = chance.choice(places)
                parent[name] = copy.deepcopy(other[at])
            case _:
                parent[name] = [parent[name]]
    return tree


def _text(data: bytes, chance: random.Random) -> bytes:
    """Replace a field of a delimited file, or a part of a line of any other text, with an odd one."""
    lines = data.decode().splitlines()
    at = chance.randrange(len(lines))
    mark = "\t" if "\t" in lines[at] else ","
    cells = next(csv.reader([lines[at]], delimiter=mark)) or [""]
    cells[chance.randrange(len(cells))] = str(chance.choice(ODD))
    out = io.StringIO()
    csv.writer(out, delimiter=mark, lineterminator="").writerow(
        chance.choice((cells, cells, cells[:-1], [*cells, "more"]))
    )
    lines[at] = out.getvalue()
    return "\n".join(lines).encode(errors="surrogatepass")


def _parquet(data: bytes, chance: random.Random) -> bytes:
    table = pq.read_table(pa.BufferReader(data))
    at, n = chance.randrange(table.num_columns), table.num_rows
    name = table.column_names[at]
    match chance.randrange(4):
        case 0:
            table = table.drop_columns([name])
        case 1:
            table = table.slice(0, chance.choice((0, 1, n // 2)))
        case 2:
            table = table.append_column(name, table.column(at))
        case _:
            table = table.set_column(at, name, pa.array([chance.choice(CELLS)] * n))
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def structured(path: Path, form: str, chance: random.Random) -> bytes:
    """Return the file with valid syntax and odd values; `form` is json, jsonl, yaml, text, parquet, or else bytes."""
    data = path.read_bytes()
    if form in TREES:
        parse, dump = TREES[form]
        return dump(retyped(parse(data), chance)).encode(errors="replace")
    return {"text": _text, "parquet": _parquet}.get(form, bytewise)(data, chance)
