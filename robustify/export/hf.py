"""A data set folder as the model hub wants it: a Parquet file a split, a card with its YAML head, Croissant metadata.

Nothing is uploaded. A split without items gets no file, because a reader could not tell its types.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from robustify.errors import DataError
from robustify.export.card import Publication, card
from robustify.export.croissant import croissant
from robustify.export.heading import Heading, one_line
from robustify.files import write_json, write_text
from robustify.item import Item

__all__ = ["Publication", "write_hf"]
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("stem", pa.string()),
        ("choices", pa.list_(pa.string())),
        ("key", pa.int64()),
        ("topic", pa.string()),
        ("group", pa.string()),
    ]
)


def write_hf(
    folder: Path,
    heading: Heading,
    summary: Mapping[str, object],
    splits: Mapping[str, Sequence[Item]],
    about: Publication,
) -> list[Path]:
    """Write `data/SPLIT.parquet`, `README.md` and `croissant.json`; the paths.

    Raises:
        DataError: no split holds an item, or text that is no Unicode (by id).
    """
    held = {name: items for name, items in splits.items() if items}
    if not held:
        raise DataError(f"{heading.benchmark}: no split holds an item; expected robust or cloze items")
    _refuse_half_characters([item for name, items in held.items() if name != "cloze" for item in items])
    (folder / "data").mkdir()
    tables = {name: _table(items) for name, items in held.items()}
    files = {name: _parquet(folder / "data" / f"{name}.parquet", table) for name, table in tables.items()}
    front = _front(heading, tables, files, about)
    sizes = {name: len(items) for name, items in held.items()}
    write_text(folder / "README.md", card(heading, summary, sizes, front, about))
    write_json(folder / "croissant.json", croissant(heading, files, about))
    return [
        *(folder / path for path, _, _ in files.values()),
        folder / "README.md",
        folder / "croissant.json",
    ]


def _refuse_half_characters(items: Sequence[Item]) -> None:
    faults = [
        f"{one_line(item.id)}: holds half of a surrogate pair; expected Unicode text"
        for item in items
        if any(not _whole(text) for text in (item.id, item.stem, *item.choices, item.topic, item.group))
    ]
    if faults:
        raise DataError.gather(faults)


def _whole(text: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in text)


def _table(items: Sequence[Item]) -> pa.Table:
    columns = {
        "id": [i.id for i in items],
        "stem": [i.stem for i in items],
        "choices": [list(i.choices) for i in items],
        "key": [i.key for i in items],
        "topic": [i.topic for i in items],
        "group": [i.group for i in items],
    }
    return pa.table(columns, schema=SCHEMA)


def _parquet(path: Path, table: pa.Table) -> tuple[str, str, int]:
    """The file's path in the folder, its sha256 and its size."""
    pq.write_table(table, path, compression="zstd")
    data = path.read_bytes()
    return f"data/{path.name}", hashlib.sha256(data).hexdigest(), len(data)


def _front(
    heading: Heading,
    tables: Mapping[str, pa.Table],
    files: Mapping[str, tuple[str, str, int]],
    about: Publication,
) -> str:
    """The YAML head of the card: where the splits lie, what their columns are, how many rows they have."""
    tree: dict[str, Any] = {
        **({"license": one_line(about.licence)} if about.licence else {}),
        "pretty_name": one_line(heading.benchmark),
        "task_categories": ["multiple-choice", "question-answering"],
        "tags": ["robustify", "benchmark"],
        "configs": [
            {
                "config_name": "default",
                "data_files": [{"split": name, "path": path} for name, (path, _, _) in files.items()],
            }
        ],
        "dataset_info": {
            "features": [
                {"name": "choices", "sequence": "string"}
                if field.name == "choices"
                else {"name": field.name, "dtype": str(field.type)}
                for field in SCHEMA
            ],
            "splits": [
                {"name": name, "num_bytes": table.nbytes, "num_examples": table.num_rows}
                for name, table in tables.items()
            ],
            "download_size": sum(size for _, _, size in files.values()),
            "dataset_size": sum(table.nbytes for table in tables.values()),
        },
    }
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=10_000)
