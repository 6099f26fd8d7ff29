"""Requests of a harness about an item, with replies and scores. `lint` uses them to audit the harness."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from robustify.base.redaction import HoldsText


@dataclass(frozen=True, slots=True, repr=False)
class Exchange(HoldsText):
    """Prompts and replies of one row. `contexts` has one prompt per scored text in `continuations`, or one prompt to
    which the model wrote. `texts` are all raw replies to the item, such as those of each epoch, and `extracted` is
    the answer that the harness took from the first reply. `rightness` maps the scores of the row to whether they
    say that the answer is right. `contradicts` is set if these contradict the key and the pick."""

    contexts: tuple[str, ...] = ()
    continuations: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    extracted: str = ""
    rightness: Mapping[str, bool] = field(default_factory=dict)
    contradicts: bool = False
