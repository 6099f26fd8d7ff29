"""Responses in rows of lm-eval: a log-likelihood for each request, or a generated reply. Numbers may be text."""

import re

from robustify.base.errors import Notice
from robustify.base.texts import unspaced
from robustify.reading.loaders.rows import Cells, as_object
from robustify.reading.logs import log
from robustify.reading.logs.requested import scored_texts
from robustify.reading.marks import picks

_PRINTED = re.compile(r"[\w.]*\w\(([^(),]+)(?:,[^()]*)?\)|\(([^(),]+),\s*(?:True|False)\)")
"""Number as NumPy or PyTorch prints it, such as `np.float64(-1.5)`, or beside whether its text is the most likely one."""


def log_likelihoods(cells: Cells) -> list[float]:
    """Return the log-likelihood of each request, or NaN if it is unreadable. Values may be in nested lists."""
    for name in ("resps", "filtered_resps"):
        responses = cells.get(name)
        if isinstance(responses, list) and responses:
            return [log.number_or_nan(_number(innermost(response))) for response in responses]
    return []


def every_text(cells: Cells) -> tuple[str, ...]:
    """Return all unfiltered replies in a row without scores."""
    replies = _innermost_list(cells.get("resps", cells.get("filtered_resps")))
    return tuple(reply for reply in replies if isinstance(reply, str))


def innermost(value: object) -> object:
    """Return the first innermost value of nested lists."""
    while isinstance(value, list) and value:
        value = value[0]
    return value


def is_scored(cells: Cells) -> bool:
    """Return whether a row has log-likelihoods, which may be written as text, instead of a generated reply."""
    for name in ("resps", "filtered_resps"):
        responses = cells.get(name)
        if isinstance(responses, list) and responses:
            pairs = [_innermost_list(response) for response in responses]
            if all(len(pair) == 2 and str(pair[1]) in ("True", "False") for pair in pairs):
                return all(_is_number(pair[0]) or pair[0] in (None, "None") for pair in pairs)
            numbers = all(_is_number(innermost(response)) for response in responses)
            return numbers and (len(responses) > 1 or any(scored_texts(cells)))
    return False


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        return log.is_number(value) or log.is_number(str(_number(value)))
    return isinstance(value, int | float)


def _number(value: object) -> object:
    """Return the text of a number without the text printed around it. Return any other value unchanged."""
    printed = _PRINTED.fullmatch(value.strip()) if isinstance(value, str) else None
    return value if printed is None else printed[1] or printed[2]


def _innermost_list(value: object) -> list[object]:
    while isinstance(value, list) and value and isinstance(value[0], list):
        value = value[0]
    return value if isinstance(value, list) else []


def other_targets(cells: Cells, item: log.LoggedItem) -> Notice | None:
    """Return the reason to refuse a row if none or several of its scored targets are right, as in TruthfulQA's mc2.
    Otherwise, return None."""
    texts = [unspaced(text) for text in scored_texts(cells)]
    for name, value in as_object(cells.get("doc")).items():
        targets = as_object(value)
        choices, labels = targets.get("choices"), targets.get("labels")
        if not isinstance(choices, list) or not isinstance(labels, list) or len(choices) != len(texts):
            continue
        right = sum(label in (1, True, "1") for label in labels)
        if right != 1 and all(
            text.endswith(unspaced(str(c))) for text, c in zip(texts, choices, strict=True)
        ):
            label = log.as_name(name) or "doc"
            return Notice(
                f"the row scores the {len(texts)} texts of `{label}`, of which {right} are right; expected {item.k} "
                "log-likelihoods, one per choice. Log the task with one right answer (mc1).",
                code="several-right-answers",
            )
    return None


def reply_runs_on(cells: Cells, item: log.LoggedItem) -> bool:
    """Return whether the reply of a row without scores runs on into another question."""
    reply = innermost(cells.get("resps", cells.get("filtered_resps")))
    return isinstance(reply, str) and picks.runs_on(reply, item.choices)


def run_on_notes(n: int) -> list[Notice]:
    """Return a note on `n` replies that run on, if there are any."""
    note = f"replies that run on into another question, of which only the answer before it counts: {n}"
    return [Notice(note, code="replies-run-on")] * bool(n)


def n_replies(cells: Cells) -> int:
    """Return the number of replies of which a row without scores uses one, or 1 if the filter returned one reply."""
    counts = [len(_innermost_list(cells[name])) for name in ("resps", "filtered_resps") if cells.get(name)]
    return min(counts, default=1)


def generated_text(cells: Cells) -> str | None:
    """Return the text generated by a model, after the task's filter, or "" if the filter found nothing in it. Return None
    if a row without scores has no text."""
    text = innermost(cells.get("filtered_resps", cells.get("resps")))
    if text is None and isinstance(innermost(cells.get("resps")), str):
        return ""
    return text if isinstance(text, str) else None
