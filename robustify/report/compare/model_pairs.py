"""Comparison of models in pairs, from logs or runs: differences, tests, and the smallest detectable difference."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from robustify.judging.measures import MEASURES
from robustify.judging.stats.intervals import NORMAL
from robustify.judging.stats.tests import LEVEL, detectable, holm
from robustify.judging.summary.model_parts import Paired
from robustify.judging.summary.quantity import Quantity
from robustify.report.compare.change import Tree, differences_plot, not_counting
from robustify.report.format import (
    ABSENT,
    Cell,
    Table,
    agreeing,
    bracketed,
    cell,
    counted,
    in_points,
    p_cell,
    plain,
    table,
)
from robustify.report.opening import FirstScreen
from robustify.report.printing import catalogue, filled, html, printed_table
from robustify.runs.run import Run


@dataclass(frozen=True, slots=True)
class ModelPair:
    """Two models on the items of a task: the better model, the other model, and the difference of their scores in a view.

    `p` is the mid-p of McNemar's test (by groups of items if there are any), adjusted by Holm over all pairs of all tasks.
    `mde` is the smallest difference detectable with 80 % power at Holm's first level. `looks` is how much more the better
    model owes to looks. `left_out` counts the items that only one model has a score for. If both are right on the `same`
    items, nothing is estimated.
    """

    task: str
    better: str
    other: str
    view: str
    difference: Quantity
    p: float | None
    mde: float | None
    looks: Quantity | None
    left_out: int = 0
    same: bool = False

    @property
    def changed(self) -> bool | None:
        """Whether the models differ significantly, or None if there is no test."""
        ci = self.difference.ci
        return None if ci is None or self.p is None else self.p <= LEVEL and not ci[0] <= 0 <= ci[1]

    @property
    def by_looks(self) -> bool | None:
        """Whether looks bring the better model significantly more points, or None if this cannot be estimated."""
        ci = self.looks.ci if self.looks else None
        return None if ci is None else ci[0] > 0

    @property
    def line(self) -> str:
        """The result as one sentence."""
        line = filled(catalogue()["compared"]["models"], {"pair": self}).removesuffix(".")
        return f"{line}{not_counting(self.left_out)}."

    def tree(self) -> Tree:
        """Return the pair as JSON values."""
        fields = ("task", "better", "other", "view", "p", "mde", "changed", "by_looks", "left_out", "same")
        values = {name: getattr(self, name) for name in fields}
        return values | {
            name: q and q.tree() for name, q in (("difference", self.difference), ("looks", self.looks))
        }


def model_pairs(runs: Sequence[Run]) -> tuple[ModelPair, ...]:
    """Return the model pairs of all runs, with their scores on the full question. A pair without them has cloze scores."""
    entries = [
        (run.summary, pair, view, paired)
        for run in runs
        for pair in (run.summary.pairs or {}).values()
        for view, paired in _view(pair)
    ]
    tested = [paired.p_mid for *_, paired in entries if paired.p_mid is not None]
    corrected = iter(holm(tested))
    pairs = []
    for summary, pair, view, paired in entries:
        p = None if paired.p_mid is None else next(corrected)
        same = not (paired.b or paired.c or paired.tied)
        swap = (paired.difference.value or 0.0) < 0
        difference = _turned(paired.difference) if swap else paired.difference
        looks = pair.looks if pair.looks is None or not swap else _turned(pair.looks)
        if same:
            difference = Quantity(value=difference.value, n=difference.n)
        ci, level = difference.ci, 1 - LEVEL / max(1, len(tested))
        error = None if ci is None else (ci[1] - ci[0]) / 2 / NORMAL.inv_cdf(0.975)
        better, other = reversed(pair.models) if swap else pair.models
        mde = None if error is None else detectable(error, level)
        scores = next(measure for measure in MEASURES if measure.name == view).read(summary)
        answered = [values.all.n or 0 for name in pair.models if (values := scores.get(name)) and values.all]
        left_out = max(0, sum(answered) - 2 * (difference.n or 0))
        task = summary.benchmark.name or ""
        pairs.append(ModelPair(task, better, other, view, difference, p, mde, looks, left_out, same))
    return tuple(pairs)


def _view(pair: Any) -> Iterator[tuple[str, Paired]]:
    for view in ("full", "cloze_chars"):
        if (compared := getattr(pair, view)) is not None and compared.all.n:
            yield view, compared.all
            return


def _turned(q: Quantity) -> Quantity:
    value = None if q.value is None else -q.value + 0.0
    return Quantity(value=value, n=q.n, ci=None if q.ci is None else (-q.ci[1], -q.ci[0]))


_RESULTS = {True: "better", False: "cannot be distinguished", None: "too few to tell"}


def pair_table(pairs: Sequence[ModelPair]) -> Table:
    """Return the pairs as a table, with a column for the task if there are several."""
    rows = (
        (pair.task, f"{plain(pair.better)} over {plain(pair.other)}", cell(pair.difference.n),
         _with_ends(pair.difference), p_cell(pair.p), cell(pair.mde, "points"), _with_ends(pair.looks),
         ("same items right" if pair.same else _RESULTS[pair.changed]) + not_counting(pair.left_out))
        for pair in pairs
    )  # fmt: skip
    heads = ("Task", "Models", "Items", "Difference", "p", "Detectable", "More by looks", "Result")
    return table("Models on the same items", heads, rows, names=2)


def _with_ends(q: Quantity | None) -> Cell:
    if q is None or q.value is None:
        return ABSENT
    return Cell(in_points(q.value) + bracketed(q.ci), value=q.value, ends=q.ci, n=q.n)


def pair_lines(pairs: Sequence[ModelPair]) -> list[str]:
    """Return a line for each pair, for a terminal."""
    several = len({pair.task for pair in pairs}) > 1
    return [f"{plain(pair.task)}: {pair.line}" if several else pair.line for pair in pairs]


def pair_html(pairs: Sequence[ModelPair], name: str, signature: str) -> str:
    """Return the pairs as an HTML page with a plot of the differences."""
    n_changed = sum(bool(pair.changed) for pair in pairs)
    first = FirstScreen(
        f"{n_changed} of {counted(len(pairs), 'difference')} {agreeing(n_changed, 'is', 'are')} more than noise.",
        "unsure", checks=tuple((None, line) for line in pair_lines(pairs)[:MOST_LINES]),
    )  # fmt: skip
    plot = differences_plot((_plot_label(pair), pair.difference) for pair in pairs)
    return html(
        "model_pairs.html.j2", name=name, signature=signature, first=first, table=pair_table(pairs), plot=plot
    )


def _plot_label(pair: ModelPair) -> str:
    task = f", {plain(pair.task, 40)}" if pair.task else ""
    return f"{plain(pair.better, 40)} over {plain(pair.other, 40)}{task}"


MOST_LINES = 6


def pair_text(pairs: Sequence[ModelPair], form: str) -> str:
    """Return the table of the pairs in Markdown, LaTeX, or CSV."""
    return printed_table(pair_table(pairs), form)
