"""Cloze: which items can be asked without showing their choices.

An item is left out with a reason, never in silence; what a profile does not mention it keeps.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, model_validator

from robustify.baselines.wording import points_elsewhere
from robustify.errors import DataError
from robustify.files import text_lines
from robustify.item import Item

Profile = Literal["cross-ref", "seed", "strict", "labels"]

DECISION = '{"id": "...", "is_mcqa_only": true or false}'
LONG_ANSWER = 200
"""Code points of a choice beyond which its continuation is an essay (profile `strict`)."""


class ClozeSettings(BaseModel):
    """Which items are left out of the cloze split: a profile, or `labels`, a file of decisions."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    profile: Profile = "cross-ref"
    labels: str | None = None

    @model_validator(mode="after")
    def _labels_belong_together(self) -> "ClozeSettings":
        if (self.profile == "labels") != (self.labels is not None):
            raise ValueError("profile: labels and labels: FILE go together; expected both or neither")
        return self


def excluded(items: Sequence[Item], settings: ClozeSettings) -> dict[str, str]:
    """The reason why each left-out item cannot be asked as cloze, by item id.

    Raises:
        UsageError: there is no file of labels at that path.
        DataError: the file of labels is not one, or it does not decide every item.
    """
    labels = None if settings.labels is None else read_labels(Path(settings.labels))
    missing = [] if labels is None else [item.id for item in items if item.id not in labels]
    if missing:
        raise DataError(
            f"{settings.labels}: no label for {len(missing)} of {len(items)} items (first {missing[0]}); "
            "expected one for each"
        )
    reasons = {item.id: exclusion(item, settings.profile, labels) for item in items}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def exclusion(item: Item, profile: Profile, labels: Mapping[str, bool] | None = None) -> str | None:
    """Why an item is left out of the cloze split under a profile; None where it stays.

    `empty_choice` and `repeated_key_text` hold in every profile: no scoring of texts can tell such choices
    apart. `cross-ref` adds choices that speak of other choices; `seed` the four phrases of the first draft of
    this protocol, in stem or choices; `strict` everything a stem may need its choices for; `labels`
    somebody's decisions instead, by item id (true: cannot be cloze).
    """
    if not all(c.strip() for c in item.choices):
        return "empty_choice"
    if item.key_text_repeated():
        return "repeated_key_text"
    match profile:
        case "cross-ref":
            return cross_reference(item)
        case "seed":
            return _seed(item)
        case "strict":
            return cross_reference(item) or _strict(item)
        case "labels":
            return "labelled" if labels is not None and labels.get(item.id, False) else None


_LINK = r"(?:\s*,\s*(?i:and|or)\s+|\s*,\s*|\s*(?:&|/)\s*|\s+(?i:and|or|nor)\s+)"
_LEAD = r"(?i:(?:both|either|neither|only|all of|none of|answers?|choices?|options?|statements?)\s+)"
_TAIL = r"(?:\s+(?i:only|alone|both))"


def _marks(mark: str) -> str:
    """One mark with a word that makes it a reference, or several joined."""
    return rf"{_LEAD}+{mark}{_TAIL}?|{mark}{_TAIL}|{_LEAD}*{mark}(?:{_LINK}{mark})+{_TAIL}?"


_LETTERS = re.compile(_marks(r"\(?[A-Za-z]\)?"))
_STATEMENTS = re.compile(
    _marks(r"\(?(?:[IVX]{1,4}|[ivx]{1,4})\)?")
    + rf"|\d(?:{_LINK}\d)*\s+(?i:only|alone)|(?i:both)\s+\d{_LINK}\d"
)


def cross_reference(item: Item) -> str | None:
    """Return `cross_reference` if an option speaks of other options, by letter, number or place; else None."""
    texts = [choice.strip().rstrip(".") for choice in item.choices]
    by_letter = [_names_choices(text, item.k) for text in texts]
    # Where every choice is made of letters, the letters stand for things of the stem (bases, genes, points).
    found = any(by_letter) and not all(by_letter)
    refers = found or any(points_elsewhere(t) or _STATEMENTS.fullmatch(t) for t in texts)
    return "cross_reference" if refers else None


def _names_choices(text: str, k: int) -> bool:
    if _LETTERS.fullmatch(text) is None:
        return False
    return all(ord(c) - ord("A") < k for c in re.findall(r"\b[A-Z]\b", text.upper()))


_SEED_STEM = re.compile(r"\bwhich of the following\b", re.IGNORECASE)
_SEED_CHOICE = re.compile(r"\b(?:all|none) of the above\b|\bboth \(?a\)? and \(?b\b", re.IGNORECASE)


def _seed(item: Item) -> str | None:
    if any(_SEED_CHOICE.search(text) for text in (item.stem, *item.choices)):
        return "cross_reference"
    return "stem_refers_to_choices" if _SEED_STEM.search(item.stem) else None


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


def read_labels(path: Path) -> Mapping[str, bool]:
    """Decisions by item id (true: cannot be cloze) from JSON lines `{"id": ..., "is_mcqa_only": true}`.

    The field is that of the judge of Deep Ignorance (appendix I.5), so its output can be read as it is.

    Raises:
        UsageError: there is no such file.
        DataError: lines that are no such decisions, all of them named.
    """
    labels: dict[str, bool] = {}
    faults: list[str] = []
    for number, line in enumerate(text_lines(path, "the labels of cloze.labels"), start=1):
        if not line.strip():
            continue
        match _decision(line):
            case (name, _) if name in labels:
                faults.append(f"{path}:{number}: the id of an earlier line; expected one decision an item")
            case (name, decided):
                labels[name] = decided
            case _:
                faults.append(f"{path}:{number}: no decision; expected {DECISION}")
    if faults:
        raise DataError.gather(faults)
    return labels


def _decision(line: str) -> tuple[str, bool] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    match row:
        case {"id": str(name), "is_mcqa_only": bool(decided)}:
            return name, decided
    return None
