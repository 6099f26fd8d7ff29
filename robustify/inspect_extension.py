"""Solvers for Inspect that permute choices or hide the question, and scorers that report coverage and bounds.

```console
inspect eval TASK --no-score --solver robustify/permute
inspect eval TASK --no-score --solver robustify/choices_only
inspect score LOG --scorer robustify/picked
```

A reply that Inspect's `multiple_choice` cannot parse is unanswered. `accuracy` is over the answers, and `coverage` is their
share. `low` and `high` count the others as wrong and as right. Only inspect-ai loads this module, through its entry point.
"""
# inspect-ai is installed in a separate environment, so mypy does not see its types.
# mypy: disable-error-code="import-not-found, untyped-decorator, misc"

import math
import re
from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from string import ascii_uppercase
from typing import Literal

from inspect_ai.model import ModelOutput
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Choices as Shown
from inspect_ai.solver import Generate, Solver, TaskState, multiple_choice, solver

from robustify.base.errors import UsageError
from robustify.freeform.free_grading import grade
from robustify.items.orders import Order, base, own, rotations, spread

WITHOUT_QUESTION = "The question is not shown. Which choice is most likely its right answer?"
PICKS = "robustify:picks"
"""Key in a sample's store for its picks, one per order, as indices of the original choices."""
Orders = Literal["rotations", "spread", "own"]
_ANSWER = re.compile(r"(?im)^ANSWER\s*:\s*\(?([A-Z])\)?\s*\.?\s*$")
METRICS = {"accuracy": [mean(), stderr()], "coverage": [mean()], "low": [mean()], "high": [mean()]}


def _named(name: str) -> str:
    """Return the name for registering an extension. Inspect adds the package name itself if the package is installed."""
    installed = {"site-packages", "dist-packages"} & set(Path(__file__).parts)
    return name if installed else f"robustify/{name}"


@solver(name=_named("permute"))
def permute(orders: Orders = "rotations", n: int = 5, seed: int = 0) -> Solver:
    """Ask every sample in several orders of its choices, determined by its ID.

    Args:
        orders: `rotations` (each choice once at each position), `spread` (the original order and others) or `own`.
        n: number of orders for `spread`.
        seed: seed of the orders.
    """

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        return await _ask(state, generate, _orders(state, orders, n, seed))

    return solve


@solver(name=_named("choices_only"))
def choices_only(orders: Orders = "rotations", n: int = 5, seed: int = 0) -> Solver:
    """Ask every sample without its question, in the orders selected by `orders`, `n` and `seed`."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        state.user_prompt.text = WITHOUT_QUESTION
        return await _ask(state, generate, _orders(state, orders, n, seed))

    return solve


@scorer(metrics=METRICS, name=_named("picked"))
def picked() -> Scorer:
    """Score an item by the choices picked in one or several orders. An unparsed reply is unanswered, never wrong."""

    async def score(state: TaskState, target: Target) -> Score:
        picks = state.store.get(PICKS)
        if picks is None:
            marked = any(c.correct is not None for c in state.choices)
            picks = [_only_marked_choice(state) if marked else _written(state)]
        key = _position(target)
        answered = [pick for pick in picks if pick is not None]
        most = Counter(answered).most_common(1)
        return Score(
            value=bounded(sum(pick == key for pick in answered), len(answered), len(picks)),
            answer=ascii_uppercase[most[0][0]] if most else None,
            explanation=state.output.completion,
            metadata={"picks": picks, "flips": len(set(answered)) > 1},
        )

    return score


@scorer(metrics=METRICS, name=_named("graded"))
def graded() -> Scorer:
    """Score a written reply with robustify's rules. A truncated reply is undecided, whatever it says."""

    async def score(state: TaskState, target: Target) -> Score:
        result = grade(state.metadata["row"], state.output.completion, cut=_cut(state.output))
        right, decided = result.score or 0.0, int(result.score is not None)
        return Score(
            value=bounded(right, decided, 1),
            answer=result.extracted,
            explanation=result.reason,
            metadata={"status": result.status, "verdict": result.verdict, "flags": list(result.flags)},
        )

    return score


def bounded(right: float, answered: int, n_orders: int) -> dict[str, str | int | float | bool | None]:
    """Return the metrics of one sample, which Inspect averages."""
    return {
        "accuracy": right / answered if answered else math.nan,
        "coverage": answered / n_orders,
        "low": right / n_orders,
        "high": (right + n_orders - answered) / n_orders,
    }


def _orders(state: TaskState, orders: Orders, n: int, seed: int) -> tuple[Order, ...]:
    name, k = str(state.sample_id), len(state.choices)
    if not k:
        raise UsageError(
            f"Sample {name} has no choices. Expected a multiple-choice task.", code="sample-without-choices"
        )
    match orders:
        case "rotations":
            return rotations(base(name, k, seed))
        case "spread":
            return spread(name, k, n, seed)
        case "own":
            return (own(k),)
        case _:
            raise UsageError(
                f"The value orders={orders} is unknown. Expected rotations, spread, or own.",
                code="unknown-orders",
            )


async def _ask(state: TaskState, generate: Generate, orders: Sequence[Order]) -> TaskState:
    """Ask a sample once per order, and store the picks as indices of the original choices."""
    ask, first, picks = multiple_choice(), deepcopy(state.messages), list[int | None]()
    texts = [choice.value for choice in state.choices]
    for order in orders:
        state.messages = deepcopy(first)
        state.choices = Shown([texts[j] for j in order])
        state = await ask(state, generate)
        position = None if _cut(state.output) else _only_marked_choice(state)
        picks.append(None if position is None else order[position])
    state.choices = Shown(texts)
    most = Counter(pick for pick in picks if pick is not None).most_common(1)
    for j in range(len(texts)):
        state.choices.mark_choice(j, bool(most) and j == most[0][0])
    state.store.set(PICKS, picks)
    return state


def _only_marked_choice(state: TaskState) -> int | None:
    marked = [choice.original_position for choice in state.choices if choice.correct]
    return marked[0] if len(marked) == 1 else None


def _written(state: TaskState) -> int | None:
    """Parse the choice from the reply again, because a log that is scored later lacks the marks of choices."""
    letters = _ANSWER.findall(state.output.completion)
    if not letters or _cut(state.output):
        return None
    position = ascii_uppercase.index(letters[-1].upper())
    return position if position < len(state.choices) else None


def _cut(output: ModelOutput) -> bool:
    return output.stop_reason in ("max_tokens", "model_length")


def _position(target: Target) -> int:
    if len(target.text) != 1 or target.text.upper() not in ascii_uppercase:
        raise UsageError(
            "The target is not a single letter. Expected the letter of one correct choice.",
            code="target-not-a-letter",
        )
    return ascii_uppercase.index(target.text.upper())
