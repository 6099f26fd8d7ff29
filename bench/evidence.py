"""How often the cue that is named first is the one that was planted: writes results/bench/evidence.json.

`python -m bench.evidence [RUN]` judges the answers of the demo's run again under `criterion: fdr` and looks at the
items that are flagged and have a planted cue. Which cues count as naming a kind was written down before any result was
seen. How cues are named was chosen on one half of the items (`chosen_on`, by a hash of the id) and is measured on
the other (`measured_on`); `all` is both.
"""

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from robustify.arrays import Bools
from robustify.config import parse
from robustify.judge.judgement import judge
from robustify.run import open_run
from robustify.stats.intervals import rate
from robustify.summary.screened import CueCode
from robustify.writers.public import asked_again, rules
from tools.planted import CLEAN, kinds

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "bench" / "evidence.json"
GOAL = 0.8
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
    # Other rules decide nothing here, and a run of an earlier version may hold one that is no longer offered.
    config = parse({**run.manifest["config"], "alternatives": []}, "run.json config")
    asked = asked_again(run, config)
    set_ = rules(config)
    set_ = replace(set_, screen=set_.screen.model_copy(update={"criterion": "fdr"}))
    judgement = judge(asked.answers, asked.facts, set_, asked.items)
    found = judgement.evidence
    assert found is not None
    kind_of = kinds()
    kind = [kind_of[item] for item in found.items]
    flagged = np.array([verdict.verdict == "shortcut" for verdict in judgement.verdicts])
    seen = np.array([hashlib.sha256(item.encode()).digest()[0] % 2 == 0 for item in found.items])
    among = flagged & np.array([one != CLEAN for one in kind])
    named = list(zip(kind, found.leading, strict=True))
    parts = {"measured_on": among & ~seen, "chosen_on": among & seen, "all": among}
    result = {
        "says": "of flagged items with a planted cue, how often the first named cue is the planted one",
        "goal": GOAL,
        "criterion": set_.screen.criterion,
        "flagged": int(flagged.sum()),
        "named_by": NAMED_BY,
        "rates": {name: _rate(named, part) for name, part in parts.items()},
        "by_kind": {one: _rate(named, among & _is(named, one)) for one in NAMED_BY},
        "first_cues": {
            one: dict(Counter(cue for _, cue in _where(named, among & _is(named, one))).most_common())
            for one in NAMED_BY
        },
    }
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=1))
    return 0


Named = Sequence[tuple[str, CueCode]]
"""The kind of each item, and the cue that is named first."""


def _is(named: Named, kind: str) -> Bools:
    return np.array([one == kind for one, _ in named])


def _where(named: Named, part: Bools) -> list[tuple[str, CueCode]]:
    return [one for one, inside in zip(named, part.tolist(), strict=True) if inside]


def _rate(named: Named, part: Bools) -> dict[str, object]:
    right = [cue in NAMED_BY[kind] for kind, cue in _where(named, part)]
    return rate(np.array(right, dtype=np.float64)).json()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
