"""Results of fitted scorers on a set, averaged over several seeds of the folds, and their variation over seeds.

With one seed, an accuracy varies with the items of the set and with their folds. The interval here is over items, for each
item's mean credit over seeds. `sd`, `least` and `most` are over seeds.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from robustify.base.arrays import Floats, Ints
from robustify.items.answers import Answers
from robustify.items.item import Item
from robustify.items.scoring import best, credit
from robustify.judging.audit.auditor import AuditRate, FreshProbe, all_answered, kept_by
from robustify.judging.baselines.conditional_logit import log_probabilities
from robustify.judging.context import Rules, context
from robustify.judging.evidence import CUE_OF, SURFACE
from robustify.judging.readers.reader_rows import ProbeSettings, probe
from robustify.judging.response_data import Facts
from robustify.judging.screen.item_index import item_index
from robustify.judging.screen.screen_rules import ScreenRules
from robustify.judging.screen.votes import FLAGGED
from robustify.judging.stats.intervals import Rate, bootstrap, rate

SEEDS = 10
REFITS = 999
Entry = dict[str, Any]


def over_seeds(items: Sequence[Item], answers: Answers, rules: ScreenRules, seeds: int = SEEDS) -> Entry:
    """Return the results of the fitted scorers: `probe`, `scorer`, `latent`, `cues`, `flagged`, `residual`, `probe_p`.

    - `probe`: accuracy of the artifact probe, which uses the listed features of the options.
    - `scorer`: accuracy of the filter's scorer, which also uses words and the voters of `answers`.
    - `latent`: the share s of items whose key the scorer knows if it guesses all others: accuracy = s + (1 - s) / k.
    - `cues`: accuracy of each cue alone; a cue that does not move any option counts as a guess.
    - `flagged`: the share flagged by `rules` at their q.
    - `residual`: accuracy of a fresh probe on the kept items minus chance.
    - `probe_p`: p-value of the fresh probe on all items, from 999 permutations of the keys with the first seed.
    """
    index = item_index(answers, [item.id for item in items])
    by_chance = 1 / index.k
    won: dict[str, list[Floats]] = {"probe": [], "scorer": [], "flagged": []}
    by_cue: dict[str, list[Floats]] = {}
    residual: list[tuple[float, float, float, int]] = []
    p: float | None = None
    for seed in range(seeds):
        settings = ProbeSettings(seed=seed, refits=REFITS if seed == 0 else 199)
        ctx = context(answers, Facts("atlas"), Rules(rules, probe=settings), items)
        ranking = ctx.screen.ranking
        # Without a single favourite, the scorer knows nothing about the item.
        won["scorer"].append(np.where(ranking.top >= 0, ranking.top == index.key, by_chance))
        voting = ctx.rules.screen.model_copy(update={"voters": ctx.screen.votes.voters})
        for cue, moved in _by_cue(*ctx.screen.ranker.contributions(voting)).items():
            by_cue.setdefault(cue, []).append(tie_fair(moved, index.key, index.k))
        own = np.array([np.nan if row.correct is None else row.correct for row in probe(items, settings)])
        won["probe"].append(own)
        won["flagged"].append((ctx.screen.decision.outcome == FLAGGED).astype(float))
        fresh = FreshProbe(items, settings)
        left = fresh.audit(kept_by(ctx.screen.result))
        match left:
            case AuditRate(rate=Rate(value=float(value), n=n, ci=(low, high)), chance=float(even)):
                residual.append((value - even, low - even, high - even, n))
        if seed == 0:
            on_all = fresh.audit(all_answered(index))
            p = None if on_all is None else on_all.p
    known = (np.mean(won["scorer"], axis=0) - by_chance) / (1 - by_chance)
    latent = [float(np.mean((one - by_chance) / (1 - by_chance))) for one in won["scorer"]]
    return {
        "seeds": seeds,
        **{name: _averaged(values) for name, values in won.items()},
        "latent": {
            "value": float(known.mean()),
            "n": len(items),
            "ci": list(bootstrap(known)),
            **_spread(latent),
        },
        "cues": {cue: _averaged(values) for cue, values in by_cue.items()},
        "residual": _residual(residual),
        "probe_p": p,
    }


def _by_cue(parts: Mapping[str, Floats], surface: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return the contribution of each cue to the options' logits, (n, K): grouped features, and words."""
    out: dict[str, Floats] = {name: part for name, part in parts.items() if name != SURFACE}
    for feature, table in surface.items():
        cue = CUE_OF[feature]
        out[cue] = out[cue] + table if cue in out else table
    return out


def tie_fair(moved: Floats, key: Ints, k: Ints) -> Floats:
    """Return the credit (n,) for picking the largest of `moved` (n, K), shared among ties."""
    there = np.arange(moved.shape[1]) < k[:, None]
    return credit(best(log_probabilities(moved, there), k), key)


def _averaged(by_seed: Sequence[Floats]) -> Entry:
    with np.errstate(invalid="ignore"):
        return {
            **rate(np.mean(by_seed, axis=0)).json(),
            **_spread([float(np.nanmean(s)) for s in by_seed]),
        }


def _residual(found: Sequence[tuple[float, float, float, int]]) -> Entry | None:
    """Return the probe's mean excess over seeds on each seed's kept items, and the mean interval."""
    if not found:
        return None
    value, low, high, n = np.mean(found, axis=0).tolist()
    return {"value": value, "n": round(n), "ci": [low, high], **_spread([one[0] for one in found])}


def _spread(values: Sequence[float]) -> Entry:
    return {"sd": float(np.std(values, ddof=1)), "least": min(values), "most": max(values)}
