"""The evidence on one item at a time: the rows of `evidence.jsonl`, and `robustify explain`.

Both hold words of the item and are made for public sets alone; the judge's part of them are codes and numbers. The
explorer prints the same lines.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from robustify.arrays import Floats
from robustify.baselines.words import KeyWords
from robustify.errors import AuthorisationError, DataError, UsageError
from robustify.item import Item
from robustify.judging.evidence import Evidence
from robustify.report.cue_sentences import LABELS, cue_sentence, mends
from robustify.report.format import AT_LIMIT, WHY_LIMIT, count, letter, likely, percent, plain, signed, spaced
from robustify.run import EVIDENCE, VERDICTS, Run, json_values, split_items
from robustify.screen.consensus import Verdict
from robustify.summary.screened import CueCode

Row = dict[str, Any]
_DIGITS = 4
LEAST_SHOWN = 0.05
"""What adds less to a logit is not listed."""
_LISTED, _WHOLE, _MOST_ALIKE = 3, 1000, 10
TEMPLATES = {
    "no_pick": "Without the question no option is preferred to all others.",
    "key": "Picked without the question: {option}, the key.",
    "not_key": "Picked without the question: {option}, not the key.",
    "by_place": "Picked without the question: {option}, which its place alone gives away.",
    "p_shortcut": "Probability that a shortcut gave it away: {p}.",
    "scorer": "The scorer, which sees options alone, gives its pick {weight}; of items with such a pick {posterior} "
    "are hits, without any shortcut {chance}.",
    "silent": "No single pick: {voters}.",
    "cues": "What carried the pick, as added to its logit:",
    "no_cue": "No cue speaks for it.",
    "features": "Single features, as added to it:",
    "alike": "Near-duplicates, or items of the same passage: {items}.",
    "alone": "No near-duplicate.",
    "cloze": "Can be asked without its options (cloze).",
    "no_cloze": "Cannot be asked without its options (cloze): {why}.",
    "mend": "Suggested mend:",
    "no_mend": "Nothing to mend.",
}
"""Sentences on an item."""
NO_CLOZE = {
    "cross_reference": "an option speaks of the others",
    "stem_refers_to_choices": "the question speaks of its options",
    "incomplete_stem": "the question is no whole sentence",
    "negative_stem": "the question asks for what is not so",
    "long_answer": "an option is too long",
    "empty_choice": "an option is empty",
    "repeated_key_text": "another option has the key's text",
    "labelled": "it is labelled so",
}


def evidence_rows(found: Evidence, verdicts: Sequence[Verdict], items: Sequence[Item]) -> Iterator[Row]:
    """One row an item, in the order asked.

    `votes`: the option that each voter picked without the question, null for none or several alike; `alike` the item
    that counts for its near-duplicates, absent where it is alone; `pick`: the option picked without the question,
    `weight` W, `chance` c, `posterior` h(W), `p_shortcut` of a hit, `voters` that picked the same option; `cues` are
    those named, the first first, with what each `adds` to the pick's logit and what it `says`; `adds` are all cues,
    `features` the surface features among them, `words` those that stand in keys more often, or less, than expected.
    """
    names, adds = list(found.features), _rounded(found.carried)
    features = _rounded(np.stack([found.features[name] for name in names], axis=1)) if names else None
    numbers = list(map(_rounded, (found.weight, found.chance, found.posterior, found.shortcut)))
    words = KeyWords(items, found.group) if "words" in found.cues else None
    pick, named, choice = found.pick.tolist(), found.named.tolist(), found.choice.tolist()
    group, sizes = found.group.tolist(), np.bincount(found.group).tolist()
    for at, verdict in enumerate(verdicts):
        row: Row = {"item": verdict.item, "verdict": verdict.verdict, "key": int(found.key[at])}
        row["votes"] = {
            voter: (own if own >= 0 else None) for voter, own in zip(found.voters, choice[at], strict=True)
        }
        if sizes[group[at]] > 1:
            row["alike"] = found.items[group[at]]
        row["pick"] = None
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
                    if abs(value) >= LEAST_SHOWN
                }
        yield row


def agreement_lines(found: Mapping[str, Any]) -> list[str]:
    """What `robustify.judging.audit.people.agreement_with_people` found, for a terminal."""

    def written(q: Mapping[str, Any]) -> str:
        ends = "" if q["ci"] is None else f", {q['ci'][0]:.2f} to {q['ci'][1]:.2f}"
        return "not defined" if q["value"] is None else f"{q['value']:.2f} (n = {count(q['n'])}{ends})"

    people, left = (
        found["people"],
        ", ".join(f"{spaced(why)} {n}" for why, n in found["left_out"].items() if n),
    )
    return [
        f"items that people call shortcuts: {percent(people['value'])} of {count(found['n'])}",
        *([f"left out: {left}"] if left else []),
        f"verdicts: kappa {written(found['verdict']['kappa'])}, the same word {written(found['verdict']['raw'])}",
        *(f"{spaced(name):16} AUROC {written(row['auroc'])}" for name, row in found["rankings"].items()),
        "A key that shows without its question is not always a flaw: solvers infer questions. Hence two kinds of cues.",
    ]


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


def pick_sentence(row: Row) -> str:
    """The name of the template that says what was picked without the question."""
    if row["pick"] is None:
        return "no_pick"
    # Rows of verdicts.csv have no key; a hit is there what has a probability of a shortcut.
    hit = row["pick"] == row["key"] if "key" in row else row["p_shortcut"] is not None
    if not hit and row["posterior"] is None:
        return "by_place"
    return "key" if hit else "not_key"


def carried(row: Row) -> list[tuple[CueCode, float | None, str]]:
    """The cues of an item with what each adds and says: those that are named, then all others that are listed."""
    named = {cue["cue"]: cue for cue in row.get("cues", ())}
    others = {cue: adds for cue, adds in row.get("adds", {}).items() if abs(adds) >= LEAST_SHOWN}
    return [(code, cue.get("adds"), cue.get("says", "")) for code, cue in named.items()] + [
        (code, adds, "")
        for code, adds in sorted(others.items(), key=lambda one: -one[1])
        if code not in named
    ]


def with_item(
    row: Row, item: Item, reason: str, alike: Sequence[str], cloze_excluded: Mapping[str, str]
) -> Row:
    """Return an item's row with its text, and with its mends by the cues that are named for its key."""
    cues = [cue["cue"] for cue in row.get("cues", ())] if row["pick"] == row["key"] else []
    why = cloze_excluded.get(item.id)
    return row | {
        "topic": item.topic, "reason": reason, "alike": [name for name in alike if name != item.id],
        "stem": item.stem, "choices": list(item.choices), "cloze_excluded": why,
        "mends": list(mends(row["verdict"], reason, cues, item.choices, item.key, cloze=why is None)),
    }  # fmt: skip


def explained(run: Run, name: str) -> tuple[Row, list[str]]:
    """The evidence on one item of a public run, with its text: as a tree for JSON, and as lines for a terminal.

    `name`: an item's id, or the beginning of exactly one.

    Raises:
        AuthorisationError: a restricted run.
        UsageError: no item of this name, or several.
        DataError: a run without evidence, or a file that is not as the run left it.
    """
    rows = evidence_of(run)
    run.require_unchanged(VERDICTS)
    row = _found(run, rows, name)
    cells = next(c for c in run.verdict_rows() if c["item"] == row["item"])
    row |= {"topic": cells["topic"], "reason": cells["reason"]}
    group = row.pop("alike", None)
    alike = [r["item"] for r in rows if r.get("alike") == group] if group else []
    split = f"{row['verdict']}.jsonl"
    if split in run.manifest["files"]:
        run.require_unchanged(split)
        item = next((i for i in split_items(run.folder / split) if i.id == row["item"]), None)
        if item is not None:
            why = {item.id: cells["cloze_excluded"]} if cells["cloze_excluded"] else {}
            row = with_item(row, item, cells["reason"], alike, why)
    return row, list(_lines(row))


def evidence_of(run: Run) -> list[Row]:
    """The rows of `evidence_rows` that a public run holds; in short where it holds no text of its items.

    Raises:
        AuthorisationError: a restricted run.
        DataError: a run without evidence, or a file that is not as the run left it.
    """
    if run.restricted:
        raise AuthorisationError(f"{run.folder}: is a restricted run, which holds nothing of a single item")
    source = EVIDENCE if EVIDENCE in run.manifest["files"] else VERDICTS
    run.require_unchanged(source)
    return list(json_values(run.folder / EVIDENCE) if source == EVIDENCE else _short_rows(run))


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
    yield f"{plain(row['item'])}: {row['verdict']} ({row['reason']})"
    if row["topic"]:
        yield f"Topic: {plain(row['topic'])}"
    if "stem" in row:
        yield f"  {plain(row['stem'], _WHOLE)}"
    for place, choice in enumerate(row.get("choices", ())):
        by = [plain(voter) for voter, own in row["votes"].items() if own == place]
        marks = [*(word for word, at in (("key", row["key"]), ("scorer", row["pick"])) if at == place), *by]
        yield f"  {letter(place)}  {plain(choice, _WHOLE)}{'  <- ' + ', '.join(marks) if marks else ''}"
    yield from said_of(row)
    if "mends" in row:
        yield TEMPLATES["mend"] if row["mends"] else TEMPLATES["no_mend"]
        yield from (f"  {mend}" for mend in row["mends"])


def said_of(row: Row) -> Iterator[str]:
    """Yield what is known of an item beside its text and its mends; an entry of a list begins with two spaces."""
    silent = [plain(voter) for voter, own in row.get("votes", {}).items() if own is None]
    if silent:
        yield _filled("silent", voters=", ".join(silent))
    yield from _of_pick(row)
    if "stem" in row:
        yield from _of_item(row)


def _of_pick(row: Row) -> Iterator[str]:
    pick = row["pick"]
    yield _filled(pick_sentence(row), option="" if pick is None else letter(pick))
    if pick is None:
        return
    if row["p_shortcut"] is not None:
        p = likely(row["p_shortcut"])
        yield _filled("p_shortcut", p=f"{p}, {WHY_LIMIT}" if p == AT_LIMIT else p)
    if row["posterior"] is not None:
        yield _filled("scorer", **{n: percent(row[n]) for n in ("weight", "posterior", "chance")})
    if "votes" not in row:
        yield f"The same option was picked by: {', '.join(map(plain, row['voters'])) or 'none of the voters'}."
    cues = carried(row)
    yield TEMPLATES["cues" if cues else "no_cue"]
    for code, adds, says in cues:
        yield f"{'' if adds is None else f'  {_signed(adds)}'}  {LABELS.get(code, spaced(code))}{': ' * bool(says)}{says}"
    features = sorted(row.get("features", {}).items(), key=lambda one: -one[1])
    if features:
        yield TEMPLATES["features"]
        yield from (f"  {_signed(adds)}  {spaced(name)}" for name, adds in features)


def _of_item(row: Row) -> Iterator[str]:
    alike = row.get("alike", [])
    more = [f"{count(len(alike) - _MOST_ALIKE)} more"] if len(alike) > _MOST_ALIKE else []
    names = ", ".join([*map(plain, alike[:_MOST_ALIKE]), *more])
    yield _filled("alike", items=names) if alike else TEMPLATES["alone"]
    why = row["cloze_excluded"]
    yield TEMPLATES["cloze"] if why is None else _filled("no_cloze", why=NO_CLOZE.get(why, spaced(why)))


def _filled(name: str, **words: str) -> str:
    return TEMPLATES[name].format(**words)


def _signed(x: float) -> str:
    return f"{'+' if x > 0 else ''}{signed(x, 2)}"
