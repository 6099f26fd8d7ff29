"""What the weights of the adjusted score rest on, what they are worth, and what probes of another kind still find."""

from typing import Literal

from robustify.summary.quantity import P, Part, Quantity, Share
from robustify.summary.reason import Reason

AdjustedStatus = Literal["adjusted", "partly adjusted", "withheld"]


class LeftToFind(Quantity):
    """What a probe gets right under the weights less chance; `before`: the same without weights. `p` is one-sided."""

    before: Share
    p: P
    p_holm: P


class Adjustment(Part):
    """Weights on `n` items under which none of `columns` pays; they are `worth` so many items of equal weight.

    `withheld` with a reason: too few items are left to say anything. `partly adjusted`: some probe of `left` still finds
    keys, at 5 % after Holm.
    """

    status: AdjustedStatus
    n: int
    worth: float
    largest_share: Share
    columns: tuple[str, ...]
    left: dict[str, LeftToFind]
    reason: Reason | None
