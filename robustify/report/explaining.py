"""The evidence on one item at a time: the rows of `evidence.jsonl`, and `robustify explain`.

Both hold words of the item and are made for public sets alone; the judge's part of them are codes and numbers.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from robustify.arrays import Floats
from robustify.baselines.key_words import KeyWords
from robustify.errors import AuthorisationError, DataError, UsageError
from robustify.item import Item
from robustify.judge.evidence import Evidence
from robustify.report.cues import LABELS, cue_sentence
from robustify.report.format import percent, plain, signed
from robustify.run import EVIDENCE, Run, read_items
from robustify.screen.consensus import Verdict

Row = dict[str, Any]
_DIGITS = 4
_LEAST_FEATURE = 0.05
"""A feature that adds less to a logit is not listed."""
_LISTED, _WHOLE = 3, 1000


def evidence_rows(
    found: Evidence, verdicts: Sequence[Verdict], items: Sequence[Item] | None
) -> Iterator[Row]:
    """One row an item, in the order asked; without `items` (their text is not known) no sentence and no word.

    `pick`: the option picked without the question, `weight` W, `chance` c, `posterior` h(W), `p_shortcut` of a hit,
    `voters` that picked the same option; `cues` are those named, the first first, with what each `adds` to the pick's
    logit and what it `says`; `adds` are all cues, `features` the surface features among them, `words` those that
    stand in keys more often, or less, than expected.
    """
    names, adds = list(found.features), _rounded(found.carried)
    features = _rounded(np.stack([found.features[name] for name in names], axis=1)) if names else None
    numbers = list(map(_rounded, (found.weight, found.chance, found.posterior, found.shortcut)))
    words = KeyWords(items, found.group) if items is not None and "words" in found.cues else None
    pick, named = found.pick.tolist(), found.named.tolist()
    for at, verdict in enumerate(verdicts):
        row: Row = {"item": verdict.item, "verdict": verdict.verdict, "key": int(found.key[at]), "pick": None}
        if pick[at] >= 0:
            row["pick"] = pick[at]
            row |= zip(("weight", "chance", "posterior", "p_shortcut"), (x[at] for x in numbers), strict=True)
            row["voters"] = found.voters_of(at)
            row["cues"] = [{"cue": found.cues[c], "adds": adds[at][c]} for c in named[at] if c >= 0]
            row["adds"] = dict(zip(found.cues, adds[at], strict=True))
            if features is not None:
                row["features"] = {
                    name: value
                    for name, value in zip(names, features[at], strict=True)
                    if abs(value) >= _LEAST_FEATURE
                }
            if items is not None:
                row |= _in_words(row, at, items[at], words)
        yield row


def _in_words(row: Row, at: int, item: Item, words: KeyWords | None) -> Row:
    """The row's cues with what each says, and the words behind it."""
    by_words = words is not None and any(cue["cue"] == "words" for cue in row["cues"])
    uses = words.of(at, row["pick"])[:_LISTED] if by_words and words is not None else ()
    is_key = row["pick"] == row["key"]
    cues = [
        {**cue, "says": cue_sentence(cue["cue"], item.choices, row["pick"], is_key=is_key, uses=uses)}
        for cue in row["cues"]
    ]
    return {"cues": cues, **({"words": list(map(asdict, uses))} if uses else {})}


def _rounded(values: Floats) -> list[Any]:
    """Numbers as they are written; None where there is none."""
    out = np.round(values, _DIGITS).astype(object)
    out[np.isnan(values)] = None
    return out.tolist()  # type: ignore[no-any-return]


def explained(run: Run, name: str) -> tuple[Row, list[str]]:
    """The evidence on one item of a public run, with its text: as a tree for JSON, and as lines for a terminal.

    `name`: an item's id, or the beginning of exactly one.

    Raises:
        AuthorisationError: a restricted run.
        UsageError: no item of this name, or several.
        DataError: a run without evidence, or a file that is not as the run left it.
    """
    if run.restricted:
        raise AuthorisationError(f"{run.folder}: is a restricted run, which holds nothing of a single item")
    if EVIDENCE not in run.manifest["files"]:
        raise DataError(
            f"{run.folder}: holds no {EVIDENCE}; expected a run of this version (run `robustify judge {run.folder}`)"
        )
    run.require_unchanged(EVIDENCE)
    row = _found(run, name)
    split = f"{row['verdict']}.jsonl"
    if split in run.manifest["files"]:
        run.require_unchanged(split)
        item = next((i for i in read_items(run.folder / split) if i.id == row["item"]), None)
        if item is not None:
            row |= {"topic": item.topic, "stem": item.stem, "choices": list(item.choices)}
    return row, list(_lines(row))


def _found(run: Run, name: str) -> Row:
    lines = (run.folder / EVIDENCE).read_text(encoding="utf-8", errors="surrogatepass").split("\n")
    rows: list[Row] = [json.loads(line) for line in lines if line]
    found = [row for row in rows if row["item"] == name] or [
        row for row in rows if name and row["item"].startswith(name)
    ]
    if len(found) == 1:
        return found[0]
    what = f"{len(found)} items whose id begins so" if found else "no item of this id"
    raise UsageError(
        f"{run.folder}: {what}; expected an id as in verdicts.csv, or the beginning of one alone"
    )


def _lines(row: Row) -> Iterator[str]:
    key, pick = row["key"], row["pick"]
    yield f"{plain(row['item'])}: {row['verdict']}"
    if "stem" in row:
        yield f"  {plain(row['stem'], _WHOLE)}"
    for place, choice in enumerate(row.get("choices", ())):
        marks = [word for word, at in (("key", key), ("picked", pick)) if at == place]
        yield f"  {place}  {plain(choice, _WHOLE)}{'  <- ' + ', '.join(marks) if marks else ''}"
    if pick is None:
        yield "Without the question no option is preferred to all others."
        return
    hit = row["p_shortcut"] is not None
    yield f"Picked without the question: option {pick} (counted from 0), {'the key' if hit else 'not the key'}."
    if hit:
        yield f"Probability that a shortcut gave it away: {percent(row['p_shortcut'])}."
    yield (
        f"The scorer gives its pick {percent(row['weight'])}; of items with such a pick {percent(row['posterior'])} "
        f"are hits, without any shortcut {percent(row['chance'])}."
    )
    voters = ", ".join(map(plain, row["voters"])) or "none of the voters"
    yield f"The same option was picked by: {voters}."
    yield "What carried it, as added to its logit:" if row["cues"] else "No cue speaks for it."
    for cue in row["cues"]:
        yield f"  {_signed(cue['adds'])}  {LABELS[cue['cue']]}{': ' + cue['says'] if 'says' in cue else ''}"
    against = [(adds, cue) for cue, adds in row["adds"].items() if adds <= -_LEAST_FEATURE]
    for adds, cue in sorted(against)[:_LISTED]:
        yield f"  {_signed(adds)}  {LABELS[cue]}, against it"


def _signed(x: float) -> str:
    return f"{'+' if x > 0 else ''}{signed(x, 2)}"
