"""Requests recorded in a log: contexts, continuations, and options that occur only there."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from os.path import commonprefix
from typing import NamedTuple

from robustify.base.errors import DataError, ItemError, Notice
from robustify.base.redaction import HoldsText
from robustify.base.texts import unspaced
from robustify.reading.columns import usual_names
from robustify.reading.loaders.converters import table_of_items
from robustify.reading.loaders.rows import Cells, SourceRow, SourceTable, as_object, rows_or_faults
from robustify.reading.logs.log import ItemsOfLog, LoggedItem
from robustify.reading.logs.prompts import Prompt, plain_context
from robustify.reading.marks.labelling import cut_at_labels, only_labels, without_tail
from robustify.reading.marks.reply_parts import answer_words

_SAMPLED, _FEW_WORDS = 200, 3
_LAST_QUESTION = re.compile(rf"(?:^|\n)(?:{answer_words()['question']})[:：][ \t]*", re.IGNORECASE)
_LEAD_IN = re.compile(r"\n[ \t]*\S+(?:[ \t]+\S+){0,2}[ \t]*[:：][ \t]*$")
_BULLET = re.compile(r"^[ \t]*[-*•–][ \t]+(?=[(\[]?\w{1,2}[)\].:])", re.MULTILINE)
_BEFORE_TEXT = re.compile(r"[\W_]*\s")
NO_TEXTS = Notice(
    "the scored options are only labels, and neither `doc` nor the prompt has lines with their texts (`A. ...`) that end "
    "clearly",
    code="unlisted-options",
)

_SHOWN_QUESTION = Notice(
    "no column of the docs is named as a question, so it is the one that the prompts show",
    code="question-from-prompts",
)


def _pairs(cells: Cells) -> list[tuple[str, str]]:
    """Return the context and continuation of each request of a row, or nothing if a request has another form. A
    continuation is "" if the model wrote. The second half of `acc_mutual_info`, which has no context, is left out."""
    arguments = cells.get("arguments")
    members: Sequence[object] = arguments if isinstance(arguments, list) else ()
    if isinstance(arguments, dict):
        # Sort by number, so that gen_args_10 comes after gen_args_2.
        members = [arguments[name] for name in sorted(arguments, key=_number)]
    pairs = [pair for member in members if (pair := _pair(member)) is not None]
    half = len(pairs) // 2
    if len(pairs) < len(members):
        return []
    return pairs[:half] if len(pairs) % 2 == 0 and not any(context for context, _ in pairs[half:]) else pairs


def _pair(member: object) -> tuple[str, str] | None:
    match member:
        case dict():
            context, continuation = member.get("arg_0"), member.get("arg_1")
        case [context, continuation, *_]:
            pass
        case _:
            return None
    if not isinstance(context, str) or not isinstance(continuation, str | dict):
        return None
    return context, continuation if isinstance(continuation, str) else ""


@lru_cache(4096)
def _number(name: str) -> int:
    number = str(name).rpartition("_")[2]
    return int(number) if number.isdecimal() else 0


def scored_texts(cells: Cells) -> list[str]:
    """Return the continuation of each request of a row."""
    return [continuation for _, continuation in _pairs(cells)]


def prompt_in_row(cells: Cells, item: LoggedItem) -> Prompt | None:
    """Return the prompts of a row: one context and a continuation for every choice, or one context to which the model
    wrote a reply. Return None for any other row."""
    pairs = _pairs(cells)
    if len(pairs) != item.k and not (len(pairs) == 1 and not pairs[0][1]):
        return None
    contexts, continuations = zip(*pairs, strict=True)
    return Prompt(item, contexts, continuations)


def by_choice(prompt: Prompt) -> list[int] | None:
    """Return the index of the request that scored each choice, or None if the scored texts differ from the choices."""
    texts = [unspaced(text) for text in prompt.continuations]
    positions: list[int] = []
    for choice in map(unspaced, prompt.item.choices):
        free = [index for index, text in enumerate(texts) if text == choice and index not in positions]
        if not free:
            return None
        positions.append(free[0])
    return positions


class DelimiterRule(NamedTuple):
    """One way to find the text before the choice in each continuation. `find` gets the texts that stand before a choice of
    the docs, all continuations, and the delimiter of the results file. It returns None if the rule does not apply."""

    name: str
    reason: str
    find: Callable[[Counter[str], Sequence[str], str | None], str | None]


def _most_common(before: Counter[str], scored: Sequence[str], _: str | None) -> str | None:
    text, n = before.most_common(1)[0] if before else ("", 0)
    return text if 2 * n > len(scored) else None


def _configured(_: Counter[str], scored: Sequence[str], configured: str | None) -> str | None:
    return configured if configured and all(text.startswith(configured) for text in scored) else None


def _in_common(_: Counter[str], scored: Sequence[str], __: str | None) -> str | None:
    match = _BEFORE_TEXT.match(commonprefix(scored))  # noqa: RUF071 (texts, not paths)
    return match[0] if match else ""


DELIMITER_RULES = (
    DelimiterRule(
        "docs", "a space may belong to the delimiter or to the choice, which the docs show", _most_common
    ),
    DelimiterRule("results file", "the docs have no choices, and all texts begin so", _configured),
    DelimiterRule("in common", "all texts begin with the same white space or punctuation", _in_common),
)
"""In order. The last one always applies."""


def delimiter(rows: Sequence[SourceRow], configured: str | None) -> str:
    """Return the text before the choice in each continuation, by `DELIMITER_RULES`."""
    before: Counter[str] = Counter()
    scored: list[str] = []
    for row in rows[:: max(1, len(rows) // _SAMPLED)]:
        texts = sorted(_texts(row.cells.get("doc")), key=len, reverse=True)
        for _, continuation in _pairs(row.cells):
            scored.append(continuation)
            before.update(
                [continuation.removesuffix(text) for text in texts if continuation.endswith(text)][:1]
            )
    decided = (rule.find(before, scored, configured) for rule in DELIMITER_RULES)
    return next(text for text in decided if text is not None)


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield from [value] * bool(value)
        case list() | dict():
            for member in value.values() if isinstance(value, dict) else value:
                yield from _texts(member)


@dataclass(frozen=True, slots=True, repr=False)
class _Request(HoldsText):
    """Document of a row without options, the context that the model saw, and the scored texts, if any."""

    doc: Cells
    context: str
    texts: tuple[str, ...]
    is_scored: bool

    def listed_in(self, prompts: Iterable[str]) -> Cells | None:
        """Return the document with the options that the first of these texts lists, or None if no text lists options."""
        for prompt in prompts:
            if (listed := listed_options(prompt, self.texts)) is not None:
                stem, options = listed
                fields = {name: stem if value == prompt else value for name, value in self.doc.items()}
                return {**fields, "choices": options}
        return None


class OptionRule(NamedTuple):
    """One way to find the options of a row whose document lacks them. `find` returns the document with them, or None."""

    name: str
    reason: str
    find: Callable[[_Request], Cells | None]


def _scored_options(request: _Request) -> Cells | None:
    are_options = request.is_scored and not only_labels(request.texts)
    return {**request.doc, "choices": list(request.texts)} if are_options else None


def _listed_in_doc(request: _Request) -> Cells | None:
    # A text of the doc that the model did not see may explain the answer.
    texts = _texts(dict(request.doc))
    return request.listed_in(text for text in texts if request.is_scored or text in request.context)


OPTION_RULES = (
    OptionRule("requests", "texts were scored, so these are the options", _scored_options),
    OptionRule("doc", "labels were scored or text was generated, and the doc lists options", _listed_in_doc),
    OptionRule("prompt", "only the prompt lists them", lambda request: request.listed_in([request.context])),
)
"""In order. If none applies, the row is refused."""


def with_requested_options(table: SourceTable, before: str, unknown: DataError) -> SourceTable:
    """Add each row's options to its document, by `OPTION_RULES`, and return the table. `before` is the delimiter.
    Raise `unknown` if no options are found."""
    converted, faults = rows_or_faults(
        ((row, row.cells) for row in table.rows),
        lambda row, cells: replace(row, cells={**cells, "doc": _with_options(cells, before)}),
    )
    if not converted and not any(len(_pairs(row.cells)) > 1 for row in table.rows):
        raise unknown
    return replace(table, rows=tuple(row for _, row in converted), faults=(*table.faults, *faults))


def _with_options(cells: Cells, before: str) -> Cells:
    pairs = _pairs(cells)
    texts = tuple(continuation.removeprefix(before) for _, continuation in pairs if continuation)
    if not pairs or (len(pairs) > 1 and len(set(texts)) < max(2, len(pairs))):
        raise ItemError(
            "neither `doc` nor the requests (`arguments`) contain the options of the item", code="no-options"
        )
    request = _Request(as_object(cells.get("doc")), plain_context(pairs[0][0]), texts, len(pairs) > 1)
    docs = (rule.find(request) for rule in OPTION_RULES)
    if (doc := next(filter(None, docs), None)) is None:
        raise ItemError(NO_TEXTS, code=NO_TEXTS.code)
    return doc


def listed_options(prompt: str, labels: Sequence[str]) -> tuple[str, list[str]] | None:
    """Return a prompt's question and the texts of its last options. Return None if they are missing or unclear. With
    `labels`, only options with these labels count."""
    bare = [label.strip().strip("()[].:") for label in labels]
    cut = cut_at_labels(_BULLET.sub("", prompt), bare)
    cut = None if cut is None else without_tail(cut)
    if cut is None:
        return None
    return last_question(cut.before, bare), [*cut.texts]


def last_question(prompt: str, labels: Sequence[str] = ()) -> str:
    """Return the last question of a prompt that lists no options. Examples whose options have `labels` may precede it."""
    starts = list(_LAST_QUESTION.finditer(prompt))
    if starts:
        prompt = prompt[starts[-1].end() :]
    elif cut_at_labels(prompt, labels) is not None:
        # The question follows examples, in any language.
        prompt = prompt.rpartition("\n\n")[2]
    return _LEAD_IN.sub("", prompt).strip()


def without_instruction(rows: Sequence[SourceRow]) -> tuple[list[SourceRow], list[Notice]]:
    """Remove the first paragraphs shared by all questions with the same number of options. Return a note if any were
    removed. The rows have documents with a `stem` and `choices`."""
    docs = [as_object(row.cells["doc"]) for row in rows]
    stems: dict[int, set[str]] = {}
    for doc in docs:
        stems.setdefault(len(doc["choices"]), set()).add(doc["stem"])
    starts = {
        k: commonprefix([*every]).rpartition("\n\n")  # noqa: RUF071 (texts, not paths)
        for k, every in stems.items()
        if len(every) > 1
    }
    lengths = {k: len(before + blank) for k, (before, blank, _) in starts.items()}
    if not any(lengths.values()):
        return [*rows], []
    cut = [
        replace(
            row,
            cells={**row.cells, "doc": {**doc, "stem": doc["stem"][lengths.get(len(doc["choices"]), 0) :]}},
        )
        for row, doc in zip(rows, docs, strict=True)
    ]
    note = "the first paragraphs, which all prompts share, were taken for an instruction"
    return cut, [Notice(note, code="shared-instruction")]


def items_in_rows(
    file: str, table: SourceTable, before: str, items_of: Callable[[SourceTable], ItemsOfLog]
) -> ItemsOfLog:
    """Return the items of the documents in rows or of their requests, and a note that says which were used. `before`
    is the text before the choice in continuations. Raise `DataError` if neither has items."""
    try:
        return items_of(table_of_items(file, table))
    except DataError as error:
        with_question, unknown = _with_shown_question(table), error
    if with_question is not table:
        with suppress(DataError):
            items, faults, notes = items_of(table_of_items(file, with_question))
            return items, faults, [_SHOWN_QUESTION, *notes]
    items, faults, notes = items_of(
        table_of_items(file, with_requested_options(with_question, before, unknown))
    )
    note = "the options were read from the requests, because the docs do not contain them"
    shown = [_SHOWN_QUESTION] * (with_question is not table)
    return items, faults, [*shown, Notice(note, code="options-from-requests"), *notes]


def _with_shown_question(table: SourceTable) -> SourceTable:
    """Name the document column that most prompts show last before their options `question`, if no column has a usual
    name. Return any other table unchanged."""
    docs = [as_object(row.cells.get("doc")) for row in table.rows]
    if any(usual_names(doc, "stem") for doc in docs[:_SAMPLED]):
        return table
    shown = Counter(
        column
        for row, doc in zip(table.rows[:_SAMPLED], docs, strict=False)
        if (column := _shown_column(doc, row.cells)) is not None
    )
    column, n = shown.most_common(1)[0] if shown else ("", 0)
    if 2 * n <= min(len(docs), _SAMPLED):
        return table
    rows = (
        replace(row, cells={**row.cells, "doc": {**doc, "question": _shown_question(doc, column, row.cells)}})
        if column in doc
        else row
        for row, doc in zip(table.rows, docs, strict=True)
    )
    return replace(table, rows=tuple(rows))


def _shown_question(doc: Cells, column: str, cells: Cells) -> object:
    """Return a document's column with the question that may follow it in the prompt. A passage is not repeated."""
    text, before_options = doc[column], _before_options(cells)
    if not isinstance(text, str) or text.strip() not in before_options:
        return text
    question = last_question(before_options.rpartition(text.strip())[2])
    if len(question.split()) <= _FEW_WORDS:
        return text
    return question if usual_names([column], "passage") else f"{text}\n{question}"


def _before_options(cells: Cells) -> str:
    """Return the context of a row before the options."""
    pairs = _pairs(cells)
    context = plain_context(pairs[0][0]) if pairs else ""
    listed = cut_at_labels(context)
    return listed.before if listed else context


def _shown_column(doc: Cells, cells: Cells) -> str | None:
    """Return the document column whose text (of several words) is the last before the options in the prompt."""
    before_options = _before_options(cells)
    places = {
        name: before_options.rfind(text) + len(text)
        for name, value in doc.items()
        if isinstance(value, str) and " " in (text := value.strip()) and text in before_options
    }
    return max(places, key=places.__getitem__, default=None)


def numbered_texts(listed: str) -> tuple[str, ...]:
    """Return the texts of a list such as `0. red` and `1. green`, even if a text has several lines. Raise `ItemError`
    if the list does not count from 0."""
    texts: list[str] = []
    for line in listed.split("\n"):
        if line.startswith(start := f"{len(texts)}. "):
            texts.append(line.removeprefix(start))
        elif texts:
            texts[-1] += f"\n{line}"
    if not listed.startswith("0. ") or not all(map(str.strip, texts)):
        raise ItemError("`choices` does not number the options from 0", code="unnumbered-options")
    return tuple(map(str.strip, texts))
