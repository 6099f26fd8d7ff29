"""Table of measures: every number of a run by its name, in the order of the report.

`summary.json` and its schema, the tables of the page, the lines of `compare`, the released page of a restricted run and the
field reference follow from it. A measure without a `disclosure` is not released. Its label is in `report/messages.yaml`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from robustify.base.arrays import Bools, Floats, Ints
from robustify.items.scoring import best
from robustify.judging.audit.auditor import AuditRate, FreshProbe, all_answered
from robustify.judging.context import LONGEST, Context, Parts
from robustify.judging.readers.reader_rows import NAME as PROBE
from robustify.judging.readers.reader_rows import VIEW as PROBE_VIEW
from robustify.judging.screen.votes import first_picks
from robustify.judging.screening import heuristic_gap, rule_scores
from robustify.judging.stats.intervals import effective_size, rate
from robustify.judging.stats.tests import minimum_detectable_difference, paired_difference
from robustify.judging.summary.model_parts import Model
from robustify.judging.summary.quantity import Measured, Measures, Quantity, Score
from robustify.judging.summary.result import AuditorResult, Summary
from robustify.judging.summary.screen_parts import Screen

if TYPE_CHECKING:
    from robustify.judging.accuracy import ScoredModel
    from robustify.judging.free_response import FreeGraded
    from robustify.judging.looks.estimate import Estimate

Section = Literal["flags", "scores", "cloze", "modes", "free", "gaps", "norms", "rules"]
Unit = Literal["accuracy", "share", "points", "p"]
"""`accuracy` is the share of right answers, which is compared with mean(1/k). `points` is a difference of two shares."""
Scope = Literal["set", "model", "rule"]
ReleaseGroup = Literal["screen", "accuracy", "audit", "topics", "free", "cues", "looks"]
PartName = Literal["all", "kept"]
SET = ""
"""Name under which a measure of the set is found."""


@dataclass(frozen=True, slots=True)
class Disclosed:
    """Place of a measure on the released page: its group, and its rank of importance. Models alternate within a rank.
    Only the named `parts` and `rules` are released. A number that is not `charged` follows from numbers that are. If
    `only_state`, the value is never released, but whether it is claimed."""

    group: ReleaseGroup
    rank: int
    parts: tuple[PartName, ...] = ("all", "kept")
    rules: tuple[str, ...] = ()
    charged: bool = True
    only_state: bool = False


@dataclass(frozen=True, eq=False)
class MeasureInput(Context):
    """Input of all measures: the context, and each model's credits and free responses."""

    models: "Mapping[str, ScoredModel]"
    free: "Mapping[str, FreeGraded]"

    @classmethod
    def from_context(cls, ctx: Context) -> "MeasureInput":
        """Score every model that has answers in a view or free responses."""
        responses, grades = ctx.responses, ctx.responses.facts.free
        inputs = cls(**vars(ctx), models={}, free={})
        if not responses.models and grades is None:
            return inputs
        from robustify.judging.accuracy import score_models
        from robustify.judging.free_response import free_responses

        free = free_responses(grades, responses.index)
        names = dict.fromkeys((*responses.models, *free))
        return replace(inputs, models=score_models(responses, ctx.screen.votes, ctx.rules, names), free=free)

    @cached_property
    def fresh(self) -> AuditRate | None:
        """Audit of all items by the fresh probe, with a p-value from refits."""
        return FreshProbe(self.responses.items, self.rules.probe).audit(all_answered(self.responses.index))

    @cached_property
    def looks(self) -> "Mapping[str, Estimate]":
        """Looks of each model that was asked the full question."""
        from robustify.judging.looks.run_looks import looks_of

        return looks_of(self.responses, self.screen.ranker, self.rules)

    @cached_property
    def read(self) -> Floats:
        """Credits of the cross-fitted probe (the reader), which sees no question. NaN if it was not asked (n,)."""
        block = self.responses.answers.block(PROBE_VIEW, PROBE).first()
        return self.responses.index.spread(block, block.correct)

    def scores(self, view: str, name: str) -> Floats | None:
        """Return a model's credits or free-response scores under a view, with NaN for items unfit for the view (n,)."""
        if view == "free":
            return self.free[name].score if name in self.free else None
        credit = self.models[name].credits.get(view)
        fit = self.parts.cloze if view.startswith("cloze") else True
        return None if credit is None else np.where(fit, credit, np.nan)


@dataclass(frozen=True, slots=True)
class PerItem:
    """Measure that averages one value per item, such as a credit (n,). Items without a value are NaN."""

    values: "Callable[[ScoredModel], Floats | None]"
    cloze: bool = False


Whole = Callable[[MeasureInput], Mapping[str, Measured]]
"""Measure that is computed at once, by the name of a model or rule."""


@dataclass(frozen=True, slots=True)
class OfPart:
    """Measure of the whole set that repeats a number from another part of the summary."""

    read: Callable[[Summary], Measured | None]


@dataclass(frozen=True, slots=True)
class OfModel:
    """Measure of each model that repeats a number from the model's part of the summary."""

    read: Callable[[Model], Measured | None]


@dataclass(frozen=True, slots=True)
class Measure:
    """Named number of a run, with its unit, its place in the report, and its computation. `scope` says
    whether it has one value, or one for each model or rule; each is crossed with the parts."""

    name: str
    section: Section
    unit: Unit
    scope: Scope
    disclosure: Disclosed | None
    compute: PerItem | Whole | OfPart | OfModel

    @property
    def stored(self) -> bool:
        """Whether the value is in `summary.measures`, and in no other part of the summary."""
        return not isinstance(self.compute, (OfPart, OfModel))

    def read(self, summary: Summary) -> Mapping[str, Measured]:
        """Return the measure's values from a summary, keyed by model or rule. The whole set's value is under `SET`."""
        stored = summary.measures
        if isinstance(self.compute, OfModel):
            of_model = {name: self.compute.read(model) for name, model in summary.models.items()}
            return {name: measured for name, measured in of_model.items() if measured is not None}
        match self.scope:
            case "model":
                return stored.model.get(self.name, {})
            case "rule":
                return stored.rule.get(self.name, {})
        source = self.compute
        measured = source.read(summary) if isinstance(source, OfPart) else stored.set.get(self.name)
        return {} if measured is None else {SET: measured}

    def computed(self, inputs: MeasureInput) -> Mapping[str, Measured]:
        """Compute the measure's values for each model or rule. Empty if another part of the summary has them."""
        match self.compute:
            case PerItem(values):
                values_of = {name: values(model) for name, model in inputs.models.items()}
                return {
                    n: self.mean(credit, inputs.parts)
                    for n, credit in values_of.items()
                    if credit is not None
                }
            case OfPart() | OfModel():
                return {}
            case whole:
                return whole(inputs)

    def mean(self, values: Floats, parts: Parts) -> Measured:
        """Return the mean of the values on all, kept and flagged items. Credits are compared with chance."""
        fit = parts.cloze if isinstance(self.compute, PerItem) and self.compute.cloze else None

        def on(mask: Bools) -> Score:
            if self.unit == "accuracy":
                return against_chance(
                    values[mask], None if parts.k is None else parts.k[mask], parts.groups_of(mask)
                )
            return Score.from_rate(parts.rate(values, mask))

        return _on_parts(parts, on, fit)


def _on_parts(parts: Parts, score: Callable[[Bools], Score], fit: Bools | None = None) -> Measured:
    """Compute a measure on all items, on the kept items, and on the flagged items. Only items that are `fit` count."""
    inside = np.ones(len(parts.kept), dtype=bool) if fit is None else fit
    return Measured(all=score(inside), kept=score(inside & parts.kept), flagged=score(inside & parts.flagged))


def against_chance(hits: Floats, k: Ints | None, groups: Ints | None = None, effect: float = 1.0) -> Score:
    """Compare an accuracy with chance, mean(1/k). It is significant if its interval excludes chance: Wilson's score test
    for fixed picks under exchangeable keys, over independent `groups` (n,). `effect` is a further design effect. Without
    significance, `mde` is the increase detectable with 80 % power."""
    answered = ~np.isnan(hits)
    measured = rate(hits, groups, effect)
    if k is None or measured.value is None:
        return Score.from_rate(measured)
    chance, ci = float(np.mean(1 / k[answered])), measured.ci
    size = effective_size(hits[answered], None if groups is None else groups[answered])
    if ci is None or size is None:
        return Score.from_rate(measured, chance=chance)
    significant = not ci[0] <= chance <= ci[1]
    mde = math.nan if significant else minimum_detectable_difference(size / effect, chance)
    return Score.from_rate(
        measured, chance=chance, significant=significant, mde=None if math.isnan(mde) else mde
    )


def measures(inputs: MeasureInput) -> Measures:
    """Compute all measures, except those that repeat another part of the summary."""
    by_scope: dict[Scope, dict[str, dict[str, Measured]]] = {"set": {}, "model": {}, "rule": {}}
    for measure in MEASURES:
        if values := measure.computed(inputs):
            by_scope[measure.scope][measure.name] = dict(values)
    of_set = {name: values[SET] for name, values in by_scope["set"].items()}
    return Measures(set=of_set, model=by_scope["model"], rule=by_scope["rule"])


def _credit(view: str) -> PerItem:
    return PerItem(lambda model: model.credits.get(view), cloze=view.startswith("cloze"))


def _each(score: Callable[[MeasureInput, str], Score | None]) -> Whole:
    """Return a measure that is computed on all items and has one value per model."""

    def measure(inputs: MeasureInput) -> dict[str, Measured]:
        scores = {name: score(inputs, name) for name in inputs.models}
        return {name: Measured(all=value) for name, value in scores.items() if value is not None}

    return measure


def _longest_gap(view: str) -> Whole:
    """Return a measure of how much more accurate a model is if the longest choice is the key."""
    return _each(
        lambda inputs, name: heuristic_gap(
            inputs.scores(view, name), inputs.parts.longest, inputs.parts.groups
        )
    )


def _reader_gap(inputs: MeasureInput, name: str) -> Score | None:
    """Return how much more accurate a model is on items whose key the reader finds. These items are easier, or the
    model follows the same looks."""
    return heuristic_gap(inputs.scores("full", name), inputs.read, inputs.parts.groups)


def _full_less(view: str) -> Whole:
    """Return a measure of how much higher accuracy is on the full question than under another view, on items with both."""

    def gap(inputs: MeasureInput, name: str) -> Score | None:
        full, other = inputs.scores("full", name), inputs.scores(view, name)
        if full is None or other is None:
            return None
        difference = paired_difference(full, other, inputs.parts.groups)
        return Score.from_rate(difference, mde=difference.mde)

    return _each(gap)


def _longest_picks(model: "ScoredModel") -> Floats | None:
    """Return 1 if a model picks a longest choice on a full question, 0 if not, and NaN without a single pick."""
    picks = first_picks(model.answers, model.index, model.full, model.model)
    longest = model.answers.block("heuristic", LONGEST).first()
    if picks is None or not len(longest):
        return None
    pick = picks[model.index.index_of[longest.item]]
    hit = best(longest.scores, longest.k)[np.arange(len(pick)), np.maximum(pick, 0)]
    return model.index.spread(longest, np.where(pick < 0, np.nan, hit))


def _free(measure_part: "Callable[[FreeGraded, Bools, Ints | None], Score]") -> Whole:
    def measure(inputs: MeasureInput) -> dict[str, Measured]:
        parts = inputs.parts

        def scored(graded: "FreeGraded", mask: Bools) -> Score:
            return measure_part(graded, mask, parts.groups)

        return {name: _on_parts(parts, partial(scored, graded)) for name, graded in inputs.free.items()}

    return measure


def _reader(inputs: MeasureInput) -> dict[str, Measured]:
    """Return the accuracy of the cross-fitted probe. It is named in advance, as the best of several would be too good. Its
    hits vary more than guesses, as much as those of refits of the fresh probe with permuted keys, if any."""
    if np.isnan(inputs.read).all():
        return {}
    effect = 1.0 if inputs.fresh is None else inputs.fresh.effect
    k, groups = inputs.responses.index.k, inputs.responses.groups
    return {SET: Measured(all=against_chance(inputs.read, k, groups, effect))}


def _flagged(inputs: MeasureInput) -> dict[str, Measured]:
    if not inputs.screen.was_done:
        return {}
    share = rate(inputs.parts.flagged.astype(np.float64), inputs.responses.groups)
    return {SET: Measured(all=Score.from_rate(share))}


def _of_screen(
    read: Callable[[Screen], Quantity | float | None], applies: Callable[[Screen], bool] = bool
) -> OfPart:
    """Return a measure whose value is taken from the summary of the screen. It has no value unless
    `applies` is true of the screen."""
    return OfPart(lambda s: Measured(all=_score(read(s.screen))) if s.screen and applies(s.screen) else None)


def _of_probe(read: Callable[[AuditorResult], Measured]) -> OfPart:
    return OfPart(lambda s: read(s.residual.probe) if s.residual and s.residual.probe else None)


def _score(q: Quantity | float | None) -> Score:
    return Score(value=q.value, n=q.n, ci=q.ci) if isinstance(q, Quantity) else Score(value=q)


def _by_chance(screen: Screen) -> float | None:
    n, expected = screen.flagged.n, screen.expected_flags
    return None if expected is None or expected.value is None or not n else expected.value / n


def _looks(model: Model) -> Measured | None:
    looks = model.looks
    if looks is None:
        return None
    withheld = looks.state if looks.value is None else None
    return Measured(all=Score(value=looks.value, n=looks.n, ci=looks.ci, withheld=withheld))


TOPICS_RANK = 60
"""Rank of the table of topics on the released page."""
_ALL: tuple[PartName, ...] = ("all",)

MEASURES = (
    Measure("reader", "flags", "accuracy", "set", Disclosed("audit", 65, _ALL), _reader),
    Measure("flagged", "flags", "share", "set", Disclosed("screen", 10, _ALL, charged=False), _flagged),
    Measure("flagged_by_chance", "flags", "share", "set", Disclosed("screen", 20, _ALL), _of_screen(_by_chance)),
    Measure("excess_p", "flags", "p", "set", Disclosed("screen", 30, _ALL),
            _of_screen(lambda s: s.excess_over_chance and s.excess_over_chance.p, applies=lambda s: s.cut is None)),
    Measure("shortcuts", "flags", "share", "set", Disclosed("screen", 70, _ALL),
            _of_screen(lambda s: s.latent_shortcut_rate, applies=lambda s: s.cut is None)),
    Measure("shortcuts_at_least", "flags", "share", "set", Disclosed("screen", 70, _ALL),
            _of_screen(lambda s: s.latent_shortcut_rate, applies=lambda s: s.cut is not None)),
    Measure("probe", "flags", "share", "set", Disclosed("audit", 50, ("kept",)),
            _of_probe(lambda probe: Measured(kept=_score(probe)))),
    Measure("probe_by_chance", "flags", "share", "set", Disclosed("audit", 51, _ALL),
            _of_probe(lambda probe: Measured(all=_score(probe.chance)))),
    Measure("full", "scores", "accuracy", "model", Disclosed("accuracy", 40), _credit("full")),
    Measure("reader_gap", "scores", "points", "model", None, _each(_reader_gap)),
    Measure("choices_only", "scores", "accuracy", "model", Disclosed("accuracy", 80, _ALL), _credit("choices_only")),
    Measure("cloze_chars", "cloze", "accuracy", "model", Disclosed("accuracy", 90), _credit("cloze_chars")),
    Measure("longest_picks", "scores", "share", "model", None, PerItem(_longest_picks)),
    Measure("free", "scores", "accuracy", "model", Disclosed("free", 90), _free(lambda graded, *on: graded.rate(*on))),
    Measure("choices_only_by_letter", "modes", "accuracy", "model", None, _credit("choices_only_by_letter")),
    Measure("choices_only_by_text", "modes", "accuracy", "model", None, _credit("choices_only_by_text")),
    Measure("free_lower", "free", "share", "model", None, _free(lambda graded, *on: graded.bound(*on, unscored=0.0))),
    Measure("free_upper", "free", "share", "model", None, _free(lambda graded, *on: graded.bound(*on, unscored=1.0))),
    Measure("free_coverage", "free", "share", "model", None, _free(lambda graded, *on: graded.coverage(*on))),
    Measure("free_by_judge", "free", "share", "model", None, _free(lambda graded, *on: graded.by_judge(*on))),
    Measure("looks", "gaps", "points", "model", Disclosed("looks", 110, _ALL, only_state=True), OfModel(_looks)),
    Measure("longest_gap", "gaps", "points", "model", None, _longest_gap("full")),
    Measure("longest_gap_choices_only", "gaps", "points", "model", None, _longest_gap("choices_only")),
    Measure("longest_gap_cloze", "gaps", "points", "model", None, _longest_gap("cloze_chars")),
    Measure("longest_gap_free", "gaps", "points", "model", None, _longest_gap("free")),
    Measure("format_gap", "gaps", "points", "model", None, _full_less("cloze_chars")),
    Measure("free_gap", "gaps", "points", "model", None, _full_less("free")),
    Measure("cloze_tokens", "norms", "accuracy", "model", None, _credit("cloze_tokens")),
    Measure("cloze_bytes", "norms", "accuracy", "model", None, _credit("cloze_bytes")),
    Measure("cloze_sum", "norms", "accuracy", "model", None, _credit("cloze_sum")),
    Measure("cloze_pmi", "norms", "accuracy", "model", None, _credit("cloze_pmi")),
    Measure("rule", "rules", "accuracy", "rule",
            Disclosed("cues", 100, rules=("longest_answer", "most_common_position")),
            lambda inputs: rule_scores(inputs.responses, inputs.screen.result, inputs.parts))
)  # fmt: skip
"""All measures, in the order of the report."""
_NAMED = {measure.name: measure for measure in MEASURES}
READER, FLAGGED, FULL, LOOKS = (_NAMED[name] for name in ("reader", "flagged", "full", "looks"))
CHOICES_ONLY, CLOZE, RULE = _NAMED["choices_only"], _NAMED["cloze_chars"], _NAMED["rule"]
SECTIONS = tuple(dict.fromkeys(measure.section for measure in MEASURES))
COMPARED: tuple[Section, ...] = ("flags", "scores", "cloze")
"""Sections that `compare` compares."""


def of_section(*sections: Section) -> tuple[Measure, ...]:
    """Return the measures of some sections of the report."""
    return tuple(measure for measure in MEASURES if measure.section in sections)
