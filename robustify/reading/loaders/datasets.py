"""Table of the layouts of specific benchmarks.

A layout states how its benchmark writes a key. It does not check whether the key is right.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from os.path import commonprefix
from string import ascii_uppercase

from robustify.base.errors import ItemError
from robustify.items.item import FEWEST, MOST
from robustify.reading.loaders import rows
from robustify.reading.loaders.column_rules import several
from robustify.reading.loaders.listed_options import FormRule, own_label, read_choices
from robustify.reading.loaders.loaded import FieldMap
from robustify.reading.printed import literal
from robustify.reading.vocabulary import NAMES, choice_columns, usual_names

_LETTERED = re.compile(r"\(([A-Z])\)\s*")
_LETTERED_START = re.compile(r"Answer Choices:\s*(?=\(A\))")
_WORD = r"(?:Answer|Solution|Option|Ending|Choice)"
_NUMBERED = re.compile(rf"(?:(?<=\s)|^){_WORD}([0-9]{{1,2}}):\s*")
_KEY_WORD = re.compile(rf"^\s*{_WORD}\s*(?=[0-9])", re.IGNORECASE)
_FORMAT_NOTE = re.compile(r"\s*Answer format:[^\n]*\s*$")
_SPEAKER = re.compile(r"(?:^|\n\n)(Human|Assistant):")
_LEAD = re.compile(r"^Please choose the correct [a-z]+ to the question:\s*")


Read = Callable[[rows.Cells], rows.RawItem]
"""Function that reads a row. Raises ItemError if the row cannot become an item."""


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
        if self.name == "preferences" and any(map(_lists_replies, map(cells.get, self.needs))):
            return False
        # This layout would lose other choices of the row.
        choices = {
            *usual_names(cells, NAMES["choices"][:1]),
            *(name for series in choice_columns(cells) for name in series),
        }
        return choices <= {*self.needs}


def reader_of(fields: FieldMap, usual: FormRule | None = None) -> Read:
    """Return a function that reads rows by a complete field map. `usual` is the form of the options in most rows."""
    stem, choices, key = fields.stem or "stem", fields.choices or "choices", fields.key
    in_choices = key is None or key in several(choices)

    def read(cells: rows.Cells) -> rows.RawItem:
        found = read_choices(cells, choices, key, usual)
        question, passage = rows.asked_text(cells, stem), ""
        if fields.passage and (above := rows.cell_or_none(cells, fields.passage)) is not None:
            turns = above if isinstance(above, list) else [above]
            passage = "\n".join(rows.require_text(turn, f"`{fields.passage}`") for turn in turns)
        whole, question_at = after(passage, question)
        marked = in_choices or (bool(found.marks) and rows.cell_or_none(cells, key or "") is None)
        right = found.right if marked or found.marks else None
        return rows.RawItem(
            stem=whole,
            choices=found.texts,
            key=right if marked else own_label(rows.cell_value(cells, key or ""), choices, found.labels),
            key_is="index" if marked else fields.key_is,
            labels=found.labels,
            id=rows.cell_label(cells, fields.id),
            topic=rows.cell_label(cells, fields.topic),
            passage=passage,
            question_at=question_at,
            marked=right,
            cut=found.cut,
            unread=found.unread,
        )

    return read


def after(passage: str, question: str) -> tuple[str, int]:
    """Put the passage, if any, before the question. Return the stem and the index at which the question begins."""
    stem = f"{passage}\n\n{question}" if passage.strip() else question
    return stem, len(stem) - len(question)


def _flat(name: str, description: str, needs: tuple[str, ...] = (), **fields: object) -> BenchmarkLayout:
    return BenchmarkLayout(name, description, needs, reader_of(FieldMap.model_validate(fields)))


def _composed(name: str, description: str, form: str, **fields: object) -> BenchmarkLayout:
    """Make a layout whose stem is `form`, with the fields in braces filled in. Items with one stem belong together."""
    names = re.findall(r"\{([^}]+)\}", form)
    fields = {"stem": names[0], **fields}
    choices, key = fields["choices"], fields["key"]
    assert isinstance(choices, tuple)
    read_rest = reader_of(FieldMap.model_validate(fields))

    def read(cells: rows.Cells) -> rows.RawItem:
        stem = form.format_map({one: rows.cell_text(cells, one) for one in names})
        return replace(read_rest(cells), stem=stem, passage=stem, question_at=0)

    return BenchmarkLayout(name, description, (*names, *choices, str(key)), read)


def _own(cells: rows.Cells) -> rows.RawItem:
    if not (name := rows.cell_label(cells, "id")):
        raise ItemError("the ID is empty. Give each item a unique ID.")
    passage = rows.cell_text(cells, "passage") if cells.get("passage") is not None else ""
    stem, question_at = after(passage, rows.cell_text(cells, "stem"))
    if not passage and 0 < (at := rows.whole(cells.get("question_at")) or 0) < len(stem):
        question_at = at
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


def _lists_replies(value: object) -> bool:
    """Return whether a cell is a list of replies, of which each is an option, and not of the turns of one conversation."""
    value = literal(value) if isinstance(value, str) else value
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _turns(value: object) -> list[tuple[str, str]]:
    """Return the speaker and text of each turn in a list of turns, in HH-RLHF's transcript, or in a lone reply."""
    if isinstance(value, str):
        first, *said = map(str.strip, _SPEAKER.split(value))
        return [*zip(said[::2], said[1::2], strict=True)] if said and not first else [("", value)]
    turns = [rows.as_object(turn) for turn in value] if isinstance(value, list) else []
    return [(str(turn.get("role")), rows.shown_text(turn.get("content"), "a turn")) for turn in turns]


def _preference(cells: rows.Cells) -> rows.RawItem:
    """Read a chosen and a rejected reply. What both conversations share is the stem, unless a field has the prompt. A hash
    of the texts decides which reply stands first, so that the position tells nothing."""
    one, two = (_turns(rows.cell_value(cells, name)) for name in ("chosen", "rejected"))
    named = usual_names(cells, NAMES["stem"])
    shared = _turns(cells[named[0]]) if named else one[:-1]
    if not one or not two or not shared or one[:-1] != two[:-1]:
        raise ItemError(
            "the replies have no prompt, or their conversations differ before the last turn; expected one prompt"
        )
    stem = shared[0][1] if len(shared) == 1 else "\n\n".join(f"{who}: {said}" for who, said in shared)
    name = rows.cell_label(cells, next(iter(usual_names(cells, NAMES["id"])), None))
    pair = one[-1][1], two[-1][1]
    text = "\0".join((stem, *sorted(pair)))
    key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[0] % 2
    return rows.RawItem(stem, pair[::-1] if key else pair, key, "index", id=name)


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
    _composed(
        "arct", "Argument reasoning: reason and claim are the stem, two warrants the choices.",
        "Reason: {reason}\nClaim: {claim}", choices=("warrant0", "warrant1"), key="correctLabelW0orW1", key_is="index",
        id="#id",
    ),
    _composed(
        "copa", "COPA and XCOPA: a premise, its cause or effect, the label from 0.",
        "{premise}\nWhat is the {question}?", choices=("choice1", "choice2"), key="label", key_is="index",
    ),
    _composed(
        "copa_xml", "COPA's XML: a premise, its cause or effect, the number of the more plausible alternative.",
        "{p}\nWhat is the {asks-for}?", choices=("a1", "a2"), key="most-plausible-alternative", key_is="number", id="id",
    ),
    _composed(
        "storycloze", "Story Cloze: four sentences, two endings, the number of the right one.",
        "{InputSentence1} {InputSentence2} {InputSentence3} {InputSentence4}", key="AnswerRightEnding",
        choices=("RandomFifthSentenceQuiz1", "RandomFifthSentenceQuiz2"), key_is="number", id="InputStoryid",
    ),
    _composed(
        "anli", "Abductive reasoning: two observations, two hypotheses, the label from 1.",
        "{observation_1}\n{observation_2}", choices=("hypothesis_1", "hypothesis_2"), key="label", key_is="number",
    ),
    _flat(
        "quality", "QuALITY: an article, a question, four options, the label from 1.",
        ("question", "options", "gold_label", "writer_label", "article"), stem="question", choices="options",
        key="gold_label", key_is="number", passage="article", id="question_unique_id",
    ),
    _flat(
        "logiqa2", "LogiQA 2.0: a text, a question, four options, the answer from 0.",
        ("text", "question", "options", "answer", "type"), stem="question", choices="options", key="answer",
        key_is="index", passage="text", id="id",
    ),
    _flat(
        "kmmlu", "KMMLU: four options, the answer from 1.", ("question", *"ABCD", "answer", "Human Accuracy"),
        stem="question", choices=(*"ABCD",), key="answer", key_is="number", topic="Category",
    ),
    BenchmarkLayout(
        "preferences", "Pairs of replies, `chosen` (the key) and `rejected`, in an order by a hash of their texts. Without "
        "a prompt (HH-RLHF, TRL), the stem is what both conversations share.", ("chosen", "rejected"), _preference,
    ),
    _flat(
        "truthfulqa_binary", "TruthfulQA.csv of 2025: the best answer (key 0) against the best incorrect one.",
        ("Question", "Best Answer", "Best Incorrect Answer"),
        stem="Question", choices=("Best Answer", "Best Incorrect Answer"), key="Best Answer", topic="Category",
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
