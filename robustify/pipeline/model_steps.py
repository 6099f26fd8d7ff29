"""Steps of a run that need its models: check them, estimate their work, and ask them.

They are imported only if the config has models or free-text answers.
"""

from collections.abc import Mapping
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path

from robustify.items.answers import Answers
from robustify.models.asking import ask, plan
from robustify.models.costs import Stopwatch, forecast, megabytes, remaining_requests, store_pace
from robustify.models.engines import check_model, open_scorer
from robustify.models.engines.protocols import Metered, Watch
from robustify.models.forecast import Forecast, Remaining, with_remaining, with_words
from robustify.pipeline.config import Config
from robustify.pipeline.run_input import RunInput, refuse_twins
from robustify.pipeline.wing_protocols import SetPolicy, Wings
from robustify.reading.loaders import Loaded


def require_models(config: Config, cache: Path) -> None:
    """Check the models before the first question. Raise `UsageError` if two voters are the same model, and `ModelError` if
    files of a model are missing or damaged."""
    templates = config.asking.templates()
    refuse_twins(config, {m.name: check_model(m, cache, templates) or {} for m in config.models})


def remaining_work(bench: Loaded, cache: Path, policy: SetPolicy) -> dict[str, Remaining]:
    """Return the number of unanswered requests of each model whose files are on this machine. Local models score some
    items, and servers are not asked. Raise the errors of `require_models`."""
    config, remaining = policy.config, dict[str, Remaining]()
    here = tuple(m for m in config.models if not megabytes(m.reference, cache))
    require_models(config.model_copy(update={"models": here}), cache)
    planned = plan(bench.items, config.asking) if here else []
    for model in here:
        with open_scorer(model, cache, seal=policy.cache_key) as scorer:
            remaining[model.name] = remaining_requests(scorer, planned, model, cache)
    return remaining


def forecast_models(
    bench: Loaded,
    cache: Path,
    policy: SetPolicy,
    wings: Wings,
    remaining: Mapping[str, Remaining],
) -> Forecast:
    """Return the estimated work of all models. `remaining` has the requests that the cache does not answer yet."""
    config, free, hidden = policy.config, policy.config.free, not policy.keeps_texts
    scored = forecast(config.name, bench.items, config.asking, config.models, cache, restricted=hidden)
    scored = with_remaining(scored, remaining)
    if free is None:
        return scored
    models = [model for model in config.models if not free.models or model.name in free.models]
    return with_words(scored, models, wings.free().prompts_in_words(free, bench.items), free.max_tokens)


def ask_models(
    bench: Loaded, run_input: RunInput, cache: Path, watch: Watch, policy: SetPolicy, wings: Wings
) -> RunInput:
    """Ask the models one after another. Return the input with their answers, and with the usage that servers report."""
    config, items, keep = policy.config, bench.items, policy.keeps_texts
    free = None if config.free is None else wings.free().start(config.free, items, cache, restricted=not keep)
    inference = None
    if config.infer_question is not None:
        from robustify.pipeline.inferred_questions import QuestionInference

        inference = QuestionInference(config.infer_question, items, cache, keep=keep)
    planned = plan(items, config.asking) if config.models else []
    n_requests = sum(len(p.requests) for p in planned)
    tables: list[Answers] = [run_input.answers]
    fingerprints: dict[str, Mapping[str, str]] = {}
    spent: list[Mapping[str, object]] = []
    with nullcontext() if inference is None else closing(inference):
        for model in config.models:
            with (
                watch(f"loading {model.name}", n_requests) as progress,
                open_scorer(model, cache, seal=policy.cache_key) as scorer,
            ):
                timed = Stopwatch(progress)
                tables.append(Answers.of(ask(planned, scorer, timed)))
                store_pace(timed, model, cache)
                if free is not None:
                    free.ask(model.name, scorer, watch)
                if inference is not None:
                    inference.ask(model.name, scorer, watch)
                fingerprints[model.name] = scorer.fingerprint()
                if isinstance(scorer, Metered):
                    spent.append(scorer.usage())
    refuse_twins(config, fingerprints)
    if inference is not None:
        tables.append(Answers.of(inference.answers()))
    return replace(
        run_input,
        facts=replace(run_input.facts, free=None if free is None else free.graded(watch)),
        answers=Answers.concat(tables),
        fingerprints=fingerprints,
        spent=spent,
    )
