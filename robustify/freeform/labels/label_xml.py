"""Labels in `<label>` elements. No XML parser is run on a reply: nothing but this closed grammar is read.

So there is no entity to expand and no document to fetch. A reply with a document type, a declaration or an entity
other than the five of XML has no XML candidate.
"""

import html
import re
from collections.abc import Iterator

from robustify.freeform.labels.candidate import Candidate, numbered
from robustify.freeform.labels.label_json import MOST_SPANS, index_of
from robustify.freeform.labels.sets import LabelSet
from robustify.freeform.labels.spans import last_match

_ELEMENT = re.compile(
    r"<label(?:\s+(?:id|k|index|n)\s{0,9}=\s{0,9}[\"']?([^\"'<>]{0,20})[\"']?)?\s{0,9}>([^<>]{0,200})</label\s{0,9}>",
    re.IGNORECASE,
)
_BLANKS = re.compile(r"\s*")
_OPEN = re.compile(r"<labels(?:\s[^<>]*)?>", re.IGNORECASE)
_CLOSE = re.compile(r"</labels\s{0,9}>", re.IGNORECASE)
_DECLARES = re.compile(r"<!(?:DOCTYPE|ENTITY|\[)", re.IGNORECASE)
_FOREIGN_ENTITY = re.compile(r"&(?!(?:amp|lt|gt|quot|apos);)")
_CUT_ELEMENT = re.compile(r"\s{0,99}(?:<[^<>]{0,60}>?[^<>]{0,60}(?:<[^<>]{0,20})?)?\s{0,99}")


def xml_candidates(text: str, labels: LabelSet) -> Iterator[Candidate]:
    """Every run of `<label>` elements: inside `<labels>`, bare, or cut off."""
    if "<" not in text or _DECLARES.search(text):
        return
    for run in _runs(text)[-MOST_SPANS:]:
        first, last = run[0].start(), run[-1].end()
        wrapper = _wrapper(text, first)
        closing = _CLOSE.match(text, _BLANKS.match(text, last).end())  # type: ignore[union-attr]
        entries = [element[2] for element in run]
        if any(_FOREIGN_ENTITY.search(entry) for entry in entries):
            continue
        read = tuple(labels.read(html.unescape(entry)) for entry in entries)
        indices = numbered([index_of(element[1]) for element in run])
        if wrapper is None:
            if any(read):
                yield Candidate(first, last, "xml", read, indices)
        elif closing is not None:
            yield Candidate(wrapper, closing.end(), "xml", read, indices)
        elif _CUT_ELEMENT.fullmatch(text, last) and any(read):
            yield Candidate(wrapper, len(text), "xml", read, indices, truncated=True)


def _runs(text: str) -> "list[list[re.Match[str]]]":
    """Elements with nothing but blanks between them."""
    runs: list[list[re.Match[str]]] = []
    for element in _ELEMENT.finditer(text):
        if runs and not text[runs[-1][-1].end() : element.start()].strip():
            runs[-1].append(element)
        else:
            runs.append([element])
    return runs


def _wrapper(text: str, first: int) -> int | None:
    """Where `<labels>` opens right before the first element, or None."""
    before = text[max(0, first - 200) : first].rstrip()
    last = last_match(_OPEN, before)
    if last is None or last.end() != len(before):
        return None
    return max(0, first - 200) + last.start()
