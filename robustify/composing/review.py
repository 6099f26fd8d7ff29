"""Review of candidates by people: a sheet with one row per candidate, and the verdicts read back.

If raters differ, the majority counts, and without one the candidate is unclear. The author's own distractors need no
review, because the author approved them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from robustify.base.errors import DataError
from robustify.composing.pool import UNCLEAR, VERDICTS, Candidate, Pool
from robustify.composing.typography import same_form
from robustify.freeform.llm_judge.verdicts import majority_vote
from robustify.items.item import Item
from robustify.judging.stats.intervals import Agreement, agreement
from robustify.reading.jsonl import read_jsonl

_SPELLED = {
    spelling: said for at, said in enumerate(VERDICTS, start=1) for spelling in (said, str(at), f"{at}.0")
}
Votes = Mapping[str, Mapping[str, str]]
"""Verdict by code of the candidate and rater."""


@dataclass(frozen=True, slots=True)
class Review:
    """What people said. `verdicts` counts candidates by the verdict that counts. There is an agreement for each pair of
    `raters` with common candidates. `unmatched` counts candidates that no pool has."""

    verdicts: Mapping[str, int]
    raters: tuple[str, ...]
    agreements: Mapping[tuple[str, str], Agreement]
    unmatched: int


def code_of(item: Item, text: str) -> str:
    """Return the code of a candidate, which its verdicts carry. It depends neither on typography nor on the pool."""
    named = f"{item.id}\0{same_form(text)}".encode("utf-8", "surrogatepass")
    return f"c{sha256(named).hexdigest()[:15]}"


def read_votes(paths: Iterable[Path]) -> Votes:
    """Read verdicts from CSV or JSON Lines files with `code`, `verdict`, and an optional `rater`, by default the name of
    the file. Rows without a verdict are skipped. Raise `DataError` if rows have no code or another verdict."""
    votes: dict[str, dict[str, str]] = {}
    for path in paths:
        for code, rater, verdict in read_jsonl(path, partial(_vote, path.stem)):
            if verdict:
                votes.setdefault(code, {})[rater] = verdict
    return votes


def _vote(name: str, cells: Mapping[str, Any]) -> tuple[str, str, str]:
    code, said, rater = (str(cells.get(part) or "").strip() for part in ("code", "verdict", "rater"))
    spelled = " ".join(said.casefold().replace("_", " ").split())
    if not code or (spelled and spelled not in _SPELLED):
        expected = ", ".join(f"{at} ({one})" for at, one in enumerate(VERDICTS, start=1))
        raise DataError(f"has {'an unknown verdict' if code else 'no code'}; expected a code and {expected}")
    return code, rater or name, _SPELLED.get(spelled, "")


def reviewed(pools: Sequence[Pool], votes: Votes) -> tuple[tuple[Pool, ...], Review]:
    """Return pools whose candidates have the verdicts of people, and how well each pair of raters agrees."""
    place = {code_of(pool.item, one.text): at for at, pool in enumerate(pools) for one in pool.candidates}
    known = {code: votes[code] for code in place if votes.get(code)}
    raters = sorted({rater for by in votes.values() for rater in by})
    agreements = {}
    for pair in combinations(raters, 2):
        if both := [code for code, by in known.items() if by.keys() >= {*pair}]:
            one, other = ([known[code][rater] for code in both] for rater in pair)
            groups = np.array([place[code] for code in both])
            agreements[pair] = agreement(one, other, VERDICTS, groups=groups)
    said = {code: majority_vote([*by.values()]).verdict or UNCLEAR for code, by in known.items()}
    made = []
    for pool in pools:
        marked = (replace(c, verdict=said.get(code_of(pool.item, c.text), "")) for c in pool.candidates)
        made.append(replace(pool, candidates=tuple(marked)))
    unmatched = len(votes.keys() - place.keys())
    return tuple(made), Review(Counter(said.values()), tuple(raters), agreements, unmatched)


def review_sheet(pools: Sequence[Pool], which: Sequence[Sequence[Candidate]], name: str) -> dict[str, Any]:
    """Return the candidates `which` of each pool for the page of a review, an entry per item. Writers are not shown,
    because they could sway a rater."""
    items, codes = list[dict[str, Any]](), list[str]()
    for pool, some in zip(pools, which, strict=True):
        if some:
            own = [code_of(pool.item, one.text) if one in some else "" for one in pool.candidates]
            about = {"id": pool.item.id, "stem": pool.item.stem, "choices": list(pool.texts), "key": 0}
            items.append({**about, "codes": ["", *own]})
            codes += own
    sheet = sha256("".join(codes).encode()).hexdigest()[:16]
    return {"name": name, "sheet": sheet, "verdicts": list(VERDICTS), "items": items}
