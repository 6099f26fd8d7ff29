"""Building blocks of the summary: frozen models, and quantities with a number of items and an interval."""

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
    """Part of the summary, null if it was not measured."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def tree(self) -> dict[str, Any]:
        """Return the part as a JSON object."""
        return self.model_dump(mode="json")


class Quantity(Part):
    """Number with its sample size and 95 % interval. Unknown fields are null."""

    value: float | None = None
    n: int | None = None
    ci: Interval | None = None

    @classmethod
    def of(cls, measured: "Rate | Difference | Quantity", **more: Any) -> Self:
        """Build the quantity from a rate, a difference, or a quantity, and from the other fields of the class."""
        return cls(value=measured.value, n=measured.n, ci=measured.ci, **more)
