"""What an answer claims: the results it announces, and the harmless words around a result, all from closed lists.

An answer is decided only where everything beside its result is on these lists or repeats the question. Any other word,
in any language, leaves it undecided: "hardly", "nicht" and "formerly" need no list of their own. Results that are
announced twice must agree; the last one never wins.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator

from robustify.freeform.answer_text import Finding, undecided, word_set

MOST_CLAIMS = 8
_MOST_STEPS = 12
_LONGEST_TAIL = 80
_NAME = (
    r"(?:answer|result|solution|antwort|ergebnis|lösung|réponse|résultat|respuesta|resultado|solución|risposta"
    r"|risultato|resposta|antwoord|ответ)"
)
_AFTER = r"(?:\s(?:correcte|correcta|corretta|certa|giusta|final|finale|exacte?|exacta|esatta))?"
_IS = (
    r"(?:is|was|are|were|would be|should be|must be|has to be|equals|ist|war|sind|lautet|beträgt|est|était|sont|es|era|son"
    r"|è|sono|é|são|是|为)"
)
_ARTICLE = r"(?:(?:the|a|an|der|die|das|le|la|les|el|il|lo|o|de|het)\s|l['’])"
_MARKER = re.compile(
    rf"\b{_NAME}\b[*_]{{0,3}}{_AFTER}[*_]{{0,3}}\s*(?:{_IS}\b|[:：=])|答案\s?[是为:：]|####|<answer>|\\(?:boxed|fbox)\s?\{{",
    re.IGNORECASE,
)
_BOUNDARY = re.compile(r"[.!?。]\s+|\n|,\s+(?=(?:so|thus|therefore|hence)\s)", re.IGNORECASE)
_ANOTHER = re.compile(r"[?？]|\b(?:question|frage|pregunta|domanda)\s?\d*\s?:|\bq\d*\s?:", re.IGNORECASE)
_BOX = re.compile(r"\\(?:boxed|fbox)\s?\{")
_WRAPPED = re.compile(r"\\(?:text|mathrm|mathbf|textbf|mathit|operatorname|rm)\s?\{([^{}]{0,200})\}")
_QUOTED = re.compile(
    r"\"([^\"\n]{1,200})\"|“([^“”\n]{1,200})”|„([^“”„\n]{1,200})[“”]|«\s?([^«»\n]{1,200}?)\s?»"
)

_LEAD = re.compile(
    r"(?:[\s,:;#{(\[*_`•]+|</?answer>|[-–]\s(?!\s*[\d.])"
    r"|(?:"
    r"so|thus|therefore|hence|then|finally|overall|well|ok|okay|sure|yes|certainly|definitely|clearly|obviously|probably"
    r"|most likely|likely|of course|in conclusion|in short|in total|indeed"
    r"|daher|somit|folglich|wahrscheinlich|vermutlich|natürlich|donc|ainsi|probablement|évidemment|bien sûr"
    r"|por lo tanto|entonces|probablemente|quindi|dunque|probabilmente|portanto|provavelmente|dus|waarschijnlijk"
    rf"|(?:(?:the|my|our|die|das|la|le|el|il|o|a|het|meine|ma|mi)\s)?(?:(?:final|correct|right|best|exact|short|richtige"
    rf"|korrekte|endgültige|bonne|juiste|correcta)\s)?(?:{_NAME}|choice|value|答案){_AFTER}"
    rf"(?:\s(?:here|to (?:the|this|your) question))?(?:\s?{_IS}(?![\w]))?(?:\sthat)?"
    r"|(?:it|this|that|he|she|they|these|those|there|which)(?:['’](?:s|re)|\s(?:is|was|are|were|(?:would|must|should) be))"
    r"|(?:es|das|dies)\s(?:ist|war|sind|waren|gibt)|c['’](?:est|était)|ce\ssont|il y a|hay|è|é|es|son|sono|são"
    r"|(?:het|dat|dit)\s(?:is|was)"
    r"|(?:i(?:['’]d|\swould)?|we)\s(?:think|believe|say|guess|choose|pick|answer|get|obtain|find|have|go with)(?:\sthat)?"
    r"|ich (?:glaube|denke)|je (?:pense|crois) que|(?:creo|pienso) que|(?:credo|penso) che|acho que|ik denk"
    r"|about|approximately|approx\.?|around|roughly|exactly|precisely|ca\.|circa|etwa|ungefähr|environ|aproximadamente"
    r"|in|at|on|by(?!\s\d)|the|an|a|der|die|das|dem|den|le|la|les|el|los|las|il|lo|gli|het|de"
    r")(?=[\s,:：;.*_'’\"]|$)"
    r"|l['’](?=\w)|答案\s?[是为:：]|正解は)",
    re.IGNORECASE,
)
_TAIL = re.compile(
    r"(?:[\s.!,;:}*_`)\]。、]+|</answer>"
    r"|\s(?:is|was|are|would be|must be|ist|est|es|è|é)\s(?:(?:the|my|die|la|le|el|a)\s)?(?:(?:final|best|right|correct"
    rf"|richtige|korrekte|bonne)\s)?(?:{_NAME}|option|choice|one){_AFTER}"
    r"|\s(?:is|are|ist|est|es|è|é)\s(?:correct|right|richtig|korrekt|correcto|correcta|corretto|corretta|correto|correta)"
    r"|,?\s(?:i think|i believe|i['’]d say|i would say|i guess|indeed|of course|obviously|clearly|probably|in total"
    r"|altogether|insgesamt|au total|en total|in totale|glaube ich|je crois|je pense|creo)"
    r"|です|だ)\Z",
    re.IGNORECASE,
)
_TURNING = word_set(
    "not no never non nor neither without except unless unlike cannot or either nicht kein keine keinen nie oder ohne "
    "außer ne pas sans sauf ou jamais aucun excepto nunca ni sin o senza tranne mai sem exceto nem não zonder niet geen "
    "nooit behalve"
)
"""Words that turn a statement round or offer a choice, in the languages of the question words below."""
CHANGING = _TURNING | word_set(
    "more than less fewer least most over under above below between up down half twice double triple third quarter times "
    "fold minus plus negative positive opposite inverse reciprocal square squared cube cubed root hundred thousand "
    "million billion dozen per and almost nearly other another mehr weniger als mindestens höchstens über unter halb "
    "doppelt mal und moins et demi fois más menos mitad veces más y e più meno metà volte mais metade vezes meer minder "
    "half keer maal dan en"
)
"""Words that may make another number of a number."""
_ASKS = word_set(
    "how what which who whom where when wie was welche welcher welches wer wo wann wieviel combien quel quelle quels "
    "quelles qui où quand cuántos cuántas cuánto cuál qué quién dónde quanti quante quanto quale chi dove quantos quantas "
    "qual quem onde hoeveel wat welke waar"
)
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")


def agreed(text: str, decide: Callable[[str], Finding]) -> Finding:
    """The finding on which all claims of a text agree; undecided where one is, or where two differ."""
    before, parts = _claims(text)
    if not parts:
        return undecided("several_results", text)
    found = [decide(part) for part in parts]
    # A result that stands alone in the first line counts too: a base model goes on with questions of its own.
    line = before.strip().partition("\n")[0]
    first = decide(line) if line else None
    if first is not None and first.status == "scored":
        found.append(first)
    unclear = next((one for one in found if one.score is None), None)
    if unclear is not None:
        return unclear
    return found[0] if len({one.score for one in found}) == 1 else undecided("several_results", text)


def _claims(text: str) -> tuple[str, list[str]]:
    """What stands before the first announcement, and each sentence that announces with what follows; or all."""
    ends = [end.end() for end in _BOUNDARY.finditer(text)]
    starts: list[int] = []
    for mark in _MARKER.finditer(text):
        place = bisect_right(ends, mark.start())
        start = ends[place - 1] if place else 0
        if start not in starts[-1:]:
            starts.append(start)
    if not starts:
        return "", [_unwrapped(text)]
    before = text[: starts[0]]
    if len(starts) > MOST_CLAIMS or _ANOTHER.search(before):
        return before, []
    pieces = zip(starts, [*starts[1:], len(text)], strict=True)
    return before, [_unwrapped(text[start:end]) for start, end in pieces]


def _unwrapped(text: str) -> str:
    """A text without the marks of boxes, of LaTeX's text and of quotations; a box that is not closed stays."""
    for _ in range(MOST_CLAIMS):
        box = _BOX.search(text)
        if box is None:
            break
        depth, place = 1, box.end()
        for brace in re.finditer(r"[{}]", text[box.end() : box.end() + 2000]):
            depth += 1 if brace[0] == "{" else -1
            if depth == 0:
                place = box.end() + brace.end()
                break
        if depth:
            break
        text = text[: box.start()] + text[box.end() : place - 1] + text[place:]
    text = _WRAPPED.sub(r"\1", text)
    return _QUOTED.sub(lambda m: next(part for part in m.groups() if part is not None), text).strip()


def cores(claim: str, question: str = "") -> Iterator[str]:
    """A claim, and what is left of it as harmless words are taken off its two ends, one step after another."""
    text = claim.strip()
    yield text
    asked = _question(question)
    for _ in range(_MOST_STEPS):
        lead, tail = _LEAD.match(text), _TAIL.search(text, max(0, len(text) - _LONGEST_TAIL))
        if lead is not None and lead.end():
            text = text[lead.end() :]
        elif tail is not None:
            text = text[: tail.start()]
        elif asked is not None:
            shorter = _restated(text, asked)
            if shorter is None:
                return
            text = shorter
        else:
            return
        yield text


def _question(question: str) -> str | None:
    """A question in one form, or None where it may turn a statement round or is in no language that is known."""
    words = known_words(question)
    return None if not words or words & _TURNING else " ".join(question.casefold().split()).rstrip(" ?.:")


def known_words(question: str) -> frozenset[str]:
    """The words of a question that an answer may repeat; none where its language is not known or it negates."""
    words = frozenset(word.casefold() for word in _WORD.findall(question))
    if not words & _ASKS or any(word.endswith(("n't", "n’t")) for word in words):
        return frozenset()
    return words


def _restated(text: str, asked: str) -> str | None:
    """A claim without the question's words: "The capital of Norway is Oslo", "Oslo is the capital of Norway"."""
    folded = text.casefold()
    subject = re.match(rf"\w+\s({_IS})\s{_ARTICLE}?(\S.*)", asked)
    if subject and (stated := re.match(rf"{re.escape(subject[2])}\s{subject[1]}\s", folded)):
        return text[stated.end() :]
    for start in re.finditer(r"\s(?=\S+\s\S)", asked):
        if folded.endswith(asked[start.start() :]):
            return text[: len(text) - len(asked) + start.start()]
    return None
