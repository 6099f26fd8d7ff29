"""Sentences for the codes that judging writes.

Judging writes codes with parameters. `messages.yaml` has the text of each code.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
import yaml

from robustify.judging.stats.tests import LEVEL, significantly_positive
from robustify.judging.summary.quantity import Part, Quantity, Reason
from robustify.judging.summary.result import Summary
from robustify.judging.summary.scored import PositionBias
from robustify.judging.summary.screened import OffPosition
from robustify.report.format import FILTERS, ordinal, percent, plain

LONGEST = 2000
KINDS = {
    "leave_one_out": "left out of the vote",
    "non_voter": "did not vote",
    "heuristic": "rule without a model",
    "probe": "trained on the kept items",
    "encoder": "sentence encoder",
}
_OF = {
    "leave_one_out": "items kept without its vote",
    "heuristic": "items without copies",
    "probe": "items without copies",
}
"""What a kind of auditor was asked, if its number of items differs from that of the kept items."""


def sentence(reason: Reason) -> str:
    """Return the sentence of a reason, without a full stop."""
    return filled(catalogue()["sentences"][reason.code], reason.params)


def finding(code: str, part: Part | None, **beside: Any) -> str:
    """Return the sentences about a part of the summary. Empty if there is nothing to report."""
    return "" if part is None else filled(catalogue()["findings"][code], {"s": part, **beside})


def standing(summary: Summary) -> str:
    """Return the state of a run as a word and a sentence."""
    return f"{summary.state}: {state_sentence(summary)}"


def state_sentence(summary: Summary) -> str:
    """Return the state of a run as a sentence, with its first reason if it has one."""
    first = sentence(summary.reasons[0]) if summary.reasons else ""
    usual = catalogue()["states"][summary.residual.state if summary.residual else summary.state]
    return finding("state", summary, first=first, usual=usual) or f"{usual}."


@cache
def catalogue() -> Mapping[str, Mapping[str, Any]]:
    """Return the content of `messages.yaml`."""
    text = (files("robustify.report") / "messages.yaml").read_text("utf-8")
    found: Mapping[str, Mapping[str, Any]] = yaml.safe_load(text)
    return found


def label(measure: str) -> str:
    """Return the label of a measure."""
    return str(catalogue()["measures"][measure])


def cue_words(which: str) -> dict[str, str]:
    """Return one field of all cues, such as `label`, by cue code."""
    return {code: words[which] for code, words in catalogue()["cues"].items() if which in words}


def filled(text: str, words: Mapping[str, Any]) -> str:
    """Render a text from the catalogue with these values."""
    return plain(" ".join(_template(text).render(words).split()) or " ", LONGEST).removeprefix("(blank)")


@cache
def _template(text: str) -> jinja2.Template:
    env = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=False)
    env.filters |= {**FILTERS, "items": in_items, "sentences": _sentences, "too_often": _too_often}
    env.globals |= {"by": _by, "uneven": _uneven, "positive": significantly_positive}
    return env.from_string(text)


def _sentences(reasons: Iterable[Reason], separator: str = "") -> str:
    return separator.join(map(sentence, reasons))


def _by(auditor: str, kind: str, value: float, n: int) -> str:
    return f"{auditor} ({KINDS.get(kind, kind)}): {percent(value)} of {n} {_OF.get(kind, 'items')}"


def in_items(share: Quantity | None) -> int:
    """Return the number of items in a share, or 0 if it was not measured."""
    return round((share.value or 0.0) * (share.n or 0)) if share is not None else 0


def _uneven(off: OffPosition) -> str:
    share, even = (f"{100 * x:.{0 if x in (0.0, 1.0) else 1}f} %" for x in (off.share, off.even))
    return f"the key is {ordinal(off.position)} in {share} of the items ({even} if keys were spread evenly)"


def _too_often(bias: PositionBias) -> dict[str, Any] | None:
    """Return the position that a model picks significantly too often, or None if there is none."""
    found = [
        {"p": one.p_holm, "position": j, "picked": one.picked.value, "key": one.key}
        for j, one in enumerate(bias.positions)
        if one.p_holm < LEVEL and one.picked.value is not None and one.key is not None
        and one.picked.value > one.key
    ]  # fmt: skip
    return min(found, key=lambda one: (one["p"], one["position"]), default=None)
