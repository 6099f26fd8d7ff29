"""Who votes: a model that stands behind two names must not vote twice.

Answers cannot show it, fingerprints can. Nothing is opened here, and models of which nothing is known are
never said to be the same.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import combinations

_DIGEST = re.compile(r"(?:sha256:)?[0-9a-f]{40,64}")
_NAMED = ("model", "revision", "server", "url", "base_url")
"""What tells models apart that are asked over a wire, where no file can be hashed."""


def same_model(
    fingerprints: Mapping[str, Mapping[str, str]], voters: Sequence[str]
) -> tuple[str, str] | None:
    """The first two voters that are one model, in the order of the voters; None where there are no such two.

    `fingerprints` by name, as an engine's `fingerprint()` gives them. Two are one model when all their digests
    (of weights, config, tokenizer) agree, or, where neither has any, the model and the server they name.
    Precision, device, batch size and versions make another computation, not another model.
    """
    known = {v: model_identity(fingerprints[v]) for v in dict.fromkeys(voters) if v in fingerprints}
    pairs = combinations([v for v, parts in known.items() if parts], 2)
    return next((pair for pair in pairs if known[pair[0]] == known[pair[1]]), None)


def model_identity(fingerprint: Mapping[str, str]) -> dict[str, str]:
    """The parts of a fingerprint that say which model it is; empty where none does."""
    digests = {name: value for name, value in fingerprint.items() if _DIGEST.fullmatch(value)}
    return digests or {name: fingerprint[name] for name in _NAMED if name in fingerprint}
