"""Layouts of single benchmarks that go by their own field names: one small function each, cells -> Raw.

Nothing here decides whether a key is right; each says how its benchmark writes one.
"""

from collections.abc import Mapping

from robustify.errors import ItemError
from robustify.loaders.cells import dig, kind_of, label, text, texts
from robustify.loaders.fields import read_fields
from robustify.loaders.rows import Cells, Raw
from robustify.loaders.source import FieldMap


def robustify_rows(cells: Cells) -> Raw:
    """Our own: `id stem choices key topic group`; the key is an index from 0, and an id must be there."""
    key = dig(cells, "key")
    if isinstance(key, str):
        raise ItemError("key is text; expected a whole number, counted from 0")
    name = label(cells, "id")
    if not name:
        raise ItemError("id is empty; expected a name that no other item has")
    return Raw(
        stem=text(cells, "stem"),
        choices=texts(dig(cells, "choices"), "`choices`"),
        key=key,
        key_is="index",
        id=name,
        topic=label(cells, "topic"),
        group=label(cells, "group"),
    )


def nested(cells: Cells) -> Raw:
    """ARC and CommonsenseQA: `question {stem, choices [{text, label}]}`, the right label in `answerKey`."""
    names = FieldMap(
        stem="question.stem", choices="question.choices", key="answerKey", id="id", key_is="label"
    )
    return read_fields(cells, names, literals=False)


def mmlu_csv(cells: Cells) -> Raw:
    """MMLU's CSV without header: stem, choices, letter. The topic is in the file's name."""
    return Raw(
        text(cells, "stem"), texts(dig(cells, "choices"), "record"), dig(cells, "key"), key_is="letter"
    )


def truthfulqa_binary(cells: Cells) -> Raw:
    """TruthfulQA.csv of 2025: the best answer against the best incorrect one. The key is always 0."""
    choices = (text(cells, "Best Answer"), text(cells, "Best Incorrect Answer"))
    return Raw(text(cells, "Question"), choices, 0, key_is="index", topic=label(cells, "Category"))


def truthfulqa_mc1(cells: Cells) -> Raw:
    """TruthfulQA.csv: the best answer, then every incorrect answer of the `; ` list. The key is always 0."""
    wrong = [part.strip() for part in text(cells, "Incorrect Answers").split(";") if part.strip()]
    choices = (text(cells, "Best Answer"), *wrong)
    return Raw(text(cells, "Question"), choices, 0, key_is="index", topic=label(cells, "Category"))


def truthfulqa_hub(cells: Cells) -> Raw:
    """TruthfulQA of the Hub: `mc1_targets {choices, labels}`, where one label is 1."""
    found = dig(cells, "mc1_targets")
    if not isinstance(found, Mapping):
        raise ItemError(f"`mc1_targets` is {kind_of(found)}; expected an object")
    labels = dig(found, "labels")
    if not isinstance(labels, list) or labels.count(1) != 1:
        raise ItemError("`mc1_targets.labels` does not hold exactly one 1")
    return Raw(
        text(cells, "question"), texts(dig(found, "choices"), "`choices`"), labels.index(1), key_is="index"
    )


def arct(cells: Cells) -> Raw:
    """Argument reasoning: reason and claim are the stem; the choices are two warrants, of which one fits."""
    stem = f"Reason: {text(cells, 'reason')}\nClaim: {text(cells, 'claim')}"
    choices = (text(cells, "warrant0"), text(cells, "warrant1"))
    # One reason and claim come with several pairs of warrants: those items belong together.
    return Raw(stem, choices, dig(cells, "correctLabelW0orW1"), "index", id=label(cells, "#id"), passage=stem)


def sciq(cells: Cells) -> Raw:
    """SciQ: the key is always 0. The support passage is left out: it would make a reading test of it."""
    choices = tuple(
        text(cells, name) for name in ("correct_answer", "distractor1", "distractor2", "distractor3")
    )
    return Raw(text(cells, "question"), choices, 0, key_is="index", id=label(cells, "id"))


def gpqa(cells: Cells) -> Raw:
    """GPQA: the key is always 0. Its terms forbid showing an item online, in text or as a picture."""
    columns = ("Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")
    return Raw(
        stem=text(cells, "Question"),
        choices=tuple(text(cells, name) for name in columns),
        key=0,
        key_is="index",
        id=label(cells, "Record ID"),
        topic=label(cells, "High-level domain"),
    )


def piqa(cells: Cells) -> Raw:
    """PIQA: a goal, two ways to it, the label from 0."""
    choices = (text(cells, "sol1"), text(cells, "sol2"))
    return Raw(text(cells, "goal"), choices, dig(cells, "label"), key_is="index", id=label(cells, "id"))


def siqa(cells: Cells) -> Raw:
    """Social IQa: a situation, a question, three answers, the label from 1."""
    passage = text(cells, "context")
    choices = tuple(text(cells, name) for name in ("answerA", "answerB", "answerC"))
    stem = f"{passage}\n\n{text(cells, 'question')}"
    return Raw(stem, choices, dig(cells, "label"), key_is="number", passage=passage)


def hellaswag(cells: Cells) -> Raw:
    """HellaSwag: a context, four endings, the label from 0 (text in the Hub's copy)."""
    choices = texts(dig(cells, "endings"), "`endings`")
    topic = label(cells, "activity_label")
    return Raw(text(cells, "ctx"), choices, dig(cells, "label"), key_is="index", topic=topic)


def winogrande(cells: Cells) -> Raw:
    """WinoGrande as AI2 gives it: a sentence with a gap `_`, two fillers, the answer from 1."""
    choices = (text(cells, "option1"), text(cells, "option2"))
    return Raw(
        text(cells, "sentence"), choices, dig(cells, "answer"), key_is="number", id=label(cells, "qID")
    )


def winogrande_contexts(cells: Cells) -> Raw:
    """WinoGrande as two contexts with one continuation: the sentence with its gap is put together again.

    Raises:
        ItemError: not two contexts, no words in common at the front, or one context inside the other.
    """
    contexts = texts(dig(cells, "context_options"), "`context_options`")
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
    stem = " ".join([*one[:front], "_", *one[len(one) - back :], text(cells, "continuation")])
    return Raw(stem, fillers, dig(cells, "gold"), key_is="index")


def logiqa(cells: Cells) -> Raw:
    """LogiQA's blocks: a context, a question, four options, the key a letter."""
    passage = text(cells, "context")
    stem = f"{passage}\n\n{text(cells, 'question')}"
    return Raw(
        stem, texts(dig(cells, "options"), "block"), dig(cells, "key"), key_is="letter", passage=passage
    )


def inspect_log(cells: Cells) -> Raw:
    """A sample of an Inspect log, unwrapped by `logs`: the key is a letter."""
    names = FieldMap(stem="input", choices="choices", key="target", id="id", topic="topic", key_is="letter")
    return read_fields(cells, names, literals=False)
