"""Building blocks of the summary: frozen models, quantities with an interval, reasons, and numbers of measures."""

from typing import Annotated, Any, Literal, Union

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import Self

from robustify.judging.stats.intervals import Rate
from robustify.judging.stats.tests import Difference

Interval = tuple[float, float]
Share = Annotated[float, Field(json_schema_extra={"unit": "share of items"})]
P = Annotated[float, Field(json_schema_extra={"unit": "probability"})]
Nats = Annotated[float, Field(json_schema_extra={"unit": "nats"})]
AuditorKind = Literal["leave_one_out", "non_voter", "heuristic", "probe", "encoder"]
ReasonValue = Union[bool, int, float, str, "Reason", tuple["Reason", ...], tuple[str, ...], None]


class Part(BaseModel):
    """Part of the summary, which is null if it was not measured."""

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
    def from_rate(cls, measured: "Rate | Difference | Quantity", **more: Any) -> Self:
        """Build the quantity from a rate, a difference, or a quantity, and from the other fields of the class."""
        return cls(value=measured.value, n=measured.n, ci=measured.ci, **more)


class Reason(Part):
    """Reason for a state or a result, as a code with parameters that may contain further reasons."""

    code: str
    params: dict[str, ReasonValue] = Field(default_factory=dict)

    @classmethod
    def of(cls, code: str, **params: ReasonValue) -> "Reason":
        """Build a reason from its code and parameters."""
        return cls(code=code, params=params)

    def nested(self, name: str) -> tuple["Reason", ...]:
        """Return the reasons nested in a parameter, or an empty tuple if it has none."""
        value = self.params.get(name)
        reasons = value if isinstance(value, tuple) else (value,)
        return tuple(reason for reason in reasons if isinstance(reason, Reason))


class Score(Quantity):
    """Value of a measure on some items, or the reason why it is `withheld`. `chance` is mean(1/k), and `expected` the
    chance accuracy of a rule after selection. If a value is not `significant`, `mde` is the change detectable with 80 %
    power. `p` is one-sided, and `ties` counts the ties of a rule."""

    chance: Share | None = None
    expected: Share | None = None
    significant: bool | None = None
    mde: Share | None = None
    p: P | None = None
    p_holm: P | None = None
    ties: int | None = None
    withheld: str | None = None


class Measured(Part):
    """Values of one measure on all, kept and flagged items, and for a rule also on items fit for cloze."""

    all: Score | None = None
    kept: Score | None = None
    flagged: Score | None = None
    cloze: Score | None = None


class Measures(Part):
    """Measures of the whole set, of each model, and of each rule. A measure without a value is absent."""

    set: dict[str, Measured]
    model: dict[str, dict[str, Measured]]
    rule: dict[str, dict[str, Measured]]
