"""Table of the layouts of specific benchmarks.

A layout states how its benchmark writes a key. It does not check whether the key is right.
"""

import re
from dataclasses import dataclass
from os.path import commonprefix
from string import ascii_uppercase

from robustify.base.errors import ItemError
from robustify.items.item import FEWEST, MOST
from robustify.reading.loaders import rows
from robustify.reading.loaders.columns import choice_columns
from robustify.reading.loaders.listed_options import Read, after, reader_of
from robustify.reading.loaders.loaded import FieldMap

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

    def has_it(self, cells: rows.Cells) -> bool:
        """Return whether a row has this layout."""
        if not self.needs or any(rows.cell_or_none(cells, name) is None for name in self.needs):
            return False
        # If the series has another column, this layout would lose a choice.
        columns = [set(series) for series in choice_columns(cells)]
        return not any(len(one & set(self.needs)) > 1 and one - set(self.needs) for one in columns)


def _flat(name: str, description: str, needs: tuple[str, ...] = (), **fields: object) -> BenchmarkLayout:
    return BenchmarkLayout(name, description, needs, reader_of(FieldMap.model_validate(fields)))


def _own(cells: rows.Cells) -> rows.RawItem:
    if not (name := rows.cell_label(cells, "id")):
        raise ItemError("the ID is empty. Give each item a unique ID.")
    passage = rows.cell_text(cells, "passage") if cells.get("passage") is not None else ""
    stem, question_at = after(passage, rows.cell_text(cells, "stem"))
    return rows.RawItem(
        stem,
        rows.text_list(rows.cell_value(cells, "choices"), "`choices`"),
        rows.cell_value(cells, "key"),
        "index",
        id=name,
        topic=rows.cell_label(cells, "topic"),
        group=rows.cell_label(cells, "group"),
        passage=passage,
        question_at=question_at,
    )


def _truthfulqa_mc1(cells: rows.Cells) -> rows.RawItem:
    wrong = [part.strip() for part in rows.cell_text(cells, "Incorrect Answers").split(";") if part.strip()]
    choices = (rows.cell_text(cells, "Best Answer"), *wrong)
    return rows.RawItem(
        rows.cell_text(cells, "Question"), choices, 0, "index", topic=rows.cell_label(cells, "Category")
    )


def _arct(cells: rows.Cells) -> rows.RawItem:
    stem = f"Reason: {rows.cell_text(cells, 'reason')}\nClaim: {rows.cell_text(cells, 'claim')}"
    choices = (rows.cell_text(cells, "warrant0"), rows.cell_text(cells, "warrant1"))
    key = rows.cell_value(cells, "correctLabelW0orW1")
    # Items that share a reason and claim belong together.
    return rows.RawItem(stem, choices, key, "index", id=rows.cell_label(cells, "#id"), passage=stem)


def _winogrande_contexts(cells: rows.Cells) -> rows.RawItem:
    contexts = rows.text_list(rows.cell_value(cells, "context_options"), "`context_options`")
    if len(contexts) != 2:
        raise ItemError(f"`context_options` has {len(contexts)} contexts; expected 2")
    # Split at single spaces, so that joining restores every space.
    one, two = (context.split(" ") for context in contexts)
    front = len(commonprefix([one, two]))  # noqa: RUF071 (words, not paths)
    back = len(commonprefix([one[front:][::-1], two[front:][::-1]]))  # noqa: RUF071
    fillers = (" ".join(one[front : len(one) - back]), " ".join(two[front : len(two) - back]))
    if not front or not all(fillers):
        raise ItemError(
            "the two contexts are equal, begin with different words, or one contains the other; expected one sentence "
            "with two different fillers"
        )
    stem = " ".join([*one[:front], "_", *one[len(one) - back :], rows.cell_text(cells, "continuation")])
    return rows.RawItem(stem, fillers, rows.cell_value(cells, "gold"), "index")


def _prose(cells: rows.Cells) -> rows.RawItem:
    """Read choices from running text. Refuse labels that are out of order, because they can be split in two ways."""
    prose = _FORMAT_NOTE.sub("", rows.cell_text(cells, "instruction"))
    start = _LETTERED_START.search(prose)
    marks = list((_LETTERED if start else _NUMBERED).finditer(prose, start.end() if start else 0))
    labels = tuple(mark[1] for mark in marks)
    wanted = ascii_uppercase if start else map(str, range(1, MOST + 1))
    if not FEWEST <= len(labels) <= MOST or labels != tuple(wanted)[: len(labels)]:
        raise ItemError("the choices cannot be separated; expected each label exactly once, in order")
    ends = [mark.start() for mark in marks[1:]] + [len(prose)]
    choices = tuple(prose[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True))
    stem = prose[: (start or marks[0]).start()].strip()
    key = _KEY_WORD.sub("", rows.cell_text(cells, "answer"))
    return rows.RawItem(_LEAD.sub("", stem), choices, key, "label", labels)


_NESTED = (
    "ARC and CommonsenseQA: `question {stem, choices [{text, label}]}`, the correct label in `answerKey`."
)
_PARTS = {"stem": "question.stem", "choices": "question.choices", "key": "answerKey", "id": "id"}
OWN = BenchmarkLayout(
    "robustify",
    "robustify: `id stem choices key topic group passage`; the key is an index from 0.",
    ("id", "stem", "choices", "key"),
    _own,
)
LAYOUTS = (
    OWN,
    BenchmarkLayout(
        "arct", "Argument reasoning: reason and claim are the stem, two warrants the choices.",
        ("warrant0", "warrant1", "correctLabelW0orW1", "reason", "claim"), _arct,
    ),
    _flat(
        "truthfulqa_binary", "TruthfulQA.csv of 2025: the best answer (key 0) against the best incorrect one.",
        ("Question", "Best Answer", "Best Incorrect Answer"),
        stem="Question", choices=("Best Answer", "Best Incorrect Answer"), key="Best Answer", topic="Category",
    ),
    BenchmarkLayout(
        "truthfulqa_mc1", "TruthfulQA.csv: the best answer (key 0), then every incorrect answer.",
        ("Question", "Best Answer", "Incorrect Answers"), _truthfulqa_mc1,
    ),
    _flat(
        "siqa", "Social IQa: a situation, a question, three answers, the label from 1.",
        ("context", "question", "answerA", "answerB", "answerC", "label"),
        stem="question", choices=("answerA", "answerB", "answerC"), key="label", key_is="number", passage="context",
    ),
    _flat(
        "piqa", "PIQA: a goal, two ways to it, the label from 0.", ("goal", "sol1", "sol2", "label"),
        stem="goal", choices=("sol1", "sol2"), key="label", key_is="index", id="id",
    ),
    BenchmarkLayout(
        "winogrande_contexts", "WinoGrande as two contexts with one continuation, joined to a sentence with a gap.",
        ("context_options", "continuation", "gold"), _winogrande_contexts,
    ),
    _flat("commonsenseqa", _NESTED, ("question.question_concept", "question.choices"), **_PARTS),
    _flat("arc", _NESTED, ("question.choices",), **_PARTS),
    BenchmarkLayout(
        "prose", "AQuA and LLM-Adapters: the choices are inside `instruction`, lettered or numbered, the key in `answer`.",
        ("instruction", "answer"), _prose,
    ),
    # Rows of these layouts have no field names, so the reader of the file names the layout.
    _flat(
        "mmlu_csv", "MMLU's CSV without header: stem, choices, letter. The topic is in the file's name.",
        stem="stem", choices="choices", key="key", key_is="letter",
    ),
    _flat(
        "logiqa", "LogiQA's blocks: a context, a question, four options, the key a letter.",
        stem="question", choices="options", key="key", key_is="letter", passage="context",
    ),
    _flat(
        "inspect_log", "A sample of an Inspect log: the key is a letter or a text.",
        stem="input", choices="choices", key="target", id="id", topic="topic",
    ),
)  # fmt: skip
"""All layouts, in order from the most specific to the most general. The first that has a row reads it."""
