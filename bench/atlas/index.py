"""Comparison of the sets in results/atlas/index.json.

`sets` are in descending order of the lower bound of the latent rate:

- `n` items, `options` by number of items, `chance`: mean of 1/k.
- `best_heuristic`: `name`, `value` (accuracy), `ci`, `n`, `p` (one-sided, Holm over the set's 17 heuristics), `p_corrected`
  (Holm over the sets as well). Heuristics that use the key's position in the file are excluded.
- `places`: `shares` of keys by position in the file, `p` for a uniform distribution, `p_corrected`.
- `probe`: accuracy of the artifact probe without a stem; `scorer`: accuracy of the filter's scorer, which also reads words.
  `value`, `n` and `ci` of each item's mean over 10 seeds of the folds; `sd`, `least`, `most` over seeds. Of `probe` also
  `p` (999 permutations of the keys) and `p_corrected`.
- `latent`: the share of items whose key the scorer knows if it guesses all others; fields as in `scorer`.
- `residual`: accuracy minus chance of a fresh probe on the kept items of `criterion: fdr`; fields as in `scorer`.
- `flagged`: share of items removed by `criterion: fdr` at `q`; `ci` over items, `sd` over seeds.
- `strongest_cue`: the cue whose own accuracy has the highest lower bound; `cue`, `value`, `ci`, `n`.
- `rules`: number of pairs of a set and a heuristic that ignores positions, and how many are `above_chance` after Holm's
  correction.
- `models`: null if no model was asked; otherwise `n` items of the sample, `full` and `choices_only` by model (accuracy by
  text), `both_right`: share of items that both models get right without the question (by text, in one order, as a
  substitute for D.4's rule), its `expected` number, `latent` rate, `p`, `p_corrected`; `flagged` by fdr with their votes.

Rates are shares from 0 to 1; intervals are 95 %. `p_corrected` is Holm over the available sets.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.atlas.audit import BY_PLACE, SAMPLE
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
    for part in ("best_heuristic", "places", "probe"):
        _correct([row[part] for row in rows.values()])
    _correct([row["models"]["both_right"] for row in rows.values() if row["models"] is not None])
    order = sorted(rows, key=lambda name: -rows[name]["latent"]["ci"][0])
    publish(
        folder / "index.json",
        {
            "says": "how the fields are to be read: bench/atlas/index.py",
            "q": Q,
            "seeds": SEEDS,
            "sample": SAMPLE,
            "correction": f"Holm over {len(rows)} sets; of heuristics after Holm over the 17 of a set",
            "rules": {"tested": len(tested), "above_chance": sum(p <= LEVEL for p in holm(tested))},
            "sets": {name: rows[name] for name in order},
            "left_out": [name for name in names if name not in rows],
        },
    )


def _row(found: Entry) -> Entry:
    best, fitted = found["best_heuristic"], found["fitted"]
    heuristic = found["heuristics"][best]
    cue = max(fitted["cues"], key=lambda one: fitted["cues"][one]["ci"][0])
    return {
        "n": found["n_items"],
        "options": found["option_counts"],
        "chance": found["chance"],
        "best_heuristic": {
            "name": best,
            **{field: heuristic[field] for field in ("value", "n", "ci")},
            "p": heuristic["p_holm"],
        },
        "places": dict(found["key_spread"]),
        "probe": {**fitted["probe"], "p": fitted["probe_p"]},
        **{name: fitted[name] for name in ("scorer", "latent", "residual", "flagged")},
        "strongest_cue": {
            "cue": cue,
            **{field: fitted["cues"][cue][field] for field in ("value", "n", "ci")},
        },
        "models": None if found["models"] is None else _models(found["models"]),
    }


def _models(found: Entry) -> Entry:
    both = found["both_right"]
    return {
        "n": found["n"],
        **{
            view: {model: views[view]["all"] for model, views in found["accuracy"].items()}
            for view in ("full", "choices_only")
        },
        "both_right": {field: both[field] for field in ("flagged", "expected", "latent", "p")},
        "flagged": found["fdr"]["flagged"],
    }


def _correct(rows: Sequence[Entry]) -> None:
    """Add Holm's correction over the sets beside each p-value."""
    for row, p in zip(rows, holm([1.0 if row["p"] is None else row["p"] for row in rows]), strict=True):
        row["p_corrected"] = p
