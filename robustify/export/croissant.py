"""Croissant 1.0 metadata of an exported data set: its Parquet files by digest, its fields, who answers for it.

What only the author knows and has not said stands as `NOT_SET`, which no reader can take for a licence or an address.
"""

from collections.abc import Mapping
from typing import Any

from robustify.export.card import Publication
from robustify.export.heading import Heading, one_line

CONFORMS_TO = "http://mlcommons.org/croissant/1.0"
NOT_SET = "not set by the author yet"
NO_ADDRESS = "urn:robustify:not-published"
VERSION = "1.0.0"
FIELDS = {
    "id": ("sc:Text", False, "The item's name in the benchmark."),
    "stem": ("sc:Text", False, "The question without its choices."),
    "choices": ("sc:Text", True, "The choices in the benchmark's own order."),
    "key": ("sc:Integer", False, "Index of the right choice, from 0."),
    "topic": ("sc:Text", False, "The benchmark's own category."),
    "group": ("sc:Text", False, "What several items share, a passage."),
}
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
        "distribution": [_file(split, *told) for split, told in files.items()],
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
                "dataType": kind,
                **({"repeated": True} if repeated else {}),
                "source": {"fileObject": {"@id": f"{split}-file"}, "extract": {"column": field}},
            }
            for field, (kind, repeated, says) in FIELDS.items()
        ],
    }
