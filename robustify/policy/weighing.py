"""Weights of items for adjusted scores, computed without a run."""

from pathlib import Path

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from robustify.answers import Answers
from robustify.ask.by_meaning import ask_by_meaning, require_encoder
from robustify.baselines.artifact_probe import ProbeSettings
from robustify.baselines.heuristics import guess
from robustify.judging.adjusted import Balanced, balanced
from robustify.judging.context import Rules, context
from robustify.loaders import Loaded
from robustify.policy.asked import bench_facts
from robustify.summary.scored import Adjust


def weighed(bench: Loaded, adjust: Adjust, cache: Path) -> Balanced | None:
    """Return the weights of items for the adjusted score, or None for too few items. No model is asked.

    The weights are audited by the encoder if it is installed. Raises `UsageError` if the weights need the encoder but it
    was not pulled.
    """
    require_encoder(adjust, cache)
    meant = Answers.of(ask_by_meaning(bench.items, ProbeSettings(), cache, keep=True, adjust=adjust))
    answers = Answers.concat([guess(bench.items), meant])
    with threadpool_limits(1, "blas"):
        return balanced(context(answers, bench_facts(bench), Rules(adjust=adjust), bench.items))
