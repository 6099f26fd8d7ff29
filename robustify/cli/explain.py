"""A loaded benchmark explained: how each file was read, and three rows as models will be asked them.

It shows the text of items: the one place that does so on purpose. Whoever calls it has made sure that the set is
public.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from robustify.ask import Asking, Planned, plan
from robustify.item import Item
from robustify.loaders import Loaded

ROWS = 3


def explain(loaded: Loaded, asking: Asking) -> dict[str, Any]:
    """What was recognised, and what the first, middle and last item become, as a JSON-able object.

    Keys: `files` [{file, layout, fields {part: name}, key_forms {form: rows}}] and `rows` [{item, line, file, key,
    topic, views: [{view, template, digest, order, prompt, continuations, refusal}]}]. `key` counts from 0 in the item's
    own order, `order` says which own choice stands at each place shown; each view is shown in its first order.
    """
    at = sorted({0, len(loaded.items) // 2, len(loaded.items) - 1} & set(range(len(loaded.items))))
    asked = _asked(loaded.items, [loaded.items[i] for i in at], asking)
    return {
        "files": [asdict(one) for one in loaded.recognised],
        "rows": [
            {
                "item": item.id,
                "line": loaded.lines[i],
                "file": loaded.files[i] if loaded.files else "",
                "key": item.key,
                "topic": item.topic,
                "views": [_view(one) for one in asked if one.item.id == item.id],
            }
            for i, item in ((i, loaded.items[i]) for i in at)
        ],
    }


def _asked(items: Sequence[Item], shown: Sequence[Item], asking: Asking) -> list[Planned]:
    """Every view of these items in its first order; few-shot headers are made of the same items as in a run."""
    once = asking.model_copy(update={"orders": 1, "rotations": "one"})
    header = list(items[: asking.shots + 1])
    there = {item.id for item in header}
    wanted = {item.id for item in shown}
    planned = plan([*header, *(item for item in shown if item.id not in there)], once)
    return [one for one in planned if one.item.id in wanted]


def _view(one: Planned) -> dict[str, Any]:
    words = one.template
    return {
        "view": words.view,
        "template": words.name,
        "digest": words.digest[:8],
        "order": list(one.order),
        "prompt": one.requests[0].context if one.requests else None,
        "continuations": [request.continuation for request in one.requests],
        "refusal": one.refusal,
    }
