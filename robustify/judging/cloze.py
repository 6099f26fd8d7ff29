"""Selection of items that can be asked as cloze, without showing their choices. Every exclusion has a reason."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from robustify.base.errors import DataError, Notice
from robustify.base.files import text_lines
from robustify.items.item import Item
from robustify.judging.baselines.wording import points_elsewhere

Profile = Literal["cross-ref", "strict", "labels"]

DECISION = '{"id": "...", "is_mcqa_only": true or false}'
LONG_ANSWER = 200
"""Number of code points above which a choice is too long for cloze (profile `strict`)."""


class ClozeSettings(BaseModel):
    """Settings that exclude items from cloze, by a profile or by a file of decisions (`labels`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    profile: Profile = "cross-ref"
    labels: str | None = None

    @model_validator(mode="after")
    def _labels_belong_together(self) -> "ClozeSettings":
        if (self.profile == "labels") != (self.labels is not None):
            raise ValueError("`profile: labels` and `labels: FILE` belong together. Set both or neither.")
        return self


def excluded(items: Sequence[Item], settings: ClozeSettings) -> dict[str, str]:
    """Return the reason why each excluded item cannot be asked as cloze, by item ID. Raise `UsageError` if the file of
    labels does not exist, and `DataError` if it is invalid or does not cover every item."""
    labels = None if settings.labels is None else cloze_labels(Path(settings.labels))
    missing = [] if labels is None else [item.id for item in items if item.id not in labels]
    if missing:
        raise DataError(
            f"{settings.labels}: {len(missing)} of {len(items)} items have no label (first: {missing[0]}). "
            "Label every item, or use another profile.",
            code="unlabelled-items",
        )
    reasons = {item.id: exclusion(item, settings.profile, labels) for item in items}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def exclusion(item: Item, profile: Profile, labels: Mapping[str, bool] | None = None) -> str | None:
    """Return the reason why an item is excluded from cloze under a profile, or None if the item is kept.

    Every profile excludes `empty_choice` and `repeated_key_text`. `cross-ref` adds choices that refer to other choices,
    and stems that refer to them as "of the following". `strict` adds every stem that may need its choices. `labels`
    uses given decisions by item ID instead (true: cannot be cloze).
    """
    if not all(c.strip() for c in item.choices):
        return "empty_choice"
    if item.key_text_repeated():
        return "repeated_key_text"
    match profile:
        case "cross-ref":
            return cross_reference(item) or _lists(item)
        case "strict":
            return cross_reference(item) or _lists(item) or _strict(item)
        case "labels":
            return "labelled" if labels is not None and labels.get(item.id, False) else None


_LINK = r"(?:\s*,\s*(?i:and|or)\s+|\s*,\s*|\s*(?:&|/)\s*|\s+(?i:and|or|nor)\s+)"
_LEAD = r"(?i:(?:both|either|neither|only|all of|none of|answers?|choices?|options?|statements?)\s+)"
_TAIL = r"(?:\s+(?i:only|alone|both))"


def _marks(mark: str) -> str:
    """Return a pattern for one mark next to a referring word (such as "both"), or for several marks in a list."""
    return rf"{_LEAD}+{mark}{_TAIL}?|{mark}{_TAIL}|{_LEAD}*{mark}(?:{_LINK}{mark})+{_TAIL}?"


_LETTERS = re.compile(_marks(r"\(?[A-Za-z]\)?"))
_STATEMENTS = re.compile(
    _marks(r"\(?(?:[IVX]{1,4}|[ivx]{1,4})\)?")
    + rf"|\d(?:{_LINK}\d)*\s+(?i:only|alone)|(?i:both)\s+\d{_LINK}\d"
)


def cross_reference(item: Item) -> str | None:
    """Return "cross_reference" if a choice refers to others by letter, number, or position, and otherwise None."""
    texts = [choice.strip().rstrip(".") for choice in item.choices]
    refers = any(refer_to_others(item.choices)) or any(map(_STATEMENTS.fullmatch, texts))
    return "cross_reference" if refers else None


def refer_to_others(choices: Sequence[str]) -> list[bool]:
    """Return which choices refer to others by letter or position, such as "both A and B" or "all of the above"."""
    texts = [choice.strip().rstrip(".") for choice in choices]
    by_letter = [_names_choices(text, len(texts)) for text in texts]
    # If every choice consists of letters, they name things in the stem (bases, genes, points).
    return [
        points_elsewhere(t) or (own and not all(by_letter)) for t, own in zip(texts, by_letter, strict=True)
    ]


_LISTED = re.compile(
    r"\b(?:of|from|among) the following\b|\bwhich (?:one |ones )?of (?:these|those)\b", re.IGNORECASE
)


def _lists(item: Item) -> str | None:
    return "stem_refers_to_choices" if _LISTED.search(item.stem) else None


_NAMED = re.compile(r"\b(?:option|choice|answer)s?\s+\(?[A-Z]\b")


def keeps_order(item: Item) -> bool:
    """Return whether the order of an item's choices matters, because a choice or the stem refers to it."""
    return cross_reference(item) is not None or _NAMED.search(item.stem) is not None


def _names_choices(text: str, k: int) -> bool:
    if _LETTERS.fullmatch(text) is None:
        return False
    return all(ord(c) - ord("A") < k for c in re.findall(r"\b[A-Z]\b", text.upper()))


_DEIXIS = re.compile(
    r"\bwhich (?:one |ones |two |pair )?of (?:the |these |those )"
    r"|\b(?:which|what) (?:statement|option|choice|answer|pair|phrase|sentence|combination|example)s?\b"
    r"|\b(?:the|these|those) (?:following|options?|choices?|answers?) (?:is|are|below|above|given|listed)\b"
    r"|\bof the following\b|\b(?:select|choose|pick|mark|identify) (?:the|one|all|an?)\b",
    re.IGNORECASE,
)
_NEGATIVE = re.compile(
    r"\b(?:NOT|EXCEPT|LEAST|INCORRECT|FALSE)\b|\b[Ee]xcept\b"
    r"|\b[Ww](?:hich|hat|ho)\b.*(?:\b(?:not|never|least likely|false|incorrect)\b|n['’]t\b)"
)
_ENDED = re.compile(r"[.?!][\"'”’)\]]*$")


def _strict(item: Item) -> str | None:
    stem = item.stem.strip()
    question = re.split(r"[.?!]\s+", stem)[-1]
    if _DEIXIS.search(question):
        return "stem_refers_to_choices"
    if _NEGATIVE.search(question):
        return "negative_stem"
    if not _ENDED.search(stem) or re.search(r"_{2,}", stem):
        return "incomplete_stem"
    if max(len(c.strip()) for c in item.choices) > LONG_ANSWER:
        return "long_answer"
    return None


class _Decision(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)

    id: str
    is_mcqa_only: bool


def cloze_labels(path: Path) -> Mapping[str, bool]:
    """Read decisions on whether items are unsuited to cloze, by item ID. Each JSON line is `{"id": ...,
    "is_mcqa_only": true}`, as the judge of Deep Ignorance (appendix I.5) writes it. Raise `UsageError` if the file
    does not exist, and `DataError` with all lines that are not decisions."""
    labels: dict[str, bool] = {}
    faults: list[str] = []
    for number, line in enumerate(text_lines(path, "the labels of cloze.labels"), start=1):
        if not line.strip():
            continue
        try:
            decision = _Decision.model_validate_json(line)
        except ValidationError:
            faults.append(
                Notice(f"{path}:{number}: not a decision. Expected {DECISION}.", code="invalid-decision")
            )
            continue
        if decision.id in labels:
            repeated = f"{path}:{number}: the ID repeats that of an earlier line. Remove one of them."
            faults.append(Notice(repeated, code="repeated-label"))
        labels.setdefault(decision.id, decision.is_mcqa_only)
    if faults:
        raise DataError.gather(faults)
    return labels
