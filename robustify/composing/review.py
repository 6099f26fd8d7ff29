"""Review of candidates by people: a sheet with one row per candidate, and the verdicts read back.

A verdict is `wrong` (a good distractor), `right too` (a second key), or `unclear`. If raters differ, the majority counts,
and without one the candidate is unclear. The author's own distractors need no review, because the author approved them.
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import numpy as np

from robustify.base.errors import DataError
from robustify.base.files import neutral, writable
from robustify.composing.pool import OWN, Pool
from robustify.composing.typography import same_form
from robustify.freeform.llm_judge.verdicts import majority_vote
from robustify.items.item import Item
from robustify.judging.stats.agreement import Agreement, agreement
from robustify.reading.jsonl import read_jsonl

VERDICTS = WRONG, RIGHT_TOO, UNCLEAR = ("wrong", "right too", "unclear")
_REASONS = {RIGHT_TOO: "right_too", UNCLEAR: "unclear"}
_SPELLED = {
    spelling: said for at, said in enumerate(VERDICTS, start=1) for spelling in (said, str(at), f"{at}.0")
}
Votes = Mapping[str, Mapping[str, str]]
"""Verdict by code of the candidate and rater."""


@dataclass(frozen=True, slots=True)
class Review:
    """Verdicts of people on the candidates of pools.

    `verdicts` holds the verdict that counts, by pool and candidate, or "" for a candidate that nobody reviewed. There is an
    agreement for each pair of `raters` with common candidates. `unmatched` counts candidates that no pool has.
    """

    verdicts: tuple[tuple[str, ...], ...]
    raters: tuple[str, ...]
    agreements: Mapping[tuple[str, str], Agreement]
    unmatched: int

    @property
    def reasons(self) -> list[list[str | None]]:
        """Why candidates are set aside, by pool: a person called them `right_too` or `unclear`."""
        return [list(map(_REASONS.get, some)) for some in self.verdicts]


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


def reviewed(pools: Sequence[Pool], votes: Votes) -> Review:
    """Apply votes to the candidates of pools, and measure how well each pair of raters agrees."""
    codes = [[code_of(pool.item, one.text) for one in pool.candidates] for pool in pools]
    place = {code: at for at, some in enumerate(codes) for code in some}
    raters = sorted({rater for by in votes.values() for rater in by})
    agreements = {}
    for first, second in combinations(raters, 2):
        both = [code for code in place if {first, second} <= votes.get(code, {}).keys()]
        if both:
            one, other = ([votes[code][rater] for code in both] for rater in (first, second))
            groups = np.array([place[code] for code in both])
            agreements[first, second] = agreement(one, other, VERDICTS, groups=groups)
    return Review(
        tuple(tuple(_settled(votes.get(code, {})) for code in some) for some in codes),
        tuple(raters), agreements, len(votes.keys() - place.keys()),
    )  # fmt: skip


def _settled(by: Mapping[str, str]) -> str:
    return (majority_vote(list(by.values())).verdict or UNCLEAR) if by else ""


def unreviewed(
    pools: Sequence[Pool], picks: Sequence[Sequence[int]], review: Review
) -> list[tuple[int, ...]]:
    """Return which of the picked candidates of each pool nobody reviewed, except an author's own."""
    return [
        tuple(j for j in some if pool.candidates[j].writer != OWN and not said[j])
        for pool, some, said in zip(pools, picks, review.verdicts, strict=True)
    ]


def review_sheet(pools: Sequence[Pool], which: Sequence[Sequence[int]], name: str) -> dict[str, Any]:
    """Return the candidates `which` of each pool for the page of a review, an entry per item. Writers are not shown,
    because they could sway a rater."""
    items, codes = list[dict[str, Any]](), list[str]()
    for pool, some in zip(pools, which, strict=True):
        own = [code_of(pool.item, one.text) if j in some else "" for j, one in enumerate(pool.candidates)]
        if some:
            about = {"id": pool.item.id, "stem": pool.item.stem, "choices": list(pool.texts), "key": 0}
            items.append({**about, "codes": ["", *own]})
            codes += own
    sheet = sha256("".join(codes).encode()).hexdigest()[:16]
    return {"name": name, "sheet": sheet, "verdicts": list(VERDICTS), "items": items}


def write_sheet(path: Path, sheet: Mapping[str, Any]) -> None:
    """Write a review sheet as CSV, with a row per candidate and empty columns for its verdict and rater."""
    rows = [["item", "question", "answer", "candidate", "verdict", "rater", "code", "options"]]
    for item in sheet["items"]:
        options = "; ".join(
            f"{letter}) {text}" for letter, text in zip(ascii_uppercase, item["choices"], strict=False)
        )
        for text, code in zip(item["choices"], item["codes"], strict=True):
            if code:
                rows.append([item["id"], item["stem"], item["choices"][0], text, "", "", code, options])
    with writable(path), path.open("w", encoding="utf-8", newline="", errors="surrogatepass") as file:
        csv.writer(file, lineterminator="\n").writerows(list(map(neutral, row)) for row in rows)
