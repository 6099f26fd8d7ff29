"""Rules about the examples before the question in a prompt: examples that repeat the item, have wrong answers, or
differ between models."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from robustify.base.redaction import HoldsText
from robustify.base.texts import folded, unspaced
from robustify.judging.lint.log_evidence import LintedLog, LoggedRow, LogHit, gathered
from robustify.reading.marks.labelling import ListedOptions, cut_at_labels, without_tail
from robustify.reading.marks.picks import Picked, read_pick
from robustify.reading.marks.reply_parts import answer_words

if TYPE_CHECKING:
    from robustify.reading.logs.log import LoggedItem

_ANSWER = re.compile(
    rf"(?:{answer_words()['name']}|\bA)\b[*_]{{0,2}}[ \t]*[:：][ \t]*(?P<answer>\S[^\n]*)", re.IGNORECASE
)
_TOKENS = re.compile(r"\w+")
CHAT_MARK = re.compile(r"<[|/]?\w[^<>\n]{0,40}>(?:system|user|assistant|model)?|\[/?INST\]|<</?SYS>>")
"""Mark of a chat template."""
_LONGEST_START, _FEWEST_WORDS = 6, 3
"""Number of words by which the start of a question is looked up, and fewest words of a question."""


@dataclass(frozen=True, slots=True, repr=False)
class Example(HoldsText):
    """Logged item that precedes the question in a prompt, with the text up to the next example."""

    item: "LoggedItem"
    text: str


def before_question(row: LoggedRow) -> str:
    """Return the text before the question of an item in its prompt, or "" if the prompt does not show the question."""
    start = row.context.rfind(row.question) if row.question else -1
    return row.context[:start] if start > 0 else ""


class _Questions:
    """Questions of a log, found by their first words."""

    def __init__(self, rows: Sequence[LoggedRow]) -> None:
        self._by_start: dict[tuple[str, ...], dict[str, LoggedItem | None]] = {}
        for row in rows:
            question = folded(row.question)
            start = tuple(_TOKENS.findall(question)[:_LONGEST_START])
            if len(start) < _FEWEST_WORDS:
                continue
            same = self._by_start.setdefault(start, {})
            earlier = same.setdefault(question, row.item)
            if earlier is not None and (earlier.stem, earlier.choices) != (row.item.stem, row.item.choices):
                same[question] = None
        self._lengths = {len(start) for start in self._by_start}

    def examples(self, text: str) -> list[Example]:
        """Return the log's questions that a text contains. A question with several sets of options is left out."""
        words = [(match.group().casefold(), match.start()) for match in _TOKENS.finditer(text)]
        places: dict[int, LoggedItem] = {}
        for position, (_, offset) in enumerate(words):
            for n in self._lengths:
                same = self._by_start.get(tuple(word for word, _ in words[position : position + n]), {})
                for question, item in same.items():
                    if item is not None and folded(text[offset : offset + 2 * len(question) + 20]).startswith(
                        question
                    ):
                        places[offset] = item
        starts = sorted(places)
        ends = [*starts[1:], len(text)][: len(starts)]
        return [Example(places[start], text[start:end]) for start, end in zip(starts, ends, strict=True)]


def item_among_examples(logs: Sequence[LintedLog]) -> Iterator[LogHit]:
    """Find prompts in which the item itself and its answer precede the item's question."""
    for log in logs:
        questions = _Questions(log.rows)
        hits = []
        for row in log.rows:
            own = [example for example in _examples(questions, row) if _same(example.item, row.item)]
            if any(_ANSWER.search(example.text) and not _has_other_options(example) for example in own):
                hits.append((row, "the item is an example in its own prompt"))
        yield from gathered(log, hits)


def _same(item: "LoggedItem", other: "LoggedItem") -> bool:
    return folded(item.stem) == folded(other.stem) and sorted(item.choices) == sorted(other.choices)


def _examples(questions: _Questions, row: LoggedRow) -> list[Example]:
    before = before_question(row)
    return questions.examples(before) if before.strip() else []


def wrong_example(logs: Sequence[LintedLog]) -> Iterator[LogHit]:
    """Find examples that give a wrong answer to an item of the log, or two answers to one question."""
    for log in logs:
        questions, answers = _Questions(log.rows), dict[str, tuple[str, int]]()
        hits = []
        for row in log.rows:
            before = before_question(row)
            if not before.strip():
                continue
            if any(_is_wrong(example) for example in questions.examples(before)):
                hits.append((row, "an example has a different answer than its item in this log"))
            elif line := _contradicted(before, answers, row.reply.line):
                hits.append((row, f"an example has a different answer than in the prompt of line {line}"))
        yield from gathered(log, hits)


def _is_wrong(example: Example) -> bool:
    """Return whether an example names an option other than its item's key. Its options may be in a different order."""
    item = example.item
    *_, answer = [None, *_ANSWER.finditer(example.text)]
    if answer is None or item.key is None or _has_other_options(example):
        return False
    listed, choices = _listed(example), item.choices
    if listed is not None:
        own = _plain(item.choices)
        choices = tuple(item.choices[own.index(text)] for text in _plain(listed.texts))
    pick = read_pick(answer["answer"], choices, listed.labels if listed else None)
    return isinstance(pick, Picked) and unspaced(choices[pick.index]) != unspaced(item.choices[item.key])


def _listed(example: Example) -> ListedOptions | None:
    """Return the labeled options that an example lists before its answer."""
    *_, answer = [None, *_ANSWER.finditer(example.text)]
    listed = cut_at_labels(example.text[: answer.start()] if answer else example.text)
    return without_tail(listed) if listed else None


def _has_other_options(example: Example) -> bool:
    """Return whether the options of an example differ from those of the logged item with the same question."""
    listed = _listed(example)
    return listed is not None and sorted(_plain(listed.texts)) != sorted(_plain(example.item.choices))


def _plain(texts: Sequence[str]) -> list[str]:
    return [unspaced(text).casefold() for text in texts]


def _contradicted(before: str, answers: dict[str, tuple[str, int]], line: int) -> int:
    """Return the line of an earlier prompt that gives an example another answer, or 0 if no prompt does. Add the
    answers of this prompt. A question that one prompt answers in two ways is a phrase of the template."""
    examples = _answered(before)
    own = {question: {answer for other, answer in examples if other == question} for question, _ in examples}
    for question, (answer, *more) in own.items():
        first, earlier = answers.setdefault(question, (answer, line))
        if more:
            answers[question] = ("", line)
        elif first and first != answer:
            return earlier
    return 0


def _answered(before: str, *, with_above: bool = True) -> list[tuple[str, str]]:
    """Return the question and answer of each example in a text, with case and spacing normalized. Marks of chat templates
    part paragraphs. The paragraphs without an answer above a question belong to it, unless `with_above` is false."""
    examples, above = list[tuple[str, str]](), ""
    for block in re.split(r"\n\s*\n", CHAT_MARK.sub("\n\n", before)):
        *_, answer = [None, *_ANSWER.finditer(block)]
        if answer is None:
            above = f"{above}\n{block}"
            continue
        text = f"{above * with_above}\n{block[: answer.start()]}"
        listed = cut_at_labels(text)
        if len(_TOKENS.findall(listed.before if listed else text)) >= _FEWEST_WORDS:
            examples.append((folded(text), folded(answer["answer"]).rstrip(".")))
        above = ""
    return examples


def other_examples(logs: Sequence[LintedLog]) -> Iterator[LogHit]:
    """Find models of one comparison whose prompts for the same items have different examples.

    Only examples with an announced answer count, because chat templates and instructions differ between models."""
    first: dict[
        tuple[str, str, str], tuple[str, dict[tuple[str, tuple[str, ...]], list[tuple[str, str]]]]
    ] = {}
    for log in logs:
        for model, rows in log.by_model.items():
            examples = {
                row.content: _answered(before_question(row), with_above=False)
                for row in rows
                if row.prompt and row.question
            }
            if not any(examples.values()):
                continue
            place = (log.log.kind, str(log.log.task), str(rows[0].reply.view))
            name, earlier = first.setdefault(place, (model, examples))
            both = examples.keys() & earlier.keys()
            differ = sum(examples[item] != earlier[item] for item in both)
            if name != model and differ:
                pair = f"between {name} and {model} in {differ:,} of {len(both):,} items"
                yield LogHit(log.path, 1, "", f"the examples before the question differ {pair}")
