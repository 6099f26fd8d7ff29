"""What a field of the summary is: its kind, its unit and its disclosure class, declared where the field is.

A field without a class does not import. `places` lists every place that may leave a restricted run; how coarse each kind
becomes there is decided in `robustify/disclosure`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Protocol, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, model_serializer
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema
from typing_extensions import Self

Interval = tuple[float, float]
Kind = Literal["rate", "difference", "share", "number", "p", "count", "cell", "setting", "word", "truth",
               "expected count", "interval", "name", "ids", "digest", "reason", "table"]  # fmt: skip
"""`cell`: a count that may be too small to be shown; `word`: one of our own; `name`: somebody else's."""
Release = Literal["shown", "remade", "whole", "never"]
"""`shown`, made coarse; `remade` from what else is shown; as the `whole` quantity that it is part of; `never`."""
Base = Literal["", "robust", "shortcut", "own", "answered"]
"""The part that a rate is on. `own`: a part whose size nothing else gives; `answered`: all items that were answered."""
GROUPS = (
    "chance, positions known", "chance", "full question", "probe on what is left", "cloze", "other auditors",
    "latent rate", "surface features", "choices only", "random removal", "D.4's rule", "agreement of voters",
    "keys to review", "pairs on Robust", "contamination", "cloze by other norms", "other rules",
)  # fmt: skip
"""Numbers that depend on which items were flagged, in the order in which the bit budget lets them out."""
OUTER = "(outer)"
"""The group of the field that holds this model."""
UNITS: dict[str, str] = {
    "rate": "share of items", "difference": "difference of shares", "share": "share", "p": "probability",
    "count": "items", "cell": "items", "expected count": "items", "interval": "as the value beside it",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shown:
    """The class of one field.

    `group`: its numbers depend on the flags, and on which group's budget they are; `alone`: of a quantity value, n and
    interval are shown, and nothing that stands beside them.
    """

    kind: Kind
    group: str = ""
    base: Base = ""
    release: Release = "shown"
    alone: bool = False
    unit: str = ""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """The field's JSON Schema with kind, unit and class."""
        unit = self.unit or UNITS.get(self.kind, "")
        group = {} if self.group in ("", OUTER) else {"x-group": self.group}
        return {**handler(schema), "x-kind": self.kind, "x-release": self.release, **group,
                **({"x-unit": unit} if unit else {})}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Within:
    """A field that holds a model of its own, whose fields say what they are; `group` is their `OUTER` one."""

    group: str


def never(kind: Kind, unit: str = "") -> Shown:
    """The class of what never leaves a restricted run."""
    return Shown(kind, release="never", unit=unit)


def remade(kind: Kind, unit: str = "") -> Shown:
    """The class of what is made anew for a release."""
    return Shown(kind, release="remade", unit=unit)


def whole(kind: Kind) -> Shown:
    """The class of a part of a quantity."""
    return Shown(kind, release="whole")


def classes(field: FieldInfo) -> list[Shown]:
    """The disclosure classes that a field declares."""
    return [m for m in field.metadata if isinstance(m, Shown)]


def leaf(annotation: Any) -> tuple[tuple[str, ...], "type[Part] | None"]:
    """The steps through mappings and lists to a field's values, and the part they are, if they are one."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return leaf(inner[0])
    if origin in (Union, UnionType):
        found = [leaf(one) for one in inner if one is not NoneType]
        return max(found, key=lambda one: (one[1] is not None and not one[1].measured, len(one[0])))
    if origin is dict or (origin is tuple and inner[1:] == (...,)) or annotation == Interval:
        steps, part = leaf(inner[-1] if origin is dict else inner[0])
        return ("*" if origin is dict else "[]", *steps), part
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return (), annotation
    return (), None


class Part(BaseModel):
    """A part of the summary; what was not measured is null.

    `closed`: nothing inside is shown by itself, so its fields need no class; `measured`: a quantity, whose class the field
    that holds it declares.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    closed: ClassVar[bool] = False
    measured: ClassVar[bool] = False

    def tree(self) -> dict[str, Any]:
        """The part as it is in `summary.json`."""
        return self.model_dump(mode="json")

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse a field without a disclosure class."""
        super().__pydantic_init_subclass__(**kwargs)
        for name, field in cls.model_fields.items():
            part = leaf(field.annotation)[1]
            plain = part is None or part.measured
            if not cls.closed and plain and not classes(field):
                raise TypeError(
                    f"{cls.__name__}.{name}: no disclosure class; expected one, such as never(...)"
                )


class Measured(Protocol):
    """A number as `stats` gives it."""

    @property
    def value(self) -> float | None:
        """The number."""

    @property
    def n(self) -> int:
        """The items it rests on."""

    @property
    def ci(self) -> Interval | None:
        """Its 95 % interval."""


class MeasuredDifference(Measured, Protocol):
    """A difference as `stats` gives it."""

    @property
    def mde(self) -> float | None:
        """Beside a null result the difference that would have been detected."""


class Quantity(Part):
    """A number, the items it rests on and its 95 % interval; `withheld` says why a release does not show it."""

    measured: ClassVar[bool] = True

    value: Annotated[float | None, whole("number")] = None
    n: Annotated[int | None, whole("count")] = None
    ci: Annotated[Interval | None, whole("interval")] = None
    withheld: Annotated[str | None, whole("word")] = None

    @classmethod
    def of(cls, measured: Measured, **beside: Any) -> Self:
        """The quantity of a rate or a difference, with what stands beside it."""
        return cls(value=measured.value, n=measured.n, ci=measured.ci, **beside)

    @model_serializer(mode="wrap")
    def _without_withheld(self, handler: Any) -> dict[str, Any]:
        tree: dict[str, Any] = handler(self)
        if tree.get("withheld") is None:
            tree.pop("withheld", None)
        return tree


Number = Annotated[float | None, Shown("number")]
Share = Annotated[float | None, Shown("share")]
OuterShare = Annotated[float | None, Shown("share", OUTER)]
P = Annotated[float | None, Shown("p")]
OuterP = Annotated[float | None, Shown("p", OUTER)]
Count = Annotated[int | None, Shown("count")]
Cell = Annotated[int | Quantity | None, Shown("cell")]
"""A count, or a quantity without a value that says why it is withheld."""
Setting = Annotated[float | None, Shown("setting")]
Word = Annotated[str | None, Shown("word")]
Truth = Annotated[bool | None, Shown("truth")]
Rate = Annotated[Quantity | None, Shown("rate")]
Ends = Annotated[Interval | None, Shown("share")]
Shares = Annotated[tuple[float, ...] | None, Shown("share")]
Hidden = Annotated[float | None, never("number")]
HiddenEnds = Annotated[Interval | None, never("interval")]
HiddenP = Annotated[float | None, never("p")]
HiddenCount = Annotated[int | None, never("count")]
HiddenRate = Annotated[Quantity | None, never("rate")]
HiddenIds = Annotated[tuple[str, ...] | None, never("ids")]
HiddenName = Annotated[str | None, never("name")]


class DifferenceQuantity(Quantity):
    """A difference of two shares. `mde`: beside a null result the difference that 80 % power would have detected."""

    mde: OuterShare = None

    @classmethod
    def from_stats(cls, found: MeasuredDifference) -> Self:
        """The difference with what it would have detected."""
        return cls.of(found, mde=found.mde)


Gap = Annotated[DifferenceQuantity | None, Shown("difference")]


@dataclass(frozen=True, slots=True)
class Place:
    """One place of the summary that may be shown: `*` any name, `[]` any place in a list."""

    path: str
    kind: Kind
    group: str = ""
    base: Base = ""


def places(part: type[Part], at: str = "", group: str = "") -> Iterator[Place]:
    """Every place below a part that may leave a restricted run, in the order of its fields."""
    for name, field in part.model_fields.items():
        steps, inner = leaf(field.annotation)
        path = ".".join((at, name, *steps) if at else (name, *steps))
        found = classes(field)
        own = next((m.group for m in field.metadata if isinstance(m, Within)), group)
        for one in found:
            own = group if one.group == OUTER else one.group
            if one.release == "shown":
                yield Place(path, one.kind, own, one.base)
        shown = not found or any(one.release == "shown" and not one.alone for one in found)
        if inner is not None and shown:
            yield from places(inner, path, own)


def tabulated(part: Part, at: str = "") -> Iterator[dict[str, Any]]:
    """One row for each number, word or truth value that is there: field (its dotted name), value, n, low, high, unit, kind.

    `low` and `high` are the ends of the 95 % interval. What was not measured, or is withheld, has no row.
    """
    for name, field in type(part).model_fields.items():
        found = next(iter(classes(field)), None)
        yield from _rows(getattr(part, name), f"{at}.{name}" if at else name, found)


def _rows(value: object, at: str, shown: Shown | None) -> Iterator[dict[str, Any]]:
    kind = "" if shown is None else shown.kind
    unit = "" if shown is None else shown.unit or UNITS.get(kind, "")
    row = {"field": at, "value": value, "n": None, "low": None, "high": None, "unit": unit, "kind": kind}
    match value:
        case Quantity():
            if value.value is not None:
                low, high = value.ci or (None, None)
                yield {**row, "value": value.value, "n": value.n, "low": low, "high": high}
            beside = Quantity.model_fields.keys()
            yield from (r for r in tabulated(value, at) if r["field"].split(".")[-1] not in beside)
        case Part():
            yield from tabulated(value, at)
        case Mapping():
            for name, one in value.items():
                yield from _rows(one, f"{at}.{name}", shown)
        case tuple() | list():
            for place, one in enumerate(value):
                yield from _rows(one, f"{at}.{place}", shown)
        case None:
            pass
        case _:
            yield row
