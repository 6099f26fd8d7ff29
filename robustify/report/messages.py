"""Sentences for the codes that judging writes.

Judging writes codes with parameters. `messages.yaml` has the text of each code.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
import yaml
from pydantic import BaseModel

from robustify.report.format import at, count, counted, ordinal, p_value, percent, plain, spaced
from robustify.stats.tests import LEVEL, significantly_positive

LONGEST = 2000
KINDS = {
    "leave_one_out": "left out of the vote",
    "non_voter": "did not vote",
    "heuristic": "rule without a model",
    "probe": "trained on the kept items",
    "encoder": "sentence encoder",
    "voter": "votes in the filter",
}


def sentence(reason: Any) -> str:
    """Return the sentence of a reason, without a full stop."""
    node = tree(reason)
    return filled(catalogue()["sentences"][node["code"]], node["params"])


def finding(code: str, part: Any, **beside: Any) -> str:
    """Return the sentences about a part of the summary. Empty if there is nothing to report."""
    return "" if part is None else filled(catalogue()["findings"][code], {"s": tree(part), **beside})


def guardrail_sentence(guardrail: Any) -> str:
    """Return the reason why a guardrail passed or failed."""
    reason, passed = at(guardrail, "reason"), at(guardrail, "passed")
    return sentence(reason) if reason else "passed" if passed else "failed"


def guardrail_state(guardrail: Any) -> str:
    """Return `passed`, `failed`, or `not evaluated`."""
    open_ = (
        at(guardrail, "reason.code") == "not_judged"
        or at(guardrail, "reason.params.verdict") == "inconclusive"
    )
    return "failed" if at(guardrail, "passed") is False else "not evaluated" if open_ else "passed"


def certificate(summary: Any) -> tuple[str, str]:
    """Return the verdict of a run's certificate as a word and as a sentence."""
    trial = is_trial(summary)
    word, usual = catalogue()["certificates"][
        "trial" if trial else at(summary, "certificate.verdict") or "none"
    ]
    reasons = at(summary, "certificate.reasons") or ()
    first = sentence(reasons[0]) if reasons else ""
    return word, finding("certificate", summary, first=first, trial=trial) or usual


def is_trial(summary: Any) -> bool:
    """Return whether a run is too small to be judged."""
    return any(at(reason, "code") == "trial_run" for reason in at(summary, "certificate.reasons") or ())


def rule_words(summary: Any) -> str:
    """Return a description of the screen's rule."""
    return finding("rule", summary)


def tree(part: Any) -> Any:
    """Return a part of the summary as JSON values."""
    return part.model_dump(mode="json") if isinstance(part, BaseModel) else part


@cache
def catalogue() -> Mapping[str, Mapping[str, Any]]:
    """Return the content of `messages.yaml`."""
    found: Mapping[str, Mapping[str, Any]] = yaml.safe_load(
        (files("robustify.report") / "messages.yaml").read_text("utf-8")
    )
    return found


def cue_words(which: str) -> dict[str, str]:
    """Return one field of all cues, such as `label`, by cue code."""
    return {code: words[which] for code, words in catalogue()["cues"].items() if which in words}


def filled(text: str, words: Mapping[str, Any]) -> str:
    """Render a text from the catalogue with these values."""
    return plain(" ".join(_template(text).render(words).split()) or " ", LONGEST).removeprefix("(blank)")


@cache
def _template(text: str) -> jinja2.Template:
    env = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=False)
    env.filters |= {
        "at": at, "percent": percent, "p_value": p_value, "ordinal": ordinal, "count": count, "counted": counted,
        "plain": plain, "spaced": spaced, "items": _items, "sentences": _sentences, "too_often": _too_often,
    }  # fmt: skip
    env.globals |= {"by": _by, "uneven": _uneven, "positive": significantly_positive}
    return env.from_string(text)


def _sentences(reasons: Iterable[Any], between: str = "") -> str:
    return between.join(map(sentence, reasons))


def _by(auditor: str, kind: str, value: float, n: int) -> str:
    return f"{auditor} ({KINDS.get(kind, kind)}): {percent(value)} of {n} items"


def _items(q: Any) -> int:
    return round((at(q, "value") or 0.0) * (at(q, "n") or 0))


def _uneven(off: Any) -> str:
    share, even = (
        f"{100 * x:.0f} %" if x in (0.0, 1.0) else f"{100 * x:.1f} %"
        for x in (off["share"] or 0.0, off["even"] or 0.0)
    )
    return (
        f"the key is {ordinal(off['place'] or 0)} in {share} of the items ({even} if keys were spread evenly)"
    )


def _too_often(bias: Any) -> dict[str, Any] | None:
    """Return the position that a model picks significantly too often, or None if there is none."""
    found = [
        {"p": place["p_holm"], "position": j, "picked": place["picked"]["value"], "key": place["key"]}
        for j, place in enumerate(bias["places"] or ())
        if place["p_holm"] is not None and place["p_holm"] < LEVEL
        and at(place, "picked.value") is not None and place["key"] is not None and place["picked"]["value"] > place["key"]
    ]  # fmt: skip
    return min(found, key=lambda one: (one["p"], one["position"]), default=None)
