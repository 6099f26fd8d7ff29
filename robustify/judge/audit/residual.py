"""Are shortcuts left in what was kept? No filter certifies itself.

Auditors answer the kept items without their questions: voters left out of the vote, models that did not vote, linear
probes, rules without a model, a fresh probe. Selection alone moves what they get right, so each is compared with what
the selection leaves to chance; and for each it is measured which known cues it could have seen. They come to a verdict:
certified, not certified or inconclusive, and why.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from robustify.answers import Answers
from robustify.arrays import Bools, Floats
from robustify.baselines.heuristics import VIEW as HEURISTIC
from robustify.baselines.heuristics import heuristic_scores
from robustify.baselines.linear_probes import CONTROL, FORWARD, TEMPLATE
from robustify.baselines.linear_probes import VIEW as HEAD
from robustify.judge.audit.auditor import CUES, AuditorRates, AuditRate, Cue, among_open, audited
from robustify.judge.audit.fresh import FreshProbe, Kept, everything, kept_by
from robustify.judge.audit.recall import Followers, of_probe, of_rules
from robustify.scoring import best as tied_for_best
from robustify.screen.consensus import ROBUST, outcome
from robustify.screen.item_index import ItemIndex
from robustify.screen.screen_rules import FDR, VIEW_OF, ScreenRules
from robustify.screen.votes import Votes, cast_votes, first_template, models_asked, preferences
from robustify.stats.intervals import Rate
from robustify.stats.tests import LEVEL
from robustify.summary import reason as r
from robustify.summary import result as entries
from robustify.summary.result import Residual, Verdict


def left_out(
    index: ItemIndex, votes: Votes, rules: ScreenRules, followers: Followers | None
) -> Iterator[AuditorRates]:
    """Each voter on what the others keep."""
    for m, name in enumerate(votes.voters):
        others = votes.without(name)
        if others.voters or rules.probe_vote != "none":
            best = votes.best[:, m]
            yield _model("leave_one_out", name, best, kept_by(others, rules), index, followers)


def non_voters(
    answers: Answers,
    index: ItemIndex,
    votes: Votes,
    rules: ScreenRules,
    kept: Kept,
    followers: Followers | None,
) -> Iterator[AuditorRates]:
    """Models that were asked as the voters were, and did not vote."""
    names = [m for m in models_asked(answers, VIEW_OF[rules.mode], votes.template) if m not in votes.voters]
    if names and votes.template is not None:
        changes = {"criterion": "unanimous", "voters": tuple(names), "template": votes.template}
        best = cast_votes(answers, rules.model_copy(update=changes), index).best
        for m, name in enumerate(names):
            one = _model("non_voter", name, best[:, m], kept, index, followers)
            # A model whose vectors rank the items took part in the filter.
            ranks = rules.criterion == FDR and name in models_asked(answers, HEAD, TEMPLATE)
            yield replace(one, independent=not ranks)


def _model(
    kind: r.AuditorKind, name: str, best: Bools, kept: Kept, index: ItemIndex, followers: Followers | None
) -> AuditorRates:
    found = audited(best[kept.mask], kept.key, kept.k, kept.would)
    known = index.k > 0
    before = audited(best[known], index.key[known], index.k[known], np.zeros_like(best[known]))
    seen = {} if followers is None else followers.of_picks(best, found)
    return AuditorRates(kind, name, found, kind == "non_voter", before=before, sees_from=seen)


def on_vectors(
    answers: Answers,
    index: ItemIndex,
    kept: Kept,
    probe: FreshProbe,
    followers: Followers | None,
    *,
    independent: bool,
) -> Iterator[AuditorRates]:
    """Linear probes, by their forward rows. They were fitted on items that the filter removed too: a pick rests on the
    keys of the blocks before it alone, and were there no shortcut left, would not know which open option is the key.
    """
    every = everything(index.items, index.key, index.k)
    for name in models_asked(answers, HEAD, FORWARD):
        if name.endswith(CONTROL):
            continue
        scores, control = (_scores(answers, index, one) for one in (name, name + CONTROL))
        found, beside = _forward(scores, kept, probe), _forward(control, kept, probe).rate
        seen = {} if followers is None else followers.of_picks(tied_for_best(scores, index.k), found)
        yield AuditorRates(
            "head",
            name,
            found,
            independent,
            before=_forward(scores, every, probe),
            control=beside if beside.n else None,
            sees_from=seen,
        )


def _scores(answers: Answers, index: ItemIndex, name: str) -> Floats:
    """The forward scores (n, K) of a linear probe; NaN where there are none."""
    out = np.full((len(index), index.width), np.nan)
    at, liking = preferences(answers.block(HEAD, name, FORWARD), "letter", index)
    out[at] = liking
    return out


def _forward(scores: Floats, kept: Kept, probe: FreshProbe) -> AuditRate:
    """The best open option of each item; of near-duplicates the first."""
    liking = np.where(kept.open, scores[kept.mask], -np.inf)
    # Options that tie are ordered by lot, so that each item has one pick.
    lot = 1e-10 * np.random.default_rng(probe.settings.seed).random(liking.shape)
    size = kept.open.sum(axis=1)
    there = ~np.isnan(liking).any(axis=1) & (size > 1) & probe.first(kept)
    pick = np.argmax(np.where(kept.open, np.round(liking, 9) + lot, -np.inf), axis=1)
    return among_open(np.where(there, (pick == kept.key).astype(np.float64), np.nan), size, kept.k)


def rules_of_thumb(
    answers: Answers, index: ItemIndex, kept: Kept, probe: FreshProbe, *, independent: bool
) -> Iterator[AuditorRates]:
    """Of the rules without a model the one that chance explains least on the items kept; its p is Holm's of all."""
    if first_template(answers, HEURISTIC) is None or not len(kept.key):
        return
    judged = index.place >= 0
    keep = np.zeros(len(index.place), dtype=bool)
    # Copies of an item are no evidence of their own.
    alone = np.zeros_like(kept.mask)
    alone[np.flatnonzero(kept.mask)[probe.first(kept)]] = True
    keep[judged] = alone[index.place[judged]]
    could = np.zeros((len(index.place), kept.open.shape[1]), dtype=bool)
    spot = np.cumsum(kept.mask) - 1
    could[keep] = kept.open[spot[index.place[keep]]]
    rows = {name: row for name, row in heuristic_scores(answers, keep, could).items() if row["n"]}
    if not rows:
        return
    name = min(rows, key=lambda one: (_number(rows[one], "p_holm"), _number(rows[one], "p")))
    row = rows[name]
    ci = row["ci"]
    assert isinstance(ci, list)
    found = Rate(_number(row, "value"), int(_number(row, "n")), (ci[0], ci[1]))
    result = AuditRate(found, _number(row, "expected"), _number(row, "chance"), p=_number(row, "p_holm"))
    items = [probe.items[probe.place[one]] for one in kept.items if one in probe.place]
    seen = of_rules(items, found.n) if items else {}
    yield AuditorRates("heuristic", name, result, independent, sees_from=seen)


def _number(row: dict[str, object], name: str) -> float:
    value = row[name]
    assert isinstance(value, int | float)
    return float(value)


def residual(
    answers: Answers, index: ItemIndex, votes: Votes, rules: ScreenRules, probe: FreshProbe, margin: float
) -> Residual:
    """The audit of the items that `rules` keep; `margin`: what may be left above chance.

    The verdict is that of `judged`. The audit's `chance` is mean(1/k) of the items kept. Fitted probes and rules on
    surface features are independent where no fitted scorer decided what was kept.
    """
    ranked = rules.criterion == FDR
    fitted = ranked or rules.probe_vote != "none"
    kept = kept_by(votes, rules)
    known = tuple(probe.place) == index.items
    followers = Followers(probe.items, index.key) if known else None
    auditors = [
        *left_out(index, votes, rules, followers),
        *non_voters(answers, index, votes, rules, kept, followers),
        *on_vectors(answers, index, kept, probe, followers, independent=not ranked),
        *rules_of_thumb(answers, index, kept, probe, independent=not fitted),
    ]
    fresh = probe.of(kept)
    if fresh is not None:
        before = probe.of(everything(index.items, index.key, index.k))
        auditors.append(
            AuditorRates("probe", "probe", fresh, not fitted, before=before, sees_from=of_probe(probe, kept))
        )
    robust = (outcome(votes, rules) == ROBUST) & (index.k > 0)
    chance = float(np.mean(1 / index.k[robust])) if robust.any() else None
    verdict, reasons = judged(auditors, chance, margin)
    if fitted:
        reasons = [*reasons, r.Plain(code="probe_voted")]
    return Residual(
        leave_one_out=_of_kind("leave_one_out", auditors),
        non_voters=_of_kind("non_voter", auditors),
        heads={a.name: a.head_entry() for a in auditors if a.kind == "head"},
        heuristics=_of_kind("heuristic", auditors) or None,
        probe=next(iter(_of_kind("probe", auditors).values()), None),
        probe_voted=fitted,
        chance=chance,
        margin=margin,
        verdict=verdict,
        reasons=tuple(reasons),
    )


def _of_kind(kind: r.AuditorKind, auditors: Sequence[AuditorRates]) -> dict[str, entries.Auditor]:
    return {a.name: a.entry() for a in auditors if a.kind == kind}


WITHIN = 2.0
"""A kind counts as one that an auditor could have seen if it does so from this many margins on, a share of the items."""


def judged(
    auditors: Sequence[AuditorRates], chance: float | None, margin: float
) -> tuple[Verdict, list[r.AuditReason]]:
    """The verdict and its reasons; auditors without an answer do not count.

    `certified` when every auditor's upper bound is below its chance plus `margin`, no rule without a model is above
    chance, and an independent auditor could have seen a cue of some known kind. Bounds are at 95 %, as all of them
    must hold; alarms share 5 % among the auditors (Bonferroni), as any may raise one. What stays within the margin
    is certified even where it is above chance. A certificate names the kinds that no independent auditor could have
    seen.
    """
    answered = [a for a in auditors if a.audit.rate.n]
    if chance is None or not answered:
        return "inconclusive", [r.Plain(code="no_item_kept" if chance is None else "no_auditor")]
    level = LEVEL / len(answered)
    open_ = [a for a in answered if _open(a, chance, margin)]
    outside = [a for a in answered if a.independent]
    free = [a for a in outside if a.audit.could_see(margin)]
    vouching = [a for a in free if a.kind != "heuristic" and seen([a], margin)]
    if vouching and not open_:
        eyes = seen([*free, *(a for a in outside if a.kind == "heuristic")], margin)
        unseen = [cue for cue in CUES if cue not in eyes]
        below = r.BelowMargin(auditors=len(answered), margin=margin)
        return "certified", [below, r.UnseenKinds(kinds=tuple(unseen), share=WITHIN * margin)]
    alarms = [a for a in answered if a.audit.alarm(chance, level)]
    if alarms:
        most_first = sorted(
            alarms, key=lambda a: a.audit.bounds(1 - level)[0] - a.audit.limit(chance), reverse=True
        )
        return "not certified", [_above_chance(a, chance, level) for a in most_first]
    reasons: list[r.AuditReason] = [_not_below_margin(a, chance, margin) for a in open_]
    if not any(a.kind != "heuristic" for a in outside):
        return "inconclusive", [r.Plain(code="no_independent_auditor"), *reasons]
    if not vouching:
        could_not = [a for a in outside if a.kind != "heuristic" and a not in (*open_, *free)]
        reasons += [r.CouldNotSee(**a.reason(), free=a.audit.free) for a in could_not]
        tried = any(a.sees_from for a in outside)
        reasons.append(r.Plain(code="no_kind_seen" if tried else "no_kind_tried"))
    return "inconclusive", reasons


def seen(auditors: Sequence[AuditorRates], margin: float) -> set[Cue]:
    """The kinds of cue that any of these would have seen on at most twice the margin of the items kept."""
    found = [(cue, share) for a in auditors for cue, share in a.sees_from.items()]
    return {cue for cue, share in found if share is not None and share <= WITHIN * margin + 1e-9}


def _open(a: AuditorRates, chance: float, margin: float) -> bool:
    """Whether it stands against a certificate: the best of many rules by its corrected p, others by their bound."""
    if a.kind == "heuristic":
        return a.audit.p is not None and a.audit.p <= LEVEL
    return a.audit.bounds()[1] >= a.audit.limit(chance) + margin


def _above_chance(a: AuditorRates, chance: float, level: float) -> r.AboveChance:
    even = chance if a.audit.even is None else a.audit.even
    low, limit = a.audit.bounds(1 - level)[0], a.audit.limit(chance)
    audit = a.audit
    return r.AboveChance(
        **a.reason(), low=low, limit=limit, even=even, expected=audit.chance, p=audit.p, refits=audit.refits
    )


def _not_below_margin(a: AuditorRates, chance: float, margin: float) -> r.NotBelowMargin:
    limit = a.audit.limit(chance) + (0 if a.kind == "heuristic" else margin)
    return r.NotBelowMargin(**a.reason(), high=a.audit.bounds()[1], limit=limit, p=a.audit.p)
