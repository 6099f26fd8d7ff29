"""The list of everything in summary.json that may leave a restricted run; what is not on it does not leave.

A path names a place: `*` any name, `[]` any place in a list. Numbers that depend on which items were flagged belong
to a group, and the groups stand in the order in which they are let out while the bit budget lasts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from robustify.disclosure.coarse import Kind

Base = Literal["", "robust", "shortcut", "own", "answered"]


@dataclass(frozen=True, slots=True)
class Shown:
    """One place of the summary. `group`: its numbers depend on the flags; `base`: the part they are rates on.

    `own`: a part that only this number tells of; `answered`: all items that were answered.
    """

    path: str
    kind: Kind
    group: str = ""
    base: Base = ""

    @property
    def steps(self) -> tuple[str, ...]:
        """The path, step by step."""
        return tuple(self.path.split("."))

    @property
    def ends(self) -> int:
        """The numbers beside it that the value does not give: the ends of an interval, or the size of its own part."""
        match self.kind, self.base:
            case "rate", "robust" | "shortcut":
                return 0
            case "rate", "own":
                return 1
            case "rate" | "difference", _:
                return 2
            case _:
                return 0


GROUPS = (
    "luck, places known", "luck", "full question", "probe on what is left", "cloze", "other auditors", "latent rate",
    "cues", "choices only", "random removal", "D.4's rule", "agreement of voters", "keys to review",
    "pairs on Robust", "contamination", "cloze by other norms", "other rules",
)  # fmt: skip
"""In the order of the argument: what was luck, what models score, whether shortcuts are left; then the rest."""
VIEW_GROUPS = {
    "full": "full question", "choices_only": "choices only", "choices_only_text": "choices only",
    "cloze_chars": "cloze", "cloze_tokens": "cloze by other norms", "cloze_bytes": "cloze by other norms",
    "cloze_sum": "cloze by other norms", "cloze_pmi": "cloze by other norms", "free": "cloze by other norms",
}  # fmt: skip
CUES = {
    "length": ("longest_answer", "shortest_answer", "longest_words", "shortest_words"),
    "place": ("first_option", "last_option", "most_common_position"),
    "alphabet": ("alphabetical_first",),
    "numbers": ("most_numeric",),
    "likeness of options": ("odd_one_out", "most_overlap", "least_overlap"),
    "words of the question": ("stem_overlap", "least_stem_overlap"),
    "wording": ("fewest_absolutes", "most_hedges", "all_of_the_above"),
}
"""The classes of cues. Of each class its strongest member on all items is shown, under the name of the class."""


def _each(kind: Kind, *paths: str, group: str = "", base: Base = "") -> Iterator[Shown]:
    for path in paths:
        yield Shown(path, kind, group, base)


def _benchmark() -> Iterator[Shown]:
    yield from _each("setting", "format")
    yield from _each("word", "benchmark.name", "benchmark.key_places.test")
    yield from _each("count", "benchmark.n_items", "benchmark.key_places.n")
    yield from _each("cell", "benchmark.n_quarantined", "benchmark.option_counts.*", "benchmark.defects.*.n")
    yield from _each(
        "share",
        "benchmark.chance_accuracy",
        "benchmark.key_positions.[]",
        "benchmark.key_places.shares.[]",
    )
    yield from _each("p", "benchmark.key_places.p")


def _screen() -> Iterator[Shown]:
    told = ("criterion", "mode", "norm", "template", "rotation", "probe_vote")
    yield from _each("word", *(f"screen.{name}" for name in told), "screen.voters.*.kind")
    yield from _each("setting", "screen.rotations", "screen.probe_confidence")
    yield from _each("rate", "screen.voters.*.choices_only_accuracy")
    yield from _each("share", "screen.voters.*.position_share.[]")
    yield from _each("count", "screen.voters.*.unanswered", "screen.voters.*.ties")
    yield from _each("count", "screen.asked", "screen.answered", "screen.unanswered")
    for at, group in (("screen", "luck"), ("screen.by_place", "luck, places known")):
        yield from _luck(f"{at}.excess_over_chance", group)
        yield from _each("rate", f"{at}.latent_shortcut_rate", group="latent rate")
    yield from _each("p", "screen.by_place.key_places_p")
    yield from _each("number", "screen.agreement.fleiss_kappa", group="agreement of voters")
    yield from _each("word", "screen.d4_rule.template")
    yield from _each("rate", "screen.d4_rule.flagged", group="D.4's rule", base="answered")
    for at in ("screen.d4_rule", "screen.d4_rule.by_place"):
        yield from _luck(f"{at}.excess_over_chance", "D.4's rule")
        yield from _each("rate", f"{at}.latent_shortcut_rate", group="D.4's rule")


def _luck(excess: str, group: str) -> Iterator[Shown]:
    yield from _each("difference", excess, group=group)
    yield from _each("p", f"{excess}.p", group=group)


def _splits() -> Iterator[Shown]:
    yield from _each("count", "splits.all", "splits.undecided", "splits.cloze")
    yield from _each("cell", "splits.cloze_excluded.*")


def _accuracy() -> Iterator[Shown]:
    yield from _each("truth", "accuracy.*.is_voter")
    for view, group in VIEW_GROUPS.items():
        at = f"accuracy.*.{view}"
        yield from _each("rate", f"{at}.all")
        yield from _each("share", f"{at}.all.chance", f"{at}.all.mde", f"{at}.heuristic_gap.mde")
        yield from _each("truth", f"{at}.all.told_from_chance")
        yield from _each("difference", f"{at}.heuristic_gap")
        yield Shown(f"{at}.robust", "rate", group, "robust")
        yield Shown(f"{at}.shortcut", "rate", group, "shortcut")
    yield from _each("difference", "accuracy.*.format_gap")
    yield from _each("share", "accuracy.*.format_gap.mde")


def _comparisons() -> Iterator[Shown]:
    yield from _each("word", "pairs.*.models.[]", "random_removal.*.view")
    yield from _each("truth", "pairs.*.is_voter", "random_removal.*.is_voter")
    for view in ("full", "cloze_chars"):
        at = f"pairs.*.{view}"
        yield from _each("count", f"{at}.all.n", f"{at}.all.tied")
        yield from _each("cell", f"{at}.all.b", f"{at}.all.c")
        yield from _each("difference", f"{at}.all.difference")
        yield from _each("p", f"{at}.all.p", f"{at}.all.p_holm")
        yield from _each("share", f"{at}.all.mde")
        yield from _each("truth", f"{at}.robust.voter")
        yield from _each("difference", f"{at}.robust.difference", group="pairs on Robust", base="robust")
        yield from _each("p", f"{at}.robust.p_holm", group="pairs on Robust")
    yield from _each("setting", "random_removal.*.draws")
    for name in ("mean", "ci.[]", "mde"):
        yield Shown(f"random_removal.*.{name}", "share", "random removal")
    yield Shown("random_removal.*.robust", "rate", "random removal", "robust")
    yield from _each("p", "random_removal.*.p", group="random removal")


def _order() -> Iterator[Shown]:
    yield from _each("truth", "permutation.*.is_voter")
    for at in ("permutation.*", "permutation.*.rotations"):
        yield from _each("share", *(f"{at}.{name}" for name in ("mean", "mean_ci.[]", "sd", "min", "max")))
        yield from _each("rate", f"{at}.flip_rate", f"{at}.consistency")
        yield from _each("count", f"{at}.orders", f"{at}.n", f"{at}.asked")
    yield from _each("share", "permutation.*.position_prior.[]", "permutation.*.debiased.difference.mde")
    yield from _each("count", "permutation.*.prior_n", "permutation.*.place_recall.n")
    yield from _each("rate", "permutation.*.debiased.accuracy", "permutation.*.debiased.raw")
    yield from _each("difference", "permutation.*.debiased.difference")
    yield from _each("share", "permutation.*.place_recall.by_place.[]")
    yield from _each("share", "permutation.*.place_recall.sd", "permutation.*.place_recall.sd_if_even")
    yield from _each("p", "permutation.*.place_recall.p")
    yield from _each("word", "permutation.cloze_invariance")
    yield from _each("count", "permutation.cloze_invariance")
    yield from _each("count", *(f"position_bias.*.{name}" for name in ("n", "asked", "tied")))
    yield from _each("rate", "position_bias.*.places.[].picked", "position_bias.*.places.[].recall")
    yield from _each("share", "position_bias.*.places.[].key", "position_bias.*.recall_sd")
    yield from _each("difference", "position_bias.*.places.[].excess")
    yield from _each("p", "position_bias.*.places.[].p_holm")


def _calibration() -> Iterator[Shown]:
    numbers = ("ece", "ece_ci.[]", "ece_if_calibrated", "brier", "brier_ci.[]", "temperature", "ece_scaled")
    for view in ("full", "cloze_chars"):
        at = f"calibration.*.{view}"
        yield from _each("number", *(f"{at}.{name}" for name in numbers))
        yield from _each("p", f"{at}.ece_p")
        yield from _each("count", f"{at}.n")


def _audit() -> Iterator[Shown]:
    for at in ("leave_one_out.*", "held_out.*", "heads.*", "heads.*.control", "probe"):
        base: Base = "own" if at == "leave_one_out.*" else "robust"
        group = "probe on what is left" if at == "probe" else "other auditors"
        yield Shown(f"residual.{at}", "rate", group, base)
        if not at.endswith("control"):
            yield from _each("share", f"residual.{at}.chance", group=group)
            yield from _each("rate", f"residual.{at}.before")
    yield from _each("truth", "residual.probe_voted")
    yield from _each("share", "residual.chance")
    yield from _each("setting", "residual.margin")
    yield from _each("word", "residual.verdict", "certificate.verdict")
    yield from _each("word", "guardrails.[].name", "guardrails.[].limit")
    yield from _each("setting", "guardrails.[].limit")
    yield from _each("truth", "guardrails.[].passed", "guardrails.[].halts_export")


def _rules() -> Iterator[Shown]:
    at = "sensitivity.[]"
    told = (
        "name",
        "differs",
        "same_as.[]",
        "criterion",
        "mode",
        "template",
        "rotation",
        "norm",
        "probe_vote",
    )
    yield from _each("word", *(f"{at}.{name}" for name in told))
    yield from _each("truth", f"{at}.automatic")
    yield Shown(f"{at}.flagged", "rate", "other rules", "answered")
    yield from _luck(f"{at}.excess", "other rules")
    yield from _luck(f"{at}.by_place.excess", "other rules")
    yield Shown(f"{at}.residual_probe", "rate", "other rules", "own")
    yield from _each("share", f"{at}.residual_probe.chance", f"{at}.jaccard", group="other rules")


def _signs() -> Iterator[Shown]:
    noise, overlap = "label_noise", "contamination.overlap"
    yield from _each("word", f"{noise}.strong.[]", f"{noise}.reason")
    yield from _each(
        "count", f"{noise}.n", f"{overlap}.n", f"{overlap}.short_mode.n", f"{overlap}.not_checkable"
    )
    yield from _each("cell", f"{noise}.all_wrong")
    yield from _each("number", f"{noise}.expected")
    yield from _each("rate", f"{noise}.flagged", f"{overlap}.found", f"{overlap}.short_mode.found")
    yield from _each("rate", f"{overlap}.coverage", f"{overlap}.parts.*")
    yield from _each("setting", f"{overlap}.ngram")
    for part, group in ((noise, "keys to review"), (overlap, "contamination")):
        yield Shown(f"{part}.in_robust", "rate", group, "robust")
        yield Shown(f"{part}.in_shortcut", "rate", group, "shortcut")
    yield from _each("difference", f"{noise}.difference", group="keys to review")
    yield from _each("share", f"{noise}.difference.mde", group="keys to review")
    for view in ("no_choices", "gold_repeated", "empty_choices"):
        at = f"contamination.memorisation.*.{view}"
        yield from _each("rate", at)
        yield from _each("count", f"{at}.unanswered")
        yield from _each("share", f"{at}.chance", f"{at}.mde")
        yield from _each("p", f"{at}.p", f"{at}.p_holm")
    yield from _each("truth", "contamination.memorisation.*.told")


SHOWN: tuple[Shown, ...] = tuple(
    entry
    for part in (
        _benchmark, _screen, _splits, _accuracy, _comparisons, _order, _calibration, _audit, _rules, _signs,
    )
    for entry in part()
)  # fmt: skip
MADE = {
    "benchmark.topics": "the topics with their items, by the one partition",
    "heuristics": "one row a class of cues",
    "topics": "counted again from the merged topics",
    "splits.robust": "if every cell of the totals is large enough",
    "splits.shortcut": "if every cell of the totals is large enough",
    "splits.cloze": "unless fewer than k items cannot be asked so; n of numbers on it is then rounded down to a multiple "
    "of k",
    "screen.flagged": "the shortcuts over the items answered",
    "expected flags of a rule": "what is flagged less the excess, both as they are shown",
    "calibration.*.*.bins": "bins of k items or more",
    "guardrails.[].reason": "never the sentence of the judgement, which names topics and exact numbers",
    "certificate.reasons": "the names of the guardrails that failed",
}
"""What is made anew for a release from what else is released."""
