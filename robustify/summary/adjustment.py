"""Summary of the adjusted score: its weights, their effective sample size, and the shortcuts that remain."""

from typing import Literal

from robustify.summary.quantity import P, Part, Quantity, Share
from robustify.summary.reason import AuditorKind, Reason

Adjust = Literal["form", "form+meaning"]
"""What the weights balance: the form and words of options, or also their meaning by a sentence encoder."""
WITH_MEANING: Adjust = "form+meaning"
AdjustedStatus = Literal["adjusted", "partly adjusted", "withheld"]


class LeftToFind(Quantity):
    """Accuracy of an auditor minus chance, after weighting and `before` it. `p` is one-sided."""

    kind: AuditorKind | None = None
    before: Share
    p: P
    p_holm: P


class Adjustment(Part):
    """Weights on `n` items that make each cue in `columns` useless, with an effective sample size of `worth`.

    The status `withheld` has a reason: too few items are left for a result. `partly adjusted` means that some auditor in
    `left` still finds keys at 5 % after Holm's correction.
    """

    status: AdjustedStatus
    n: int
    worth: float
    largest_share: Share
    columns: tuple[str, ...]
    left: dict[str, LeftToFind]
    reason: Reason | None
