"""What the name of a field says: a stem, choices, one choice of several, a key.

Names are compared without case and punctuation, so `Question Stem`, `question_stem` and `questionStem` are one.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

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
class Shape:
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


def bare(name: str) -> str:
    """A name without case and punctuation; empty for what is too long for a name."""
    return _bare(name) if len(name) <= _LONGEST else ""


@lru_cache(maxsize=4096)
def _bare(name: str) -> str:
    return _PUNCTUATION.sub("", name.lower())


def is_one(name: str) -> bool:
    """Whether a bare name is one choice of several."""
    return _ONE.match(name) is not None


def shape_of(names: Iterable[str]) -> Shape:
    """The shape that field names make up together."""
    held = {bare(name) for name in names}
    return Shape(
        stem=not held.isdisjoint(STEMS),
        weak_stem=not held.isdisjoint(WEAK_STEMS),
        choices=not held.isdisjoint(CHOICES),
        ones=sum(map(is_one, held)),
        named=sum(is_one(name) and len(name) > 1 for name in held),
        key=not held.isdisjoint(KEYS),
    )
