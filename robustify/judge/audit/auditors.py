"""Who audits: voters left out of the vote, models that did not vote, linear probes, rules without a model."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from robustify.answers import Answers
from robustify.arrays import Bools, Floats
from robustify.baselines.heuristics import VIEW as HEURISTIC
from robustify.baselines.heuristics import heuristic_scores
from robustify.baselines.linear_probes import CONTROL, FORWARD, TEMPLATE
from robustify.baselines.linear_probes import VIEW as HEAD
from robustify.judge.audit.auditor import AuditorRates, AuditRate, among_open, audited
from robustify.judge.audit.fresh import FreshProbe, Kept, everything, kept_by
from robustify.judge.audit.recall import Followers, of_rules
from robustify.scoring import best as tied_for_best
from robustify.screen.item_index import ItemIndex
from robustify.screen.screen_rules import FDR, VIEW_OF, ScreenRules
from robustify.screen.votes import Votes, cast_votes, first_template, models_asked, preferences
from robustify.stats.intervals import Rate
from robustify.summary.reason import AuditorKind


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
    kind: AuditorKind, name: str, best: Bools, kept: Kept, index: ItemIndex, followers: Followers | None
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
