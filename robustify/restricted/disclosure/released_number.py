"""A released number, and the names by which the record of releases identifies the number.

A number is known by its measure, its part, and its model or rule, so that a new label in `report/messages.yaml` does not
make it another number. Records of earlier versions knew a number by its name, of which the label was a part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict

from robustify.judging.measures import MEASURES, Disclosed, Measure, PartName, ReleaseGroup, Scope
from robustify.judging.summary.quantity import Score

Kind = Literal["share", "p", "state"]

_PARTS: Mapping[PartName, str] = {"all": "all items", "kept": "items kept"}
_FORMER_LABELS: Mapping[str, tuple[str, ...]] = {
    "reader": ("reader that sees no question", "reader without questions, cross-fitted"),
    "flagged": ("flagged",),
    "flagged_by_chance": ("flagged if keys were random",),
    "excess_p": ("p of the excess",),
    "shortcuts": ("items with a shortcut",),
    "shortcuts_at_least": ("items with a shortcut, at least",),
    "probe": ("fresh probe without questions", "probe without questions"),
    "probe_by_chance": ("chance level of that probe", "the same by chance"),
    "full": ("full question",),
    "choices_only": ("choices only",),
    "cloze_chars": ("cloze",),
    "free": ("free response",),
    "looks": ("owed to looks, claimed or not", "owed to looks"),
    "rule": ("rule",),
}
"""Labels under which records may contain a measure. The record does not use labels any more, so never edit this table."""


class ReleasedNumber(BaseModel):
    """A released number. `value` is null if the number is not shown, for the `reason`, which is otherwise empty. A `state`
    is 1 if it is claimed and 0 if not. `measure`, `subject` (a model or rule), and `part` are its code. The `name` is for
    readers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    measure: str
    subject: str
    part: PartName
    name: str
    group: ReleaseGroup
    kind: Kind
    value: float | None
    n: int | None
    ci: tuple[float, float] | None
    reason: str
    bits: float

    @property
    def code(self) -> Sequence[str]:
        """Code of the number, which does not depend on its value."""
        return ["code", self.measure, self.subject, self.part]

    @property
    def identities(self) -> tuple[object, ...]:
        """Identities of this number in the record of releases: its code and value, then those of earlier versions."""
        shown = self.model_dump(mode="json", exclude={"bits"})
        code = ("measure", "subject", "part")
        former = {field: value for field, value in shown.items() if field not in code}
        names = _former_names(self.measure, self.subject, self.part, self.kind)
        own = {field: value for field, value in shown.items() if field not in ("name", "group")}
        return own, *({**former, "name": name} for name in names)


@dataclass(frozen=True, slots=True)
class Numbering:
    """Measure whose numbers are released, its printable model or rule, and its label."""

    measure: Measure
    disclosed: Disclosed
    subject: str
    label: str

    def number(self, kind: Kind, part: PartName, shown: Score, reason: str, price: float) -> ReleasedNumber:
        """Return a released number of this measure, with its code and name."""
        return ReleasedNumber(
            measure=self.measure.name,
            subject=self.subject,
            part=part,
            name=_name(self.measure.scope, self.label, self.subject, part, kind),
            group=self.disclosed.group,
            kind=kind,
            value=shown.value,
            n=shown.n,
            ci=shown.ci,
            reason=reason,
            bits=price,
        )


def _name(scope: Scope, label: str, subject: str, part: PartName, kind: Kind) -> str:
    """Return the printed name of a number: its measure, its model or rule, and its part of the items if the measure may
    have several."""
    by_rule = f"{label}: {subject.replace('_', ' ')}"
    name = {"set": label, "model": f"{subject}: {label}", "rule": by_rule}[scope]
    return name if scope == "set" or kind == "state" else f"{name}, {_PARTS[part]}"


def _former_names(measure: str, subject: str, part: PartName, kind: Kind) -> tuple[str, ...]:
    """Return the names that the number may have in records of earlier versions."""
    scopes = {measured.name: measured.scope for measured in MEASURES}
    labels = _FORMER_LABELS.get(measure, ())
    return tuple(_name(scopes[measure], label, subject, part, kind) for label in labels)
