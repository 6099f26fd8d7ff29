"""Rules about answers that a prompt states: the allowed letters, the labels of the options, and the key."""

import re
from collections.abc import Iterator, Sequence
from string import ascii_uppercase

from robustify.base.texts import folded
from robustify.judging.lint.few_shots import CHAT_MARK
from robustify.judging.lint.log_evidence import LintedLog, LoggedRow, LogHit, gathered
from robustify.judging.lint.uneven_prompts import key_stands_out
from robustify.reading.marks.labelling import bare_mark
from robustify.reading.marks.picks import Picked, read_pick

_STATED = re.compile(
    r"\bone of (?:the (?:letters|options) )?[\"'(]?(?P<run>ABC?[A-Z]{0,24})\b"
    r"|(?<![A-Za-z])A\s?(?:-|–|to|through)\s?(?P<last>[B-Z])(?![A-Za-z])"
    r"|(?<![A-Za-z])(?P<list>A[)\]\"']?(?:\s?[,/|]\s?[(\[\"']?[B-Z][)\]\"']?)+(?:,?\s(?:or|and)\s[(\[\"']?[B-Z])?|A(?:\sor\s)B)(?![A-Za-z])"
)
_INSTRUCTS = re.compile(
    r"\b(?:letters?|options?|choices?|answers?|reply|respond|choose|select|pick|output|one of)\b",
    re.IGNORECASE,
)
_OPTION = re.compile(r"\s*[(\[]?[A-Z][.):\]]\s")
_LABEL = r"[(\[]?(?P<label>[A-Z]|\d{1,2})[.):\]]+[*_`]*\s*"
_LABELLED = re.compile(rf"[\s_`]*(?:{_LABEL})?")
_SIGN = r"[*✓✔☑✅]+|\[x\]|(?:[(\[<{]|[-–—←:]\s)\s*(?:correct|right|true|key|gold|answer)(?:\s(?:answer|option))?\s*[)\]>}]?"
_KEY_SIGN = re.compile(rf"\s*(?:{_SIGN})\s*", re.IGNORECASE)
"""Sign beside an option that marks it as the right one."""
_PRINTED = re.compile(
    r"\b(?:gold|label|target|key|(?:correct|right)[_ ]?(?:answer|option|choice)|answer(?:[_ ]?(?:key|idx|index))?)"
    r"[\"']?\s*[:=][ \t]*[\"']?(?P<answer>[^\n\"',}]+)",
    re.IGNORECASE,
)
"""Words before a printed key, and the key."""


def stated_range(row: LoggedRow) -> str:
    """Describe a prompt that states a range of letters other than the letters of its options."""
    if row.parts is None or not row.by_letter or not set("".join(row.parts.labels)) <= set(ascii_uppercase):
        return ""
    n_stated = _n_stated(row)
    if n_stated is None or n_stated == row.item.k:
        return ""
    return f"the prompt states letters up to {ascii_uppercase[n_stated - 1]}, but the item has {row.item.k} options"


def _n_stated(row: LoggedRow) -> int | None:
    """Return the number of letters (from A) that a prompt's last instruction allows, or None if it states no letters."""
    context = row.context
    for text in (*row.item.choices, row.item.stem):
        context = context.replace(text, " ") if len(text) > 1 else context
    instructions = [
        line for line in context.split("\n") if _INSTRUCTS.search(line) and not _OPTION.match(line)
    ]
    matches = (match for line in instructions for match in _STATED.finditer(line))
    *_, n_letters = [None, *filter(None, map(_n_letters, matches))]
    return n_letters


def _n_letters(stated: "re.Match[str]") -> int | None:
    """Return the number of letters that a text states, or None if they are not the first letters in order."""
    if stated["last"]:
        return ascii_uppercase.index(stated["last"]) + 1
    letters = stated["run"] or "".join(re.findall(r"\b[A-Z]\b", stated["list"]))
    return len(letters) if ascii_uppercase.startswith(letters) else None


def other_labels(row: LoggedRow) -> str:
    """Describe a prompt whose option labels differ from the answers that the prompt states, or that were scored."""
    if row.prompt is None or not row.by_letter:
        return ""
    labels = _labels_before_options(row)
    if row.prompt.written:
        # Another number of letters is a finding of `stated_range`.
        answers = [*ascii_uppercase[: row.item.k]] if _n_stated(row) == row.item.k else []
    else:
        answers = [(bare_mark(text) or "").upper() for text in row.prompt.continuations]
    if not labels or not answers or {*labels} <= {*answers}:
        return ""
    return f"the options have the labels {_span(labels)}, but the answers are {_span(answers)}"


def _labels_before_options(row: LoggedRow) -> list[str]:
    """Return the labels of the options that a prompt lists after its question, or [] if an option has no label."""
    context, labels = row.context[max(0, row.context.rfind(row.question)) :], list[str]()
    for choice in row.item.choices:
        *_, listed = [None, *re.finditer(rf"(?:^|[\s|;,/])[*_`]*{_LABEL}{re.escape(choice)}", context)]
        labels += [listed["label"]] if listed else []
    return labels if len({*labels}) == row.item.k else []


def _span(labels: Sequence[str]) -> str:
    return f"{labels[0]} to {labels[-1]}"


def key_in_prompt(logs: Sequence[LintedLog]) -> Iterator[LogHit]:
    """Find prompts that print the key: after words such as `Answer:`, by a sign beside the right option, or in the other
    lines of nearly all prompts.

    Words that also stand in the prompt of an item with another key are an instruction, such as `Reply with Answer: A`."""
    for log in logs:
        rows = [row for row in log.rows if row.item.key is not None and row.parts and row.parts.question]
        printed = [dict(_printed(row)) for row in rows]
        signed = [_signed(row) for row in rows]
        wrong = {
            words
            for row, own in zip(rows, printed, strict=True)
            for words, index in own.items()
            if index != row.item.key
        }
        keys_signed = all(own in ([], [row.item.key]) for row, own in zip(rows, signed, strict=True))
        hits = [
            (row, "the prompt prints the key")
            for row, own, signs in zip(rows, printed, signed, strict=True)
            if own.keys() - wrong or (keys_signed and signs)
        ]
        if len({row.item.key for row, _ in hits}) > 1 or 2 * len(hits) <= len(log.rows):
            yield from gathered(log, hits or key_stands_out(log))


def _own_part(row: LoggedRow) -> list[str]:
    """Return the lines of a prompt from its question's paragraph on, without the examples before it."""
    text = CHAT_MARK.sub("\n\n", row.context)
    start = max(0, text.rfind(row.question))
    paragraph = max(text.rfind("\n\n", 0, start), 0)
    return f"{text[paragraph:start]}\n{text[start + len(row.question) :]}".split("\n")


def _printed(row: LoggedRow) -> Iterator[tuple[str, int]]:
    """Yield each phrase in the item's part of a prompt that announces an answer, with the option that this answer names. A
    number may count from 0 or from 1."""
    shown = [row.item.choices[index] for index in row.order_in_prompt]
    for line in _own_part(row):
        for match in _PRINTED.finditer(line) if _unlabelled(line) not in shown else ():
            words, answer = folded(match.group()), match["answer"].strip()
            if answer.isdecimal():
                yield from ((f"{first} {words}", int(answer) - first) for first in (0, 1))
            elif isinstance(pick := read_pick(answer, shown), Picked):
                yield words, row.order_in_prompt[pick.index]


def _signed(row: LoggedRow) -> list[int]:
    """Return the options of a prompt that have a sign next to them."""
    lines, choices = [*map(_unlabelled, _own_part(row))], row.item.choices
    return [
        index
        for index, choice in enumerate(choices)
        if any(
            line not in choices and choice and choice in line and all(map(_is_sign, line.split(choice, 1)))
            for line in lines
        )
    ]


def _is_sign(text: str) -> bool:
    return not text.strip() or bool(_KEY_SIGN.fullmatch(text))


def _unlabelled(line: str) -> str:
    return _LABELLED.sub("", line, count=1).strip()
