"""Why a guardrail, an audit or a certificate says what it says: a code with parameters.

The sentence of each code is in the report; nothing here is meant to be read by people.
"""

from typing import Literal, Union

from pydantic import Field

from robustify.summary.quantity import Part

AuditorKind = Literal["leave_one_out", "non_voter", "heuristic", "probe", "encoder", "voter"]
ReasonValue = Union[bool, int, float, str, "Reason", tuple["Reason", ...], tuple[str, ...], None]


class Reason(Part):
    """A code and its parameters; a parameter may hold further reasons."""

    code: str
    params: dict[str, ReasonValue] = Field(default_factory=dict)

    @classmethod
    def of(cls, code: str, **params: ReasonValue) -> "Reason":
        """Return the reason with these parameters."""
        return cls(code=code, params=params)

    def nested(self, name: str) -> tuple["Reason", ...]:
        """Return the reasons that a parameter holds; empty if it holds none."""
        found = self.params.get(name)
        every = found if isinstance(found, tuple) else (found,)
        return tuple(one for one in every if isinstance(one, Reason))
