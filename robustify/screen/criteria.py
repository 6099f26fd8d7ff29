"""How many right votes flag an item: all of them, more than half, or k of n.

Only counting is known here, no vote and no voter. A criterion that could never be met, or that was written for
another number of voters, is refused and never bent to fit.
"""

import re

from robustify.errors import UsageError

FORMS = "unanimous, majority or k-of-n such as 2-of-3"

_COUNTED = re.compile(r"([0-9]{1,3})-of-([0-9]{1,3})")


def parse_criterion(criterion: str) -> tuple[int, int] | None:
    """The k and n of a `k-of-n` criterion; None for `unanimous` and `majority`.

    Raises:
        ValueError: no criterion, or more votes than voters, or no vote at all.
    """
    if criterion in ("unanimous", "majority"):
        return None
    found = _COUNTED.fullmatch(criterion)
    if found is None:
        raise ValueError(f"no criterion; expected {FORMS}")
    k, n = int(found[1]), int(found[2])
    if not 1 <= k <= n:
        raise ValueError(f"{k} of {n} voters; expected at least 1 and at most all of them ({FORMS})")
    return k, n


def votes_needed(criterion: str, voters: int) -> int:
    """How many right votes of so many voters flag an item; one more than there are where nobody votes.

    Where an audit leaves one voter out, `k-of-n` asks for k of those that remain, at most for all of them.
    """
    match parse_criterion(criterion):
        case (k, _):
            return min(k, max(voters, 1))
        case None:
            return max(voters, 1) if criterion == "unanimous" else voters // 2 + 1


def require_voters(criterion: str, voters: int) -> None:
    """A criterion for n voters fits n voters only; without any voter there is nothing to fit.

    Raises:
        UsageError: it was written for another number.
    """
    match parse_criterion(criterion):
        case (_, n) if voters and n != voters:
            raise UsageError(
                f"screen.criterion: {criterion}, but the number of voters is {voters}; expected k-of-{voters}, "
                f"or {n} voters (screen.voters)"
            )


def criterion_name(votes: int, voters: int) -> str:
    """The plainest criterion under which so many right votes flag an item."""
    if votes == voters:
        return "unanimous"
    return "majority" if votes == voters // 2 + 1 else f"{votes}-of-{voters}"
