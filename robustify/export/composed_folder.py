"""Folder of a composed set: the set, its page and numbers, and the requests for candidates that its pools lack."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from robustify.base.errors import DataError
from robustify.base.files import QUOTED, neutral, write_json, write_text
from robustify.composing.composed import Composed
from robustify.composing.pool import set_aside
from robustify.composing.proof import Finder
from robustify.composing.review import review_sheet
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
            cells = [[*map(str, {**row, "form": "; ".join(row["form"])}.values()), ""] for row in rows]
            wanted = (one for row, one in zip(rows, cells, strict=True) for _ in range(row["wanted"]))
            _write_csv(place / "requests.csv", [[*rows[0], QUOTED], *wanted])
    return files_of(folder)


def write_sheet(path: Path, sheet: Mapping[str, Any]) -> None:
    """Write a review sheet as CSV, with a row per candidate and empty columns for its verdict and rater."""
    rows = [["item", "question", "answer", "candidate", "verdict", "rater", "code", "options"]]
    for item in sheet["items"]:
        lettered = zip(ascii_uppercase, item["choices"], strict=False)
        options = "; ".join(f"{letter}) {text}" for letter, text in lettered)
        for text, code in zip(item["choices"], item["codes"], strict=True):
            if code:
                rows.append([item["id"], item["stem"], item["choices"][0], text, "", "", code, options])
    _write_csv(path, rows)


def _write_csv(path: Path, rows: Iterable[Sequence[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="", errors="surrogatepass") as file:
        csv.writer(file, lineterminator="\n").writerows(list(map(neutral, row)) for row in rows)


def composed_tree(found: Composed) -> dict[str, Any]:
    """Return the numbers of a composed set as a JSON object, without text."""
    proof, marked = found.proof, found.unreviewed
    return {
        "n_items": len(found.items),
        "left_as_they_were": [found.items[at].id for at in found.stays],
        "retyped": [found.items[at].id for at in found.retyped],
        "writers": found.writers,
        "set_aside": set_aside(found.pools),
        "unreviewed": {"candidates": sum(map(len, marked)), "items": sum(map(bool, marked))},
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
        texts = {one.text for one in some}
        lettered = zip(ascii_uppercase, item.choices, strict=False)
        marks[item.id] = ", ".join(letter for letter, text in lettered if text in texts)
    return {name: letters for name, letters in marks.items() if letters}


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
