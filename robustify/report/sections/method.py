"""How the numbers were made and how to read them: words, templates, models, versions, limits."""

import json
from collections.abc import Mapping

from robustify.report.blocks import Block, Bullets, Cell, Column, Folded, Section, Table, Text
from robustify.report.reading import at, part, text, texts, whole
from robustify.report.sections.removal import rule_words
from robustify.report.words import again, count_cell, plain

Summary = Mapping[str, object]
Provenance = Mapping[str, object]
SETTINGS = ("asking", "screen", "alternatives", "cloze", "probe", "heads", "limits", "limit")
STATISTICS = (
    "A rate stands with the number of items it rests on and a 95 % interval: Wilson for counted rates; a bootstrap "
    "over items (or their groups; none below 10 of them) for the excess, for calibration and for how voters agree; an "
    "exact bound where nothing varied. A difference on the "
    "same items has Wald's interval with one item added on either side (Bonett and Price), one between items "
    "Newcombe's, or one by groups of items. The audit decides by Clopper-Pearson; so does the guardrail on topics; "
    "that on the excess decides by its p and its bootstrap.",
    "p is corrected within some families of tests: Holm for heuristics, pairs of models, memorisation and the places "
    "that one model picks, Benjamini and Hochberg for topics. Each p of random removal (by model), of calibration "
    "errors, of recall by place and of the excess under other rules stands for itself: of twenty such one is "
    "below 0.05 by luck on average. Beside a null result stands the difference that would have been told with "
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
    "An item with a wrong key is flagged by luck alone, so such items are commoner on Robust than on All.",
    "Numbers of a model that voted are low on Robust by selection. Read those of models that did not vote.",
    "Certified is said of these auditors with this margin, and of nothing else.",
)


def method(summary: Summary, provenance: Provenance) -> Section:
    """Views, templates, rule, statistics, models, versions, signature."""
    blocks: tuple[Block, ...] = (
        Text(f"The screen: {rule_words(summary)}." if part(summary, "screen") else "No screen was held."),
        Bullets(STATISTICS),
        _templates(provenance),
        _models(provenance),
        _recipe(summary, provenance),
        *_settings(provenance),
    )
    return Section("method", "Method, models and versions", "Method", blocks)


def reading(provenance: Provenance) -> Section:
    """How to read all this, the general limits and the run's own notes."""
    notes = tuple(plain(n, 2000) for n in texts(at(provenance, "notes")))
    return Section(
        "reading", "How to read this, and its limits", "How to read this", (Bullets((*notes, *READING)),)
    )


def _templates(provenance: Provenance) -> Block:
    found = part(provenance, "templates")
    if not found:
        return Text("Templates: not recorded.", quiet=True)
    return Table(
        "Templates of the prompts",
        (Column("View and template", figures=False), Column("SHA-256", figures=False)),
        tuple((Cell(plain(str(name))), Cell(plain(str(digest)))) for name, digest in found.items()),
    )


def _models(provenance: Provenance) -> Block:
    found = part(provenance, "models")
    if not found:
        return Text("Models: none is recorded.", quiet=True)
    rows = [
        (
            Cell(plain(str(name))) if first else again(Cell(plain(str(name)))),
            Cell(plain(str(key)).replace("_", " ")),
            Cell(plain(str(value), 200)),
        )
        for name, facts in found.items()
        for first, (key, value) in _numbered(facts)
    ]
    heads = ("Model", "What", "Value")
    return Table("Models", tuple(Column(h, figures=False) for h in heads), tuple(rows))


def _numbered(facts: object) -> list[tuple[bool, tuple[object, object]]]:
    pairs = list(facts.items()) if isinstance(facts, Mapping) else []
    return [(i == 0, pair) for i, pair in enumerate(pairs or [("fingerprint", "not recorded")])]


def _recipe(summary: Summary, provenance: Provenance) -> Table:
    signature = text(at(summary, "signature")) or text(at(provenance, "signature"))
    rows = [
        (Cell("Signature"), Cell(plain(signature, 1000)) if signature else Cell("not signed", tone="absent"))
    ]
    if text(at(provenance, "data", "sha256")):
        rows.append((Cell("Data, SHA-256"), Cell(plain(text(at(provenance, "data", "sha256"))))))
    seed = whole(at(provenance, "seed"))
    seed = whole(at(provenance, "config", "probe", "seed")) if seed is None else seed
    rows.append((Cell("Seed"), count_cell(seed)))
    rows += [(Cell(plain(str(k))), Cell(plain(str(v)))) for k, v in part(provenance, "versions").items()]
    return Table(
        "Signature and versions", (Column("What", figures=False), Column("Value", figures=False)), tuple(rows)
    )


def _settings(provenance: Provenance) -> tuple[Block, ...]:
    # Only settings that say how: the source names paths of the machine, which are nobody's business.
    config = part(provenance, "config")
    said = {name: config[name] for name in SETTINGS if config.get(name) is not None}
    if not said:
        return ()
    return (
        Folded(
            "All settings of asking and judging", json.dumps(said, indent=1, ensure_ascii=True, default=str)
        ),
    )
