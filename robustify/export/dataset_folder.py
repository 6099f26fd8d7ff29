"""A data set folder as the model hub wants it: a Parquet file a split, a card with a YAML head, Croissant 1.0 metadata.

Nothing is uploaded. A split without items gets no file, because a reader could not tell its types. What only the author
knows and has not given is written as `NOT_SET`, which no reader can take for a licence or an address.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from robustify.errors import DataError
from robustify.export.heading import Heading, Publication, card, one_line
from robustify.files import write_json, write_text
from robustify.item import Item
from robustify.summary.result import Summary

CONFORMS_TO = "http://mlcommons.org/croissant/1.0"
NOT_SET = "not set by the author yet"
NO_ADDRESS = "urn:robustify:not-published"
VERSION = "1.0.0"
FIELDS: dict[str, tuple[pa.DataType, str, str]] = {
    "id": (pa.string(), "sc:Text", "The item's name in the benchmark."),
    "stem": (pa.string(), "sc:Text", "The question without its choices."),
    "choices": (pa.list_(pa.string()), "sc:Text", "The choices in the benchmark's own order."),
    "key": (pa.int64(), "sc:Integer", "Index of the right choice, from 0."),
    "topic": (pa.string(), "sc:Text", "The benchmark's own category."),
    "group": (pa.string(), "sc:Text", "What several items share, a passage."),
}
"""Each column's type in Parquet, its type in Croissant, and what it is."""
SCHEMA = pa.schema([(name, kind) for name, (kind, _, _) in FIELDS.items()])
_CONTEXT: dict[str, Any] = {
    "@language": "en", "@vocab": "https://schema.org/", "citeAs": "cr:citeAs", "column": "cr:column",
    "conformsTo": "dct:conformsTo", "cr": "http://mlcommons.org/croissant/", "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"}, "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/", "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"}, "extract": "cr:extract", "field": "cr:field",
    "fileProperty": "cr:fileProperty", "fileObject": "cr:fileObject", "fileSet": "cr:fileSet", "format": "cr:format",
    "includes": "cr:includes", "isLiveDataset": "cr:isLiveDataset", "jsonPath": "cr:jsonPath", "key": "cr:key",
    "md5": "cr:md5", "parentField": "cr:parentField", "path": "cr:path", "recordSet": "cr:recordSet",
    "references": "cr:references", "regex": "cr:regex", "repeated": "cr:repeated", "replace": "cr:replace",
    "samplingRate": "cr:samplingRate", "sc": "https://schema.org/", "separator": "cr:separator", "source": "cr:source",
    "subField": "cr:subField", "transform": "cr:transform",
}  # fmt: skip


def write_hf(
    folder: Path, heading: Heading, summary: Summary, splits: Mapping[str, Sequence[Item]], about: Publication
) -> None:
    """Write `data/SPLIT.parquet`, `README.md` and `croissant.json`.

    Raises:
        DataError: no split holds an item, or text that is no Unicode (by id).
    """
    full = {name: items for name, items in splits.items() if items}
    if not full:
        raise DataError(f"{heading.benchmark}: no split holds an item; expected robust or cloze items")
    _refuse_half_characters([item for name, items in full.items() if name != "cloze" for item in items])
    (folder / "data").mkdir()
    tables = {name: _table(items) for name, items in full.items()}
    files = {name: _parquet(folder / "data" / f"{name}.parquet", table) for name, table in tables.items()}
    front = _front(heading, tables, files, about)
    sizes = {name: len(items) for name, items in full.items()}
    write_text(folder / "README.md", card(heading, summary, sizes, front, about))
    write_json(folder / "croissant.json", croissant(heading, files, about))


def _refuse_half_characters(items: Sequence[Item]) -> None:
    faults = [
        f"{one_line(item.id)}: holds half of a surrogate pair; expected Unicode text"
        for item in items
        if any(
            "\ud800" <= c <= "\udfff"
            for c in "".join((item.id, item.stem, *item.choices, item.topic, item.group))
        )
    ]
    if faults:
        raise DataError.gather(faults)


def _table(items: Sequence[Item]) -> pa.Table:
    rows = [{name: getattr(item, name) for name in FIELDS} for item in items]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _parquet(path: Path, table: pa.Table) -> tuple[str, str, int]:
    """The file's path in the folder, its sha256 and its size in bytes."""
    pq.write_table(table, path, compression="zstd")
    data = path.read_bytes()
    return f"data/{path.name}", hashlib.sha256(data).hexdigest(), len(data)


def _front(
    heading: Heading,
    tables: Mapping[str, pa.Table],
    files: Mapping[str, tuple[str, str, int]],
    about: Publication,
) -> str:
    """The YAML head of the card: where the splits are, what their columns are, how many rows they have."""
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
                {"name": name, "sequence": "string"}
                if pa.types.is_list(kind)
                else {"name": name, "dtype": str(kind)}
                for name, (kind, _, _) in FIELDS.items()
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


def croissant(
    heading: Heading, files: Mapping[str, tuple[str, str, int]], about: Publication
) -> dict[str, Any]:
    """The metadata as JSON-LD; `files` maps each split to its path, sha256 and size in bytes."""
    name = one_line(heading.benchmark)
    warning = f" WARNING: {one_line(heading.warning)}" if heading.warning else ""
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "name": name,
        "description": (
            f"The items of {name}, parted by whether reference models pick the right choice without seeing the "
            f"question.{warning} Signature: {one_line(heading.signature)}"
        ),
        "conformsTo": CONFORMS_TO,
        "license": about.licence or NOT_SET,
        "url": about.url or NO_ADDRESS,
        "creator": {"@type": "sc:Organization", "name": about.creator or NOT_SET},
        **({"datePublished": about.published} if about.published else {}),
        "version": VERSION,
        "distribution": [_file(split, *file) for split, file in files.items()],
        "recordSet": [_records(split) for split in files],
    }


def _file(split: str, path: str, digest: str, size: int) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": f"{split}-file",
        "name": f"{split}-file",
        "contentUrl": path,
        "contentSize": f"{size} B",
        "encodingFormat": "application/x-parquet",
        "sha256": digest,
    }


def _records(split: str) -> dict[str, Any]:
    return {
        "@type": "cr:RecordSet",
        "@id": split,
        "name": split,
        "key": {"@id": f"{split}/id"},
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{split}/{field}",
                "name": field,
                "description": says,
                "dataType": croissant_type,
                **({"repeated": True} if pa.types.is_list(kind) else {}),
                "source": {"fileObject": {"@id": f"{split}-file"}, "extract": {"column": field}},
            }
            for field, (kind, croissant_type, says) in FIELDS.items()
        ],
    }
