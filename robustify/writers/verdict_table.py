"""`verdicts.csv`: the verdict on each item, and the evidence in short.

A million rows have few distinct cells beside their ids, so that each distinct cell is written as text once.
"""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path

import numpy as np

from robustify.arrays import Floats
from robustify.files import neutral, write_texts
from robustify.judge.evidence import Evidence
from robustify.screen.consensus import Verdicts

_HEAD = ("item", "topic", "verdict", "votes", "of", "reason", "cloze_excluded")
_EVIDENCE = ("pick", "weight", "chance", "posterior", "p_shortcut", "picked_by", "cue")
_PLACES, _NEAR_HALF = 4, 1e-6
_PLAIN = re.compile(r"(?:[A-Za-z0-9_][-A-Za-z0-9_./:#|]*\n)*")
_SPECIAL = re.compile(r'[",\r\n]')


def write_verdicts(
    path: Path,
    verdicts: Verdicts,
    cloze_excluded: Mapping[str, str],
    topics: Mapping[str, str],
    evidence: Evidence | None = None,
) -> None:
    """`verdicts.csv`: one row an item, in the order asked; names that look like formulas are quoted (`cells`).

    The columns from `pick` on are the `evidence`, empty where there is none.
    """
    kinds = np.array([_row(map(str, kind)) for kind in verdicts.kinds], dtype=object)
    columns: list[Iterable[str]] = [
        _names(verdicts.items),
        _each(map(topics.get, verdicts.items, repeat("")), _name),
        kinds[verdicts.which].tolist() if len(kinds) else (),
        _each(map(cloze_excluded.get, verdicts.items, repeat("")), _cell),
    ]
    if evidence is None:
        columns.append(repeat("," * (len(_EVIDENCE) - 1)))
    else:
        columns += _evidence_cells(evidence)
    write_texts(path, _lines(_row((*_HEAD, *_EVIDENCE)), columns))


def _lines(head: str, columns: Sequence[Iterable[str]]) -> Iterator[str]:
    yield head + "\n"
    # The first column ends the rows: the evidence may be cells without end.
    yield from (",".join(cells) + "\n" for cells in zip(*columns, strict=False))


def _each(texts: Iterable[str], written: Callable[[str], str]) -> Iterator[str]:
    """Each text as it is written, every distinct one once."""
    known: dict[str, str] = {}
    for text in texts:
        cell = known.get(text)
        yield known.setdefault(text, written(text)) if cell is None else cell


def _names(items: Sequence[str]) -> Iterable[str]:
    # Ids are a million different cells, of which hardly any needs quotes.
    lines = "".join(f"{item}\n" for item in items)
    plain = _PLAIN.fullmatch(lines) and lines.count("\n") == len(items)
    return items if plain else map(_name, items)


def _name(text: str) -> str:
    return _cell(neutral(text))


def _cell(text: str) -> str:
    """A cell as `csv` writes it."""
    return _row((text,)) if _SPECIAL.search(text) else text


def _row(cells: Iterable[str]) -> str:
    out = io.StringIO()
    # Without a line end here, Python 3.11 leaves one inside a cell unquoted.
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()[:-1]


def _evidence_cells(found: Evidence) -> list[Iterable[str]]:
    """Of each item: option picked, W, c, h(W), P(shortcut | hit), the voters that picked it, the cue named first."""
    options = ["", *map(str, range(int(found.pick.max(initial=0)) + 1))]
    by = np.array([_name("; ".join(voters)) for voters in found.voter_sets], dtype=object)
    return [
        np.array(options, dtype=object)[np.maximum(found.pick, -1) + 1].tolist(),
        *map(_numbers, (found.weight, found.chance, found.posterior, found.shortcut)),
        by[found.voter_set].tolist(),
        found.leading,
    ]


def _numbers(values: Floats) -> list[str]:
    """Each of `values` (n,) in [0, 1] as `f"{x:.4f}"` writes it; nothing for NaN."""
    steps = 10**_PLACES
    written = np.array([f"{i / steps:.{_PLACES}f}" for i in range(steps + 1)] + [""], dtype=object)
    there = ~np.isnan(values)
    at = np.where(there, values, 0.0) * steps
    nearest = np.rint(at)
    cells = written[np.where(there, np.clip(nearest, 0, steps), steps + 1).astype(np.int64)]
    # Near the middle of two steps the product may have been rounded across it.
    close = (np.abs(np.abs(at - nearest) - 0.5) < _NEAR_HALF) | (at < 0) | (at > steps)
    odd = np.flatnonzero(there & close)
    cells[odd] = [f"{x:.{_PLACES}f}" for x in values[odd].tolist()]
    return list(cells)
