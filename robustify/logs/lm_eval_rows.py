"""One row of lm-eval's log, as the harness has written it over the years -> prompts and numbers.

Numbers came as floats and come as text, arguments as lists and as named objects. What cannot be read is None;
nothing here decides what that means.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from robustify.item import unspaced
from robustify.loaders.rows import Cells
from robustify.logs.log import Shown
from robustify.logs.prompts import Prompt


def prompt(cells: Cells, item: Shown) -> Prompt | None:
    """What was put before the model, a pair a choice; None where the row does not say so for each choice.

    `acc_mutual_info` asks every continuation a second time without its context: those pairs are left out.
    """
    pairs = _pairs(cells.get("arguments"))
    if len(pairs) == 2 * item.k and not any(context for context, _ in pairs[item.k :]):
        pairs = pairs[: item.k]
    if len(pairs) != item.k:
        return None
    contexts, continuations = zip(*pairs, strict=True)
    return Prompt(item, contexts, continuations)


def numbers(cells: Cells) -> list[float | None]:
    """The log-likelihood of each request in its order, None where there is none to read.

    `resps` holds a list for each request and in it one for each repeat; older logs have a level less.
    """
    return [_first_number(one) for one in _responses(cells)]


def finite(values: Iterable[float | None]) -> tuple[float, ...]:
    """The values, or none of them unless each is a finite number."""
    every = tuple(values)
    held = tuple(v for v in every if v is not None and math.isfinite(v))
    return held if len(held) == len(every) else ()


def written(cells: Cells) -> str | None:
    """What a model that writes has written, after the task's filter; None where that is no text."""
    found = cells.get("filtered_resps", cells.get("resps"))
    while isinstance(found, list) and found:
        found = found[0]
    return found if isinstance(found, str) else None


def by_choice(asked: Prompt) -> list[int] | None:
    """For each choice of the item the request that scored its text; None where the texts are not the choices'.

    Some tasks tidy a choice before they ask it, or ask one text in several contexts.
    """
    texts = [unspaced(text) for text in asked.continuations]
    places: list[int] = []
    for choice in asked.shown.choices:
        wanted = unspaced(choice)
        found = next((i for i, text in enumerate(texts) if text == wanted and i not in places), None)
        if found is None:
            return None
        places.append(found)
    return places


def _pairs(found: object) -> list[tuple[str, str]]:
    members: Sequence[object] = []
    if isinstance(found, Mapping):
        # By number where by name would not do: gen_args_10 comes after gen_args_2.
        named = found.items() if len(found) <= 10 else sorted(found.items(), key=lambda pair: _rank(pair[0]))
        members = [member for _, member in named]
    elif isinstance(found, list):
        members = found
    pairs = [_pair(member) for member in members]
    held = [pair for pair in pairs if pair is not None]
    return held if len(held) == len(pairs) else []


def _pair(member: object) -> tuple[str, str] | None:
    context = continuation = None
    if isinstance(member, Mapping):
        context, continuation = member.get("arg_0"), member.get("arg_1")
    elif isinstance(member, list) and len(member) > 1:
        context, continuation = member[0], member[1]
    if isinstance(context, str) and isinstance(continuation, str):
        return context, continuation
    return None


def _rank(name: str) -> int:
    number = str(name).rpartition("_")[2]
    return int(number) if number.isdecimal() else 0


def _responses(cells: Cells) -> list[object]:
    for name in ("resps", "filtered_resps"):
        found = cells.get(name)
        if isinstance(found, list) and found:
            return found
    return []


def _first_number(found: object) -> float | None:
    while isinstance(found, list) and found:
        found = found[0]
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        return None
    try:
        return float(found)
    except ValueError:
        return None
