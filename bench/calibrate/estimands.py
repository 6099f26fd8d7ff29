"""What each interval is an interval of, and when a share of them is as it should be: the words of docs/validity.md."""

from collections.abc import Sequence

BAND = (0.93, 0.97)
"""The goal: a 95 % interval covers between these shares."""
ALARM = 0.05


def coverage_verdict(ci: Sequence[float]) -> str:
    """By the Monte Carlo interval of a coverage, never by its point: within 93 to 97 %, outside it, or not decided."""
    if BAND[0] <= ci[0] and ci[1] <= BAND[1]:
        return "yes"
    return "wide" if ci[0] > BAND[1] else "narrow" if ci[1] < BAND[0] else "not excluded"


def alarm_verdict(ci: Sequence[float], level: float = ALARM) -> str:
    """The same of a share of false alarms: at most the level, above it, or not decided."""
    return "yes" if ci[1] <= level else "no" if ci[0] > level else "not excluded"


ESTIMANDS: dict[str, str] = {
    "flagged_rate": "the probability that an item of this kind of benchmark is flagged by these voters",
    "expected_flags": "the number of flags on a set without shortcuts (an interval of prediction, whole numbers)",
    "excess_over_chance": "P(flagged) less P(flagged, were the key drawn anew)",
    "latent_shortcut_rate": "the mean over items of the excess over 1 - 1/k: the rate of shortcuts that voters see",
    "false_share": "the share of clean items among those flagged in this very benchmark (prediction)",
    "voter_choices_only_accuracy": "the probability that a voter is right without the question",
    "d4_flagged": "as flagged_share, first order only",
    "d4_expected_flags": "as expected_flags, first order only",
    "d4_excess_over_chance": "as the excess, first order only",
    "d4_latent_shortcut_rate": "as the latent rate, first order only",
    "majority_flagged": "as flagged_share, by majority (a row of the sensitivity table)",
    "majority_excess": "as the excess, by majority",
    "excess_over_chance_by_place": "as the excess, keys drawn anew where the keys of the benchmark are",
    "latent_shortcut_rate_by_place": "that excess over what the same null leaves to see",
    "majority_excess_by_place": "as the excess by place, by majority",
    "accuracy_full_all": "P(right) with the question",
    "accuracy_full_robust": "P(right given kept), items and answers drawn anew",
    "accuracy_full_robust_given_the_split": "the mean chance of being right over the very items that were kept",
    "accuracy_full_shortcut": "P(right given flagged)",
    "accuracy_full_shortcut_given_the_split": "the mean chance of being right over the very items that were flagged",
    "accuracy_cloze_chars_all": "P(right) under cloze",
    "accuracy_cloze_chars_robust": "P(right given kept) under cloze",
    "accuracy_cloze_chars_shortcut": "P(right given flagged) under cloze",
    "accuracy_choices_only_all": "P(right) without the question",
    "accuracy_choices_only_robust": "P(right without the question given kept); for voters low by selection",
    "accuracy_choices_only_shortcut": "P(right without the question given flagged), outside models",
    "heuristic_gap_full": "P(right) where the longest answer is right less where it is wrong, shared credit shared",
    "heuristic_gap_cloze_chars": "the same under cloze",
    "heuristic_gap_choices_only": "the same without the question",
    "format_gap": "P(right) with the question less P(right) under cloze",
    "pair_difference_all": "P(right) of one model less that of another",
    "pair_difference_robust": "the same given kept",
    "ece": "the expected calibration error in 15 bins",
    "brier": "the expected Brier score",
    "heuristic_rate_all": "the expected credit of a blind rule",
    "heuristic_rate_robust": "the same on kept items",
    "heuristic_rate_shortcut": "the same on flagged items",
    "topic_retention": "P(kept) of an item of the topic",
    "residual_leave_one_out": "P(a voter is right given that the others keep the item)",
    "residual_before": "an auditor's P(right) on all items",
    "residual_non_voters": "P(an outside model is right given kept)",
    "residual_probe": "mean of 1 / open options over kept items, where no text gives anything away",
    "heuristic_rate_cloze": "the same on items fit for cloze (here all)",
    "label_noise_flagged": "P(all models under test name the same wrong option)",
    "label_noise_in_robust": "the same given kept",
    "label_noise_in_shortcut": "the same given flagged",
    "label_noise_difference": "the one less the other",
    "mean_over_orders": "P(right) with the question, any order",
    "flip_rate": "P(the pick of another order is not that of the first)",
    "consistency": "P(all orders give one pick)",
    "position_picked": "P(a model under test picks a place), keys evenly placed",
    "position_excess": "that less P(the key stands there)",
    "position_recall": "P(right given that the key stands there)",
    "random_removal": "the accuracy that is left when as many items go as on a set without shortcuts (prediction)",
}

TESTS: dict[str, str] = {
    "excess_p": "p of the excess at most 0.05",
    "excess_significant": "the report says that the filter found more than chance",
    "d4_excess_p": "p of D.4's rule at most 0.05",
    "d4_excess_significant": "the same with an interval above zero",
    "majority_excess_p": "p by majority at most 0.05",
    "majority_excess_significant": "the same with an interval above zero",
    "residual_not_certified": "the audit says `not certified`",
    "topic_collapse": "the guardrail halts the export: a topic collapsed",
    "topic_drift": "the guardrail halts the export: the mix of topics moved",
    "topic_mix_p": "p of the mix of topics at most 0.05",
    "topic_any_p_bh": "some topic with an adjusted p of at most 0.05",
    "heuristics_holm_all": "some blind rule beats chance after Holm, keys evenly placed",
    "heuristics_holm_robust": "the same on the robust split",
    "random_removal_p": "Robust differs from random removals, p at most 0.05",
    "random_removal_by_decoys_p": "the flagged items differ from what decoys say of flags by chance, p at most 0.05",
    "position_bias_holm": "a model without a leaning picks some place too often or too rarely, after Holm",
    "pairs_mcnemar_p": "two models of equal skill differ, exact McNemar p at most 0.05",
    "pairs_mcnemar_holm_any": "some pair, view or split differs after Holm",
}
