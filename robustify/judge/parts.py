"""The parts of summary.json, each a pure function of answers and verdicts.

Every rate has its n and its interval, and what was not asked is null. Counts, names and numbers only: no
text of an item can get in here, because none comes this far.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from robustify.answers import Answers, Block
from robustify.arrays import Bools, Floats, Ints
from robustify.baselines.heuristics import heuristic_scores as measured_heuristics
from robustify.judge.calibration import calibration
from robustify.judge.guardrails import Check
from robustify.judge.permutation import position_share
from robustify.judge.position_bias import position_bias
from robustify.scoring import normalised
from robustify.screen.chance import LEVEL, Chance, sentence
from robustify.screen.consensus import d4_rule
from robustify.screen.independence import agreement_intervals, independence, voter_agreement
from robustify.screen.item_index import ItemIndex
from robustify.screen.key_positions import key_places
from robustify.screen.screen_rules import VIEW_OF, ScreenRules
from robustify.screen.votes import PROBE, UNANSWERED, Votes, first_template
from robustify.stats.intervals import Rate, rate, wilson

Tree = dict[str, object]

SHOWN_DEFECTS = 20
UNNAMED = "(none)"


def benchmark(
    name: str,
    held: ItemIndex,
    topic_of: Sequence[str],
    n_quarantined: int,
    defects: Sequence[Mapping[str, object]],
) -> Tree:
    """What the benchmark is made of; `topic_of` has one name an item ("" where it has none)."""
    asked = held.k > 0
    k, key = held.k[asked], held.key[asked]
    counts = np.bincount(k)
    places = np.bincount(key, minlength=held.width)
    return {
        "name": name,
        "n_items": len(held),
        "n_quarantined": n_quarantined,
        "option_counts": {str(options): int(n) for options, n in enumerate(counts) if n},
        "chance_accuracy": float(np.mean(1 / k)) if len(k) else None,
        "topics": dict(sorted(Counter(t or UNNAMED for t in topic_of).items())) if any(topic_of) else {},
        "key_positions": [float(n / len(k)) for n in places] if len(k) else None,
        "key_places": key_places(held.key, held.k),
        "defects": _defects(defects),
    }


def heuristics(
    answers: Answers, held: ItemIndex, splits: Mapping[str, Bools], could: Mapping[str, Bools]
) -> Tree | None:
    """The heuristics on each split (n,); None where no heuristic was asked.

    `could`, of the splits that the keys had a say in: the options (n, K) that as the key would have put an item there.
    """
    if first_template(answers, "heuristic") is None:
        return None
    there = held.place >= 0
    out: Tree = {}
    for name, mask in splits.items():
        keep = np.zeros(len(held.place), dtype=bool)
        keep[there] = mask[held.place[there]]
        options = None
        if name in could:
            options = np.zeros((len(held.place), held.width), dtype=bool)
            options[there] = could[name][held.place[there]]
        out[name] = measured_heuristics(answers, keep, options) if keep.any() else None
    return out


def screen(
    answers: Answers,
    held: ItemIndex,
    votes: Votes,
    rules: ScreenRules,
    luck: Chance,
    groups: Ints | None = None,
    level: float = LEVEL,
) -> Tree:
    """The screen: its rule, its voters, what it flagged, and how much of that is luck, told at `level`.

    `answered` counts the items whose outcome hangs on no missing answer, `unanswered` the others; what each
    voter left unanswered stands with it. `groups` (n,) of items that are resampled together.
    """
    asked = len(held)
    by_accuracy, by_luck = independence(_mean(votes.credit()), held.k[held.k > 0])
    return {
        "criterion": rules.criterion,
        "mode": rules.mode,
        "norm": rules.norm if rules.mode == "text" else None,
        "template": votes.template,
        "rotations": votes.rotations,
        "rotation": rules.rotation,
        "probe_vote": rules.probe_vote,
        "probe_confidence": rules.probe_confidence,
        "voters": _voters(answers, held, votes, rules),
        "asked": asked,
        "answered": luck.n,
        "unanswered": asked - luck.n,
        "flagged": flagged_rate(luck).json(),
        "chance_flag_rate": luck.rate,
        "expected_false_flags": expected(luck),
        "independence": {"unanimous_by_accuracy": by_accuracy, "unanimous_by_luck": by_luck},
        "excess_over_chance": excess(luck),
        "latent_shortcut_rate": latent(luck),
        "by_place": by_place(luck),
        "agreement": {
            **voter_agreement(votes.choice, votes.key, votes.k),
            **agreement_intervals(votes.choice, votes.key, votes.k, groups),
        },
        "d4_rule": _d4(answers, held, votes, rules, groups),
        "sentence": sentence(luck, level),
    }


def flagged_rate(luck: Chance) -> Rate:
    """The share flagged among the items whose outcome hangs on no missing answer."""
    return (
        Rate(luck.flagged / luck.n, luck.n, wilson(luck.flagged, luck.n)) if luck.n else Rate(None, 0, None)
    )


def expected(luck: Chance) -> Tree | None:
    """The flags that luck explains, a number of items."""
    return {"value": luck.expected, "ci": list(luck.expected_ci)} if luck.n else None


def latent(luck: Chance) -> Tree:
    """The share of the items with a real shortcut; absent where luck alone could explain every flag."""
    found = Rate(None, 0, None) if luck.latent is None else Rate(luck.latent, luck.n, luck.latent_ci)
    return found.json()


def by_place(luck: Chance) -> Tree | None:
    """The same three numbers against luck that knows the places of the keys; None where no voter saw places."""
    knowing = luck.by_place
    if knowing is None:
        return None
    return {
        "expected_false_flags": expected(knowing),
        "excess_over_chance": excess(knowing),
        "latent_shortcut_rate": latent(knowing),
        "key_places_p": None if luck.places is None else luck.places.p,
    }


def excess(luck: Chance) -> Tree | None:
    """Flagged minus expected, a share of the items, and how often luck does as much."""
    if luck.excess is None:
        return None
    ci = None if luck.excess_ci is None else list(luck.excess_ci)
    return {"value": luck.excess, "ci": ci, "p": luck.p}


def calibrated(answers: Answers, held: ItemIndex, names: Sequence[str], groups: Ints | None = None) -> Tree:
    """ECE, Brier and temperature of each model, by letters with the question and by cloze per character."""
    out: Tree = {}
    for name in names:
        full = _judged(answers, held, "full", name)
        cloze = _judged(answers, held, "cloze", name)
        out[name] = {
            "full": calibration(full.scores, full.key, full.k, _of(groups, held, full))
            if len(full)
            else None,
            "cloze_chars": calibration(
                normalised(cloze, "chars"), cloze.key, cloze.k, _of(groups, held, cloze)
            )
            if len(cloze)
            else None,
        }
    return out


def leaning(answers: Answers, held: ItemIndex, name: str, groups: Ints | None = None) -> Tree | None:
    """Whether a model that sees the question leans to a place, told from one order of each item."""
    block = _judged(answers, held, "full", name)
    return position_bias(block, _of(groups, held, block)) if len(block) else None


def certificate(
    audit: Mapping[str, object] | None, checks: Sequence[Check], voters_under_test: Sequence[str]
) -> Tree:
    """The last word: the audit's verdict, which a failed guardrail can only lower."""
    if audit is None:
        reason = "no model was asked the choices without the question"
        return {"verdict": "inconclusive", "reasons": [reason], "sentence": f"Nothing was judged: {reason}."}
    verdict = found_out = str(audit["verdict"])
    found = audit["reasons"]
    reasons = [str(r) for r in found] if isinstance(found, list) else []
    failed = [c for c in checks if not c.passed and c.name != "residual_shortcuts"]
    said = [f"guardrail {c.name}: {c.reason}" for c in failed]
    halted = any(c.halts_export for c in failed)
    lowered = found_out != "not certified" and (halted or (bool(failed) and found_out == "certified"))
    if lowered:
        verdict, reasons = "not certified" if halted else "inconclusive", [*said, *reasons]
    else:
        reasons = [*reasons, *said]
    reasons += [
        f"{name} is under test and voted in the filter: its numbers on Robust are low by selection"
        for name in voters_under_test
    ]
    opening = _opening(found_out, audit.get("margin"))
    if lowered:
        opening += ", but a guardrail says no" if found_out == "certified" else ", and a guardrail says no"
    return {"verdict": verdict, "reasons": reasons, "sentence": f"{opening}: {reasons[0]}."}


def _opening(found_out: str, margin: object) -> str:
    """What the audit alone says of what was kept: certified is said of a margin, never of no shortcut at all."""
    beyond = f"{100 * margin:g} points" if isinstance(margin, int | float) else "the margin"
    return {
        "certified": f"What was kept gives no auditor more than chance plus {beyond}",
        "not certified": "What was kept is not resistant to shortcuts",
        "inconclusive": "Whether what was kept still holds shortcuts is not settled",
    }[found_out]


def _judged(answers: Answers, held: ItemIndex, view: str, name: str) -> Block:
    block = answers.block(view, name, first_template(answers, view, (name,))).first()
    return block.where(held.place[block.item] >= 0)


def _of(groups: Ints | None, held: ItemIndex, block: Block) -> Ints | None:
    return None if groups is None else groups[held.place[block.item]]


def _voters(answers: Answers, held: ItemIndex, votes: Votes, rules: ScreenRules) -> Tree:
    view, credit = VIEW_OF[rules.mode], votes.credit()
    out: Tree = {}
    for m, name in enumerate(votes.voters):
        shares = position_share(answers.block(view, name, votes.template)) if rules.mode == "letter" else None
        unanswered = int(np.count_nonzero(votes.choice[:, m] == UNANSWERED))
        ties = int(np.count_nonzero(votes.best[:, m].sum(axis=1) > 1))
        out[name] = _voter(rate(credit[:, m]), shares, unanswered, ties, "model")
    if votes.probe is not None:
        block = answers.block(PROBE, PROBE).first()
        unanswered = int(np.count_nonzero(votes.probe == UNANSWERED))
        ties = int(np.count_nonzero(block.tie > 1))
        out[PROBE] = _voter(rate(held.spread(block, block.correct)), None, unanswered, ties, "probe")
    return out


def _voter(accuracy: Rate, places: list[float] | None, unanswered: int, ties: int, kind: str) -> Tree:
    return {
        "choices_only_accuracy": accuracy.json(),
        "position_share": places,
        "unanswered": unanswered,
        "ties": ties,
        "kind": kind,
    }


def _d4(
    answers: Answers, held: ItemIndex, votes: Votes, rules: ScreenRules, groups: Ints | None
) -> Tree | None:
    template = votes.template if rules.mode == "letter" else None
    own = votes if rules.mode == "letter" else None
    found = d4_rule(answers, votes.voters, template, held, own, groups) if votes.voters else None
    if found is None:
        return None
    luck, asked_by = found
    return {
        "flagged": flagged_rate(luck).json(),
        "expected_false_flags": expected(luck),
        "excess_over_chance": excess(luck),
        "latent_shortcut_rate": latent(luck),
        "by_place": by_place(luck),
        "template": asked_by,
    }


def _defects(defects: Sequence[Mapping[str, object]]) -> Tree:
    found: dict[str, list[str]] = {}
    for d in defects:
        found.setdefault(str(d["kind"]), []).append(str(d["item"]))
    return {
        kind: {"n": len(names), "items": list(dict.fromkeys(names))[:SHOWN_DEFECTS]}
        for kind, names in found.items()
    }


def _mean(credit: Floats) -> Floats:
    answered = ~np.isnan(credit)
    n = answered.sum(axis=0)
    return np.where(n > 0, np.where(answered, credit, 0.0).sum(axis=0) / np.maximum(n, 1), np.nan)
