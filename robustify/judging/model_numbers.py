"""Numbers of the models of a run: roles, looks, comparisons, orders, calibration, and doubtful keys.

It is imported only if a model answered, because judging imports all that models alone need through it.
"""

from robustify.judging.accuracy import calibrations, pairs
from robustify.judging.audit.item_analysis import AnalysedItems, item_analysis, label_noise
from robustify.judging.measures import MeasureInput
from robustify.judging.positions import permutation, position_bias
from robustify.judging.removal_effects import random_removal
from robustify.judging.summary.model_parts import Model
from robustify.judging.summary.result import Summary


def with_model_numbers(summary: Summary, given: MeasureInput) -> tuple[Summary, AnalysedItems | None]:
    """Return a summary with the numbers of its models, and the analysis of each item, which needs five models."""
    responses, parts, voters = given.responses, given.parts, given.screen.voters
    credits = {name: model.credits for name, model in given.models.items()}
    analysed = item_analysis(responses, parts, credits)
    full_rows = {name: responses.first_rows(responses.full, name) for name in responses.models}
    removals = {m: random_removal(credits[m], parts, is_voter=m in voters) for m in responses.models}
    numbers = {
        "models": {name: _model(name, given) for name in credits},
        "pairs": pairs(responses.models, voters, parts, credits, given.looks),
        "random_removal": {name: row for name, row in removals.items() if row is not None} or None,
        "permutation": permutation(responses, voters),
        "position_bias": {m: position_bias(rows, responses.row_groups(rows)) for m, rows in full_rows.items()}
        or None,
        "calibration": calibrations(responses, parts),
        "label_noise": label_noise(responses, parts, credits, analysed),
        "item_analysis": None if analysed is None else analysed.part,
    }
    return summary.model_copy(update=numbers), analysed


def _model(name: str, given: MeasureInput) -> Model:
    return Model(
        is_voter=name in given.screen.voters,
        looks=looks.part if (looks := given.looks.get(name)) else None,
        free=free.facts if (free := given.free.get(name)) else None,
        logged=given.responses.facts.logged.get(name),
    )
