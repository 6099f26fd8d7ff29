"""Table of verdicts (`verdicts.csv`), with a summary of the evidence on each item."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from robustify.arrays import Floats
from robustify.files import neutral
from robustify.judging.adjusted import Balanced
from robustify.judging.evidence import Evidence
from robustify.screen.consensus import Verdicts

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

NUMBERS = ("adjusted_weight", "difficulty", "discrimination")
"""Columns for the weight in the adjusted score and for the item analysis, empty if there is none."""


def write_verdicts(
    path: Path,
    verdicts: Verdicts,
    cloze_excluded: Mapping[str, str],
    topics: Mapping[str, str],
    evidence: Evidence | None = None,
    numbers: Mapping[str, Floats] | None = None,
) -> None:
    """Write one row per item, in the order asked. Names that look like formulas are quoted.

    The columns from `pick` on are the evidence, empty if there is none. The last columns are `numbers` (n,), in the
    order of `NUMBERS`.
    """
    import pandas as pd

    items = verdicts.items
    kinds = np.array(verdicts.kinds, dtype=object).reshape(-1, 4)[verdicts.which].T
    columns: dict[str, Iterable[object]] = {
        "item": list(map(neutral, items)),
        "topic": [neutral(topics.get(item, "")) for item in items],
        **dict(zip(("verdict", "votes", "of", "reason"), kinds, strict=True)),
        "cloze_excluded": [cloze_excluded.get(item, "") for item in items],
        **_evidence(evidence, len(items)),
        **{name: (numbers or {}).get(name, [""] * len(items)) for name in NUMBERS},
    }
    _write_csv(path, pd.DataFrame(columns), "%.4f")


def write_weights(path: Path, items: Sequence[str], found: Balanced) -> None:
    """Write the weight of each item in the adjusted score, and what each cue gains on the item, for use in other tools."""
    import pandas as pd

    columns = dict(zip(found.part.columns, found.cues.T, strict=True))
    frame = pd.DataFrame({"item": list(map(neutral, items)), "adjusted_weight": found.weight, **columns})
    _write_csv(path, frame, "%.6f")


def _write_csv(path: Path, frame: "pd.DataFrame", numbers: str) -> None:
    with path.open("w", encoding="utf-8", errors="surrogatepass", newline="") as file:
        frame.to_csv(file, index=False, lineterminator="\n", float_format=numbers)
        file.flush()
        os.fsync(file.fileno())


def _evidence(found: Evidence | None, n: int) -> dict[str, Iterable[object]]:
    """Return columns by item: pick, W, c, h(W), P(shortcut | hit), the voters with that pick, the first cue, and P(key)."""
    names = ("pick", "p_pick", "chance", "posterior", "p_shortcut", "picked_by", "cue", "p_key")
    if found is None:
        return dict.fromkeys(names, [""] * n)
    by = [neutral("; ".join(voters)) for voters in found.picked_by]
    picks = [pick if pick >= 0 else "" for pick in found.pick.tolist()]
    shares = (found.p_pick, found.chance, found.posterior, found.shortcut)
    return dict(zip(names, (picks, *shares, by, found.leading, found.p_key), strict=True))
