"""Words of an answer as they are compared: folded, without articles and emphasis; refusals and symbols told apart.

Comparison is of whole tokens. A text with operators, arrows or indices is a formula: only its exact characters can be
compared, because dropping an operator would make opposites equal.
"""

import re
import unicodedata
from functools import lru_cache

_TOKEN = re.compile(r"(?<!\w)-?\d+(?:[.,:/]\d+)*%?|[^\W\d_]+(?:['’][^\W\d_]+)*\d*|\w+")
_ARTICLES = frozenset(("a", "an", "the"))
_EMPHASIS = re.compile(r"(?<!\w)(\*{1,3}|_{1,3}|`{1,3})(?=\S)([^*_`\n]{1,300}?)(?<=\S)\1(?!\w)")
_SYMBOLIC = re.compile(
    r"[=<>+±×÷·√∑∫∂∆∇≠≈≤≥≡∝→←↔⇌⇒⇐⟶^_\\{}|~]|[−–](?=\s?\d)|->|<-|=>|\*|(?<=\d)\s?/\s?(?=[^\W\d_])|(?<=[^\W\d_])\s?/\s?(?=\d)"
)
_SORRY = (
    r"(?:(?:i['’]?m|i\s+am)\s+(?:(?:very|so|really)\s+)?(?:sorry|afraid)"
    r"|sorry|apologies|unfortunately|well|honestly|as\s+an\s+ai(?:\s+\w+){0,3})"
)
_REFUSAL = re.compile(
    rf"\W*(?:{_SORRY}\W+(?:but\s+|that\s+)?)*"
    r"i(?:\s+(?:really|simply|just|honestly))?"
    r"(?:\s+(?:do\s+not|don['’]?t)\s+(?:know|have\s+(?:an?\s+answer|enough|the|that|any|access))"
    r"|\s+(?:can\s?not|can['’]?t|could\s+not|am\s+unable\s+to|am\s+not\s+able\s+to)"
    r"\s+(?:answer|determine|help|assist|provide|say|tell|give|respond|comply)"
    r"|['’]?m\s+(?:unable|not\s+able)\s+to\s+(?:answer|determine|help|assist|provide|say|tell|give|respond|comply)"
    r"|(?:\s+am|['’]?m)\s+not\s+(?:sure|certain)[\s.!]*$)",
    re.IGNORECASE,
)
_REFUSAL_ALONE = re.compile(
    r"\W*(?:unknown|not\s+known|idk|n/a|n\.a\.|no\s+(?:answer|idea|clue)|none\s+given|i\s+refuse"
    r"|(?:it|this|that|the\s+(?:answer|question))\s+(?:can\s?not|can['’]?t)\s+be\s+(?:answered|determined)"
    r"|(?:not\s+enough|insufficient)\s+information)\W*",
    re.IGNORECASE,
)
REFUSAL_WORDS = 40
"""Words up to which a text that begins like a refusal is one; a longer one goes on to say something."""


def plain_text(text: str) -> str:
    """NFKC, blanks collapsed, Markdown emphasis taken off."""
    return _EMPHASIS.sub(r"\2", " ".join(unicodedata.normalize("NFKC", text).split()))


@lru_cache(maxsize=4096)
def normalize_tokens(text: str) -> tuple[str, ...]:
    """The words and numbers of a text, folded, articles left out. "0.5" and "-5" are one token each."""
    folded = plain_text(text).casefold().replace("’", "'").replace("\u2212", "-")
    tokens = tuple(_TOKEN.findall(folded))
    # A text that is an article alone may be the letter A.
    return tuple(token for token in tokens if token not in _ARTICLES) or tokens


def squash(text: str) -> str:
    """The characters of a formula: NFKC, no blanks, no `$`, no emphasis, signs in one form; case is kept."""
    plain = plain_text(text).replace("\u2212", "-").replace("$", "")
    return "".join(plain.split()).rstrip(".")


def is_symbolic(text: str) -> bool:
    """Whether a text has an operator, an arrow, an index or braces, so that its words are not all it says."""
    return _SYMBOLIC.search(plain_text(text)) is not None


def is_refusal(text: str) -> bool:
    """Whether a short text says that there is no answer: it begins so, or says nothing else."""
    if len(text) > 1000 or len(text.split()) > REFUSAL_WORDS:
        return False
    return _REFUSAL.match(text) is not None or _REFUSAL_ALONE.fullmatch(text) is not None
