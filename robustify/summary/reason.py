"""Reasons for the results of guardrails, audits and certificates: codes that the report turns into sentences."""

from typing import Literal, Union

from pydantic import Field

from robustify.summary.quantity import Part

AuditorKind = Literal["leave_one_out", "non_voter", "heuristic", "probe", "encoder", "voter"]
ReasonValue = Union[bool, int, float, str, "Reason", tuple["Reason", ...], tuple[str, ...], None]


class Reason(Part):
    """Reason, as a code with parameters that may contain further reasons."""

    code: str
    params: dict[str, ReasonValue] = Field(default_factory=dict)

    @classmethod
    def of(cls, code: str, **params: ReasonValue) -> "Reason":
        """Build a reason from its code and parameters."""
        return cls(code=code, params=params)

    def nested(self, name: str) -> tuple["Reason", ...]:
        """Return the reasons nested in a parameter, or an empty tuple if it has none."""
        found = self.params.get(name)
        every = found if isinstance(found, tuple) else (found,)
        return tuple(one for one in every if isinstance(one, Reason))
