"""Every prompt that a model is asked: those of the views, and those of free response, judges, and writers.

A prompt is shown as its files, or rendered for one item: an invented one, or one of the user's public set.
"""

import hashlib
from importlib.resources import files
from pathlib import Path

from robustify.base.errors import UsageError
from robustify.base.redaction import ItemText
from robustify.freeform.prompt_templates import every_template, example_of, pack_text, template_named
from robustify.items.item import Item
from robustify.items.orders import own
from robustify.items.views import VIEWS, by_chat, inferring_prompt, names, template

_PASSAGE, _QUESTION = "A spider is no insect.\n\n", "How many legs does a spider have?"
_TEXT = ItemText(_PASSAGE + _QUESTION, ("six", "eight", "ten"), len(_PASSAGE))
INVENTED = Item("invented", key=1, sealed=_TEXT)
"""Item for which a prompt is rendered if the user gives none."""
_INFERRING = "infer_question/choices-v1"


def listed_prompts(extra_dirs: tuple[Path, ...] = ()) -> list[dict[str, str]]:
    """Return the ID, what is read of a reply, and the SHA-256 of every prompt. Raise `DataError` if a released template of
    free response was changed."""
    views = [template(view, name) for view in VIEWS for name in names(view)]
    read = [(f"{one.view}/{one.name}", "letter" if one.by_letter else "option", one.digest) for one in views]
    read.append((_INFERRING, "text", hashlib.sha256(_file_of(_INFERRING).encode()).hexdigest()))
    free = [template_named(one.id, extra_dirs) for one in every_template(extra_dirs)]
    rows = [*read, *((one.id, one.reads, one.sha256) for one in free)]
    return [dict(zip(("id", "reads", "sha256"), row, strict=True)) for row in rows]


def prompt_files(prompt_id: str, extra_dirs: tuple[Path, ...] = ()) -> dict[str, str]:
    """Return the files of a prompt by name. Raise `UsageError` if it is unknown, and `DataError` if it was changed."""
    if _is_view(prompt_id):
        return {f"{prompt_id}.yaml": _file_of(prompt_id).rstrip()}
    found = template_named(prompt_id, extra_dirs)
    return {name: pack_text(found.root, name).rstrip() for name in found.files}


def prompt_for(
    prompt_id: str, item: Item = INVENTED, format_type: str | None = None, extra_dirs: tuple[Path, ...] = ()
) -> dict[str, str]:
    """Return the parts of a prompt for one item, by name, in the item's own order of options. Where a judge would read a
    reply, the key stands for it. Raise `UsageError` if the prompt is unknown or does not fit the item."""
    if prompt_id == _INFERRING:
        return {"context": inferring_prompt(item)}
    if not _is_view(prompt_id):
        key = item.choices[item.key]
        given = {"question": item.stem, "query": item.stem, "reference": key, "answer": key, "passage": key}
        chosen = template_named(prompt_id, extra_dirs)
        turns = example_of(chosen, format_type, {} if item is INVENTED else given)
        return {f"{at} {turn.role}": turn.content for at, turn in enumerate(turns, start=1)}
    view, _, name = prompt_id.partition("/")
    found = template(next(one for one in VIEWS if one == view), name)
    if not found.can_ask(item):
        raise UsageError(f"{prompt_id}: hides a passage, and this item has none. Choose one with a passage.")
    asked = found.requests(item, own(item.k))
    parts = {"context": asked[0].context}
    parts |= {f"continuation {at}": one.continuation for at, one in enumerate(asked, start=1)}
    if found.by_letter:
        parts["to a chat server"] = by_chat(asked[0].context, [one.continuation.strip() for one in asked])
    return parts


def _file_of(prompt_id: str) -> str:
    return (files("robustify.items") / "templates" / f"{prompt_id}.yaml").read_text(encoding="utf-8")


def _is_view(prompt_id: str) -> bool:
    view, _, name = prompt_id.partition("/")
    return prompt_id == _INFERRING or any(view == one and name in names(one) for one in VIEWS)
