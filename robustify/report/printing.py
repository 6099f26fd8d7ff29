"""Print codes of results as sentences of `messages.yaml`, and render pages from templates that escape all values."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

import jinja2
import yaml
from markupsafe import Markup

from robustify.judging.stats.tests import LEVEL, significantly_positive
from robustify.judging.summary.model_parts import PositionBias
from robustify.judging.summary.quantity import Part, Quantity, Reason
from robustify.judging.summary.result import Guardrail, Summary
from robustify.judging.summary.screen_parts import OffPosition
from robustify.report.format import (
    AT_LIMIT,
    FILTERS,
    Table,
    cell,
    counted,
    ordinal,
    percent,
    plain,
    text_table,
    value_table,
)

MOST_WORDS = 6
"""Maximum number of words in a cell. The title has the full text."""
SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~$#])")


def jinja(package: str, folder: str, *, autoescape: bool) -> jinja2.Environment:
    """Return a strict Jinja environment for the templates in a folder of a package. The filter `md` escapes Markdown."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(package, folder),
        autoescape=autoescape,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_printable,
    )
    environment.filters["md"] = in_markdown
    return environment


def _printable(value: object) -> object:
    """Return a value that a template can print. Raise `TypeError` for a structure, because its repr is not for readers."""
    if isinstance(value, str | int | float | jinja2.Undefined):
        return value
    raise TypeError(f"a template prints a {type(value).__name__}")


def in_markdown(text: str) -> str:
    """Escape text for GitHub Markdown."""
    return SPECIAL.sub(r"\\\1", text.replace("&", "&amp;")).replace("\n", " ")


@cache
def templates(*, autoescape: bool) -> jinja2.Environment:
    """Return the Jinja environment of the report templates, with their filters and functions."""
    env = jinja("robustify.report", "", autoescape=autoescape)
    env.filters |= {**FILTERS, "guardrail": guardrail_label, "sentence": sentence, "short": short}
    functions = (finding, cue_words, styles, cell, text_table, value_table)
    env.globals |= {"AT_LIMIT": AT_LIMIT, **{function.__name__: function for function in functions}}
    return env


def html(page: str, /, **values: Any) -> str:
    """Render a template as HTML."""
    return templates(autoescape=True).get_template(page).render(**values)


def framed(page: str) -> str:
    """Return a page inside a sandboxed `iframe`."""
    return f'<iframe srcdoc="{escape(page)}" sandbox="" title="robustify" style="width:100%;height:34em;border:0"></iframe>'


def markdown(page: str, /, **values: Any) -> str:
    """Render a template as Markdown or plain text."""
    return templates(autoescape=False).get_template(page).render(**values)


def printed_table(table: Table, form: str) -> str:
    """Return a table in Markdown, LaTeX (for the package booktabs), or CSV. The CSV has each number, its interval and n."""
    if form == "csv":
        return table.csv()
    if form == "markdown":
        return markdown("table.j2", found=table)
    import pandas as pd  # type: ignore[import-untyped]

    rows = [[entry.main for entry in row] for row in table.rows]
    written: str = pd.DataFrame(rows, columns=[*table.heads]).to_latex(index=False, escape=True)
    # The usual font of LaTeX has no < and >, and prints other characters for them.
    for sign, command in (("\u2212", "$-$"), ("\u2013", "--"), ("<", "$<$"), (">", "$>$")):
        written = written.replace(sign, command)
    return written


@cache
def styles(*names: str) -> Markup:
    """Return the content of the named style sheets."""
    return Markup("".join((files("robustify.report") / f"{name}.css").read_text("utf-8") for name in names))


def short(words: str) -> str:
    """Shorten a text to six words and an ellipsis."""
    parts = words.split(" ")
    return words if len(parts) <= MOST_WORDS else " ".join(parts[:MOST_WORDS]) + " \u2026"


LONGEST = 2000
KINDS = {
    "leave_one_out": "left out of the vote",
    "non_voter": "did not vote",
    "heuristic": "rule without a model",
    "probe": "trained on the kept items",
    "encoder": "sentence encoder",
}
_OF = {
    "leave_one_out": " kept without its vote",
    "heuristic": " without copies",
    "probe": " without copies",
}
"""What a kind of auditor was asked, if its number of items differs from that of the kept items."""


def sentence(reason: Reason) -> str:
    """Return the sentence for a reason, without a full stop."""
    return filled(catalogue()["sentences"][reason.code], reason.params)


def guardrail_label(code: str) -> str:
    """Return the name of a guardrail in words."""
    return str(catalogue()["guardrails"].get(code, "unknown guardrail"))


def guardrail_line(check: Guardrail) -> str:
    """Return the name of a guardrail with the sentence of its result."""
    return f"{guardrail_label(check.name)}: {sentence(check.reason)}"


def finding(code: str, part: Part | None, **beside: Any) -> str:
    """Return the sentences about a part of the summary. Empty if there is nothing to report."""
    return "" if part is None else filled(catalogue()["findings"][code], {"s": part, **beside})


def standing(summary: Summary) -> str:
    """Describe the state of a run in a word and a sentence."""
    return f"{summary.state}: {state_sentence(summary)}"


def state_sentence(summary: Summary) -> str:
    """Return the state of a run as a sentence, with the first reason, if any."""
    first = sentence(summary.reasons[0]) if summary.reasons else ""
    usual = catalogue()["states"][summary.residual.state if summary.residual else summary.state]
    return finding("state", summary, first=first, usual=usual) or f"{usual}."


@cache
def catalogue() -> Mapping[str, Mapping[str, Any]]:
    """Return the content of `messages.yaml`."""
    text = (files("robustify.report") / "messages.yaml").read_text("utf-8")
    content: Mapping[str, Mapping[str, Any]] = yaml.safe_load(text)
    return content


def label(measure: str) -> str:
    """Return the label of a measure."""
    return str(catalogue()["measures"][measure])


def cue_words(which: str) -> dict[str, str]:
    """Map the code of each cue to one field of its catalog entry, such as `label`, if the entry has this field."""
    return {code: words[which] for code, words in catalogue()["cues"].items() if which in words}


def filled(text: str, words: Mapping[str, Any]) -> str:
    """Render a text from the catalog with these values."""
    return plain(" ".join(_template(text).render(words).split()) or " ", LONGEST).removeprefix("(blank)")


@cache
def _template(text: str) -> jinja2.Template:
    env = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=False)
    env.filters |= {
        **FILTERS,
        "guardrail": guardrail_label,
        "items": in_items,
        "sentences": _sentences,
        "too_often": _too_often,
    }
    env.globals |= {"by": _by, "uneven": _uneven, "positive": significantly_positive}
    return env.from_string(text)


def _sentences(reasons: Iterable[Reason], separator: str = "") -> str:
    return separator.join(map(sentence, reasons))


def _by(auditor: str, kind: str, value: float, n: int) -> str:
    of = counted(n, "item") + _OF.get(kind, "")
    return f"{auditor} ({KINDS.get(kind, kind)}): {percent(value)} of {of}"


def in_items(share: Quantity | None) -> int:
    """Convert a share to a number of items. Return 0 if the share was not measured."""
    return round((share.value or 0.0) * (share.n or 0)) if share is not None else 0


def _uneven(off: OffPosition) -> str:
    share, even = (f"{100 * x:.{0 if x in (0.0, 1.0) else 1}f} %" for x in (off.share, off.even))
    return f"the key is {ordinal(off.position)} in {share} of the items ({even} if keys were spread evenly)"


def _too_often(bias: PositionBias) -> dict[str, Any] | None:
    """Return the position that a model picks significantly too often, or None if there is no such position."""
    positions = [
        {"p": entry.p_holm, "position": j, "picked": entry.picked.value, "key": entry.key}
        for j, entry in enumerate(bias.positions)
        if entry.p_holm < LEVEL and entry.picked.value is not None and entry.key is not None
        and entry.picked.value > entry.key
    ]  # fmt: skip
    return min(positions, key=lambda entry: (entry["p"], entry["position"]), default=None)
