"""Table of the layouts of specific benchmarks.

A layout states how its benchmark writes a key. It does not check whether the key is right.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from string import ascii_uppercase

from robustify.errors import ItemError
from robustify.item import FEWEST, MOST
from robustify.loaders.choices import choice_columns
from robustify.loaders.fields import after, read_fields
from robustify.loaders.loaded import FieldMap
from robustify.loaders.rows import Cells, RawItem, cell_label, cell_text, cell_value, has, text_list

Read = Callable[[Cells], RawItem]
"""Function that reads a row of a layout. Raises ItemError if the row cannot become an item."""
_LETTERED = re.compile(r"\(([A-Z])\)\s*")
_LETTERED_START = re.compile(r"Answer Choices:\s*(?=\(A\))")
_WORD = r"(?:Answer|Solution|Option|Ending|Choice)"
_NUMBERED = re.compile(rf"(?:(?<=\s)|^){_WORD}([0-9]{{1,2}}):\s*")
_KEY_WORD = re.compile(rf"^\s*{_WORD}\s*(?=[0-9])", re.IGNORECASE)
_FORMAT_NOTE = re.compile(r"\s*Answer format:[^\n]*\s*$")
_LEAD = re.compile(r"^Please choose the correct [a-z]+ to the question:\s*")


@dataclass(frozen=True, slots=True)
class BenchmarkLayout:
    """Benchmark layout with its name, description, required fields, and reader."""

    name: str
    description: str
    needs: tuple[str, ...]
    read: Read

    def has_it(self, cells: Cells) -> bool:
        """Return whether a row has this layout."""
        if not self.needs or not all(has(cells, n) and cell_value(cells, n) is not None for n in self.needs):
            return False
        # If the series has another column, this layout would lose a choice.
        columns = [set(series) for series in choice_columns(cells)]
        return not any(len(one & set(self.needs)) > 1 and one - set(self.needs) for one in columns)


def _flat(name: str, description: str, needs: tuple[str, ...] = (), **fields: object) -> BenchmarkLayout:
    read = partial(read_fields, fields=FieldMap.model_validate(fields))
    return BenchmarkLayout(name, description, needs, read)


def _own(cells: Cells) -> RawItem:
    key = cell_value(cells, "key")
    if isinstance(key, str):
        raise ItemError("the key is text; expected a whole number that counts from 0")
    name = cell_label(cells, "id")
    if not name:
        raise ItemError("the ID is empty. Give each item a unique ID.")
    passage = cell_text(cells, "passage") if cells.get("passage") is not None else ""
    stem, question_at = after(passage, cell_text(cells, "stem"))
    return RawItem(
        stem=stem,
        choices=text_list(cell_value(cells, "choices"), "`choices`"),
        key=key,
        key_is="index",
        id=name,
        topic=cell_label(cells, "topic"),
        group=cell_label(cells, "group"),
        passage=passage,
        question_at=question_at,
    )


def _truthfulqa_mc1(cells: Cells) -> RawItem:
    wrong = [part.strip() for part in cell_text(cells, "Incorrect Answers").split(";") if part.strip()]
    choices = (cell_text(cells, "Best Answer"), *wrong)
    return RawItem(cell_text(cells, "Question"), choices, 0, "index", topic=cell_label(cells, "Category"))


def _arct(cells: Cells) -> RawItem:
    stem = f"Reason: {cell_text(cells, 'reason')}\nClaim: {cell_text(cells, 'claim')}"
    choices = (cell_text(cells, "warrant0"), cell_text(cells, "warrant1"))
    key = cell_value(cells, "correctLabelW0orW1")
    # Items that share a reason and claim belong together.
    return RawItem(stem, choices, key, "index", id=cell_label(cells, "#id"), passage=stem)


def _winogrande_contexts(cells: Cells) -> RawItem:
    contexts = text_list(cell_value(cells, "context_options"), "`context_options`")
    if len(contexts) != 2:
        raise ItemError(f"`context_options` has {len(contexts)} contexts; expected 2")
    # Split at single spaces, so that joining restores every space.
    one, two = (context.split(" ") for context in contexts)
    shortest = min(len(one), len(two))
    front = next((at for at in range(shortest) if one[at] != two[at]), shortest)
    if front == 0:
        raise ItemError(
            "the two contexts begin with different words; expected one sentence with two different fillers"
        )
    back = next((at for at in range(shortest - front) if one[-1 - at] != two[-1 - at]), shortest - front)
    fillers = (" ".join(one[front : len(one) - back]), " ".join(two[front : len(two) - back]))
    if not all(fillers):
        raise ItemError(
            "the two contexts are equal, or one contains the other; expected two different fillers for one gap"
        )
    stem = " ".join([*one[:front], "_", *one[len(one) - back :], cell_text(cells, "continuation")])
    return RawItem(stem, fillers, cell_value(cells, "gold"), "index")


def _prose(cells: Cells) -> RawItem:
    """Read choices from running text. Refuse labels that are out of order, because they can be split in two ways."""
    prose = _FORMAT_NOTE.sub("", cell_text(cells, "instruction"))
    start = _LETTERED_START.search(prose)
    marks = list((_LETTERED if start else _NUMBERED).finditer(prose, start.end() if start else 0))
    labels = tuple(mark[1] for mark in marks)
    wanted = ascii_uppercase if start else map(str, range(1, MOST + 1))
    if not FEWEST <= len(labels) <= MOST or labels != tuple(wanted)[: len(labels)]:
        raise ItemError("the choices cannot be separated; expected each label exactly once, in order")
    ends = [mark.start() for mark in marks[1:]] + [len(prose)]
    choices = tuple(prose[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True))
    stem = prose[: (start or marks[0]).start()].strip()
    key = _KEY_WORD.sub("", cell_text(cells, "answer"))
    return RawItem(_LEAD.sub("", stem), choices, key, "label", labels)


_NESTED = partial(
    _flat,
    description="ARC and CommonsenseQA: `question {stem, choices [{text, label}]}`, the correct label in `answerKey`.",
    stem="question.stem",
    choices="question.choices",
    key="answerKey",
    id="id",
)

OWN = BenchmarkLayout(
    "robustify",
    "robustify: `id stem choices key topic group passage`; the key is an index from 0.",
    ("id", "stem", "choices", "key"),
    _own,
)
LAYOUTS = (
    OWN,
    BenchmarkLayout(
        "arct",
        "Argument reasoning: reason and claim are the stem, two warrants the choices.",
        ("warrant0", "warrant1", "correctLabelW0orW1", "reason", "claim"),
        _arct,
    ),
    _flat(
        "truthfulqa_binary",
        "TruthfulQA.csv of 2025: the best answer (key 0) against the best incorrect one.",
        ("Question", "Best Answer", "Best Incorrect Answer"),
        stem="Question", choices=("Best Answer", "Best Incorrect Answer"), key="Best Answer", topic="Category",
    ),
    BenchmarkLayout(
        "truthfulqa_mc1",
        "TruthfulQA.csv: the best answer (key 0), then every incorrect answer.",
        ("Question", "Best Answer", "Incorrect Answers"),
        _truthfulqa_mc1,
    ),
    _flat(
        "siqa",
        "Social IQa: a situation, a question, three answers, the label from 1.",
        ("context", "question", "answerA", "answerB", "answerC", "label"),
        stem="question", choices=("answerA", "answerB", "answerC"), key="label", key_is="number", passage="context",
    ),
    _flat(
        "piqa",
        "PIQA: a goal, two ways to it, the label from 0.",
        ("goal", "sol1", "sol2", "label"),
        stem="goal", choices=("sol1", "sol2"), key="label", key_is="index", id="id",
    ),
    BenchmarkLayout(
        "winogrande_contexts",
        "WinoGrande as two contexts with one continuation, joined to a sentence with a gap.",
        ("context_options", "continuation", "gold"),
        _winogrande_contexts,
    ),
    _NESTED("commonsenseqa", needs=("question.question_concept", "question.choices")),
    _NESTED("arc", needs=("question.choices",)),
    BenchmarkLayout(
        "prose",
        "AQuA and LLM-Adapters: the choices are inside `instruction`, lettered or numbered, the key in `answer`.",
        ("instruction", "answer"),
        _prose,
    ),
    # Rows of these layouts have no field names, so the reader of the file names the layout.
    _flat(
        "mmlu_csv",
        "MMLU's CSV without header: stem, choices, letter. The topic is in the file's name.",
        stem="stem", choices="choices", key="key", key_is="letter",
    ),
    _flat(
        "logiqa",
        "LogiQA's blocks: a context, a question, four options, the key a letter.",
        stem="question", choices="options", key="key", key_is="letter", passage="context",
    ),
    _flat(
        "inspect_log",
        "A sample of an Inspect log: the key is a letter or a text.",
        stem="input", choices="choices", key="target", id="id", topic="topic",
    ),
)  # fmt: skip
"""All layouts, in order from the most specific to the most general. The first that has a row reads it."""
