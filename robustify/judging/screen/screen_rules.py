"""Rules of the screen and their defaults: how many right votes flag an item, how votes are read, and who may vote."""

import re
from collections.abc import Mapping, Sequence
from itertools import combinations

from pydantic import BaseModel, ConfigDict, Field, field_validator

from robustify.base.errors import UsageError
from robustify.items.scoring import Mode, TextNorm

FDR = "fdr"
FORMS = "fdr, unanimous, majority or k-of-n such as 2-of-3"

_COUNTED = re.compile(r"([0-9]{1,3})-of-([0-9]{1,3})")
_DIGEST = re.compile(r"(?:sha256:)?[0-9a-f]{40,64}")
# These identify a model behind a server, whose files cannot be hashed.
_NAMED = ("model", "revision", "server", "url", "base_url")


class ScreenRules(BaseModel):
    """Rules by which the screen flags an item.

    `criterion: fdr` flags items whose key a cross-fitted scorer picks with enough confidence that at most the share
    `fdr` of the flags is due to chance. The others count right votes: `unanimous`, `majority`, or `2-of-3`. `template`
    defaults to the first one asked, and `voters` to every model that answered. A vote is the pick averaged over the
    orders. `norm` applies to text mode. `force_letters` allows letter mode even if a voter always picks one position.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    criterion: str = FDR
    fdr: float = Field(default=0.1, gt=0, lt=1)
    mode: Mode = "letter"
    template: str | None = None
    voters: tuple[str, ...] = ()
    norm: TextNorm = "chars"
    force_letters: bool = False

    @field_validator("criterion")
    @classmethod
    def _can_be_met(cls, criterion: str) -> str:
        parsed = parse_criterion(criterion)
        return criterion if parsed is None else f"{parsed[0]}-of-{parsed[1]}"

    @field_validator("voters")
    @classmethod
    def _each_votes_once(cls, voters: tuple[str, ...]) -> tuple[str, ...]:
        twice = sorted({v for v in voters if voters.count(v) > 1})
        if twice:
            raise ValueError(f"{twice[0]} is listed twice. List each voter once.")
        return voters


def parse_criterion(criterion: str) -> tuple[int, int] | None:
    """Return the k and n of a `k-of-n` criterion, or None for `fdr`, `unanimous` and `majority`. Raise `ValueError` if
    the criterion is unknown, needs more votes than voters, or needs no vote."""
    if criterion in (FDR, "unanimous", "majority"):
        return None
    match = _COUNTED.fullmatch(criterion)
    if match is None:
        raise ValueError(f"unknown criterion. Expected {FORMS}.")
    k, n = int(match[1]), int(match[2])
    if not 1 <= k <= n:
        raise ValueError(f"{k} of {n} voters is impossible. In `k-of-n`, k must be from 1 to n.")
    return k, n


def votes_needed(criterion: str, voters: int) -> int:
    """Return the number of right votes that flag an item, at least 1. If an audit leaves one voter out, `k-of-n` needs
    k of the remaining voters, but at most all of them."""
    match criterion, parse_criterion(criterion):
        case _, (k, _):
            return min(k, max(voters, 1))
        case "majority", None:
            return voters // 2 + 1
        case "unanimous", None:
            return max(voters, 1)
    raise ValueError(f"The criterion {criterion} does not count votes.")


def require_voters(criterion: str, voters: int) -> None:
    """Raise `UsageError` unless the `n` of a `k-of-n` criterion is the number of voters, if there are any."""
    match parse_criterion(criterion):
        case (_, n) if voters and n != voters:
            raise UsageError(
                f"screen.criterion: {criterion} does not fit the number of voters ({voters}). Use k-of-{voters}, "
                f"or name {n} voters in screen.voters.",
                code="criterion-needs-other-voters",
            )


def criterion_words(rule: ScreenRules) -> str:
    """Describe the criterion, with its false share if the criterion has one."""
    return rule.criterion if rule.criterion != FDR else f"{FDR} at {rule.fdr:g}"


def same_model(
    fingerprints: Mapping[str, Mapping[str, str]], voters: Sequence[str]
) -> tuple[str, str] | None:
    """Return the first two voters that are the same model, or None. All digests of their fingerprints agree, or
    without digests the model and the server. Precision, device and batch size do not count."""
    identities = {v: model_identity(fingerprints[v]) for v in dict.fromkeys(voters) if v in fingerprints}
    pairs = combinations([v for v, identity in identities.items() if identity], 2)
    return next((pair for pair in pairs if identities[pair[0]] == identities[pair[1]]), None)


def model_identity(fingerprint: Mapping[str, str]) -> dict[str, str]:
    """Return the parts of a fingerprint that identify the model, or an empty dictionary."""
    digests = {name: value for name, value in fingerprint.items() if _DIGEST.fullmatch(value)}
    return digests or {name: fingerprint[name] for name in _NAMED if name in fingerprint}
