"""`verdicts.csv`: the verdict on each item, and the evidence in short."""

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path

from robustify.files import neutral, write_text
from robustify.judge.evidence import Evidence
from robustify.screen.consensus import Verdict

_EVIDENCE = ("pick", "weight", "chance", "posterior", "p_shortcut", "picked_by", "cue")


def write_verdicts(
    path: Path,
    verdicts: Sequence[Verdict],
    cloze_excluded: Mapping[str, str],
    topics: Mapping[str, str],
    evidence: Evidence | None = None,
) -> None:
    """`verdicts.csv`: one row an item, in the order asked; names that look like formulas are quoted (`cells`).

    The columns from `pick` on are the `evidence`, empty where there is none.
    """
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(["item", "topic", "verdict", "votes", "of", "reason", "cloze_excluded", *_EVIDENCE])
    beside = repeat(("",) * len(_EVIDENCE)) if evidence is None else _evidence_cells(evidence)
    for v, cells in zip(verdicts, beside, strict=False):
        rows.writerow(
            [
                neutral(v.item),
                neutral(topics.get(v.item, "")),
                v.verdict,
                v.votes,
                v.of,
                v.reason,
                cloze_excluded.get(v.item, ""),
                *cells,
            ]
        )
    write_text(path, out.getvalue())


def _evidence_cells(found: Evidence) -> Iterator[tuple[str, ...]]:
    """Of each item: option picked, W, c, h(W), P(shortcut | hit), the voters that picked it, the cue named first."""
    pick = ("" if p < 0 else str(p) for p in found.pick.tolist())
    numbers = (
        ["" if math.isnan(x) else f"{x:.4f}" for x in values.tolist()]
        for values in (found.weight, found.chance, found.posterior, found.shortcut)
    )
    names = {voters: neutral("; ".join(voters)) for voters in set(found.picked_by)}
    by = (names[voters] for voters in found.picked_by)
    return zip(pick, *numbers, by, found.leading, strict=True)
