"""The report of a run: one offline page, a short Markdown file and the figures, printed from the summary alone.

It computes nothing that the summary does not say, and it has no text of any item. To print a new number, write its
dotted path into a table of `page.html.j2`.
"""

import json
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

from robustify.report import opening as first_page
from robustify.report.cue_sentences import LABELS
from robustify.report.figures import run_plots
from robustify.report.format import at, by_mode, percent, plain, rate, spaced
from robustify.report.messages import finding, guardrail_sentence, sentence, tree
from robustify.report.printing import html, markdown, svg
from robustify.report.tables import Cell, Table, cell, text_table
from robustify.summary.result import Summary

Tree = Mapping[str, Any]
MOST_PAIRS = 15
SETTINGS = ("asking", "screen", "alternatives", "cloze", "probe", "limits", "limit")
DEFECTS = {
    "repeated_choice": "two options of an item are the same",
    "repeated_key_text": "another option has the key's text",
    "empty_choice": "an option is empty",
    "repeated_stem": "the question occurs more than once",
    "conflicting_key": "the same question and options have another key elsewhere",
    "blank_stem": "nothing of the question shows",
    "control_character": "control characters in the question or an option",
}
LACKING = (
    ("chance", "screen", "A screen: no model was asked the choices without the question."),
    ("topics", "topics.by_topic", "Topics: the benchmark names none."),
    ("scores", "accuracy", "Scores: no model was asked the full question or cloze."),
    ("pairs", "pairs", "Pairs of models: no two models were asked the full question or cloze."),
    ("random", "random_removal", "Random removals: no model was asked the full question or cloze."),
    ("order", "permutation.by_model", "The order of the options: no model was asked in several orders."),
    ("calibration", "calibration", "Calibration: it needs the probabilities of at least 10 answers."),
    ("items", "evidence", "Cues of items: no question-free scorer ranked the items."),
    ("heuristics", "heuristics.all", "Heuristics: they need the items' text."),
    ("guardrails", "guardrails", "Guardrails: none were applied."),
    ("noise", "label_noise", "Keys that deserve a second look: no model was asked the full question."),
    ("contamination", "contamination.overlap", "Items in texts: no text was given to look for them in."),
)
"""Parts that a run may lack: the section, where its part is in the summary, and why it is not there."""


def render(summary: Summary, provenance: Tree) -> dict[str, str]:
    """Return the report's files by their path in the run's folder; the same input gives the same text.

    `provenance` may have versions, models (name to fingerprint), templates (name to sha256), config, data, seed,
    signature, notes, and as `explorer` whether the run has one.
    """
    values = _values(tree(summary), provenance)
    drawn = {f"figures/{name}.svg": svg(plot) for name, plot in values["plots"].items()}
    return {
        "report.html": html("page.html.j2", **values),
        "report.md": markdown("report.md.j2", **values),
        **drawn,
    }


def first_screen(summary: Summary, provenance: Tree) -> str:
    """Return the verdict and the headline numbers as a page in a frame of its own, for a notebook."""
    page = html("page.html.j2", **{**_values(tree(summary), provenance), "bare": True})
    return f'<iframe srcdoc="{escape(page)}" sandbox="" title="robustify" style="width:100%;height:34em;border:0"></iframe>'


def write_report(folder: Path, summary: Summary, provenance: Tree) -> list[Path]:
    """Write report.html, report.md and figures/*.svg into `folder`. Return their paths."""
    written = []
    for name, text in render(summary, provenance).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
        written.append(path)
    return written


def _values(s: Tree, provenance: Tree) -> dict[str, Any]:
    """Return everything that the templates print beyond the summary itself."""
    explorer = provenance.get("explorer") is True
    signature = s["signature"] or provenance.get("signature")
    first, positions = first_page.opening(s), list(_positions(s))
    biased = {name: finding("position_bias", e) for name, e in (s["position_bias"] or {}).items() if e}
    return {
        "s": s,
        "name": plain(at(s, "benchmark.name") or "unnamed benchmark"),
        "signature": plain(str(signature), 1000) if signature else "not signed",
        "explorer": explorer,
        "bare": False,
        "first": first,
        "todo": [(one.link(explorer), one) for one in first.todo],
        "plots": run_plots(s),
        "certificate": first_page.verdict(s),
        "reasons": _reasons(s),
        "at_chance": list(_at_chance(s)),
        "rules": [(row["name"] or "unnamed rule", row) for row in s["sensitivity"] or ()],
        "pairs": sorted((s["pairs"] or {}).items(), key=lambda one: _least_p(one[1]))[:MOST_PAIRS],
        "orders": [
            (name, {**e, "random": e}) for name, e in (at(s, "permutation.by_model") or {}).items() if e
        ],
        "positions": positions,
        "too_often": [f"{plain(name)}: {said}" for name, said in biased.items() if said],
        "calibration": [(name, _with_intervals(views)) for name, views in (s["calibration"] or {}).items()],
        "cues": [(LABELS.get(cue, spaced(cue)), q) for cue, q in (at(s, "evidence.cues") or {}).items()],
        "likeliest": [
            (row["item"], {**row, "cue": LABELS.get(row["cue"], row["cue"])})
            for row in at(s, "evidence.likeliest") or ()
            if row["item"]
        ],
        "defective": list(_defective(s)),
        "texts": [(f["name"] or "unnamed", f) for f in at(s, "contamination.overlap.files") or ()],
        "guardrails": _guardrails(s),
        "failed": [
            f"{spaced(g['name'] or 'unnamed')}: {guardrail_sentence(g)}"
            for g in s["guardrails"]
            if g["passed"] is False
        ],
        "lacking": [
            (id_, why) for id_, path, why in LACKING if not at(s, path) and (id_ != "order" or not positions)
        ],
        "provenance": _provenance(s, provenance, signature),
    }


def _reasons(s: Tree) -> list[str]:
    found = [*first_page.certificate_reasons(s), *(sentence(r) for r in at(s, "residual.reasons") or ())]
    said = first_page.verdict(s)[2]
    return [reason for reason in dict.fromkeys(found) if reason not in said]


def _at_chance(s: Tree) -> Iterator[str]:
    """Yield which models cannot be distinguished from chance on All, and how else they were asked."""
    for name, e in (s["accuracy"] or {}).items():
        full = at(e, "full.all")
        if full is None or full["significant"] is not False:
            continue
        other = by_mode("letter" if s["full_mode"] == "text" else "text")
        ways = [(other, e["full_other"]), ("by cloze", at(e, "cloze_chars.all"))]
        asked = [(how, q) for how, q in ways if q is not None and q["significant"] is not None]
        can = [
            f"{how} it can: {rate(q)}" for how, q in asked if q["significant"] and q["value"] > q["chance"]
        ]
        neither = (
            f"{' and '.join(how for how, _ in asked)} neither" if asked else "it was asked in no other way"
        )
        chance = "" if full["chance"] is None else f", chance {percent(full['chance'])}"
        said = f"{plain(name)} cannot be distinguished from chance on All {by_mode(s['full_mode'])}: {rate(full)}{chance}"
        yield f"{said}; {'; '.join(can) or neither}. Its numbers on Shortcut and Robust say nothing."


def _least_p(pair: Tree) -> float:
    leaves = (
        at(pair, f"{view}.{part}.p_holm") for view in ("full", "cloze_chars") for part in ("all", "robust")
    )
    return min((p for p in leaves if p is not None), default=2.0)


def _positions(s: Tree) -> Iterator[tuple[str, Tree]]:
    """Yield the picks and keys of each model by position, and the position at which they differ most."""
    for name, e in (s["position_bias"] or {}).items():
        places = [
            p
            for p in at(e, "places") or ()
            if at(p, "picked.value") is not None and at(p, "excess.value") is not None
        ]
        if places:
            most = max(places, key=lambda p: abs(p["excess"]["value"]))
            yield (
                name,
                {
                    "is_voter": at(s["accuracy"], name) and s["accuracy"][name]["is_voter"],
                    "picked": [p["picked"]["value"] for p in places],
                    "keys": [p["key"] for p in places] if all(p["key"] is not None for p in places) else None,
                    "most": {**most["excess"], "p_holm": most["p_holm"]},
                },
            )


def _with_intervals(views: Tree) -> dict[str, Any]:
    return {
        view: e
        and {
            **e,
            "ece_": {"value": e["ece"], "ci": e["ece_ci"], "p": e["ece_p"]},
            "brier_": {"value": e["brier"], "ci": e["brier_ci"]},
        }
        for view, e in views.items()
    }


def _defective(s: Tree) -> Iterator[tuple[Cell, Tree]]:
    for kind, e in (at(s, "benchmark.defects") or {}).items():
        ids, n = e["items"] or (), e["n"]
        more = f", and {n - len(ids)} more" if ids and isinstance(n, int) and n > len(ids) else ""
        which = ", ".join(plain(i, 60) for i in ids) + more
        yield Cell(spaced(kind), DEFECTS.get(kind, "")), {"n": n, "which": which or None}


def _guardrails(s: Tree) -> Table:
    rows = []
    for g in s["guardrails"]:
        why = sentence(g["reason"]) if g["reason"] else ""
        outcome = Cell("not checked", tone="absent")
        if g["passed"] is not None:
            halts = "halts the export" if g["halts_export"] and not g["passed"] else ""
            outcome = Cell(
                "passed" if g["passed"] else "failed", why, "", halts, "good" if g["passed"] else "bad"
            )
        rows.append((spaced(g["name"] or "unnamed"), outcome, _limit(g["value"]), _limit(g["limit"])))
    return text_table("Limits of this run", ("Guardrail", "Outcome", "Value", "Limit"), rows)


def _limit(x: float | str | None) -> Cell:
    if isinstance(x, str) or x is None:
        return Cell(plain(x) if x else "none", tone="" if x else "absent")
    return cell(x, "count") if float(x).is_integer() else Cell(f"{x:.3g}", value=x)


def _provenance(s: Tree, provenance: Tree, signature: object) -> dict[str, Any]:
    config = _part(provenance, "config")
    # Only settings of method: the source names paths of the machine, which do not belong in a report.
    shown = {name: config[name] for name in SETTINGS if config.get(name) is not None}
    seed = provenance.get("seed", _part(config, "probe").get("seed"))
    notes = provenance.get("notes")
    recipe = {
        "Signature": signature or "not signed",
        "Data, SHA-256": _part(provenance, "data").get("sha256"),
        "Seed": seed,
        **_part(provenance, "versions"),
    }
    return {
        "templates": list(_part(provenance, "templates").items()),
        "models": [
            (name, key.replace("_", " "), plain(str(value), 200))
            for name, facts in _part(provenance, "models").items()
            for key, value in (facts or {"fingerprint": "not recorded"}).items()
        ],
        "recipe": [
            (plain(name), plain(str(value), 1000)) for name, value in recipe.items() if value is not None
        ],
        "settings": json.dumps(shown, indent=1, ensure_ascii=True, default=str) if shown else "",
        "notes": [plain(n, 2000) for n in notes if isinstance(n, str)]
        if isinstance(notes, list | tuple)
        else [],
    }


def _part(node: object, name: str) -> dict[str, Any]:
    value = node.get(name) if isinstance(node, Mapping) else None
    return dict(value) if isinstance(value, Mapping) else {}
