"""How often the cue that the explorer names first is the one that was planted: writes results/bench/named_cues.json.

`python -m bench.named_cues [RUN]` reads the page of items of the demo's run, or of its answers judged again where the run
has none, and looks at the flagged items that have a planted cue: `twenty` of them, drawn by a hash of the id, and `all`.
Which cues count as naming a kind was written down before any result was seen. How cues are named was chosen on one
half of the items (`chosen_on`, by another hash of the id) and is measured on the other (`measured_on`).
"""

import hashlib
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from robustify.pipeline import rejudge
from robustify.report.explorer import read_island
from robustify.run import EXPLORER, open_run
from robustify.stats.intervals import rate
from robustify.summary.screened import CueCode
from tools.planted import CLEAN, kinds

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "bench" / "named_cues.json"
GOAL, DRAWN = 0.8, 20
NAMED_BY: dict[str, tuple[CueCode, ...]] = {
    "longer_key": ("length",),
    "absolute_distractors": ("certainty",),
    "formatting_cue": ("form", "numbers"),
    "repeated_phrase": ("shared_words",),
    "implausible_distractors": ("words", "text_votes", "letter_votes", "vectors"),
}
"""The cues that name a planted kind. Implausible options have no cue of the surface: words or models must name it."""


def main(arguments: Sequence[str]) -> int:
    """Measure one run; without an argument the demo's."""
    run = open_run(Path(arguments[0]) if arguments else ROOT / "results" / "benign_demo")
    with tempfile.TemporaryDirectory() as folder:
        if EXPLORER not in run.manifest["files"]:
            # Other rules decide nothing here, and a run of an earlier version may hold one that is no longer offered.
            run = rejudge(run, {"alternatives": []}, Path(folder) / "run")
        result = measured((run.folder / EXPLORER).read_text("utf-8"))
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=1))
    return 0


def measured(page: str) -> dict[str, object]:
    """The rates over the items of this page of the demo set, each with n and a 95 % interval."""
    kind_of = kinds()
    flagged = {item: cue for item, verdict, cue in first_cues(page) if verdict == "shortcut"}
    named = [(item, kind_of[item], cue) for item, cue in flagged.items() if kind_of[item] != CLEAN]
    drawn = {item for item, *_ in sorted(named, key=lambda one: _hash(f"twenty/{one[0]}"))[:DRAWN]}

    def of(which: Callable[[str, str], bool]) -> dict[str, object]:
        right = [cue in NAMED_BY[kind] for item, kind, cue in named if which(item, kind)]
        return rate(np.array(right, dtype=np.float64)).json()

    return {
        "says": "of flagged items with a planted cue, how often the explorer's first named cue is the planted one",
        "goal": GOAL,
        "flagged": len(flagged),
        "named_by": NAMED_BY,
        "rates": {
            "twenty": of(lambda item, _: item in drawn),
            "measured_on": of(lambda item, _: _hash(item)[0] % 2 == 1),
            "chosen_on": of(lambda item, _: _hash(item)[0] % 2 == 0),
            "all": of(lambda *_: True),
        },
        "by_kind": {one: of(lambda _, kind, one=one: kind == one) for one in NAMED_BY},
        "first_cues": {
            one: dict(Counter(cue for _, kind, cue in named if kind == one).most_common()) for one in NAMED_BY
        },
    }


def first_cues(page: str) -> list[tuple[str, str, str]]:
    """The id, the verdict and the cue named first of each item, as the page's script reads them."""
    tree = read_island(page)
    pools = tree["pools"]
    rows = [dict(zip(tree["fields"], row, strict=True)) for row in tree["rows"]]
    return [
        (
            row["id"],
            pools["verdict"][row["verdict"]],
            # Cues that are named stand first and say something.
            pools["cue"][row["cues"][0][0]] if row["cues"] and row["cues"][0][2] >= 0 else "none",
        )
        for row in rows
    ]


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
