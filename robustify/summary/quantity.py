"""What every number of the summary is: a quantity with its items and its interval, in a frozen model."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import Self

from robustify.stats.intervals import Rate
from robustify.stats.tests import Difference

Interval = tuple[float, float]
Share = Annotated[float, Field(json_schema_extra={"unit": "share of items"})]
P = Annotated[float, Field(json_schema_extra={"unit": "probability"})]
Nats = Annotated[float, Field(json_schema_extra={"unit": "nats"})]


class Part(BaseModel):
    """A part of the summary. A part that was not measured is null."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def tree(self) -> dict[str, Any]:
        """Return the part as it is in `summary.json`."""
        return self.model_dump(mode="json")


class Quantity(Part):
    """A number, the items it rests on and its 95 % interval; null what is not known."""

    value: float | None = None
    n: int | None = None
    ci: Interval | None = None

    @classmethod
    def of(cls, measured: Rate | Difference, **more: Any) -> Self:
        """Return the quantity of a rate or a difference, with the other fields of the class."""
        return cls(value=measured.value, n=measured.n, ci=measured.ci, **more)


class DifferenceQuantity(Quantity):
    """A difference of two shares. `mde`: beside a null result the difference that 80 % power would have detected."""

    mde: Share | None = None

    @classmethod
    def from_stats(cls, found: Difference) -> Self:
        """Return the difference with what it would have detected."""
        return cls.of(found, mde=found.mde)
