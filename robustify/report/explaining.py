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
from robustify.report.cue_sentences import LABELS, cue_sentence
from robustify.report.format import percent, plain, signed
from robustify.run import EVIDENCE, VERDICTS, Run, read_items
from robustify.screen.consensus import Verdict
from robustify.summary.screened import CueCode

Row = dict[str, Any]
_DIGITS = 4
_LEAST_FEATURE = 0.05
"""A feature that adds less to a logit is not listed."""
_LISTED, _WHOLE = 3, 1000


def evidence_rows(found: Evidence, verdicts: Sequence[Verdict], items: Sequence[Item]) -> Iterator[Row]:
    """One row an item, in the order asked.

    `pick`: the option picked without the question, `weight` W, `chance` c, `posterior` h(W), `p_shortcut` of a hit,
    `voters` that picked the same option; `cues` are those named, the first first, with what each `adds` to the pick's
    logit and what it `says`; `adds` are all cues, `features` the surface features among them, `words` those that
    stand in keys more often, or less, than expected.
    """
    names, adds = list(found.features), _rounded(found.carried)
    features = _rounded(np.stack([found.features[name] for name in names], axis=1)) if names else None
    numbers = list(map(_rounded, (found.weight, found.chance, found.posterior, found.shortcut)))
    words = KeyWords(items, found.group) if "words" in found.cues else None
    pick, named = found.pick.tolist(), found.named.tolist()
    for at, verdict in enumerate(verdicts):
        row: Row = {"item": verdict.item, "verdict": verdict.verdict, "key": int(found.key[at]), "pick": None}
        if pick[at] >= 0:
            row["pick"] = pick[at]
            row |= zip(("weight", "chance", "posterior", "p_shortcut"), (x[at] for x in numbers), strict=True)
            row["voters"] = found.picked_by[at]
            row |= _in_words(
                [(found.cues[c], adds[at][c]) for c in named[at] if c >= 0], row, at, items[at], words
            )
            row["adds"] = {cue: value for cue, value in zip(found.cues, adds[at], strict=True) if value}
            if features is not None:
                row["features"] = {
                    name: value
                    for name, value in zip(names, features[at], strict=True)
                    if abs(value) >= _LEAST_FEATURE
                }
        yield row


def _in_words(
    cues: Sequence[tuple[CueCode, float]], row: Row, at: int, item: Item, words: KeyWords | None
) -> Row:
    """The cues with what each adds and says, and the words behind them."""
    pick, by_words = row["pick"], any(cue == "words" for cue, _ in cues)
    uses = words.of(at, pick)[:_LISTED] if words is not None and by_words else ()
    is_key = pick == row["key"]
    said = [
        {"cue": cue, "adds": adds, "says": cue_sentence(cue, item.choices, pick, is_key=is_key, uses=uses)}
        for cue, adds in cues
    ]
    return {"cues": said, **({"words": list(map(asdict, uses))} if uses else {})}


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
    source = EVIDENCE if EVIDENCE in run.manifest["files"] else VERDICTS
    run.require_unchanged(source)
    row = _found(run, list(_rows(run)) if source == EVIDENCE else list(_short_rows(run)), name)
    split = f"{row['verdict']}.jsonl"
    if split in run.manifest["files"]:
        run.require_unchanged(split)
        item = next((i for i in read_items(run.folder / split) if i.id == row["item"]), None)
        if item is not None:
            row |= {"topic": item.topic, "stem": item.stem, "choices": list(item.choices)}
    return row, list(_lines(row))


def _rows(run: Run) -> Iterator[Row]:
    for line in (run.folder / EVIDENCE).read_text(encoding="utf-8", errors="surrogatepass").split("\n"):
        if line:
            yield json.loads(line)


def _short_rows(run: Run) -> Iterator[Row]:
    """The evidence in short of a run that holds no text of its items."""
    for cells in run.verdict_rows():
        if "pick" not in cells:
            raise DataError(
                f"{run.folder}: holds no evidence; expected a run of this version (run `robustify judge {run.folder}`)"
            )
        row: Row = {"item": cells["item"], "verdict": cells["verdict"], "pick": None}
        if cells["pick"]:
            numbers = ("weight", "chance", "posterior", "p_shortcut")
            row |= {"pick": int(cells["pick"]), **{n: float(cells[n]) if cells[n] else None for n in numbers}}
            row["voters"] = [v for v in cells["picked_by"].split("; ") if v]
            row["cues"] = [{"cue": cells["cue"]}] if cells["cue"] != "none" else []
        yield row


def _found(run: Run, rows: Sequence[Row], name: str) -> Row:
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
    key, pick = row.get("key"), row["pick"]
    yield f"{plain(row['item'])}: {row['verdict']}"
    if "stem" in row:
        yield f"  {plain(row['stem'], _WHOLE)}"
    for place, choice in enumerate(row.get("choices", ())):
        marks = [word for word, at in (("key", key), ("picked", pick)) if at == place]
        yield f"  {place}  {plain(choice, _WHOLE)}{'  <- ' + ', '.join(marks) if marks else ''}"
    if pick is None:
        yield "Without the question no option is preferred to all others."
        return
    yield f"Picked without the question: option {pick} (counted from 0), {_whether(row)}."
    if row["p_shortcut"] is not None:
        yield f"Probability that a shortcut gave it away: {percent(row['p_shortcut'])}."
    if row["posterior"] is not None:
        yield (
            f"The scorer gives its pick {percent(row['weight'])}; of items with such a pick {percent(row['posterior'])} "
            f"are hits, without any shortcut {percent(row['chance'])}."
        )
    voters = ", ".join(map(plain, row["voters"])) or "none of the voters"
    yield f"The same option was picked by: {voters}."
    yield "What carried it, as added to its logit:" if row["cues"] else "No cue speaks for it."
    for cue in row["cues"]:
        adds = f"  {_signed(cue['adds'])}" if "adds" in cue else ""
        yield f"{adds}  {LABELS[cue['cue']]}{': ' + cue['says'] if 'says' in cue else ''}"
    against = [(adds, cue) for cue, adds in row.get("adds", {}).items() if adds <= -_LEAST_FEATURE]
    for adds, cue in sorted(against)[:_LISTED]:
        yield f"  {_signed(adds)}  {LABELS[cue]}, against it"


def _whether(row: Row) -> str:
    # Rows of verdicts.csv have no key; a hit is there what has a probability of a shortcut.
    hit = row["pick"] == row["key"] if "key" in row else row["p_shortcut"] is not None
    if not hit and row["posterior"] is None:
        return "which its place alone gives away"
    return "the key" if hit else "not the key"


def _signed(x: float) -> str:
    return f"{'+' if x > 0 else ''}{signed(x, 2)}"
