"""MMLU-Pro without its questions, and what that does to the scores of 21 models: results/atlas/mmlu_pro.json.

Probes see only the options, without outer spaces. Copies, relatives, and neighboring rows share a fold, and intervals are
clustered by these groups. No language model is asked. The parts of the file are:

- `probes`: accuracy of each probe on `all` items, and by `source` and `topic`; `chance` is the mean of 1/k.
- `redrawn`: accuracy of the probes where any option of an item may be called the key.
- `worth`: effective number of options, 1 / accuracy of the `best` probe; the nominal one is 1 / chance.
- `cues`: what keys have more or less often than expected.
- `spaces`: by source, items, those whose key has a space at an end, and those with such a distractor.
- `added`: three of the added distractors against MMLU's own three, beside the same keys, with the encoder.
- `looks`: points that models owe to options that look like keys, and the same with a placebo reader.
- `models`: what a probe's hits and picks do to models that see the question (`better_on_hits`, `lured`).
- `ranking`: scores on all items, on those that the best probe misses, and on those that the filter keeps.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from bench.atlas.blind import FROM_TEXT, blind, comparisons, favorites, groups_of, keys_of
from bench.atlas.by_looks import by_looks
from bench.atlas.fitted import Entry, tie_fair
from bench.atlas.others import Scores, by_part
from bench.atlas.writers import added, cues_in_words
from bench.cases import folder, items_at, json_lines, picks_at
from robustify.base.arrays import Bools, Floats, Ints, numbered
from robustify.base.files import sha256
from robustify.base.texts import EDGES
from robustify.items.item import Item
from robustify.judging.baselines.heuristics import guess
from robustify.judging.context import Rules, context
from robustify.judging.response_data import Facts
from robustify.judging.stats.intervals import NORMAL, bootstrap, rate

ITEMS = "mmlu_pro_models", "items.jsonl"
FOLLOWED = "comparing"
"""The probe whose hits and picks are compared with the models'."""
Logits = Mapping[str, Floats]


def mmlu_pro(_work: Path) -> Entry:
    """Return the numbers of the whole set."""
    raw, sources = items_at(*ITEMS), [row["source"] for row in json_lines(*ITEMS)]
    items = [item.trimmed() for item in raw]
    groups = groups_of(items, sources)
    family = [source.partition("-")[0] for source in sources]
    names = {"source": family, "topic": [item.topic for item in items]}
    key, k = keys_of(items)
    table = comparisons(items)
    found = blind(items, groups, table)
    won = {name: tie_fair(logits, key, k) for name, logits in found.items()}
    first = max(won, key=lambda name: float(won[name].mean()))
    answered = picks(items)
    scores = {model: np.where(pick < 0, np.nan, pick == key) for model, pick in answered.items()}
    stratum = numbered([f"{i.topic} {source} {i.k}" for i, source in zip(items, sources, strict=True)])[1]
    (redrawn, drawn), wrong = placebos(items, groups, table)
    followed = found[FOLLOWED]
    probes = {name: _by_part(credit, names, k, groups) for name, credit in won.items()}
    best = {"all": probes[first]["all"], **probes[first]["source"], **probes[first]["topic"]}
    return {
        "n": len(items),
        "sha256": sha256(folder().joinpath(*ITEMS)),
        "groups": len(np.unique(groups)),
        "probes": probes,
        "redrawn": {name: [rate(tie_fair(redrawn[name], drawn, k), groups).json()] for name in won},
        "worth": {"best": first} | {part: _worth(of) for part, of in best.items()},
        "cues": {part: cues_in_words(of) for by in names.values() for part, of in _parts(items, by)},
        "spaces": {part: _spaces(of) for part, of in _parts(raw, family)},
        "added": added(),
        "looks": by_looks(items, answered),
        "models": {
            FOLLOWED: {
                "better_on_hits": better_on_hits(scores, _hit(followed, key, k), stratum, groups),
                "placebo": [better_on_hits(scores, _hit(*wrong, k), stratum, groups)["mean"]],
                "lured": lured(answered, favorites(followed, k), (key, k), groups),
                "lured_placebo": [lured(answered, favorites(redrawn[FOLLOWED], k), (key, k), groups)["all"]],
            }
        },
        "ranking": ranking(items, scores, _hit(found[first], key, k) != 1),
    }


def picks(items: Sequence[Item]) -> dict[str, Ints]:
    """Return the index of each model's pick (n,), -1 if none was read."""
    return dict(sorted(picks_at(items, "mmlu_pro_models", "picks.parquet").items()))


def placebos(
    items: Sequence[Item], groups: Ints, table: Floats
) -> tuple[tuple[Logits, Ints], tuple[Floats, Ints]]:
    """Return the logits of probes fitted to redrawn keys, and of one fitted to wrong options, each with these keys."""
    key, k = keys_of(items)
    rng = np.random.default_rng(0)
    wrong = (rng.random(len(items)) * (k - 1)).astype(np.int64)
    drawn, wrong = (rng.random(len(items)) * k).astype(np.int64), wrong + (wrong >= key)

    def fitted(keys: Ints, readers: Sequence[str]) -> Logits:
        called = [
            item.with_choices(item.choices, one) for item, one in zip(items, keys.tolist(), strict=True)
        ]
        return blind(called, groups, table, readers)

    return (fitted(drawn, FROM_TEXT), drawn), (fitted(wrong, ())[FOLLOWED], wrong)


def _hit(logits: Floats, key: Ints, k: Ints) -> Floats:
    """Return 1 for an item whose only favorite is the key, 0 for another favorite, NaN for several (n,)."""
    pick = favorites(logits, k)
    return np.where(pick < 0, np.nan, pick == key)


def better_on_hits(won: Scores, hit: Floats, stratum: Ints, groups: Ints) -> Entry:
    """Return how much better models are on the items that a probe hits than on its misses in the same stratum.

    `value` is the coefficient of `hit` (n,) in a regression with a fixed effect for each `stratum` (n,): topic, source,
    and number of options. Intervals are clustered by `groups` (n,). `mean` is over models; `above_0` counts intervals.
    """
    each, total = dict[str, Entry](), np.zeros(len(hit))
    for model, credit in won.items():
        there = ~np.isnan(credit) & ~np.isnan(hit)
        y, h = (_within(of[there], stratum[there]) for of in (credit, hit))
        slope = float(h @ y / (h @ h))
        pull = np.zeros(len(hit))
        pull[there] = h * (y - slope * h) / (h @ h)
        total += pull / len(won)
        each[model] = {"n": int(there.sum()), **_clustered(slope, pull, groups)}
    mean = float(np.mean([one["value"] for one in each.values()]))
    return {
        "mean": {
            "n": int((~np.isnan(hit)).sum()),
            "hits": int(np.nansum(hit)),
            **_clustered(mean, total, groups),
        },
        "above_0": sum(one["ci"][0] > 0 for one in each.values()),
        "each": each,
    }


def _within(values: Floats, stratum: Ints) -> Floats:
    """Return values (n,) minus the mean of their stratum."""
    return values - (np.bincount(stratum, values) / np.maximum(np.bincount(stratum), 1))[stratum]


def _clustered(value: float, pull: Floats, groups: Ints) -> Entry:
    """Return a value with its interval from the influence of each item (n,), summed over groups."""
    error = float(np.sqrt((np.bincount(groups, pull) ** 2).sum()))
    half = NORMAL.inv_cdf(0.975) * error
    return {"value": value, "ci": [value - half, value + half]}


def lured(answered: Mapping[str, Ints], favorite: Ints, keys: tuple[Ints, Ints], groups: Ints) -> Entry:
    """Return how often wrong picks fall on a probe's wrong favorite, over the number if they were spread evenly.

    Items are those with one favorite (n,) that is not the key, and at least three options. `picks` counts the wrong picks
    of all models, `found` those on the favorite, `expected` sums 1/(k - 1) over the picks, and `value` is their ratio.
    """
    key, k = keys
    asked = (favorite >= 0) & (favorite != key) & (k > 2)
    on, even, each = np.zeros(len(key)), np.zeros(len(key)), dict[str, float]()
    for model, pick in answered.items():
        wrong = asked & (pick >= 0) & (pick != key)
        if wrong.any():
            each[model] = float((pick == favorite)[wrong].sum() / (1 / (k - 1))[wrong].sum())
        on, even = on + (wrong & (pick == favorite)), even + np.where(wrong, 1 / (k - 1), 0.0)
    rows = np.column_stack([on, even])[asked]
    return {
        "all": {
            "items": int(asked.sum()),
            "picks": round(float((even * (k - 1))[asked].sum())),
            "found": int(on.sum()),
            "expected": float(even.sum()),
            "value": float(on.sum() / even.sum()),
            "ci": list(bootstrap(rows, lambda means: means[:, 0] / means[:, 1], groups[asked])),
        },
        "each": each,
    }


def ranking(items: Sequence[Item], won: Scores, missed: Bools) -> Entry:
    """Return scores and order of models on all items, on `missed` (n,) ones, and on kept ones."""
    facts = Facts("mmlu-pro", {item.id: item.topic for item in items})
    ctx = context(guess(items), facts, Rules(), items)
    parts = {
        "missed": by_part(won, missed.astype(np.float64)),
        "kept": by_part(won, (~ctx.parts.flagged).astype(np.float64)),
    }
    raw = {model: of["all"]["value"] for model, of in parts["kept"]["models"].items()}
    scores = {
        part: {m: of["kept"]["value"] for m, of in found["models"].items()} for part, found in parts.items()
    }
    return {
        "flagged": int(ctx.parts.flagged.sum()),
        "missed": int(missed.sum()),
        "parts": parts,
        "order": {part: _order(raw, of) for part, of in scores.items()},
    }


def _order(raw: Mapping[str, float], other: Mapping[str, float]) -> Entry:
    """Return Kendall's tau between two scores of models, the pairs that swap, and the smallest and largest fall."""
    from scipy.stats import kendalltau

    pairs, falls = list(combinations(raw, 2)), [raw[model] - other[model] for model in raw]
    return {
        "tau": float(kendalltau(list(raw.values()), [other[model] for model in raw]).statistic),
        "pairs": len(pairs),
        "swaps": sum((raw[a] - raw[b]) * (other[a] - other[b]) < 0 for a, b in pairs),
        "fall": [min(falls), max(falls)],
    }


def _parts(items: Sequence[Item], names: Sequence[str]) -> Iterator[tuple[str, list[Item]]]:
    """Yield all items, and then those of each name."""
    yield "all", list(items)
    for name in sorted(set(names)):
        yield name, [item for item, own in zip(items, names, strict=True) if own == name]


def _by_part(credit: Floats, names: Mapping[str, Sequence[str]], k: Ints, groups: Ints) -> Entry:
    """Return the accuracy on all items, and on those of each name."""

    def entry(of: Bools) -> Entry:
        return {**rate(credit[of], groups[of]).json(), "chance": float(np.mean(1 / k[of]))}

    return {
        "all": entry(np.ones(len(k), dtype=bool)),
        **{kind: {one: entry(np.array(of) == one) for one in sorted(set(of))} for kind, of in names.items()},
    }


def _worth(found: Entry) -> Entry:
    """Return the effective number of options, and the nominal one, from an accuracy and its chance."""
    ends = found["ci"] and [1 / end for end in reversed(found["ci"])]
    return {"value": 1 / found["value"], "n": found["n"], "ci": ends, "nominal": 1 / found["chance"]}


def _spaces(items: Sequence[Item]) -> Entry:
    """Return how many items have a space outside their key, and outside a distractor."""
    outside = [[choice.strip(EDGES) != choice for choice in item.choices] for item in items]
    keys = [own[item.key] for own, item in zip(outside, items, strict=True)]
    others = [sum(own) > key for own, key in zip(outside, keys, strict=True)]
    alone = sum(key and not other for key, other in zip(keys, others, strict=True))
    return {"items": len(items), "keys": sum(keys), "distractors": sum(others), "key_alone": alone}
