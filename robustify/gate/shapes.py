"""Items under names in any notation: JSON, YAML, TOML, Python, JavaScript, XML, LaTeX, SQL-like and broken JSON.

A stem's name with text behind it, then the names or marks of choices before the next stem: nothing is parsed, so
nothing needs to be well formed.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
"""Letters of scripts that write words without blanks, or with few."""


def n_words(text: str) -> int:
    """Return the number of words; where a script has no blanks between them, two letters count as one."""
    return len(text.split()) + (0 if text.isascii() else len(_UNSPACED.findall(text)) // 2)


@dataclass(frozen=True, slots=True)
class Shaped:
    """One shape of an item: the line where it begins, and whether it says which choice is right."""

    line: int
    keyed: bool


class Lines:
    """The lines of one text, whose newlines are found once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends: list[int] | None = None

    def of(self, offset: int) -> int:
        """Return the line, from 1, of an offset."""
        if self._ends is None:
            self._ends = [match.start() for match in re.finditer("\n", self._text)]
        return bisect_left(self._ends, offset) + 1


def word_places(text: str, word: str) -> Iterator[int]:
    """Yield where a word stands in a text; faster than a pattern."""
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + 1)


_STEM_WORDS = ("question", "stem", "mcq", "frage", "pregunta")
_WEAK_WORDS = ("query", "problem", "prompt")
"""Names of many other things too: what stands behind them must ask."""
_CHOICE_WORDS = (
    "answer1", "choice", "option", "distractor", "alternative", "answers", "endings", "candidates", "incorrect", "wrong",
)  # fmt: skip
_STEM_AT = re.compile(
    r"(?:[_ -]?(?:stem|text|body|title|en))?[\"']?\s{0,3}"
    r"(?::\s*(?:str\s*=)?|=>|=(?!=)|\b[^<>\n]{0,80}>|\}?\s*\{|(?<=\\question)(?:\[[^\]\n]*\])?[ \t\n])"
    r"\s*(?:\{\s*\"?\d+\"?\s*:)?\s*(?:[|>][+-]?\s*\n)?\s*(?:<!\[CDATA\[|<[^<>\n]{1,40}>|[rfbu]{0,2}[\"'(`{\[]{1,5})?\s*"
)
_TEXT = re.compile(r"[^\W_][^\n<\x0b]{8,1000}")
_CODE = re.compile(r"[,;]\s*[\"']|[,;]\s*[\w-]+\s*[:=]|[\"']\s*[:=,)\]}]|[=\[\]{}|]|\w\(|\w\.\w+\.")
"""Where a value stops being prose: the next name, an index, a call."""
_WORD = re.compile(r"[^\W\d_]{2,}")
_LIST = re.compile(
    r"(?<![a-z])(?:answer[_ ]?)?(?:choices?|options?|alternatives|endings|candidates|distractors|answers"
    r"|(?:incorrect|wrong)[_ ]?answers)[\"'`]?(?:\]|\})?\s{0,3}(?::\s*(?:[a-z\[\]., ]{1,40}=)?|=>|=(?!=)|\{)\s*",
    re.IGNORECASE,
)
_ONES = re.compile(
    r"(?:^|[\s\"'`{,(<\[.$@-])(?:(?:option|opt|op|choice|ending|answer|alternative|distractor|incorrect|wrong"
    r"|incorrect[_ ]answer)[_ -]?)?([A-Ja-j]|\d)[\"'`]?\]?\s{0,3}(?::|=>|=(?!=)|>)\s*[\"'`(]?\s*[^\s,]",
    re.IGNORECASE,
)
_WORDED = re.compile(r"\b(?:option|choice|answer|alternative)[ _-]?([A-Ja-j]|\d)\s?[:.)]\s*\S", re.IGNORECASE)
_ELEMENTS = re.compile(
    r"<(?:choice|option|alternative|answer|distractor|simplechoice|response|li|mc)\b", re.IGNORECASE
)
_LATEX = re.compile(
    r"\\(?:correct|wrong|Correct|good|bad)?(?:[Cc]hoice|[Aa]nswer|bonne|mauvaise|task|item)\b"
)
_RADIO = re.compile(r"type\s*=\s*[\"']?radio", re.IGNORECASE)
_KEY = re.compile(
    r"(?<![a-z])(?:answer|correct|label|key|solution|target|gold|ans|right|cop)"
    r"(?:[_ -]?(?:answer|key|idx|index|option|choice|id|letter|text))?"
    r"[\"'`]?\]?\s{0,3}(?::|=>|=(?!=)|>)|correct=|\\correct|\\Correct|\\bonne",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"\"(?:[^\"\\\n]|\\.){1,600}\"|'(?:[^'\\\n]|\\.){1,600}'|`[^`\n]{1,600}`")
_NEXT = re.compile(r"[\s,]{0,80}(" + _QUOTED.pattern + ")")
_DASHED = re.compile(r"^[ \t]*(?:-|\*|\d+[.)])[ \t]+\S", re.MULTILINE)
_MARKED = re.compile(r"(?<!\w)[A-Ja-j]\s?[).:]")
_QUOTES = "\"'`"
_WINDOW = 3000
_SOON = 500
_LOWER = {code: code + 32 for code in range(65, 91)}
_PLAIN_MARKS = ("a:", 'a":', "a =", "a=", "<li", "<mc", "radio", "\\item")


def named_items(text: str) -> Iterator[Shaped]:
    """The items under names, each at the line of their stem's name."""
    low = text.lower()
    if len(low) != len(text):  # a capital whose small form has two characters: places would shift
        low = text.translate(_LOWER)
    if not any(word in low for word in (*_STEM_WORDS, *_WEAK_WORDS)):
        return
    if not any(mark in low for mark in (*_CHOICE_WORDS, *_PLAIN_MARKS)):
        return
    stems = _stems(text, low)
    lines = Lines(text)
    done = 0
    for i, (at, after) in enumerate(stems):
        if at < done:
            continue
        many, last = _many(text, after)
        if many >= 2:
            done = last
            j = bisect_right(stems, (last, len(text)))
            if _has_choices(text[last : last + _WINDOW]):
                keyed = _KEY.search(text, last, stems[j][0] if j < len(stems) else len(text)) is not None
                yield from [Shaped(lines.of(at), keyed)] * many
            continue
        end = min(stems[i + 1][0] if i + 1 < len(stems) else len(text), after + _WINDOW)
        begin = max(stems[i - 1][1] if i else 0, at - _WINDOW)
        has_choices = _has_choices if _begins(text, at) else _has_worded_choices
        for window in (text[after:end], text[begin:at]):
            if has_choices(window):
                yield Shaped(lines.of(at), _KEY.search(window) is not None)
                break


def _stems(text: str, low: str) -> list[tuple[int, int]]:
    """Where a stem's name with text behind it begins, and where that text begins."""
    starts: dict[int, int] = {}
    for word in (*_STEM_WORDS, *_WEAK_WORDS):
        for at in word_places(low, word):
            end = at + len(word)
            named = _STEM_AT.match(text, end) if at == 0 or not text[at - 1].isalnum() else None
            value = _value(text, named) if named else ""
            least = 3 if named and text[named.end() - 1] in _QUOTES else 4
            if named and _n_words(value) >= least and (word in _STEM_WORDS or "?" in value):
                starts.setdefault(at, named.end())
    return sorted(starts.items())


def _many(text: str, after: int) -> tuple[int, int]:
    """How many stems a list under a stem's name holds, and where it ends: a table by columns."""
    bracket = text.rfind("[", max(0, after - 8), after)
    if bracket < 0:
        return 0, after
    n, at = 0, bracket + 1
    while match := _NEXT.match(text, at):
        n += _n_words(match[1]) >= 3
        at = match.end()
    return n, at


def _n_words(text: str) -> int:
    return len(_WORD.findall(text)) + (0 if text.isascii() else n_words(text) - len(text.split()))


def _begins(text: str, at: int) -> bool:
    """Whether a name begins a line, a cell or an argument; a word within a sentence is not much of a name."""
    before = text[max(0, at - 40) : at]
    begins = (before.rstrip(" \t\"'")[-1:] or "\n") in "\n\x0b{[(,<-*|;:=@$\\_/#>"
    return begins and not before.endswith(("class ", "def "))


def _value(text: str, named: re.Match[str]) -> str:
    """The prose behind a name: up to its closing quote, or to where a bare value stops being prose."""
    value = _TEXT.match(text, named.end())
    if value is None:
        return ""
    quote = text[named.end() - 1]
    if quote in _QUOTES:
        cut = value[0].find(quote)
        return value[0][:cut] if cut >= 0 else value[0]
    return _CODE.split(value[0], maxsplit=1)[0]


def _has_choices(window: str) -> bool:
    for match in _LIST.finditer(window):
        if _listed(window[match.end() : match.end() + 1500]) >= 2:
            return True
    if _in_order(_ONES, window):
        return True
    return any(len(mark.findall(window)) >= 3 for mark in (_ELEMENTS, _LATEX, _RADIO))


def _has_worded_choices(window: str) -> bool:
    """Choices that say what they are: `Answer1: ... Answer2: ...`, also where the stem's name is within a sentence."""
    return _in_order(_WORDED, window)


def _in_order(pattern: re.Pattern[str], window: str) -> bool:
    """Whether A, B and C (or 1, 2 and 3) label something one soon after the other."""
    labels = [(match[1].lower(), match.start()) for match in pattern.finditer(window)]
    for wanted in ("abc", "123"):
        at, last = 0, 0
        for label, place in labels:
            if at and place - last > _SOON:
                at = 0
            if label == wanted[at]:
                at, last = at + 1, place
            if at == len(wanted):
                return True
    return False


def _listed(text: str) -> int:
    """How many options a list offers: quoted texts up to its closing bracket, lettered ones in one text, or dashes."""
    if text[:1] and text[0] in "[({":
        end = text.find("])}"["[({".index(text[0])])
        inner = text[:end] if end >= 0 else text
        quoted = len(_QUOTED.findall(inner))
        return quoted if quoted else inner.count(",") + 1 if "," in inner else 0
    if text[:1] and text[0] in _QUOTES:
        return len(_MARKED.findall(text[:600]))
    return len(_DASHED.findall(text[:600])) if text.lstrip()[:1] in ("-", "*", "1") else 0
