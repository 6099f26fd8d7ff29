"""Items in parsed JSON, and what the name of a field says: a stem, choices, one choice of several, a key.

An object with a stem and choices counts, however deep it lies and whatever its layout is. Objects whose field names
say nothing count too when a list of them asks questions and offers options. Names are compared without case and
punctuation: `Question Stem`, `question_stem` and `questionStem` are one.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from robustify.gate.reading.cells import Lines

STEMS = frozenset(
    {
        "question", "questions", "stem", "questionstem", "questiontext", "questionbody", "questiontitle", "ques",
        "problem", "mcq", "itemstem", "prompttext", "fullquestion", "inputquestion", "questionconcept",
        "pregunta", "frage", "vraag", "domanda",
    }
)  # fmt: skip
"""Names of a stem and of little else."""
WEAK_STEMS = frozenset(
    {
        "prompt", "input", "goal", "ctx", "context", "premise", "sentence", "problemstatement", "instruction", "task",
        "item", "text", "q", "query", "continuation",
    }
)  # fmt: skip
"""Names of many other things too."""
CHOICES = frozenset(
    {
        "choices", "options", "endings", "alternatives", "candidates", "answerchoices", "answeroptions", "answers",
        "possibleanswers", "distractors", "incorrectanswers", "wronganswers", "multiplechoices", "mcoptions",
        "targetscores", "mc1targets", "mc2targets", "multiplechoicetargets", "choicelist", "optionlist",
        "contextoptions", "responses", "opciones", "antworten", "opzioni",
    }
)  # fmt: skip
KEYS = frozenset(
    {
        "answer", "answerkey", "correct", "correctanswer", "correctoption", "correctchoice", "correctidx", "label",
        "correctindex", "correctkey", "correctletter", "key", "target", "gold", "goldlabel", "goldindex", "answeridx",
        "answerindex", "answerid", "answerletter", "solution", "cop", "ans", "rightanswer", "bestanswer", "groundtruth",
        "respuesta", "antwort",
    }
)  # fmt: skip
_ONE = re.compile(
    r"(?:option|opt|op|choice|ending|answer|alternative|alt|sol|response|candidate|ans|distractor|incorrectanswer"
    r"|wronganswer|incorrect|wrong|incorrectchoice|wrongchoice|choix)([a-j]|\d{1,2})$|([a-j])$"
)
_LONGEST = 80
_PUNCTUATION = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class FieldShape:
    """What a set of field names makes up. `ones`: how many names are single choices (A, option_2, distractor3);
    `named`: how many of them say so in more than a letter."""

    stem: bool
    weak_stem: bool
    choices: bool
    ones: int
    named: int
    key: bool

    @property
    def has_choices(self) -> bool:
        """A list of choices, at least three single ones, or two under full names with a key."""
        return self.choices or self.ones >= 3 or (self.named >= 2 and self.key)

    @property
    def is_item(self) -> bool:
        """Choices, and a stem under a name of its own, or under another one where there is a key too."""
        return self.has_choices and (self.stem or (self.weak_stem and self.key))


def bare_name(name: str) -> str:
    """A name without case and punctuation; empty for what is too long for a name."""
    return _bare(name) if len(name) <= _LONGEST else ""


@lru_cache(maxsize=4096)
def _bare(name: str) -> str:
    return _PUNCTUATION.sub("", name.lower())


def is_one(name: str) -> bool:
    """Whether a bare name is one choice of several."""
    return _ONE.match(name) is not None


def shape_of(names: Iterable[str]) -> FieldShape:
    """The shape that field names make up together."""
    plain = {bare_name(name) for name in names}
    return FieldShape(
        stem=not plain.isdisjoint(STEMS),
        weak_stem=not plain.isdisjoint(WEAK_STEMS),
        choices=not plain.isdisjoint(CHOICES),
        ones=sum(map(is_one, plain)),
        named=sum(is_one(name) and len(name) > 1 for name in plain),
        key=not plain.isdisjoint(KEYS),
    )


_LEAST_WORDS = 3
_MOST_NODES = 2_000_000
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
"""Letters of scripts that write words without blanks, or with few."""


def n_words(text: str) -> int:
    """The words of a text; where a script has no blanks between them, two letters count as one."""
    return len(text.split()) + (0 if text.isascii() else len(_UNSPACED.findall(text)) // 2)


@dataclass(frozen=True, slots=True)
class Shaped:
    """One shape of an item: the line where it begins, and whether it says which choice is right."""

    line: int
    keyed: bool


def json_items(text: str) -> Iterator[Shaped]:
    """The items of a JSON document or of JSON lines; nothing where the text is neither."""
    head = text.lstrip("\ufeff \t\r\n")[:1]
    if head not in ("{", "["):
        return
    try:
        tree = json.loads(text)
    except RecursionError:
        return
    except ValueError:
        yield from _lines(text)
        return
    yield from _placed(text, tree)


def _lines(text: str) -> Iterator[Shaped]:
    faults = 0
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip()[:1] in ("{", "["):
            try:
                tree = json.loads(line.strip().rstrip(","))
            except (ValueError, RecursionError):
                faults += 1
                if faults > 20:
                    return
                continue
            yield from (Shaped(number, item.keyed) for item, _ in _walked(tree))


def _placed(text: str, tree: object) -> Iterator[Shaped]:
    """The items of one document, each at the line of its stem."""
    at = 0
    lines = Lines(text)
    for item, stem in _walked(tree):
        for form in (json.dumps(stem)[1:40], json.dumps(stem, ensure_ascii=False)[1:40]):
            place = text.find(form, at)
            if place >= 0:
                at = place
                break
        yield Shaped(lines.of(at), item.keyed)


def _walked(tree: object) -> Iterator[tuple[Shaped, str]]:
    stack: list[tuple[object, bool]] = [(tree, False)]
    nodes = 0
    while stack and nodes < _MOST_NODES:
        node, keyed = stack.pop()
        nodes += 1
        if isinstance(node, dict):
            names = shape_of(node)
            item = _record(node, names, keyed)
            if item is not None:
                yield item
            elif names.stem or names.weak_stem or "columns" in node:
                yield from _columnar(node, names)
            stack.extend((v, names.key) for v in reversed(node.values()) if isinstance(v, dict | list))
        elif isinstance(node, list):
            yield from _unnamed(node)
            stack.extend((v, False) for v in reversed(node) if isinstance(v, dict | list))


def _record(node: dict[str, object], shape: FieldShape, keyed: bool) -> tuple[Shaped, str] | None:
    """The item that an object is; `keyed`: the object around it says which choice is right."""
    if not (shape.stem or shape.weak_stem):
        return None
    stem = next((text for name, value in node.items() if (text := _stem(name, value, shape.stem))), "")
    if not stem:
        return None
    options = [value for name, value in node.items() if bare_name(name) in CHOICES and offers(value)]
    ones = {bare_name(name) for name, value in node.items() if is_one(bare_name(name)) and _is_text(value)}
    inner = [value for value in node.values() if isinstance(value, dict) and _is_labelled(value)]
    pair = len(ones) >= 2 and shape.named >= 2 and shape.key
    if options or len(ones) >= 3 or pair or inner:
        return Shaped(1, (keyed or shape.key) and (shape.stem or "?" in stem)), stem
    return None


def _columnar(node: dict[str, object], shape: FieldShape) -> Iterator[tuple[Shaped, str]]:
    """The items of a table by columns: a name with all stems, others with all choices; or names apart from rows."""
    heads, rows = node.get("columns"), node.get("data")
    if isinstance(heads, list) and isinstance(rows, list) and all(isinstance(head, str) for head in heads):
        shape = shape_of(heads)
        columns: dict[str, object] = {
            head: [row[i] for row in rows if isinstance(row, list) and i < len(row)]
            for i, head in enumerate(heads)
        }
    else:
        columns = {name: list(v.values()) if isinstance(v, dict) else v for name, v in node.items()}
    if not shape.is_item:
        return
    names = STEMS if shape.stem else WEAK_STEMS
    stems = next((v for name, v in columns.items() if bare_name(name) in names and isinstance(v, list)), [])
    choices = [v for name, v in columns.items() if bare_name(name) in CHOICES or is_one(bare_name(name))]
    if any(isinstance(column, list) and len(column) == len(stems) for column in choices):
        texts = (stem for stem in stems if isinstance(stem, str) and n_words(stem) >= _LEAST_WORDS)
        yield from ((Shaped(1, shape.key), stem) for stem in texts)


def _stem(name: str, value: object, strong: bool) -> str:
    named = bare_name(name) in STEMS or (not strong and bare_name(name) in WEAK_STEMS)
    return value if named and isinstance(value, str) and n_words(value) >= _LEAST_WORDS else ""


def offers(value: object) -> bool:
    """Whether a value is a list of 2 to 26 options: texts, texts in objects, or texts under labels."""
    match value:
        case list():
            texts = [
                v for v in value if _is_text(v) or (isinstance(v, dict) and any(map(_is_text, v.values())))
            ]
            return 2 <= len(texts) <= 26
        case dict():
            return any(offers(inner) for inner in value.values() if isinstance(inner, list)) or (
                2 <= len(value) <= 26
                and (_is_labelled(value) or all(isinstance(v, int | float) for v in value.values()))
            )
        case str():  # options in one text: "a ) 38 , b ) 27 , c ) 41"
            return len(re.findall(r"(?<!\w)[a-jA-J]\s?[).:]", value)) >= 3
        case _:
            return False


def _is_labelled(value: dict[str, object]) -> bool:
    """Texts under A, B, C or 1, 2, 3."""
    labels = {
        name for name, text in value.items() if _is_text(text) and (is_one(bare_name(name)) or name.isdigit())
    }
    return len(labels) >= 3 and len(labels) == len(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool) and str(value).strip() != ""


def _unnamed(node: list[object]) -> Iterator[tuple[Shaped, str]]:
    """A list whose members ask a question and offer options, under names that say nothing or none."""
    stems = [stem for member in node if (stem := _asks(member))]
    if len(stems) >= 3 and 2 * len(stems) >= len(node):
        yield from ((Shaped(1, False), stem) for stem in stems)


def _asks(member: object) -> str:
    if isinstance(member, dict):
        shape = shape_of(member)
        if (shape.stem or shape.weak_stem) and shape.has_choices:
            return ""  # counted by its names
        values: list[object] = list(member.values())
    elif isinstance(member, list):
        values = member
    else:
        return ""
    questions = [v for v in values if isinstance(v, str) and n_words(v) >= _LEAST_WORDS and "?" in v]
    lists = [
        v for v in values if isinstance(v, list) and 2 <= len(v) <= 10 and all(isinstance(o, str) for o in v)
    ]
    flat = [v for v in values if _is_text(v)]
    if len(questions) == 1 and (
        len(lists) == 1 or (isinstance(member, list) and len(flat) >= 5 and not lists)
    ):
        return questions[0]
    return ""
