"""Evidence for individual items: `evidence.jsonl` and `robustify explain`.

Both contain words of the items and exist for public sets only. The explorer prints the same lines.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from robustify.base.arrays import Floats
from robustify.base.errors import AuthorisationError, DataError, UsageError
from robustify.items.item import Item
from robustify.judging.baselines.words import KeyWords
from robustify.judging.evidence import Evidence
from robustify.judging.screen.consensus import Verdict
from robustify.report.cue_sentences import cue_sentence, mends
from robustify.report.format import plain
from robustify.report.messages import cue_words
from robustify.report.printing import markdown
from robustify.runs.run import EVIDENCE, VERDICTS, Run
from robustify.runs.stored import split_items

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

Row = dict[str, Any]
_DIGITS = 4
LEAST_SHOWN = 0.05
"""Smallest contribution to a logit that is listed."""
_LISTED = 3


def evidence_rows(found: Evidence, verdicts: Iterable[Verdict], items: Sequence[Item]) -> Iterator[Row]:
    """Yield one row of `evidence.jsonl` per item, in the order of the run. docs/files.md describes its fields."""
    adds, features = _rounded(found.carried), {name: _rounded(x) for name, x in found.features.items()}
    ranking, decision, votes = found.ranking, found.decision, found.votes
    p_pick, chance, p_key = map(_rounded, (ranking.p_pick, ranking.null, found.p_key))
    posterior, shortcut = _rounded(decision.posterior), _rounded(decision.shortcut)
    likeness = {kind: _rounded(like) for kind, like in found.likeness.items()}
    inferred = _rounded(found.inferred) if likeness else []
    words = KeyWords(items, ranking.group) if "words" in found.cues else None
    picks, named, voted = ranking.top.tolist(), found.named.tolist(), votes.pick.tolist()
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
            row |= {
                "pick": pick, "p_pick": p_pick[i], "chance": chance[i], "posterior": posterior[i],
                "p_shortcut": shortcut[i], "voters": found.picked_by[i],
            }  # fmt: skip
            cues = {found.cues[c]: adds[i][c] for c in named[i] if c >= 0}
            uses = words.of(i, pick)[:_LISTED] if words is not None and "words" in cues else ()
            is_key = pick == row["key"]
            row["cues"] = [
                {"cue": c, "adds": x, "says": cue_sentence(c, item.choices, pick, is_key=is_key, uses=uses)}
                for c, x in cues.items()
            ]
            row |= {"words": list(map(asdict, uses))} if uses else {}
            row["adds"] = {cue: value for cue, value in zip(found.cues, adds[i], strict=True) if value}
            if features:
                row["features"] = {name: x[i] for name, x in features.items() if abs(x[i]) >= LEAST_SHOWN}
        yield row


def _rounded(values: Floats) -> list[Any]:
    """Return rounded numbers, with None in place of NaN."""
    out = np.round(values, _DIGITS).astype(object)
    out[np.isnan(values)] = None
    return out.tolist()  # type: ignore[no-any-return]


def with_item(
    row: Row, item: Item, reason: str, alike: Sequence[str], cloze_excluded: Mapping[str, str]
) -> Row:
    """Return a row of evidence with the text of its item and the suggested edits."""
    why = cloze_excluded.get(item.id)
    row = row | {
        "key": item.key, "topic": item.topic, "reason": reason, "alike": [name for name in alike if name != item.id],
        "stem": item.stem, "choices": list(item.choices), "cloze_excluded": why,
    }  # fmt: skip
    return row | {"mends": list(mends(row, item.choices, item.key, cloze=why is None))}


def explained(run: Run, name: str) -> tuple[Row, list[str]]:
    """Return the evidence on one item of a public run, as JSON values and as lines for a terminal.

    `name` is the item's ID or a unique prefix of it. Raise `UsageError` if no item or several items have this name, and
    otherwise as `evidence_of`.
    """
    rows = evidence_of(run)
    run.require_unchanged(VERDICTS)
    found = [row for row in rows if row["item"] == name]
    found = found or [row for row in rows if name and row["item"].startswith(name)]
    if len(found) != 1:
        what = f"{len(found)} items with this prefix" if found else "no item with this ID"
        raise UsageError(
            f"{run.folder} contains {what}. Expected an ID from verdicts.csv or a unique prefix of one."
        )
    (row,) = found
    split = f"{row['verdict']}.jsonl"
    run.require_unchanged(VERDICTS, split)
    item = next((i for i in split_items(run.folder / split) if i.id == row["item"]), None)
    cells = next((c for c in run.verdict_rows() if c["item"] == row["item"]), None)
    if item is None or cells is None:
        raise DataError(f"{run.folder / EVIDENCE} has other items than {VERDICTS} and {split}. Judge again.")
    group = row.pop("alike", None)
    alike = [r["item"] for r in rows if r.get("alike") == group] if group else []
    why = {item.id: cells["cloze_excluded"]} if cells["cloze_excluded"] else {}
    row = with_item(row, item, cells["reason"], alike, why)
    return row, said_of(row, whole=True)


def flagged(run: Run) -> "pd.DataFrame":
    """Return the flagged items of a public run with their line, ID, first cue, and a suggested edit.

    The line is None if the run does not record it. Raise as `evidence_of`.
    """
    import pandas as pd

    rows, ids = evidence_of(run), list(run.verdicts)
    spans = run.manifest["data"].get("lines") or ()
    ends = [*(start for start, _ in spans[1:]), len(ids)]
    lines = {
        ids[i]: line + i - start for (start, line), end in zip(spans, ends, strict=False) for i in range(start, end)
    }  # fmt: skip
    run.require_unchanged("flagged.jsonl")
    items, labels = {i.id: i for i in split_items(run.folder / "flagged.jsonl")}, cue_words("label")
    found = []
    for row in rows:
        if row["verdict"] == "flagged":
            item, cues = items[row["item"]], row.get("cues") or [{"cue": "none"}]
            mend, *_ = mends(row | {"reason": ""}, item.choices, item.key, cloze=False)
            found.append((lines.get(item.id), plain(item.id), labels[cues[0]["cue"]], mend))
    return pd.DataFrame(found, columns=["line", "item", "cue", "mend"])


def evidence_of(run: Run) -> list[Row]:
    """Return the evidence rows of a public run. Raise `AuthorisationError` if the run or its set is restricted, and
    `DataError` if it has no evidence, or a file was changed after the run."""
    if run.restricted:
        raise AuthorisationError(
            f"{run.folder} is a restricted run, which contains no evidence on single items."
        )
    run.require_ordinary()
    if EVIDENCE not in run.manifest["files"]:
        raise DataError(
            f"{run.folder} contains no evidence, because it has no item texts (import with --data ITEMS), nothing was "
            f"screened, or an earlier version made it (`robustify judge {run.folder}`)."
        )
    run.require_unchanged(EVIDENCE)
    return run.evidence


def said_of(row: Row, *, whole: bool = False) -> list[str]:
    """Return the evidence on an item as lines. `whole` adds its text and the suggested edits."""
    named = {cue["cue"]: (cue.get("adds"), cue.get("says", "")) for cue in row.get("cues", ())}
    others = sorted(row.get("adds", {}).items(), key=lambda one: -one[1])
    named |= {c: (adds, "") for c, adds in others if abs(adds) >= LEAST_SHOWN and c not in named}
    cues = [] if row["pick"] is None else [(cue, *said) for cue, said in named.items()]
    return markdown("item.j2", row=row, cues=cues, whole=whole).splitlines()
