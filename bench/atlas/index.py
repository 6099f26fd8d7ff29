"""Comparison of the sets in results/atlas/index.json.

`sets` are in descending order of the lower bound of the latent rate:

- `n` items, `chance`: mean of 1/k.
- `probe`: accuracy of the artifact probe without a stem; `scorer`: accuracy of the filter's scorer, which also reads words.
  `value`, `n` and `ci` of each item's mean over 10 seeds of the folds; `sd`, `least`, `most` over seeds. Of `probe` also
  `p` (999 permutations of the keys) and `p_corrected`.
- `latent`: the share of items whose key the scorer knows if it guesses all others; fields as in `scorer`.
- `residual`: accuracy minus chance of a fresh probe on the kept items of `criterion: fdr`; fields as in `scorer`.
- `flagged`: share of items removed by `criterion: fdr` at `q`; `ci` over items, `sd` over seeds.
- `strongest_cue`: the cue whose own accuracy has the highest lower bound; `cue`, `value`, `ci`, `n`.
- `rules`: number of pairs of a set and a heuristic that ignores positions, and how many are `above_chance` after Holm's
  correction.

Rates are shares from 0 to 1; intervals are 95 %. `p_corrected` is Holm over the available sets.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.atlas.audit import BY_PLACE
from bench.atlas.fitted import SEEDS, Entry
from robustify.base.files import write_json
from robustify.judging.stats.tests import LEVEL, holm

Q = 0.1


def publish(path: Path, found: Entry) -> None:
    """Write a file of results/atlas with six significant digits."""
    write_json(path, _rounded(found))


def _rounded(value: Any) -> Any:
    match value:
        case float():
            return float(f"{value:.6g}")
        case dict():
            return {name: _rounded(one) for name, one in value.items()}
        case list() | tuple():
            return [_rounded(one) for one in value]
    return value


def write_index(folder: Path, names: Sequence[str]) -> None:
    """Write index.json from the files of the sets; list sets without a file under `left_out`."""
    there = {
        name: json.loads(path.read_text("utf-8"))
        for name in names
        if (path := folder / f"{name}.json").is_file()
    }
    rows = {name: _row(found) for name, found in there.items()}
    tested = [r["p"] for of in there.values() for one, r in of["heuristics"].items() if one not in BY_PLACE]
    p = [1.0 if row["probe"]["p"] is None else row["probe"]["p"] for row in rows.values()]
    for row, corrected in zip(rows.values(), holm(p), strict=True):
        row["probe"]["p_corrected"] = corrected
    order = sorted(rows, key=lambda name: -rows[name]["latent"]["ci"][0])
    publish(
        folder / "index.json",
        {
            "says": "how the fields are to be read: bench/atlas/index.py",
            "q": Q,
            "seeds": SEEDS,
            "correction": f"Holm over {len(rows)} sets; of heuristics after Holm over the 17 of a set",
            "rules": {"tested": len(tested), "above_chance": sum(p <= LEVEL for p in holm(tested))},
            "sets": {name: rows[name] for name in order},
            "left_out": [name for name in names if name not in rows],
        },
    )


def _row(found: Entry) -> Entry:
    fitted = found["fitted"]
    cue = max(fitted["cues"], key=lambda one: fitted["cues"][one]["ci"][0])
    return {
        "n": found["n_items"],
        "chance": found["chance"],
        "probe": {**fitted["probe"], "p": fitted["probe_p"]},
        **{name: fitted[name] for name in ("scorer", "latent", "residual", "flagged")},
        "strongest_cue": {"cue": cue, **{of: fitted["cues"][cue][of] for of in ("value", "n", "ci")}},
    }
