"""Compare finished runs: which numbers differ, whether that is more than noise, and which items moved.

Folders are read and nothing is asked. Items are compared by id only if both runs have the same text of them, or were made
from the same file. A difference on common items is paired; any other rests on what the two summaries show. Differences are
the second run less the first.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from robustify.arrays import Bools, Floats, Ints
from robustify.judging.accuracy import Credits, compare_pair, credits
from robustify.report.format import at, percent, plain
from robustify.report.messages import tree
from robustify.run import SPLIT_FILES, VERDICTS, Run, open_run
from robustify.screen.item_index import item_index
from robustify.stats import intervals
from robustify.stats.tests import LEVEL, detectable, holm

Tree = dict[str, Any]
Part = Literal["all", "robust"]
VIEWS = {"full": "full", "choices_only": "choices only", "cloze_chars": "cloze", "free": "free"}
NUMBERS = {
    "removed": "screen.flagged",
    "latent shortcuts": "screen.latent_shortcut_rate",
    "probe on what is left": "residual.probe",
}
"""Numbers of a run as a whole, and where they are in its summary."""
RULE = ("criterion", "mode", "flagged", "expected_flags", "excess_over_chance", "latent_shortcut_rate")
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Change:
    """One number in two runs: `number` is a name of `NUMBERS`, or a view of `models`, one of each run.

    `difference` (with `low` and `high`) is `second` less `first`. A `paired` one is on the items that both answered, by
    exact McNemar (by groups of items if they have any). Any other is from the intervals in the summaries (Newcombe 1998,
    method 10), which is too wide if the items are the same. `p_holm` is over all numbers of all pairs of runs. `same`:
    every item has the same credit, which is not a test. `voter`: a voter on Robust, which is biased by selection.
    """

    runs: tuple[int, int]
    number: str
    part: Part
    models: tuple[str, str] | None
    first: Mapping[str, Any]
    second: Mapping[str, Any]
    difference: Mapping[str, Any]
    error: float | None
    p: float | None
    paired: bool
    voter: bool = False
    same: bool = False
    p_holm: float | None = None

    @property
    def changed(self) -> bool | None:
        """Return whether the difference is more than noise; None if that cannot be said."""
        ci, p = self.difference["ci"], self.p_holm
        return None if ci is None or p is None else p <= LEVEL and not ci[0] <= 0 <= ci[1]

    @property
    def mde(self) -> float | None:
        """Return the difference that 80 % power would detect, beside a null result."""
        return detectable(self.error) if self.changed is False and self.error is not None else None

    @property
    def basis(self) -> str:
        """Return whether the difference is on the same items."""
        return "paired" if self.paired else "not paired"

    @property
    def tested(self) -> Mapping[str, Any]:
        """Return the difference with its p and power, for a table."""
        return {**self.difference, "p_holm": self.p_holm, "mde": self.mde}

    @property
    def label(self) -> str:
        """Return what is compared, in words."""
        if self.models is None:
            return self.number
        names = " / ".join(plain(name) for name in dict.fromkeys(self.models))
        part = "robust in both" if self.paired and self.part == "robust" else self.part
        return f"{names}, {VIEWS[self.number]}, {part}{' *' if self.voter else ''}"

    @property
    def noise(self) -> str:
        """Return whether the difference is more than noise, in words."""
        if self.changed is None:
            return "the same on every item" if self.same and self.first["n"] else "too few to tell"
        return "changed" if self.changed else "within noise"

    def tree(self) -> Tree:
        """Return the change as it is in JSON."""
        found = asdict(self)
        del found["error"]
        return {**found, "mde": self.mde, "changed": self.changed}


@dataclass(frozen=True)
class Side:
    """One run of a pair: its place from 0, its summary, and the `common` items with their verdicts."""

    place: int
    run: Run
    summary: Mapping[str, Any]
    common: tuple[str, ...]

    @cached_property
    def removed(self) -> Floats:
        """1 for a removed item, 0 for a kept one, NaN for an undecided one, (n,)."""
        found = self.run.verdicts if self.common else {}
        return np.array([{"shortcut": 1.0, "robust": 0.0}.get(found[i], np.nan) for i in self.common])

    @cached_property
    def groups(self) -> Ints | None:
        """The number of each item's group, (n,); None if no item has one."""
        group = {item.id: item.group for item in self.run.items or ()}
        if not any(group.get(i) for i in self.common):
            return None
        names = [f"group/{group[i]}" if group.get(i) else f"item/{i}" for i in self.common]
        return np.unique(names, return_inverse=True)[1]

    @cached_property
    def cloze(self) -> Bools:
        """The items that can be asked as cloze, (n,)."""
        fit = {row["item"] for row in self.run.verdict_rows() if not row.get("cloze_excluded")}
        return np.array([item in fit for item in self.common], dtype=bool)

    def credits(self, model: str) -> Credits:
        """Return the model's credits by view, (n,) each, as the run's summary counts them."""
        mode: Literal["letter", "text"] = "text" if self.summary["full_mode"] == "text" else "letter"
        template = None if at(self.summary, "screen.mode") == "text" else at(self.summary, "screen.template")
        answers = self.run.answers
        found = credits(answers, item_index(answers, self.common), model, template, mode=mode)
        cloze = found["cloze_chars"]
        return {**found, "cloze_chars": None if cloze is None else np.where(self.cloze, cloze, np.nan)}


@dataclass(frozen=True)
class Pair:
    """Two runs, compared by item unless `why_not` says why they cannot be.

    `items`: those of both with both verdicts, in the first run's order; `n_only`: how many only one run has.
    """

    one: Side
    two: Side
    why_not: str | None
    items: Mapping[str, tuple[str, str]]
    n_only: tuple[int, int]
    changes: tuple[Change, ...] = ()

    @property
    def runs(self) -> tuple[int, int]:
        """The places of both runs, from 0."""
        return self.one.place, self.two.place

    @property
    def anchor(self) -> str:
        """Return the part of an anchor that names the pair."""
        return "{}-{}".format(*self.runs)

    @property
    def names(self) -> str:
        """`[1] and [2]`."""
        return "[{}] and [{}]".format(*(place + 1 for place in self.runs))

    @property
    def rows(self) -> list[tuple[str, Change]]:
        """Return the changes by their labels."""
        return [(change.label, change) for change in self.changes]

    @property
    def counts(self) -> list[tuple[tuple[str, str], int]]:
        """Return the number of items by both verdicts."""
        return sorted(Counter(self.items.values()).items())

    @cached_property
    def moved(self) -> dict[str, tuple[str, str]]:
        """The items with another verdict, and both verdicts."""
        return {item: both for item, both in self.items.items() if both[0] != both[1]}

    def tree(self) -> Tree:
        """Return the pair as it is in JSON."""
        named: Tree = {
            "runs": list(self.runs),
            "changes": [c.tree() for c in self.changes],
            "why_not": self.why_not,
        }
        if self.why_not is not None:
            return named
        removed = [(a == "shortcut", b == "shortcut") for a, b in self.items.values()]
        either = np.array([a and b for a, b in removed if a or b], dtype=np.float64)
        return {
            **named,
            "n_common": len(self.items),
            "n_only": list(self.n_only),
            "removed": [sum(a for a, _ in removed), sum(b for _, b in removed)],
            "jaccard": intervals.rate(either).json(),
            "moved": dict(sorted(Counter(f"{a} -> {b}" for a, b in self.moved.values()).items())),
            "moved_items": [{"item": item, "from": a, "to": b} for item, (a, b) in self.moved.items()],
        }

    def measured(self) -> Iterator[Change]:
        """Yield every number that both runs have; `p_holm` is not given yet."""
        if self.items:
            yield self._paired("removed", "all", None, self.one.removed, self.two.removed)
        for number in list(NUMBERS)[bool(self.items) :]:
            yield from self._apart(number, "all", None)
        sides = (self.one, self.two)
        by_item = bool(self.items) and all("answers.parquet" in side.run.manifest["files"] for side in sides)
        first, second = (side.summary["accuracy"] or {} for side in sides)
        for models in _same_models(list(first), list(second)):
            won = (
                [side.credits(model) for side, model in zip(sides, models, strict=True)]
                if by_item
                else [{}, {}]
            )
            voter = bool(first[models[0]]["is_voter"] or second[models[1]]["is_voter"])
            for view in VIEWS:
                for change in self._of_view(view, models, won[0].get(view), won[1].get(view)):
                    yield replace(change, voter=voter and change.part == "robust")

    def _of_view(
        self, view: str, models: tuple[str, str], x: Floats | None, y: Floats | None
    ) -> Iterator[Change]:
        if x is None or y is None:
            yield from self._apart(view, "all", models)
            yield from self._apart(view, "robust", models)
            return
        change = self._paired(view, "all", models, x, y)
        yield change
        if change.same:
            # What differs is which items each run kept.
            yield from self._apart(view, "robust", models)
        else:
            robust = (self.one.removed == 0) & (self.two.removed == 0)
            yield self._paired(
                view, "robust", models, np.where(robust, x, np.nan), np.where(robust, y, np.nan)
            )

    def _paired(
        self, number: str, part: Part, models: tuple[str, str] | None, x: Floats, y: Floats
    ) -> Change:
        """Return a change on the same items, (n,) each, NaN for no answer: both values are on those with two answers."""
        there = ~np.isnan(x) & ~np.isnan(y)
        found, same = compare_pair(y, x, self.one.groups), bool(np.array_equal(x[there], y[there]))
        n = found.difference.n
        first, second = ({"value": float(v[there].mean()) if n else None, "n": n, "ci": None} for v in (x, y))
        difference = {"value": found.difference.value, "n": n, "ci": found.difference.ci}
        p = None if same else found.p
        error = found.difference.error
        return Change(
            self.runs, number, part, models, first, second, difference, error, p, paired=True, same=same
        )

    def _apart(self, number: str, part: Part, models: tuple[str, str] | None) -> Iterator[Change]:
        """Yield a change of what the two summaries show, if both show it."""
        named = zip((self.one, self.two), models or ("", ""), strict=True)
        q, r = (shown(side.summary, number, part, model) for side, model in named)
        if at(q, "value") is None or at(r, "value") is None:
            return
        value = r["value"] - q["value"]
        ci, error, p = None, None, None
        if q["ci"] is not None and r["ci"] is not None:
            low = value - math.hypot(r["value"] - r["ci"][0], q["ci"][1] - q["value"])
            high = value + math.hypot(r["ci"][1] - r["value"], q["value"] - q["ci"][0])
            ci, error = (max(-1.0, low), min(1.0, high)), (high - low) / 2 / _NORMAL.inv_cdf(0.975)
            p = 2 * _NORMAL.cdf(-abs(value) / error) if error else None
        first, second = ({name: x[name] for name in ("value", "n", "ci")} for x in (q, r))
        difference = {"value": value, "n": None, "ci": ci}
        yield Change(self.runs, number, part, models, first, second, difference, error, p, paired=False)


def shown(summary: Mapping[str, Any], number: str, part: Part, model: str) -> Any:
    """Return what a run's summary shows of a number, on all of its own items."""
    where = summary["accuracy"][model] if model else summary
    return at(where, NUMBERS.get(number, f"{number}.{part}"))


def _same_models(one: Sequence[str], two: Sequence[str]) -> list[tuple[str, str]]:
    """Return models of one name; and if each run has one other model, these two: a base and its fine-tuned form."""
    left, right = [m for m in one if m not in two], [m for m in two if m not in one]
    return [(m, m) for m in one if m in two] + ([(left[0], right[0])] if len(left) == len(right) == 1 else [])


@dataclass(frozen=True)
class Comparison:
    """Runs with their summaries, and every two of them as a pair."""

    runs: tuple[Run, ...]
    summaries: tuple[Mapping[str, Any], ...]
    pairs: tuple[Pair, ...]

    @property
    def changes(self) -> tuple[Change, ...]:
        """Return the changes of all pairs."""
        return tuple(change for pair in self.pairs for change in pair.changes)

    def tree(self) -> Tree:
        """Return the comparison for JSON: `runs` in the order given, and `pairs`, by their places from 0."""
        runs = [_run(run, s) for run, s in zip(self.runs, self.summaries, strict=True)]
        return {"runs": runs, "pairs": [pair.tree() for pair in self.pairs]}

    def chance_of(self, pair: Pair) -> str:
        """Return what guessing scores in both runs, to be read beside their accuracies."""
        values = [at(self.summaries[place], "benchmark.chance_accuracy") for place in pair.runs]
        words = ["not measured" if value is None else percent(value) for value in values]
        return f"Chance: {' and '.join(dict.fromkeys(words))}."


def compared(folders: Sequence[Path]) -> Comparison:
    """Return the comparison of the runs in these folders, two or more.

    Raises:
        UsageError: a folder is not a run.
        DataError: a file is not as its run left it.
    """
    runs = tuple(open_run(folder) for folder in folders)
    for run in runs:
        read = ("summary.json", VERDICTS, "answers.parquet", *SPLIT_FILES)
        run.require_unchanged(
            *(name for name in read if name in run.manifest["files"] or name == "summary.json")
        )
    summaries = tuple(tree(run.summary) for run in runs)
    pairs = [_pair((i, j), runs, summaries) for i, j in combinations(range(len(runs)), 2)]
    changes = [list(pair.measured()) for pair in pairs]
    adjusted = iter(holm([c.p for of_pair in changes for c in of_pair if c.p is not None]))
    found = (
        tuple(c if c.p is None else replace(c, p_holm=next(adjusted)) for c in of_pair) for of_pair in changes
    )
    return Comparison(
        runs, summaries, tuple(replace(p, changes=c) for p, c in zip(pairs, found, strict=True))
    )


def _pair(places: tuple[int, int], runs: Sequence[Run], summaries: Sequence[Mapping[str, Any]]) -> Pair:
    one, two = (runs[place] for place in places)
    listed = all(VERDICTS in run.manifest["files"] for run in (one, two))
    why_not, alone = None if listed else "a run without verdicts.csv", (0, 0)
    items: dict[str, tuple[str, str]] = {}
    if why_not is None:
        first, second = one.verdicts, two.verdicts
        items = {item: (first[item], second[item]) for item in _same_items(one, two, first, second)}
        why_not = None if items else "no item is in both"
        alone = (len(first) - len(items), len(second) - len(items))
    sides = [Side(place, runs[place], summaries[place], tuple(items)) for place in places]
    return Pair(sides[0], sides[1], why_not, items, alone)


def _same_items(one: Run, two: Run, first: Mapping[str, str], second: Mapping[str, str]) -> list[str]:
    both = [item for item in first if item in second]
    if one.manifest["data"].get("sha256") == two.manifest["data"].get("sha256"):
        return both
    texts = [{i.id: (i.stem, i.choices, i.key) for i in run.items or ()} for run in (one, two)]
    return [i for i in both if i in texts[0] and texts[0][i] == texts[1].get(i)]


def _run(run: Run, s: Mapping[str, Any]) -> Tree:
    return {
        "run": str(run.folder),
        "signature": run.manifest["signature"],
        "n_items": run.manifest["data"].get("n_items"),
        "splits": s["splits"],
        "screen": {name: at(s, f"screen.{name}") for name in RULE},
        "certificate": at(s, "certificate.verdict"),
    }


def rule_of(s: Mapping[str, Any]) -> str:
    """Return the rule of a summary's screen in two words."""
    return "/".join(word for word in (at(s, "screen.criterion"), at(s, "screen.mode")) if word) or "no screen"
