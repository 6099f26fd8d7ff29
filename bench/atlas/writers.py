"""The same questions and keys with distractors by different writers: results/atlas/writers.json.

Each set has three distractors an item, and all sets of a part have the same items, so that differences to `people` are
paired by question. `asked_for_more` counts questions whose key is shorter than all twelve candidates of GPT-5.2. `picked`
has published answers of three models: how many items all get right without the question, with the number expected if any
option could be the key; accuracy with the question by whether the key is the shortest option (such questions may also be
easier or harder); and accuracy without it beside people's distractors.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.atlas.blind import FROM_TEXT, blind, keys_of
from bench.atlas.fitted import Entry, tie_fair
from bench.cases import items_at, json_lines, picks_at
from robustify.base.arrays import Floats, Ints
from robustify.base.files import cache_folder
from robustify.items.item import Item
from robustify.judging.baselines.heuristics import guess, listed_credit
from robustify.judging.baselines.near_duplicates import fold_groups
from robustify.judging.context import Rules, context
from robustify.judging.lint.cues import CURLY
from robustify.judging.lint.findings import cues_of, marks_of
from robustify.judging.lint.rules import CUES
from robustify.judging.response_data import Facts
from robustify.judging.screening import flag_fields
from robustify.judging.stats.intervals import rate
from robustify.judging.stats.tests import paired_difference
from robustify.pipeline.encoder import embed_texts

SHOWN = 3
DRAWN = "gpt52_nine"
"""The writer whose texts are not encoded, because it is another draw of one that is."""
LENGTHS = ("longest_answer", "shortest_answer")
PARTS = {
    "arc": ("arc", ("people", "gpt52", "gpt52_nine")),
    "mmlu_pro": ("mmlu_pro", ("people", "mmlu_pro", "gpt52", "gpt52_nine")),
}
PICKED = {
    "arc_gpt52": "distractors/arc_gpt52_picked",
    "mmlu_pro_gpt52": "distractors/mmlu_pro_gpt52_picked",
    "mmlu_pro_people": "distractors/mmlu_pro_people_picked",
}
PEOPLE = {
    PICKED["arc_gpt52"]: "predictions/choices_only/arc_challenge_7b",
    PICKED["mmlu_pro_gpt52"]: PICKED["mmlu_pro_people"],
}
"""The folder that has people's distractors to the same questions."""
Row = Mapping[str, Any]


def writers(_work: Path) -> Entry:
    """Return the numbers of all writers."""
    return {
        **{name: part(*of) for name, of in PARTS.items()},
        "asked_for_more": {name: asked_for_more(pools(name, ("gpt52", "gpt52_nine"))) for name in PARTS},
        "picked": {name: picked(place) for name, place in PICKED.items()},
    }


def pools(name: str, needed: Sequence[str]) -> list[Row]:
    """Return the rows of a file of candidates in which all `needed` writers wrote."""
    rows = json_lines("distractors", name, "pool.jsonl")
    return [row for row in rows if all(writer in row for writer in needed)]


def items_by(rows: Sequence[Row], writer: str, seed: int = 0) -> list[Item]:
    """Return the items with three distractors by a writer, drawn if there are more, the key first."""
    rng, found = np.random.default_rng(seed), list[Item]()
    for row in rows:
        at = sorted(rng.permutation(len(row[writer]))[:SHOWN].tolist())
        choices = (row["key"], *(row[writer][i] for i in at))
        found.append(Item(str(row["id"]), row["stem"], choices, 0, row["topic"]).trimmed())
    return found


def together(rows: Sequence[Row], needed: Sequence[str]) -> Ints:
    """Return the group (n,) of each item: copies and relatives by the key and all distractors of all writers."""
    texts = [(row["key"], *(text for writer in needed for text in row[writer])) for row in rows]
    return fold_groups(
        [Item(str(i), row["stem"], of[:26], 0) for i, (row, of) in enumerate(zip(rows, texts, strict=True))]
    )


def part(name: str, needed: Sequence[str]) -> Entry:
    """Audit the same questions with the distractors of each writer."""
    rows = pools(name, needed)
    groups, sets = together(rows, needed), {writer: items_by(rows, writer) for writer in needed}
    won = {w: credits_of(items, groups, encode=w != DRAWN, compare=False) for w, items in sets.items()}
    return {
        "n": len(rows),
        "chance": 1 / (1 + SHOWN),
        "writers": {
            writer: {
                **audited(items),
                "accuracy": _rates(won[writer], groups),
                "to_people": _differences(won[writer], won["people"], groups),
            }
            for writer, items in sets.items()
        },
    }


def _rates(won: Mapping[str, Floats], groups: Ints) -> Entry:
    return {who: rate(credit, groups).json() for who, credit in won.items()}


def _differences(won: Mapping[str, Floats], others: Mapping[str, Floats], groups: Ints) -> Entry:
    return {who: paired_difference(credit, others[who], groups).json() for who, credit in won.items()}


def credits_of(
    items: Sequence[Item], groups: Ints, *, encode: bool = True, compare: bool = True
) -> dict[str, Floats]:
    """Return the credits (n,) of rules and probes that do not see the question, with the encoder and `comparing` or not."""
    key, k = keys_of(items)
    texts = [choice for item in items for choice in item.choices]
    vectors = embed_texts(texts, cache_folder(), keep=True) if encode else None
    readers = (*FROM_TEXT, "meaning") if vectors is not None else FROM_TEXT
    probes = blind(items, groups, readers=readers, vectors=vectors, compare=compare)
    return {name: tie_fair(logits, key, k) for name, logits in probes.items()} | listed_credit(items, LENGTHS)


def audited(items: Sequence[Item]) -> Entry:
    """Return the cues of a set and the filter's flags."""
    ctx = context(guess(items), Facts("writers"), Rules(), items)
    false_share = flag_fields(ctx.screen.result.chance())["false_share"]
    return {
        "cues": cues_in_words(items),
        "curly": {"distractors": _curly(items)},
        "flagged": {"items": int(ctx.parts.flagged.sum()), "n": len(items)},
        "false_share": false_share.model_dump(mode="json", include={"value", "n", "ci"}),
    }


def cues_in_words(items: Sequence[Item]) -> list[Entry]:
    """Return what keys have significantly more or less often than expected, the largest difference first."""
    rows = [
        {"key": CUES[code].having, "keys": one.keys, "n": one.n, "expected": one.expected, "p": one.p}
        for code, one in cues_of(marks_of(items), items).items()
    ]
    return sorted(rows, key=lambda row: -abs(row["keys"] - row["expected"]))


def _curly(items: Sequence[Item]) -> Entry:
    """Return the share of distractors with a curly quotation mark."""
    marked = [
        mark for item in items for at, mark in enumerate(CURLY.marks(item.choices, "")) if at != item.key
    ]
    return {"value": sum(marked) / len(marked), "n": len(marked)}


def added() -> Entry:
    """Compare MMLU's own distractors with three of those that MMLU-Pro added, beside the same keys."""
    needed = ("people", "mmlu_pro")
    rows = pools("mmlu_pro", needed)
    groups = together(rows, needed)
    won = {writer: credits_of(items_by(rows, writer), groups) for writer in needed}
    return {
        "n": len(rows),
        "chance": 1 / (1 + SHOWN),
        **{writer: _rates(of, groups) for writer, of in won.items()},
        "difference": _differences(won["mmlu_pro"], won["people"], groups),
    }


def asked_for_more(rows: Sequence[Row]) -> Entry:
    """Return the share of questions whose key is shorter than all candidates of a writer that was asked twice."""
    shorter = [all(len(row["key"]) < len(t) for t in (*row["gpt52"], *row["gpt52_nine"])) for row in rows]
    return rate(np.array(shorter, dtype=np.float64)).json()


def picked(place: str) -> Entry:
    """Return the answers of models to one set without and with the question, and to people's set of the same questions."""
    items, without = votes(place, "choices_only")
    _, full = votes(place, "full")
    shortest = listed_credit(items, LENGTHS)["shortest_answer"] == 1
    credits = {model: pick_credit(items, picks) for model, picks in full.items()}
    parts = {"shortest": shortest, "others": ~shortest}
    return {
        "n": len(items),
        "all_right": all_right(items, np.array(list(without.values()))),
        "by_shortest": {
            model: {name: rate(credit[of]).json() for name, of in parts.items()}
            for model, credit in credits.items()
        },
        "to_people": _beside(items, without, *votes(PEOPLE[place], "choices_only"))
        if place in PEOPLE
        else None,
    }


def all_right(items: Sequence[Item], picks: Ints) -> Entry:
    """Return how many items all voters get right, from their picks (voters, n), and the number expected if any option
    could be the key: each item whose voters agree counts 1/k.
    """
    key, k = keys_of(items)
    agree = (picks >= 0).all(axis=0) & (picks == picks[0]).all(axis=0)
    return {
        "items": int((agree & (picks[0] == key)).sum()),
        "expected": float((agree / k).sum()),
        "n": len(items),
    }


def pick_credit(items: Sequence[Item], picks: Ints) -> Floats:
    """Return 1 for a pick of the key, 0 for another, and NaN if none was read (n,)."""
    return np.where(picks < 0, np.nan, picks == keys_of(items)[0])


def votes(place: str, view: str) -> tuple[list[Item], dict[str, Ints]]:
    """Return the items of a folder, and the picks of each model (n,) under a view, -1 if none was read."""
    items = items_at(place, "items.jsonl")
    return items, picks_at(items, place, "picks.csv", view=view)


def _beside(
    items: Sequence[Item], picks: Mapping[str, Ints], others: Sequence[Item], theirs: Mapping[str, Ints]
) -> Entry:
    """Return the accuracy of each model on the questions that both sets have, paired by question."""
    place = {item.stem: i for i, item in enumerate(others)}
    at = [i for i, item in enumerate(items) if item.stem in place]
    to = [place[items[i].stem] for i in at]
    models: Entry = {}
    for model in (name for name in picks if name in theirs):
        own, people = pick_credit(items, picks[model])[at], pick_credit(others, theirs[model])[to]
        difference = paired_difference(own, people).json()
        models[model] = {"own": rate(own).json(), "people": rate(people).json(), "difference": difference}
    return {"n": len(at), "models": models}
