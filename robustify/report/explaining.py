"""Evidence for individual items of public runs: `evidence.jsonl`, `robustify explain`, and the lines of the explorer.

Sentences about cues and suggested edits describe the options of an item, and are true whatever model was fitted.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from robustify.base.arrays import Floats
from robustify.base.errors import AuthorisationError, DataError, UsageError
from robustify.items.item import Item
from robustify.judging.baselines.wording import FUNCTION_WORDS, words_of
from robustify.judging.baselines.words import KeyWords, WordUse
from robustify.judging.evidence import TRAITS, ItemEvidence, averages
from robustify.judging.lint.rules import FIXES, clearest_cue
from robustify.judging.screen.consensus import Verdict
from robustify.judging.summary.screen_parts import CueCode
from robustify.report.format import counted, plain
from robustify.report.printing import catalogue, cue_words, markdown
from robustify.runs.run import EVIDENCE, VERDICTS, Run
from robustify.runs.stored import split_items

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

Row = dict[str, Any]
_DIGITS = 4
LEAST_SHOWN = 0.05
"""Smallest contribution to a logit that is listed."""
_LISTED = 3


def evidence_rows(
    evidence: ItemEvidence, verdicts: Iterable[Verdict], items: Sequence[Item]
) -> Iterator[Row]:
    """Yield one row of `evidence.jsonl` per item, in the order of the run. The fields are described in docs/files.md."""
    ranking, votes, table = evidence.ranking, evidence.votes, evidence.table
    # The words come first, because finding them takes as much memory as all that follows.
    words = KeyWords(items, ranking.group) if "words" in evidence.cues else None
    adds, features = _rounded(evidence.carried), {name: _rounded(x) for name, x in evidence.features.items()}
    shares = {
        name: _rounded(getattr(table, name)) for name in ("p_pick", "chance", "posterior", "p_shortcut")
    }
    p_key = _rounded(table.p_key)
    likeness = {kind: _rounded(like) for kind, like in evidence.likeness.items()}
    inferred = _rounded(evidence.inferred) if likeness else []
    picks, named, voted = table.pick.tolist(), evidence.reported.tolist(), votes.pick.tolist()
    group, sizes = ranking.group.tolist(), np.bincount(ranking.group).tolist()
    for i, (verdict, pick, item) in enumerate(zip(verdicts, picks, items, strict=True)):
        row: Row = {"item": verdict.item, "verdict": verdict.verdict, "key": int(votes.key[i])}
        chosen = zip(votes.voters, voted[i], strict=True)
        row["votes"] = {voter: (own if own >= 0 else None) for voter, own in chosen}
        if sizes[group[i]] > 1:
            row["alike"] = ranking.items[group[i]]
        if likeness:
            row["likeness"] = {kind: like[i] for kind, like in likeness.items()}
            row["inferred"] = None if inferred[i] is None else bool(inferred[i])
        row |= {"p_key": p_key[i], "pick": None}
        if pick >= 0:
            row |= {"pick": pick, **{name: share[i] for name, share in shares.items()}}
            row["voters"] = table.picked_by[i]
            cues = {evidence.cues[c]: adds[i][c] for c in named[i] if c >= 0}
            uses = words.supporting(i, pick)[:_LISTED] if words is not None and "words" in cues else ()
            row["cues"] = [
                {"cue": c, "adds": x, "says": cue_sentence(c, item, pick, uses)} for c, x in cues.items()
            ]
            row |= {"words": list(map(asdict, uses))} if uses else {}
            row["adds"] = {cue: value for cue, value in zip(evidence.cues, adds[i], strict=True) if value}
            if features:
                row["features"] = {name: x[i] for name, x in features.items() if abs(x[i]) >= LEAST_SHOWN}
        yield row


def _rounded(values: Floats) -> list[Any]:
    """Return rounded numbers, with None instead of NaN."""
    out = np.round(values, _DIGITS).astype(object)
    out[np.isnan(values)] = None
    return out.tolist()  # type: ignore[no-any-return]


def with_item(
    row: Row, item: Item, reason: str, alike: Sequence[str], cloze_excluded: Mapping[str, str]
) -> Row:
    """Add the text of an item and the suggested edits to the item's row of evidence."""
    excluded = cloze_excluded.get(item.id)
    row = row | {
        "key": item.key, "topic": item.topic, "reason": reason, "alike": [name for name in alike if name != item.id],
        "stem": item.stem, "choices": list(item.choices), "cloze_excluded": excluded,
    }  # fmt: skip
    return row | {"mends": list(mends(row, item, cloze=excluded is None))}


def explained(run: Run, name: str) -> tuple[Row, list[str]]:
    """Return the evidence on one item of a public run, as JSON values and as lines for a terminal.

    `name` is the item's ID or a unique prefix of it. Raise `UsageError` if not, and otherwise as `evidence_of`.
    """
    rows = evidence_of(run)
    run.require_unchanged(VERDICTS)
    matching_rows = [row for row in rows if row["item"] == name]
    matching_rows = matching_rows or [row for row in rows if name and row["item"].startswith(name)]
    if len(matching_rows) != 1:
        what = f"{len(matching_rows)} items with this prefix" if matching_rows else "no item with this ID"
        raise UsageError(
            f"{run.folder} contains {what}. Expected an ID from verdicts.csv or a unique prefix of one.",
            code="no-such-item",
        )
    (row,) = matching_rows
    split = f"{row['verdict']}.jsonl"
    run.require_unchanged(VERDICTS, split)
    item = next((i for i in split_items(run.folder / split, run.guard) if i.id == row["item"]), None)
    cells = next((c for c in run.verdict_rows() if c["item"] == row["item"]), None)
    if item is None or cells is None:
        raise DataError(
            f"{run.folder / EVIDENCE} does not contain the same items as {VERDICTS} and {split}. Run `robustify judge "
            f"{run.folder}`.",
            code="other-items",
        )
    group = row.pop("alike", None)
    alike = [r["item"] for r in rows if r.get("alike") == group] if group else []
    excluded = {item.id: cells["cloze_excluded"]} if cells["cloze_excluded"] else {}
    row = with_item(row, item, cells["reason"], alike, excluded)
    return row, evidence_lines(row, in_full=True)


def flagged(run: Run) -> "pd.DataFrame":
    """Return the line, ID, first cue, and a suggested edit of each flagged item of a public run. Unknown lines are
    None. Raises the same errors as `evidence_of`."""
    import pandas as pd

    rows, ids = evidence_of(run), list(run.verdicts)
    spans = run.manifest["data"].get("lines") or ()
    ends = [*(start for start, _ in spans[1:]), len(ids)]
    lines = {
        ids[i]: line + i - start for (start, line), end in zip(spans, ends, strict=False) for i in range(start, end)
    }  # fmt: skip
    run.require_unchanged("flagged.jsonl")
    flagged_items = split_items(run.folder / "flagged.jsonl", run.guard)
    items, labels = {item.id: item for item in flagged_items}, cue_words("label")
    findings = []
    for row in rows:
        if row["verdict"] == "flagged":
            item, cues = items[row["item"]], row.get("cues") or [{"cue": "none"}]
            mend, *_ = mends(row | {"reason": ""}, item, cloze=False)
            findings.append((lines.get(item.id), plain(item.id), labels[cues[0]["cue"]], mend))
    return pd.DataFrame(findings, columns=["line", "item", "cue", "mend"])


def evidence_of(run: Run) -> list[Row]:
    """Return the evidence rows of a public run. Raise `AuthorisationError` if the run or its set is restricted, and
    `DataError` if it has no evidence, or a file was changed after the run."""
    if run.restricted:
        raise AuthorisationError(
            f"{run.folder} is a restricted run, which contains no evidence on single items.",
            code="restricted-evidence",
        )
    run.require_ordinary()
    if EVIDENCE not in run.manifest["files"]:
        raise DataError(
            f"{run.folder} contains no evidence. If the run has no texts, import it again with --data ITEMS. If an earlier "
            f"version made the run, use `robustify judge {run.folder}`. A run without a screen never has evidence.",
            code="no-evidence",
        )
    run.require_unchanged(EVIDENCE)
    return run.evidence


def evidence_lines(row: Row, *, in_full: bool = False) -> list[str]:
    """Return the evidence on an item as lines of text. `in_full` adds the item's text and the suggested edits."""
    named = {cue["cue"]: (cue.get("adds"), cue.get("says", "")) for cue in row.get("cues", ())}
    others = sorted(row.get("adds", {}).items(), key=lambda addition: -addition[1])
    named |= {c: (adds, "") for c, adds in others if abs(adds) >= LEAST_SHOWN and c not in named}
    cues = [] if row["pick"] is None else [(cue, *texts) for cue, texts in named.items()]
    return markdown("item.j2", row=row, cues=cues, in_full=in_full).splitlines()


_MOST_WORDS, _LONGEST_WORD = 3, 40


def cue_sentence(code: CueCode, item: Item, pick: int, uses: Sequence[WordUse] = ()) -> str:
    """Describe, without a full stop, how a cue shows in an item's options. `uses` has words in favor of the pick."""
    return _fix_and_sentence(code, item, pick, uses)[1]


def _fix_and_sentence(code: CueCode, item: Item, pick: int, uses: Sequence[WordUse]) -> tuple[str, str]:
    """Return the edit that removes a cue, and a sentence that describes it in the options. If the options do not show the
    cue, return the fix and sentence that `lint` has for the picked option."""
    choices = [trait if code == "outer_space" else trait.strip() for trait in item.choices]
    picked, options = choices[pick], [*choices[:pick], *choices[pick + 1 :]]
    subject, fixes = "the key" if pick == item.key else "the option picked", cue_words("advice")
    parts: list[tuple[str, str]] = []
    match code:
        case "text_votes" | "letter_votes":
            return cue_words("mend")[code], cue_words("usual")[code]
        case "word_length":
            own, mean = averages(code, picked, options)
            says = f"the words of {subject} have {own:.1f} letters on average, those of the others {mean:.1f}"
            parts = [(fixes[code], says)]
        case "function_words":
            own, mean = (100 * x for x in averages(code, picked, options))
            says = f"{own:.0f} % of the words of {subject} are function words, of the others' {mean:.0f} %"
            parts = [(fixes[code], says)]
        case "shared_words":
            parts = [(fixes[code], _shared_words(subject, picked, options))]
        case "words":
            parts = [(fixes[code], _use(use)) for use in uses]
        case _:
            shown = (
                (trait, trait.unlike(subject, choices, pick, trait.marks(choices, "")))
                for trait in TRAITS.get(code, ())
            )
            parts = [(FIXES.get(trait, fixes[code]), says) for trait, says in shown if says]
    if (
        not parts
        and code != "length"
        and (clearest := clearest_cue(item.choices, item.question or item.stem, pick, subject))
    ):
        parts = [(FIXES[clearest[0]], clearest[2])]
    sizes = [len(trait) for trait in options]
    usual = f"{subject} has {counted(len(picked), 'character')}, the others {min(sizes)} to {max(sizes)}"
    parts = parts[:2] or [(fixes["length"], usual)]
    return "; ".join(dict.fromkeys(fix[:1].lower() + fix[1:] for fix, _ in parts)), ", and ".join(
        says for _, says in parts
    )


def _shared_words(subject: str, picked: str, options: Sequence[str]) -> str:
    """Name the words that most other options share with the picked option."""
    others = [frozenset(words_of(option)) for option in options]
    own = sorted(frozenset(words_of(picked)) - FUNCTION_WORDS)
    counts = {word: n for word in own if (n := sum(word in option for option in others))}
    most = max(counts.values(), default=0)
    if not most:
        return f"{subject} shares no word with the others"
    shown = [f"\u201c{plain(word, _LONGEST_WORD)}\u201d" for word, n in counts.items() if n == most]
    return f"{subject} shares {', '.join(shown[:_MOST_WORDS])} with {most} of {len(others)} others"


def _use(use: WordUse) -> str:
    whose = "" if use.picked else ", which another option has,"
    often = f"{use.keys} of {use.items} other items, {use.expected:.1f} expected"
    return f"\u201c{plain(use.word, _LONGEST_WORD)}\u201d{whose} occurs in the key of {often}"


def mends(row: Mapping[str, Any], item: Item, *, cloze: bool) -> tuple[str, ...]:
    """Return suggested edits that should keep an item from giving its key away.

    `row` has its verdict with the reason, its pick, and the cues and words of the pick, the strongest first. `cloze` is
    true if the item can be asked without its options.
    """
    if row["reason"].startswith("conflicting_key"):
        return (catalogue()["mends"]["conflicting_key"],)
    if row["verdict"] != "flagged":
        return ()
    cues: list[CueCode] = [cue["cue"] for cue in row.get("cues", ()) if row["pick"] == item.key] or ["none"]
    uses = [WordUse(**use) for use in row.get("words", ())]
    advice = [_fix_and_sentence(cue, item, item.key, uses) for cue in cues]
    edits = [f"{fix[:1].upper()}{fix[1:]}: {says}." for fix, says in advice]
    return (*dict.fromkeys(edits), *([catalogue()["mends"]["cloze"]] if cloze else []))
