"""How one reply of a judge was read, step by step: what was cut off, which structures there are, which one counts.

The steps have places, labels and scores, and no other word of the reply.
"""

from typing import Any

from robustify.freeform.answer_text import split_reasoning
from robustify.freeform.judge.label_parse import contradicted, parse_labels_multi_format, structures
from robustify.freeform.judge.spans import readable, spans
from robustify.freeform.judge.store import PromptTemplate
from robustify.freeform.judge.verdicts import LABEL_SETS, Reading, objects_with, parse_score, parse_verdict

Step = dict[str, Any]


def reading_steps(
    reply: str, template: PromptTemplate, expected: int | None = None, format_type: str | None = None
) -> list[Step]:
    """The steps, each `{"step", ...}`: reply, reasoning, text, structures, and the result as graders get it.

    `expected` is the number of nuggets; None takes that of the last structure. `format_type` None: the template's.

    Raises:
        UsageError: an unknown format.
    """
    split = split_reasoning(reply)
    text, fault = readable(reply)
    steps: list[Step] = [
        {"step": "reply", "characters": len(reply)},
        {
            "step": "reasoning",
            "cut": len(split.reasoning),
            "left": len(split.text),
            "unterminated": split.unterminated,
        },
        {"step": "text", "characters": len(text), "error_type": fault},
    ]
    if template.reads != "labels":
        key = "verdict" if template.reads == "verdict" else "score"
        for span, pairs in objects_with(text, spans(text), key):
            found = {"from": span.start, "to": span.end, key + "s": len(pairs.all(key))}
            steps.append({"step": "object", **found})
        read: Reading[Any] = (
            parse_verdict(reply) if key == "verdict" else parse_score(reply, scale=template.scale or "binary")
        )
        return [*steps, {"step": "result", key: read.value, "error_type": read.error_type}]
    written, labels = format_type or template.own_format, LABEL_SETS[template.label_set or "support3"]
    places = structures(text, expected or 1, written, labels)
    n = expected or (len(places[-1].labels) if places else 1)
    steps += [
        {
            "step": "structure", "format": place.format, "from": place.start, "to": place.end,
            "labels": list(place.labels), "numbers": place.indices and list(place.indices), "cut_off": place.truncated,
        }
        for place in places
    ]  # fmt: skip
    if places:
        steps.append({"step": "last", "contradicted": contradicted(text, places, n)})
    parsed = parse_labels_multi_format(reply, n, format_type=written, label_set=labels)
    result = {"step": "result", "nuggets": n, "labels": parsed.labels, "format_used": parsed.format_used}
    return [*steps, result | {"error_type": parsed.error_type}]
