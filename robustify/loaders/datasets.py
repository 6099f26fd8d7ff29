"""The layouts of single benchmarks that go by their own field names, from the most particular to the most general.

Nothing here decides whether a key is right; each layout says how its benchmark writes one.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from robustify.errors import ItemError
from robustify.item import FEWEST, MOST
from robustify.loaders.fields import read_fields
from robustify.loaders.loaded import FieldMap, KeyKind
from robustify.loaders.rows import (
    Cells,
    RawItem,
    Read,
    cell_label,
    cell_text,
    cell_value,
    json_kind,
    text_list,
)

Recognise = Callable[[Cells], bool]
_LETTERED_START = re.compile(r"Answer Choices:\s*(?=\(A\))")
_NUMBERED = re.compile(r"(?:(?<=\s)|^)(Answer|Solution|Option|Ending|Choice)([0-9]{1,2}):\s*")
_NUMBERED_KEY = re.compile(r"\s*(?:answer|solution|option|ending|choice)\s*([0-9]{1,2})\s*", re.IGNORECASE)
_FORMAT_NOTE = re.compile(r"\s*Answer format:[^\n]*\s*$")
_LEAD = re.compile(r"^Please choose the correct [a-z]+ to the question:\s*")


@dataclass(frozen=True, slots=True)
class BenchmarkLayout:
    """A layout: its name, what it is, whether a row has it, and how a row is read."""

    name: str
    description: str
    has_it: Recognise
    read: Read


def _fields(*names: str) -> Recognise:
    return lambda cells: all(cells.get(name) is not None for name in names)


def _flat(
    name: str,
    description: str,
    stem: str,
    choices: Sequence[str] | str,
    key: str | None = None,
    key_is: KeyKind = "index",
    **more: str,
) -> BenchmarkLayout:
    """A layout of plain fields: `choices` one field each or one with a list, `key` None where it is the first choice.

    `more`: the fields of `id` and `topic`, and of a `passage`, which is put before the stem.
    """
    passage = more.get("passage")
    columns = [choices] if isinstance(choices, str) else [*choices]

    def read(cells: Cells) -> RawItem:
        shared = cell_text(cells, passage) if passage else ""
        own = cell_text(cells, stem)
        return RawItem(
            stem=f"{shared}\n\n{own}" if passage else own,
            choices=text_list(cell_value(cells, choices), f"`{choices}`")
            if isinstance(choices, str)
            else tuple(cell_text(cells, column) for column in columns),
            key=0 if key is None else cell_value(cells, key),
            key_is=key_is,
            id=cell_label(cells, more.get("id")),
            topic=cell_label(cells, more.get("topic")),
            passage=shared,
        )

    needed = [one for one in (passage, stem, *columns, key) if one]
    return BenchmarkLayout(name, description, _fields(*needed), read)


def _by_map(fields: FieldMap) -> Read:
    return lambda cells: read_fields(cells, fields, literals=False)


def _own(cells: Cells) -> RawItem:
    key = cell_value(cells, "key")
    if isinstance(key, str):
        raise ItemError("key is text; expected a whole number, counted from 0")
    name = cell_label(cells, "id")
    if not name:
        raise ItemError("id is empty; expected a name that no other item has")
    return RawItem(
        stem=cell_text(cells, "stem"),
        choices=text_list(cell_value(cells, "choices"), "`choices`"),
        key=key,
        key_is="index",
        id=name,
        topic=cell_label(cells, "topic"),
        group=cell_label(cells, "group"),
    )


def _has_question(cells: Cells, *, concept: bool) -> bool:
    question = cells.get("question")
    return (
        isinstance(question, Mapping)
        and "choices" in question
        and ("question_concept" in question) == concept
    )


def _truthfulqa_mc1(cells: Cells) -> RawItem:
    wrong = [part.strip() for part in cell_text(cells, "Incorrect Answers").split(";") if part.strip()]
    choices = (cell_text(cells, "Best Answer"), *wrong)
    return RawItem(cell_text(cells, "Question"), choices, 0, "index", topic=cell_label(cells, "Category"))


def _truthfulqa_hub(cells: Cells) -> RawItem:
    targets = cell_value(cells, "mc1_targets")
    if not isinstance(targets, Mapping):
        raise ItemError(f"`mc1_targets` is {json_kind(targets)}; expected an object")
    labels = cell_value(targets, "labels")
    if not isinstance(labels, list) or labels.count(1) != 1:
        raise ItemError("`mc1_targets.labels` does not hold exactly one 1")
    choices = text_list(cell_value(targets, "choices"), "`choices`")
    return RawItem(cell_text(cells, "question"), choices, labels.index(1), "index")


def _arct(cells: Cells) -> RawItem:
    stem = f"Reason: {cell_text(cells, 'reason')}\nClaim: {cell_text(cells, 'claim')}"
    choices = (cell_text(cells, "warrant0"), cell_text(cells, "warrant1"))
    key = cell_value(cells, "correctLabelW0orW1")
    # One reason and claim come with several pairs of warrants: those items belong together.
    return RawItem(stem, choices, key, "index", id=cell_label(cells, "#id"), passage=stem)


def _winogrande_contexts(cells: Cells) -> RawItem:
    contexts = text_list(cell_value(cells, "context_options"), "`context_options`")
    if len(contexts) != 2:
        raise ItemError(f"`context_options` has {len(contexts)} contexts; expected 2")
    # Split at single spaces: joining gives every space back.
    one, two = (context.split(" ") for context in contexts)
    shortest = min(len(one), len(two))
    front = next((at for at in range(shortest) if one[at] != two[at]), shortest)
    if front == 0:
        raise ItemError("the two contexts share no first word; the sentence cannot be put together")
    back = next((at for at in range(shortest - front) if one[-1 - at] != two[-1 - at]), shortest - front)
    fillers = (" ".join(one[front : len(one) - back]), " ".join(two[front : len(two) - back]))
    if not all(fillers):
        raise ItemError(
            "the two contexts differ by no word, or one holds the other; expected two fillers of one gap"
        )
    stem = " ".join([*one[:front], "_", *one[len(one) - back :], cell_text(cells, "continuation")])
    return RawItem(stem, fillers, cell_value(cells, "gold"), "index")


def _is_prose(pattern: re.Pattern[str], times: int) -> Recognise:
    def recognise(cells: Cells) -> bool:
        prose = cells.get("instruction")
        return isinstance(prose, str) and "answer" in cells and len(pattern.findall(prose)) >= times

    return recognise


def _prose_lettered(cells: Cells) -> RawItem:
    """Choices inside a running text; labels out of order could be cut in two ways and are refused."""
    prose = cell_text(cells, "instruction")
    start = _LETTERED_START.search(prose)
    if start is None:
        raise ItemError("no `Answer Choices: (A)` in `instruction`")
    tail = prose[start.end() :]
    labels = list(re.finditer(r"\(([A-Z])\)\s*", tail))
    names = [label[1] for label in labels]
    if not FEWEST <= len(names) <= MOST or names != list(ascii_uppercase[: len(names)]):
        raise ItemError(
            "the labels (A), (B) ... do not come once each and in order; the choices cannot be separated"
        )
    return RawItem(
        prose[: start.start()].strip(), _between(tail, labels), cell_value(cells, "answer"), "letter"
    )


def _prose_numbered(cells: Cells) -> RawItem:
    prose = _FORMAT_NOTE.sub("", cell_text(cells, "instruction"))
    labels = list(_NUMBERED.finditer(prose))
    numbers = [int(label[2]) for label in labels]
    if not FEWEST <= len(numbers) <= MOST or numbers != list(range(1, len(numbers) + 1)):
        raise ItemError(
            "the numbers 1, 2 ... do not come once each and in order; the choices cannot be separated"
        )
    key = _NUMBERED_KEY.fullmatch(cell_text(cells, "answer"))
    if key is None:
        raise ItemError(f"`answer` is not of the form answer1 to answer{len(numbers)}")
    stem = _LEAD.sub("", prose[: labels[0].start()].strip())
    return RawItem(stem, _between(prose, labels), int(key[1]), "number")


def _between(prose: str, labels: Sequence[re.Match[str]]) -> tuple[str, ...]:
    ends = [label.start() for label in labels[1:]] + [len(prose)]
    return tuple(prose[label.end() : end].strip() for label, end in zip(labels, ends, strict=True))


_NESTED = _by_map(
    FieldMap(stem="question.stem", choices="question.choices", key="answerKey", id="id", key_is="label")
)
_NESTED_IS = (
    "ARC and CommonsenseQA: `question {stem, choices [{text, label}]}`, the right label in `answerKey`."
)
_INSPECT = FieldMap(stem="input", choices="choices", key="target", id="id", topic="topic", key_is="letter")
_DISTRACTORS = ("distractor1", "distractor2", "distractor3")
_INCORRECT = ("Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")

OWN = BenchmarkLayout(
    "robustify",
    "Our own: `id stem choices key topic group`; the key is an index from 0.",
    lambda cells: all(name in cells for name in ("id", "stem", "choices", "key")),
    _own,
)
LAYOUTS = (
    BenchmarkLayout(
        "arct",
        "Argument reasoning: reason and claim are the stem, two warrants the choices.",
        _fields("warrant0", "warrant1", "correctLabelW0orW1", "reason", "claim"),
        _arct,
    ),
    _flat(
        "truthfulqa_binary",
        "TruthfulQA.csv of 2025: the best answer (key 0) against the best incorrect one.",
        "Question", ("Best Answer", "Best Incorrect Answer"), topic="Category",
    ),
    BenchmarkLayout(
        "truthfulqa_mc1",
        "TruthfulQA.csv: the best answer (key 0), then every incorrect answer.",
        _fields("Question", "Best Answer", "Incorrect Answers"),
        _truthfulqa_mc1,
    ),
    BenchmarkLayout(
        "truthfulqa_hub",
        "TruthfulQA of the Hub: `mc1_targets {choices, labels}`, where one label is 1.",
        _fields("question", "mc1_targets"),
        _truthfulqa_hub,
    ),
    _flat(
        "sciq",
        "SciQ: the key is always 0. The support passage is left out.",
        "question", ("correct_answer", *_DISTRACTORS), id="id",
    ),
    _flat(
        "gpqa",
        "GPQA: the key is always 0. Its terms forbid showing an item online, in text or as a picture.",
        "Question", ("Correct Answer", *_INCORRECT), id="Record ID", topic="High-level domain",
    ),
    _flat(
        "piqa",
        "PIQA: a goal, two ways to it, the label from 0.",
        "goal", ("sol1", "sol2"), "label", id="id",
    ),
    _flat(
        "siqa",
        "Social IQa: a situation, a question, three answers, the label from 1.",
        "question", ("answerA", "answerB", "answerC"), "label", "number", passage="context",
    ),
    _flat(
        "hellaswag",
        "HellaSwag: a context, four endings, the label from 0 (text in the Hub's copy).",
        "ctx", "endings", "label", topic="activity_label",
    ),
    _flat(
        "winogrande",
        "WinoGrande as AI2 gives it: a sentence with a gap `_`, two fillers, the answer from 1.",
        "sentence", ("option1", "option2"), "answer", "number", id="qID",
    ),
    BenchmarkLayout(
        "winogrande_contexts",
        "WinoGrande as two contexts with one continuation, joined to a sentence with a gap.",
        _fields("context_options", "continuation", "gold"),
        _winogrande_contexts,
    ),
    BenchmarkLayout("commonsenseqa", _NESTED_IS, lambda cells: _has_question(cells, concept=True), _NESTED),
    BenchmarkLayout("arc", _NESTED_IS, lambda cells: _has_question(cells, concept=False), _NESTED),
    BenchmarkLayout(
        "prose_lettered",
        "AQuA: `stem Answer Choices: (A) .. (B) ..`, the key a letter.",
        _is_prose(_LETTERED_START, 1),
        _prose_lettered,
    ),
    BenchmarkLayout(
        "prose_numbered",
        "LLM-Adapters: `lead-in stem Answer1: .. Answer2: .. Answer format: ..`, the key `answer2`.",
        _is_prose(_NUMBERED, FEWEST),
        _prose_numbered,
    ),
)  # fmt: skip
# The reader of the file names these: their rows have no field names of their own.
NAMED_BY_READER = (
    _flat(
        "mmlu_csv",
        "MMLU's CSV without header: stem, choices, letter. The topic is in the file's name.",
        "stem", "choices", "key", "letter",
    ),
    _flat(
        "logiqa",
        "LogiQA's blocks: a context, a question, four options, the key a letter.",
        "question", "options", "key", "letter", passage="context",
    ),
    BenchmarkLayout(
        "inspect_log", "A sample of an Inspect log: the key is a letter.", lambda _: False, _by_map(_INSPECT)
    ),
)  # fmt: skip
