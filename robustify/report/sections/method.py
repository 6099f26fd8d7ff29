"""How the numbers were made and how to read them: words, templates, models, versions, limits."""

import json
from collections.abc import Iterator, Mapping

from robustify.report.blocks import (
    Block,
    Bullets,
    Cell,
    Folded,
    Paragraph,
    Row,
    Section,
    Table,
    text_table,
    under,
)
from robustify.report.format import absent, count_cell, plain, present
from robustify.report.sections.removal import rule_words
from robustify.summary.result import Summary

Provenance = Mapping[str, object]
SETTINGS = ("asking", "screen", "alternatives", "cloze", "probe", "heads", "limits", "limit")
STATISTICS = (
    "A rate is printed with the number of items it rests on and a 95 % interval: Wilson for counted rates; a bootstrap "
    "over items (or their groups; none below 10 of them) for the excess, for calibration and for how voters agree; an "
    "exact bound where nothing varied. A difference on the "
    "same items has Wald's interval with one item added on either side (Bonett and Price), one between items "
    "Newcombe's, or one by groups of items. The audit decides by Clopper-Pearson; so does the guardrail on topics; "
    "that on the excess decides by its p and its bootstrap.",
    "p is corrected within some families of tests: Holm for heuristics, pairs of models, memorisation and the places "
    "that one model picks, Benjamini and Hochberg for topics. Each p of random removal (by model), of calibration "
    "errors, of recall by place and of the excess under other rules is uncorrected: of twenty such one is "
    "below 0.05 by chance on average. Beside a null result is the difference that would be detected with "
    "80 % power.",
    "Ties (within a relative 1e-6) share the credit. An item is undecided where a missing answer could still "
    "turn its verdict: then it is never kept as robust. A missing answer is never counted as wrong.",
    "The p of the excess comes from permuting the key within each item, exactly (Poisson-binomial); with places "
    "known, a key is as likely at a place as the keys of items with as many options are.",
    "The topic mix is compared in nats with Jeffreys smoothing.",
    "Cloze scores the option's own text after the question, never the question; the primary normalisation "
    "is by characters.",
)
READING = (
    "An item that can be answered from its options alone was not therefore answered that way: a model that "
    "knows the answer is right on Shortcut too. Robust is the part that test-taking of this kind "
    "does not reach.",
    "A shortcut that these voters do not see stays in. The smaller the voters, the coarser what they see.",
    "An item with a wrong key is flagged by chance alone, so such items are commoner on Robust than on All.",
    "Numbers of a model that voted are low on Robust by selection. Read those of models that did not vote.",
    "Certified is said of these auditors with this margin, and of nothing else.",
)


def method(summary: Summary, provenance: Provenance) -> Section:
    """Views, templates, rule, statistics, models, versions, signature."""
    screened = (
        f"The screen: {rule_words(summary)}."
        if present(summary.screen) is not None
        else "There was no screen."
    )
    return Section.of(
        "method",
        "Method, models and versions",
        Paragraph(screened),
        Bullets(STATISTICS),
        _templates(provenance),
        _models(provenance),
        _recipe(summary, provenance),
        _settings(provenance),
    )


def reading(provenance: Provenance) -> Section:
    """How to read all this, the general limits and the run's own notes."""
    notes = provenance.get("notes")
    own = [plain(n, 2000) for n in notes if isinstance(n, str)] if isinstance(notes, list | tuple) else []
    block = Bullets((*own, *READING))
    return Section.of("reading", "How to read this, and its limits", block)


def _part(node: object, name: str) -> Mapping[str, object]:
    value = node.get(name) if isinstance(node, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _templates(provenance: Provenance) -> Block | str:
    templates = _part(provenance, "templates")
    if not templates:
        return "Templates: not recorded."
    rows = ((plain(str(name)), plain(str(digest))) for name, digest in templates.items())
    return text_table("Templates of the prompts", ("View and template", "SHA-256"), rows, words=2)


def _models(provenance: Provenance) -> Block | str:
    models = _part(provenance, "models")
    if not models:
        return "Models: none is recorded."
    rows = under((Cell(plain(str(name))), _model(_part(models, name))) for name in models)
    return text_table("Models", ("Model", "What", "Value"), rows, words=3)


def _model(facts: Mapping[str, object]) -> Iterator[Row]:
    for key, value in facts.items() or [("fingerprint", "not recorded")]:
        yield plain(str(key)).replace("_", " "), plain(str(value), 200)


def _recipe(summary: Summary, provenance: Provenance) -> Table:
    signature = summary.signature or provenance.get("signature")
    seed = provenance.get("seed")
    seed = _part(_part(provenance, "config"), "probe").get("seed") if seed is None else seed
    digest = _part(provenance, "data").get("sha256")
    rows: list[Row] = [
        ("Signature", plain(str(signature), 1000) if signature else absent("not signed")),
        *([("Data, SHA-256", plain(str(digest)))] if digest else []),
        ("Seed", count_cell(seed if isinstance(seed, int) else None)),
        *((plain(k), plain(str(v))) for k, v in _part(provenance, "versions").items()),
    ]
    return text_table("Signature and versions", ("What", "Value"), rows, words=2)


def _settings(provenance: Provenance) -> Block | None:
    # Only settings of method: the source names paths of the machine, which do not belong in a report.
    config = _part(provenance, "config")
    shown = {name: config[name] for name in SETTINGS if config.get(name) is not None}
    if not shown:
        return None
    text = json.dumps(shown, indent=1, ensure_ascii=True, default=str)
    return Folded("All settings of asking and judging", text)
