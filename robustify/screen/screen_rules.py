"""The rules of the screen: how many right votes flag an item, how each vote is read, and who may vote.

A criterion that could never be met, or that was written for another number of voters, is refused and never bent to
fit. A model behind two names must not vote twice: answers cannot show it, fingerprints can.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from robustify.errors import UsageError

Mode = Literal["letter", "text"]
TextNorm = Literal["chars", "tokens", "bytes", "sum"]
Rotation = Literal["averaged", "every", "most"]

VIEW_OF: dict[Mode, str] = {"letter": "choices_only", "text": "choices_only_text"}
FULL_OF: dict[Mode, str] = {"letter": "full", "text": "full_text"}
"""The view with the question, by mode."""
FDR = "fdr"
FORMS = "fdr, unanimous, majority or k-of-n such as 2-of-3"

_COUNTED = re.compile(r"([0-9]{1,3})-of-([0-9]{1,3})")
_DIGEST = re.compile(r"(?:sha256:)?[0-9a-f]{40,64}")
# Of models behind a server, whose files cannot be hashed.
_NAMED = ("model", "revision", "server", "url", "base_url")


class ScreenRules(BaseModel):
    """Which votes flag an item as a shortcut.

    `criterion`: `fdr` flags items whose key a cross-fitted scorer picks with enough confidence that at most the
    share `fdr` of them is chance (`fdr_exact`: proven for finite samples, with less power). The others count right
    votes: `unanimous`, `majority`, `2-of-3`. `mode`: votes by letter or by the option's own text. `template`:
    default the first one asked. `voters`: default every model that answered. `rotation`: a vote is the pick
    `averaged` over the orders, or the same one in `every` order or in `most`. `norm`: in text mode,
    log-probabilities per `chars`, `tokens`, `bytes`, or their `sum`. `probe_vote`: the probe votes `with` the
    others if it gives its pick at least `probe_confidence`, or not (`none`). `force_letters`: judge by letter even
    if a voter picks one position.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    criterion: str = FDR
    fdr: float = Field(default=0.1, gt=0, lt=1)
    fdr_exact: bool = False
    mode: Mode = "letter"
    template: str | None = None
    voters: tuple[str, ...] = ()
    rotation: Rotation = "averaged"
    norm: TextNorm = "chars"
    probe_vote: Literal["none", "with"] = "none"
    probe_confidence: float = Field(default=0.5, ge=0, le=1)
    force_letters: bool = False

    @field_validator("criterion")
    @classmethod
    def _can_be_met(cls, criterion: str) -> str:
        parsed = parse_criterion(criterion)
        return criterion if parsed is None else f"{parsed[0]}-of-{parsed[1]}"

    @field_validator("probe_vote", mode="before")
    @classmethod
    def _not_alone(cls, probe_vote: object) -> object:
        if probe_vote == "alone":
            raise ValueError("alone is no longer offered; use `criterion: fdr`, or none or with")
        return probe_vote

    @field_validator("voters")
    @classmethod
    def _each_votes_once(cls, voters: tuple[str, ...]) -> tuple[str, ...]:
        twice = sorted({v for v in voters if voters.count(v) > 1})
        if twice:
            raise ValueError(f"{twice[0]} stands twice; a model must not vote twice")
        return voters


def parse_criterion(criterion: str) -> tuple[int, int] | None:
    """The k and n of a `k-of-n` criterion; None for `fdr`, `unanimous` and `majority`.

    Raises:
        ValueError: no criterion, or more votes than voters, or no vote at all.
    """
    if criterion in (FDR, "unanimous", "majority"):
        return None
    match = _COUNTED.fullmatch(criterion)
    if match is None:
        raise ValueError(f"no criterion; expected {FORMS}")
    k, n = int(match[1]), int(match[2])
    if not 1 <= k <= n:
        raise ValueError(f"{k} of {n} voters; expected at least 1 and at most all of them ({FORMS})")
    return k, n


def votes_needed(criterion: str, voters: int) -> int:
    """How many right votes of so many voters flag an item; one more than there are where nobody votes.

    Where an audit leaves one voter out, `k-of-n` asks for k of those that remain, at most for all of them.
    """
    match criterion, parse_criterion(criterion):
        case _, (k, _):
            return min(k, max(voters, 1))
        case "majority", None:
            return voters // 2 + 1
        case "unanimous", None:
            return max(voters, 1)
    raise ValueError(f"{criterion} counts no votes")


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


def criterion_words(rule: ScreenRules) -> str:
    """The criterion with its share of false flags, where it has one."""
    if rule.criterion != FDR:
        return rule.criterion
    return f"{FDR} at {rule.fdr:g}{' by e-values' * rule.fdr_exact}"


def same_model(
    fingerprints: Mapping[str, Mapping[str, str]], voters: Sequence[str]
) -> tuple[str, str] | None:
    """Return the first two voters that are one model, in the order of the voters; None if there are no such two.

    Two are one if all digests of their fingerprints agree or, where neither has any, the model and the server. Precision,
    device and batch size make no other model.
    """
    known = {v: model_identity(fingerprints[v]) for v in dict.fromkeys(voters) if v in fingerprints}
    pairs = combinations([v for v, parts in known.items() if parts], 2)
    return next((pair for pair in pairs if known[pair[0]] == known[pair[1]]), None)


def model_identity(fingerprint: Mapping[str, str]) -> dict[str, str]:
    """The parts of a fingerprint that say which model it is; empty where none does."""
    digests = {name: value for name, value in fingerprint.items() if _DIGEST.fullmatch(value)}
    return digests or {name: fingerprint[name] for name in _NAMED if name in fingerprint}
