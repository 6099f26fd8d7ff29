"""Rules about the prompts of a log: missing, repeated, or truncated parts."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from string import ascii_uppercase

from robustify.base.texts import compatible, folded, unspaced
from robustify.judging.cloze import refer_to_others
from robustify.judging.lint.log_evidence import LintedLog, LoggedRow, LogHit, gathered
from robustify.judging.lint.stated_answers import other_labels
from robustify.reading.marks.labelling import cut_at_labels

_SHORTEST_CUT, _HALF_CUT = 6, 3
"""Fewest words of a question that can be cut, and number of words whose absence at an end shows it."""
_EDGE, _NEARLY_ALL, _FEWEST = 8, 0.9, 10
"""Characters at an end of a prompt that are compared, share of prompts that have the usual ones, and fewest prompts."""
_WORD = re.compile(r"[^\W_]+")


def option_missing(row: LoggedRow) -> str:
    """Describe a prompt that lacks options although the model must name an option by its label."""
    if row.parts is None or not row.by_letter or row.parts.n_options >= row.item.k or garbled(row):
        return ""
    return f"the prompt shows only {row.parts.n_options} of {row.item.k} options"


def labels_missing(row: LoggedRow) -> str:
    """Describe a prompt whose labels do not cover the options that it shows."""
    if row.parts is None or not row.by_letter or row.parts.n_options < row.item.k or other_labels(row):
        return ""
    n = len(row.parts.labels)
    return f"the prompt labels {n} of {row.item.k} options" if 0 < n < row.item.k else ""


def question_missing(logs: Sequence[LintedLog]) -> Iterator[LogHit]:
    """Find prompts without their question, unless the log hides questions on purpose."""
    for log in logs:
        if log.is_blind:
            continue
        rows = [row for row in log.rows if row.parts is not None and row.question]
        lacking = [row for row in rows if row.parts and not row.parts.question]
        lacking = [row for row in lacking if not _cut(row) and not garbled(row)]
        words = "the prompt does not show the question"
        if rows and len(lacking) == len(rows) and rows[0].reply.view.startswith("choices_only"):
            words += ", so the log is read as blind"
        yield from gathered(log, [(row, words) for row in lacking])


def cut_prompt(logs: Sequence[LintedLog]) -> Iterator[LogHit]:
    """Find prompts that lack part of the question or of the last option, or the usual first or last words of prompts."""
    for log in logs:
        rows = [row for row in log.rows if row.prompt is not None and row.context]
        usual = [_usual(rows, end) for end in (False, True)]
        hits = []
        for row in rows:
            if words := _cut(row) or _last_option_cut(row):
                hits.append((row, words))
            elif usual[0] and not row.context.startswith(usual[0]):
                hits.append(
                    (row, "the prompt lacks the start that nearly all others have, so it seems to be cut")
                )
            elif usual[1] and not row.context.rstrip().endswith(usual[1]):
                hits.append(
                    (row, "the prompt lacks the end that nearly all others have, so it seems to be cut")
                )
        yield from gathered(log, hits)


def _usual(rows: Sequence[LoggedRow], end: bool) -> str:
    """Return the start or end of nearly all prompts, or "" if they have none in common."""
    if len(rows) < _FEWEST:
        return ""
    texts = (row.context.rstrip()[-_EDGE:] if end else row.context[:_EDGE] for row in rows)
    text, n = Counter(texts).most_common(1)[0]
    # The questions of a set may begin alike.
    stems = sum(
        row.item.stem.strip().endswith(text) if end else row.item.stem.startswith(text) for row in rows
    )
    return text if n >= _NEARLY_ALL * len(rows) and 2 * stems < n else ""


def _cut(row: LoggedRow) -> str:
    """Describe a question that is cut in the prompt: one half is present, and the words at the other end are missing."""
    words = _WORD.findall(folded(row.question))
    if row.prompt is None or "_" in row.question or len(words) < _SHORTEST_CUT:
        return ""
    seen = f" {' '.join(_WORD.findall(folded(f'{row.context} {row.prompt.continuations[0]}')))} "
    if f" {' '.join(words)} " in seen:
        return ""
    half = len(words) // 2
    for kept, lost, where in (
        (words[:half], words[-_HALF_CUT:], "end"),
        (words[half:], words[:_HALF_CUT], "start"),
    ):
        if f" {' '.join(kept)} " in seen and f" {' '.join(lost)} " not in seen and not garbled(row):
            return f"the prompt cuts the question at its {where}"
    return ""


def _last_option_cut(row: LoggedRow) -> str:
    cut = cut_at_labels(row.context) if row.by_letter else None
    if cut is None or len(cut.texts) != row.item.k:
        return ""
    last = unspaced(cut.texts[-1])
    longer = [
        text for choice in row.item.choices if (text := unspaced(choice)) != last and text.startswith(last)
    ]
    if last in map(unspaced, row.item.choices) or not longer or garbled(row):
        return ""
    return "the prompt cuts the last option"


_BYTES = {bytes([n]).decode(code, "ignore"): n for code in ("latin-1", "cp1252") for n in range(128, 256)}
"""Bytes of UTF-8 by the characters that other encodings make of them."""
_WRONG = re.compile(f"[{re.escape(''.join(_BYTES))}]{{2,}}")
_NOT_ASCII = re.compile(r"[^!-~]+|\?")
_FEWEST_ASCII = 6


def garbled(row: LoggedRow) -> str:
    """Describe a prompt that shows the question or an option in a wrong encoding, or without its non-ASCII letters."""
    lacks_options = row.by_letter and row.parts is not None and row.parts.n_options < row.item.k
    options = row.item.choices if lacks_options else ()
    texts = [text for text in (row.question, *options) if not text.isascii()]
    if row.prompt is None or not texts:
        return ""
    shown = folded(compatible(row.context))
    texts = [own for text in texts if (own := folded(compatible(text))) not in shown]
    decoded = _WRONG.sub(
        lambda run: bytes(_BYTES[sign] for sign in run[0]).decode("utf-8", "replace"), row.context
    )
    again, plain = folded(compatible(decoded)), _NOT_ASCII.sub("", shown)
    for text in texts:
        ascii_signs = _NOT_ASCII.sub("", text)
        if text in again or (len(ascii_signs) >= _FEWEST_ASCII and ascii_signs in plain):
            return "the prompt garbles letters of the question or of an option, as a wrong encoding does"
    return ""


_BOS = re.compile(
    r"(<\|begin_of_text\|>|<s>|<bos>|<\|startoftext\|>|\[INST\]|<\|im_start\|>\w+|<start_of_turn>\w+)\s*\1"
)
_TOKEN = re.compile(
    r"<\|(?:im_start|im_end|start_header_id|eot_id|begin_of_text)\|>|\[/?INST\]|<(?:start|end)_of_turn>|<<SYS>>"
)
_NESTED = re.compile(
    r"<\|im_start\|>\w+\s*<\|im_start\|>|<\|start_header_id\|>\w+<\|end_header_id\|>\s*<\|start_header_id\|>"
    r"|\[INST\](?:(?!\[/INST\]).)*\[INST\]|<start_of_turn>\w+\s*<start_of_turn>|<\|im_start\|>(?:(?!<\|im_end\|>).)*<\|im_start\|>",
    re.DOTALL,
)


def doubled_template(row: LoggedRow) -> str:
    """Describe a prompt with a chat template inside another one."""
    raw = row.exchange.contexts[0] if row.exchange.contexts else ""
    in_chat = raw.lstrip().startswith("[{") and _TOKEN.search(row.context)
    return (
        "a chat template is inside another one" if in_chat or _BOS.search(raw) or _NESTED.search(raw) else ""
    )


def trailing_space(logs: Sequence[LintedLog]) -> Iterator[LogHit]:
    """Find prompts that end in a space, which is tokenized differently before an answer. If the model wrote a reply,
    the finding is a note, because a chat template may remove the space."""
    for log in logs:
        rows = [row for row in log.rows if row.prompt and row.exchange.contexts[0].endswith((" ", "\t"))]
        for hit in gathered(log, [(row, "the prompt ends in a space") for row in rows]):
            written = rows[0].prompt is not None and rows[0].prompt.written
            yield hit._replace(severity="note") if written else hit


_LETTERS = re.compile(r"\b[A-J]\b")
_NUMBERED = re.compile(
    r"\b(?:options?|choices?|answers?)\s+(?:\d|[A-J])\b(?:\s?(?:,|&|and|or)\s?(?:\d|[A-J])\b)+", re.IGNORECASE
)
_ABOVE = re.compile(r"\babove\b", re.IGNORECASE)


def shuffled_pointer(logs: Sequence[LintedLog]) -> Iterator[LogHit]:
    """Find options about other options, such as "all of the above", in items whose options were shuffled."""
    orders: dict[tuple[str, tuple[str, ...]], set[tuple[str, ...]]] = {}
    pointing: dict[tuple[str, ...], list[bool]] = {}
    for log in logs:
        for row in log.rows:
            choices = row.item.choices
            if choices not in pointing:
                pointing[choices] = _pointers(choices)
            if any(pointing[choices]):
                orders.setdefault(row.content, set()).update(
                    (own := tuple(map(unspaced, choices)), tuple(own[index] for index in row.order_in_prompt))
                )
    for log in logs:
        hits = []
        for row in log.rows:
            marks = pointing[row.item.choices]
            if any(marks) and (len(orders[row.content]) > 1 or _misplaced(row.item.choices, marks)):
                hits.append((row, "an option refers to others, but the options were shuffled"))
        yield from gathered(log, hits)


def _pointers(choices: Sequence[str]) -> list[bool]:
    """Return which options refer to other options, including by number ("options 1 and 3")."""
    marks = refer_to_others(choices)
    return [
        mark or bool(_NUMBERED.fullmatch(text.strip(" ."))) for mark, text in zip(marks, choices, strict=True)
    ]


def _misplaced(choices: Sequence[str], marks: Sequence[bool]) -> bool:
    """Return whether an option refers to the options above but is not the last option, or refers to itself."""
    for index, (choice, mark) in enumerate(zip(choices, marks, strict=True)):
        if mark and _ABOVE.search(choice) and not all(marks[index:]):
            return True
        if mark and ascii_uppercase[index] in _LETTERS.findall(choice):
            return True
    return False
