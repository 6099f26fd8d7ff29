"""Folder of a composed set: the set, its page and numbers, and the requests for candidates that its pools lack."""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from robustify.base.errors import DataError
from robustify.base.files import QUOTED, neutral, write_json, write_text
from robustify.composing.composed import Composed
from robustify.composing.pool import set_aside
from robustify.composing.proof import Finder
from robustify.composing.review import review_sheet, write_sheet
from robustify.export.mending import write_set
from robustify.export.writing import files_of, staged
from robustify.judging.summary.scored import LeftToFind
from robustify.report.composed_page import composed_html
from robustify.report.explorer import page
from robustify.runs.run import write_lines


def write_composed(found: Composed, folder: Path, name: str, *, as_csv: bool) -> list[Path]:
    """Write a composed set into a new or empty folder, as JSON Lines, or as CSV if it would change no item. Return the
    paths of the files. Raise `UsageError` if the folder is not empty, and `ResourceError` if a file cannot be written.
    """
    with staged(folder) as place:
        try:
            write_set(found.items, place / ("composed.csv" if as_csv else "composed.jsonl"), _marks(found))
        except DataError:
            write_set(found.items, place / "composed.jsonl", _marks(found))
        write_json(place / "composed.json", composed_tree(found))
        write_text(place / "report.html", composed_html(found, name))
        if any(found.unreviewed):
            sheet = review_sheet(found.pools, found.unreviewed, name)
            write_sheet(place / "review.csv", sheet)
            write_text(place / "review.html", page(sheet, "review"))
        if found.requests:
            rows = list(_requests(found))
            write_lines(place / "requests.jsonl", rows)
            with (place / "requests.csv").open(
                "w", encoding="utf-8", newline="", errors="surrogatepass"
            ) as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow([*rows[0], QUOTED])
                for row in rows:
                    cells = [
                        "; ".join(cell) if isinstance(cell, tuple) else str(cell) for cell in row.values()
                    ]
                    writer.writerows([[*map(neutral, cells), ""]] * int(row["wanted"]))
    return files_of(folder)


def composed_tree(found: Composed) -> dict[str, Any]:
    """Return the numbers of a composed set as a JSON object, without text."""
    proof = found.proof
    return {
        "n_items": len(found.items),
        "left_as_they_were": [found.items[at].id for at in found.stays],
        "retyped": [found.items[at].id for at in found.retyped],
        "writers": found.writers,
        "set_aside": set_aside(found.pools),
        "unreviewed": {
            "candidates": sum(map(len, found.unreviewed)),
            "items": sum(map(bool, found.unreviewed)),
        },
        "consulted": found.consulted and found.consulted.tree(),
        "proof": {
            "hidden": proof.hidden,
            "plausible": proof.plausible,
            "worst": proof.worst and proof.worst.name,
            "auditors": {one.name: _numbers(one) for one in proof.auditors},
            "readers": {one.name: _numbers(one) for one in proof.readers},
        },
        "least": dict(found.composition.least),
        "bounds": [asdict(one) for one in found.bounds],
        "requests": len(found.requests),
        "rounds": [_gains(probes) for probes in found.composition.trace],
    }


def _marks(found: Composed) -> dict[str, str]:
    """Return the letters of the options that nobody reviewed, by item."""
    marks = {}
    for item, some in zip(found.items, found.unreviewed, strict=True):
        if texts := {one.text for one in some}:
            letters = zip(ascii_uppercase, item.choices, strict=False)
            marks[item.id] = ", ".join(letter for letter, text in letters if text in texts)
    return marks


def _gains(found: Mapping[str, LeftToFind]) -> dict[str, Any]:
    return {name: gain.model_dump(exclude={"kind", "before"}) for name, gain in found.items()}


def _numbers(one: Finder) -> dict[str, Any]:
    changes = {f"since_{version}": change.json() for version, change in one.change.items()}
    return {"took_part": not one.independent, "gain": _gains(one.gain), **changes}


def _requests(found: Composed) -> Iterator[dict[str, Any]]:
    """Yield a row for each request. Its `candidate` is empty, for a person or a writer to fill."""
    for one in found.requests:
        item = found.pools[one.at].item
        yield {
            "id": item.id, "question": item.stem, "key": item.choices[item.key], "wanted": one.n, "form": one.form,
            "candidate": "",
        }  # fmt: skip
