"""Which shortcuts the filter finds, and how much of what it removes is there by chance: results/bench/cues.json.

`python -m bench.cues` measures on items whose cues are known: the demo, the demo with the features of each listed kind
left out, other planted sets, and kinds that are in no list (`bench.cue_kinds`); and it redraws keys to see which share
of the flags is false where it can be known. `--quick` makes two draws of each and writes nothing. Voters' answers are the
demo's committed ones; to options that were changed here no voter was asked, so only their text counts.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np

from bench.cue_kinds import LISTED, UNLISTED, Plant, planted
from bench.simulate import wording
from robustify.answers import SCHEMA, Answers
from robustify.arrays import Bools, Floats, Ints
from robustify.baselines import features
from robustify.baselines.artifact_probe import near_duplicate_groups
from robustify.baselines.words import columns
from robustify.item import Item
from robustify.run import open_run
from robustify.screen.consensus import SHORTCUT, outcome
from robustify.screen.decoy_filter import flags
from robustify.screen.item_index import ItemIndex, item_index
from robustify.screen.ranking import Ranker, Ranking
from robustify.screen.screen_rules import ScreenRules
from robustify.screen.votes import cast_votes
from robustify.stats.intervals import rate
from tools.planted import CLEAN, kinds

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "bench" / "cues.json"
Q = 0.1
SHARE = 1 / 3
"""Of the items of a set are planted with a cue."""
MADE_UP = 360
DRAWS, NULL_DRAWS = 5, 60
RULES = ScreenRules(criterion="unanimous", mode="text")
FEATURES_OF: dict[str, tuple[str, ...]] = {
    "longer_key": (
        "characters",
        "words",
        "mean_word_length",
        "longest_word",
        "longer_than_longest_other",
        "longer_than_shortest_other",
    ),
    "absolute_distractors": ("hedges", "absolutes", "negations"),
    "formatting_cue": (
        "digits",
        "numbers",
        "unit",
        "commas",
        "other_punctuation",
        "brackets",
        "full_stop",
        "capital_first",
        "capitals",
        "article_first",
        "odd_form",
    ),
    "repeated_phrase": (
        "mean_likeness",
        "greatest_likeness",
        "same_first_word",
        "same_last_word",
        "contains_another",
        "repeated_words",
    ),
    "implausible_distractors": ("mean_likeness", "greatest_likeness", "function_words", "article_first"),
}
"""The features that were made for a kind of the demo's cues."""

Flagged = tuple[Bools, Bools]
"""What was flagged and what has a cue, (n,) each."""


def main(quick: bool) -> int:
    """Measure everything; unless `quick`, write it down."""
    draws = 2 if quick else DRAWS
    found = {
        "says": "share of items removed at q = 0.1, with 95 % intervals; `false_share` is of the removed items",
        "q": Q,
        "demo": _demo(),
        "features_left_out": {kind: _without(kind) for kind in FEATURES_OF},
        "other_listed": _sets({"all listed kinds": _any(LISTED)}, draws),
        "unlisted": _sets(UNLISTED, draws),
        "unlisted_by_listed_features_alone": _sets(UNLISTED, draws, words=False),
        "keys_redrawn": {str(n): _redrawn(n, draws if quick else NULL_DRAWS) for n in (0, 15, 40, 126)},
    }
    print(json.dumps(found, indent=1))
    if not quick:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


@cache
def _run() -> tuple[Answers, tuple[Item, ...], ItemIndex, Mapping[str, str]]:
    run = open_run(ROOT / "results" / "benign_demo")
    answers, items = run.answers, run.items
    return answers, items, item_index(answers, [item.id for item in items]), kinds()


def _cued() -> Bools:
    _, items, _, kind = _run()
    return np.array([kind[item.id] != CLEAN for item in items])


def _demo() -> dict[str, object]:
    answers, items, index, kind = _run()
    ranking = Ranker(answers, index, items).rank(RULES)
    unanimous = outcome(cast_votes(answers, RULES, index), RULES) == SHORTCUT
    of = np.array([kind[item.id] for item in items])
    rules = {
        "fdr": flags(ranking, index.key, Q).outcome == SHORTCUT,
        "fdr_exact": flags(
            Ranker(answers, index, items).rank(RULES, vectors=False), index.key, Q, exact=True
        ).outcome
        == SHORTCUT,
        "without_voters": flags(_text_only(items), index.key, Q).outcome == SHORTCUT,
        "unanimous": unanimous,
    }
    return {
        name: {
            **_shares([(flagged, _cued())]),
            "by_kind": {k: _rate(flagged[of == k]) for k in sorted(set(of))},
        }
        for name, flagged in rules.items()
    }


def _without(kind: str) -> dict[str, object]:
    """Recall of one kind of the demo with its features left out, with and without voters."""
    answers, items, index, of = _run()
    here = np.array([of[item.id] == kind for item in items])
    clean = ~_cued()
    left = np.array([name not in FEATURES_OF[kind] for name in features.NAMES * 2], dtype=np.float64)
    with patch("robustify.screen.ranking.matrix", lambda items: features.matrix(items) * left):
        flagged = flags(Ranker(answers, index, items).rank(RULES), index.key, Q).outcome == SHORTCUT
        with _no_words():
            listed = flags(Ranker(answers, index, items).rank(RULES), index.key, Q).outcome == SHORTCUT
    return {
        "removed": _rate(flagged[here]),
        "clean_removed": _rate(flagged[clean]),
        "removed_without_words": _rate(listed[here]),
    }


def _sets(plants: Mapping[str, Plant], draws: int, *, words: bool = True) -> dict[str, object]:
    """Each kind in a third of the demo's clean items, and of made-up ones."""
    _, demo, _, kind = _run()
    clean = [item for item in demo if kind[item.id] == CLEAN]
    bases: dict[str, Callable[[int], Sequence[Item]]] = {"demo": lambda _: clean, "made_up": made_up}
    by_kind: dict[str, dict[str, object]] = {}
    every: list[Flagged] = []
    for name, plant in plants.items():
        found = {
            base: [_on(*planted(items(seed), plant, SHARE, seed), words) for seed in range(draws)]
            for base, items in bases.items()
        }
        by_kind[name] = {base: _shares(sets) for base, sets in found.items()}
        every += [one for sets in found.values() for one in sets]
    return {"all": _shares(every), "by_kind": by_kind}


def _on(items: Sequence[Item], has: Bools, words: bool) -> Flagged:
    with ExitStack() as stack:
        if not words:
            stack.enter_context(_no_words())
        key = np.array([item.key for item in items], dtype=np.int64)
        return flags(_text_only(items), key, Q).outcome == SHORTCUT, has


def _text_only(items: Sequence[Item]) -> Ranking:
    key, k = (np.array([getattr(i, what) for i in items], dtype=np.int64) for what in ("key", "k"))
    index = ItemIndex(tuple(i.id for i in items), key, k, np.zeros(0, dtype=np.int64))
    return Ranker(Answers(SCHEMA.empty_table()), index, items).rank(RULES)


@contextmanager
def _no_words() -> Iterator[None]:
    with (
        patch("robustify.screen.ranking.scorer", lambda *_: lambda _, test: np.zeros((int(test.sum()), 1))),
        patch("robustify.screen.ranking.LEAST", ()),
    ):
        yield


def made_up(seed: int) -> list[Item]:
    """Items of neutral words without any cue; three options to five."""
    rng = np.random.default_rng(seed)
    k = rng.integers(3, 6, MADE_UP)
    key = rng.integers(0, k)
    texts = wording.choices(key, k, ["none"] * MADE_UP, rng)
    return [
        Item(f"made-up-{i}", "Which?", c, int(j)) for i, (c, j) in enumerate(zip(texts, key, strict=True))
    ]


def _any(plants: Mapping[str, Plant]) -> Plant:
    """One of the kinds for each item."""

    def plant(item: Item, rng: np.random.Generator) -> tuple[str, ...]:
        return plants[str(rng.choice(sorted(plants)))](item, rng)

    return plant


def _redrawn(cued: int, draws: int) -> dict[str, object]:
    """The demo, where so many of its planted items keep their key; those of all others are drawn anew, each time.

    The planted items among these still show their cues, which then point anywhere: few that keep it are hard to find.

    `false_share`: the mean over draws of the false share of the removed, with its standard error.
    """
    answers, items, index, _ = _run()
    rng = np.random.default_rng(cued)
    table, groups, words = features.matrix(items), near_duplicate_groups(items), columns(items)
    shares: dict[str, list[float]] = {"fdr": [], "fdr_exact": []}
    power: dict[str, list[float]] = {"fdr": [], "fdr_exact": []}
    inside: list[bool] = []
    with (
        patch("robustify.screen.ranking.matrix", lambda _: table),
        patch("robustify.screen.ranking.near_duplicate_groups", lambda _: groups),
        patch("robustify.baselines.words.columns", lambda _: words),
    ):
        for _ in range(draws):
            real = np.zeros(len(items), dtype=bool)
            real[rng.permutation(np.flatnonzero(_cued()))[:cued]] = True
            drawn = replace(index, key=np.where(real, index.key, rng.integers(0, index.k)))
            for name, exact in (("fdr", False), ("fdr_exact", True)):
                ranking = Ranker(answers, drawn, items).rank(RULES, vectors=not exact)
                found = flags(ranking, drawn.key, Q, exact=exact)
                flagged = found.outcome == SHORTCUT
                shares[name].append(float((flagged & ~real).sum() / max(1, flagged.sum())))
                power[name].append(float((flagged & real).sum() / max(1, cued)))
                if not exact and found.cut.interval is not None:
                    low, high = found.cut.interval
                    inside.append(low <= shares[name][-1] <= high)
    return {
        "draws": draws,
        **{
            name: {
                "false_share": float(np.mean(of)),
                "error": float(np.std(of) / np.sqrt(draws)),
                "any_flag": float(np.mean(np.array(of) > 0)),
                "removed": float(np.mean(power[name])),
            }
            for name, of in shares.items()
        },
        "interval_covers": _rate(np.array(inside, dtype=bool)),
    }


def _shares(sets: Sequence[Flagged]) -> dict[str, object]:
    flagged, has = (np.concatenate([one[i] for one in sets]) for i in (0, 1))
    return {
        "removed": _rate(flagged[has]),
        "clean_removed": _rate(flagged[~has]),
        "false_share": _rate(~has[flagged]),
    }


def _rate(of: Bools | Ints | Floats) -> dict[str, object]:
    return rate(of.astype(np.float64)).json()


if __name__ == "__main__":
    sys.exit(main("--quick" in sys.argv[1:]))
