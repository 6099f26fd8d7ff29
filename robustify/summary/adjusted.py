"""What the weights of the adjusted score rest on, what they are worth, and what probes of another kind still find."""

from typing import Literal

from robustify.summary.quantity import P, Part, Quantity, Share
from robustify.summary.reason import AuditorKind, Reason

Adjust = Literal["form", "form+meaning"]
"""What the weights balance: the form and words of options, and beside them what a sentence encoder makes of them."""
WITH_MEANING: Adjust = "form+meaning"
AdjustedStatus = Literal["adjusted", "partly adjusted", "withheld"]


class LeftToFind(Quantity):
    """What an auditor gets right under the weights less chance; `before`: the same without weights. `p` is one-sided."""

    kind: AuditorKind | None = None
    before: Share
    p: P
    p_holm: P


class Adjustment(Part):
    """Weights on `n` items under which none of `columns` pays; they are `worth` so many items of equal weight.

    `withheld` with a reason: too few items are left to say anything. `partly adjusted`: some auditor of `left` still finds
    keys, at 5 % after Holm.
    """

    status: AdjustedStatus
    n: int
    worth: float
    largest_share: Share
    columns: tuple[str, ...]
    left: dict[str, LeftToFind]
    reason: Reason | None
