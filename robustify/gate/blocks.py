"""Items in running text: a stem, then lettered, numbered or bare options, perhaps with the answer.

Clauses of licences and numbered steps have letters too; a question, an answer and short options differ.
"""

import re
from collections.abc import Iterator, Sequence

from robustify.gate.shapes import Lines, Shaped, n_words, word_places

_LETTERS = (re.compile(r"B[).:\]]"), re.compile(r"b[).:\]]"))
_NUMBERS = (re.compile(r"2[).:\]]"),)
_ANSWER = re.compile(
    r"(?:答案|答え|解答|正解|정답|\bответ|\bתשובה|\bالإجابة|\bคำตอบ|\b(?:answers?|ans|correct|key|solution|antwort|respuesta|r[eé]ponse)\b)[^\n\x0b]{0,24}?[:=\-–)\s*_\"']{1,8}[(\[*\"'`]{0,3}[A-Ja-j0-9]\b",
    re.IGNORECASE,
)
_BREAKS = re.compile(r"[\n\x0b]")
_QUOTED_END = re.compile(r"(?:\n|\x0b|\\n)?[\"']\s*,?\s*[\"']?\Z")
_CLAUSE = re.compile(r"(?:;|,|\band|\bor|:)\s*[\"'\\n,]*\Z")
_LEADERS = " \t#>*|/+-\"'`\x0b\n([{_\\~%"
_REACH = 600
_LONGEST = 400
_INDENT = 80
"""Characters of a line before the word that says the answer: only leaders stand there."""
_MOST_ANSWERS = 20_000
"""Lines of a text that are asked whether they say an answer: more are a table of something else."""
_ANSWER_WORDS = ("nswer", "NSWER", "orrect", "ORRECT", "olution")
_PRONOUN = re.compile(
    r"\b(?:which|what|who|whom|whose|when|where|why|how|choose|select|following|complete|best)\b",
    re.IGNORECASE,
)
_ANSWER_LINE = re.compile(r"(?:correct\s+)?(?:answer|ans|solution|correct|key)\W{0,4}[:=]", re.IGNORECASE)


def prose_items(text: str) -> Iterator[Shaped]:
    """The blocks of a text that are shaped like items, at the line of their first option."""
    marked = list(_marked(text, _LETTERS)) or list(_marked(text, _NUMBERS))
    yield from marked or _bare(text)


def _marked(text: str, seconds: Sequence[re.Pattern[str]]) -> Iterator[Shaped]:
    """Blocks whose options carry letters or numbers, found by the second option's."""
    last = -1
    lines = Lines(text)
    for at in sorted(match.start() for second in seconds for match in second.finditer(text)):
        if at <= last or not _is_marker(text, at, at + 2):
            continue
        places = _sequence(text, at, text[at : at + 2])
        keyed = _judged(text, places) if len(places) >= 3 else None
        if keyed is not None:
            last = places[-1]
            yield Shaped(lines.of(places[0]), keyed)


def _is_marker(text: str, start: int, end: int) -> bool:
    """Whether an option's letter begins a word group; a number only begins a line."""
    before = text[max(0, start - 1) : start]
    after = text[end : end + 3].lstrip("*_)]>")[:1]
    first = _starts_line(text, start)
    if not first and (text[start].isdigit() or before.isalnum() or before in ("_", ".", "-")):
        return False
    spaced = after in (" ", "\t", "\x0b", "\n", "<", "")
    return (spaced or (first and text[start].isupper() and after.isalnum())) and not text[
        end : end + 40
    ].isspace()


def _starts_line(text: str, at: int) -> bool:
    """Whether only leaders (quotes, bullets, comment signs) come between the line's beginning and a place."""
    head = text[max(0, at - 24) : at]
    cut = max(head.rfind("\n"), head.rfind("\x0b"))
    return not head[cut + 1 :].strip(_LEADERS) and (cut >= 0 or at <= 24)


def _sequence(text: str, at: int, mark: str) -> list[int]:
    """The places of the markers A, B, C ... of one style around a B."""
    first = _marker_before(text, at, chr(ord(mark[0]) - 1) + mark[1])
    if first < 0:
        return []
    places = [first, at]
    while True:
        wanted = chr(ord(mark[0]) + len(places) - 1) + mark[1]
        following = _marker_after(text, places[-1] + 2, wanted)
        if following < 0 or len(places) >= 10:
            return places
        places.append(following)


def _marker_before(text: str, at: int, mark: str) -> int:
    place = text.rfind(mark, max(0, at - _REACH), at - 1)
    while place >= 0 and not _is_marker(text, place, place + 2):
        place = text.rfind(mark, max(0, at - _REACH), place)
    return place


def _marker_after(text: str, at: int, mark: str) -> int:
    place = text.find(mark, at, at + _REACH)
    while place >= 0 and not _is_marker(text, place, place + 2):
        place = text.find(mark, place + 1, at + _REACH)
    return place


def _judged(text: str, places: list[int]) -> bool | None:
    """Whether a block says its answer; None where it is no item."""
    end = _option_end(text, places[-1] + 2)
    options = [_option(text[a + 2 : b]) for a, b in zip(places, (*places[1:], end), strict=True)]
    if any(not option for option in options) or max(map(len, options)) > _LONGEST:
        return None
    stem = _stem(text, places[0])
    asks = "?" in stem or "__" in stem
    answered = _answered(text, places[-1], end + 160, options)
    upper, numbered = text[places[0]].isupper(), text[places[0]].isdigit()
    clauses = sum(_CLAUSE.search(option) is not None for option in options)
    long = sorted(len(option.split()) for option in options)[len(options) // 2] > 25
    if 2 * clauses >= len(options) or long or n_words(stem) < 3:
        return None
    if numbered or not upper:
        shaped = asks and (answered or (not numbered and _PRONOUN.search(stem) is not None))
    else:
        shaped = asks or answered or (_starts_line(text, places[0]) and _PRONOUN.search(stem) is not None)
    return answered and (asks or upper) if shaped else None


def _option(text: str) -> str:
    """An option without what is around it: bullets, quotes, the comma after a quoted line."""
    return _QUOTED_END.sub("", text.rstrip()).strip(_LEADERS)


def _answered(text: str, begin: int, end: int, options: list[str]) -> bool:
    """Whether a letter, a number or the text of an option follows the word answer."""
    if _ANSWER.search(text, begin, end):
        return True
    said = _ANSWER_LINE.search(text, begin, end)
    if said is None:
        return False
    after = text[said.end() : said.end() + _LONGEST].lstrip(_LEADERS).lower()
    return any(after.startswith(option[:40].lower()) for option in options)


def _option_end(text: str, at: int) -> int:
    cut = _BREAKS.search(text, at, at + _LONGEST)
    return cut.start() if cut else min(len(text), at + _LONGEST)


def _stem(text: str, at: int) -> str:
    """The paragraph before the first option; one blank line may be between."""
    before = text[max(0, at - _REACH) : at].rstrip(_LEADERS + ",").replace("\x0b", "\n")
    cut = before.rfind("\n\n")
    return before[cut + 2 :] if cut >= 0 else before


def _bare(text: str) -> Iterator[Shaped]:
    """A question, at least three short lines, then a line that says the answer."""
    lines = Lines(text)
    for at in sorted({at for word in _ANSWER_WORDS for at in word_places(text, word)})[:_MOST_ANSWERS]:
        begin = max(text.rfind(mark, max(0, at - _INDENT), at) for mark in ("\n", "\x0b")) + 1
        if not begin and at > _INDENT:
            continue
        line = text[begin : _option_end(text, at)]
        above = text[max(0, begin - _LONGEST * 4) : begin]
        if "?" in above and _ANSWER_LINE.match(line.strip(_LEADERS)) and _asked(above, line):
            yield Shaped(lines.of(at), True)


def _asked(above: str, answer_line: str) -> bool:
    """Whether a line repeats, as the answer, one of three or more short lines under a question above it."""
    before = [line for line in _BREAKS.split(above) if line.strip(_LEADERS)][-12:]
    asked = max((i for i, line in enumerate(before) if "?" in line), default=-1)
    options = [line.strip(_LEADERS) for line in before[asked + 1 :]]
    if asked < 0 or not 3 <= len(options) <= 10 or max(len(option.split()) for option in options) > 20:
        return False
    answer = answer_line.split(":", 1)[-1].split("=", 1)[-1].strip(_LEADERS + ".").lower()
    return bool(answer) and any(answer == option.lower().rstrip(".") for option in options)
