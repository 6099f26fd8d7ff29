"""The generated blocks of docs/findings.md, from results/atlas; no number in them is typed by hand but those of others."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tools.docs.measured import read, table

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "bench" / "atlas" / "published.yaml"
WORST = 3
NEGLIGIBLE = 0.05
CUES = {
    "words": "single words and word parts that stand in keys more often than in other options",
    "certainty": "words of certainty and denial (always, never, not)",
    "form": "punctuation, capitals and form",
    "length": "length",
    "word_length": "the length of its words",
    "function_words": "function words",
    "shared_words": "words shared with other options",
}
SAYS = {
    "longest_answer": "the longest option",
    "longest_words": "the option of most words",
    "least_overlap": "the option that shares fewest words with the others (the odd one out)",
    "most_overlap": "the option that shares most words with the others",
    "stem_overlap": "the option with most words of the question",
    "least_stem_overlap": "the option with fewest words of the question",
    "most_hedges": "the option with most hedges",
    "most_numeric": "the option with most numbers",
}
LIMITS: dict[str, str] = yaml.safe_load(PUBLISHED.with_name("limits.yaml").read_text(encoding="utf-8"))


def _read(name: str) -> Any:
    return read(f"atlas/{name}.json")


def _rule(name: str) -> str:
    return SAYS.get(name, name.replace("_", " "))


def _pct(value: float) -> str:
    return f"{100 * value:.1f}".replace("-", "\u2212")


def _with_ci(q: Mapping[str, Any], unit: str = " %") -> str:
    if q["value"] is None:
        return "none"
    return f"{_pct(q['value'])}{unit}" + (
        "" if q["ci"] is None else f" ({_pct(q['ci'][0])} to {_pct(q['ci'][1])})"
    )


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.2g}"


def _sets() -> dict[str, Any]:
    sets: dict[str, Any] = _read("index")["sets"]
    return sets


def worst() -> str:
    lines = [
        f"{at}. **{name}**: a scorer that never sees the question gets {_with_ci(row['scorer'])} of {row['n']:,} items "
        f"right, where chance is {_pct(row['chance'])} %: of {_with_ci(row['latent'])} the options give the key away, "
        f"mostly by {CUES.get(row['strongest_cue']['cue'], row['strongest_cue']['cue'])}."
        for at, (name, row) in enumerate(list(_sets().items())[:WORST], start=1)
    ]
    clean = [name for name, row in _sets().items() if row["latent"]["ci"][0] <= 0]
    return "\n".join(lines) + f"\n\nNothing above chance was found in {', '.join(clean)}.\n"


def every_set() -> str:
    rows = [
        [
            f"`{name}`", f"{row['n']:,}", _pct(row["chance"]),
            f"{_rule(row['best_heuristic']['name'])}: {_with_ci(row['best_heuristic'], '')}",
            _p(row["best_heuristic"]["p_corrected"]),
            f"{_with_ci(row['probe'], '')} \u00b1 {_pct(row['probe']['sd'])}", _p(row["probe"]["p_corrected"]),
            f"{_with_ci(row['latent'], '')} \u00b1 {_pct(row['latent']['sd'])}",
            f"{_pct(row['flagged']['value'])} \u00b1 {_pct(row['flagged']['sd'])}", _with_ci(row["residual"], ""),
        ]
        for name, row in _sets().items()
    ]  # fmt: skip
    head = "set | items | chance | best rule without a model | p | probe | p | latent rate | flagged | residual, points"
    return table(head, rows)


def models() -> str:
    rows = []
    for name, row in _sets().items():
        found = row["models"]
        if found is None:
            rows.append([f"`{name}`", *["not asked"] * 7])
            continue
        both = found["both_right"]
        scores = [_with_ci(found[view][m], "") for view in ("choices_only", "full") for m in found[view]]
        n = both["flagged"]["n"]
        rows.append([
            f"`{name}`", str(found["n"]), *scores,
            f"{_pct(both['flagged']['value'])} / {_pct(both['expected'] / n)}", _p(both["p_corrected"]),
        ])  # fmt: skip
    head = (
        "set | items | SmolLM2 135M, options | Gemma 3 270M, options | SmolLM2, question | Gemma, question | "
        "both right / expected | p"
    )
    return table(head, rows)


def by_set() -> str:
    return (
        "\n".join(f"- **{name}.** {' '.join(_sentences(name, row))}" for name, row in _sets().items()) + "\n"
    )


def _sentences(name: str, row: Mapping[str, Any]) -> list[str]:
    rule, cue = row["best_heuristic"], row["strongest_cue"]
    sees = _rule(rule["name"])
    if rule["p_corrected"] <= NEGLIGIBLE:
        gives = f"{sees.capitalize()} is the key in {_with_ci(rule)} of the items (chance {_pct(row['chance'])} %)"
        more = cue["ci"][0] > row["chance"] and cue["cue"] in CUES
        gives += f"; beside it speak {CUES[cue['cue']]} ({_with_ci(cue)} right alone)." if more else "."
    else:
        gives = f"No rule is above chance once {len(_sets())} sets are looked at (the best, {sees}: {_with_ci(rule)})."
    known, low = row["latent"], row["latent"]["ci"][0]
    flagged = f"{_pct(row['flagged']['value'])} % can be named and removed at 10 % false removals"
    much = (
        f"The options give away {_with_ci(known)} of the keys; {flagged}."
        if low > 0
        else f"How many keys the options give away cannot be distinguished from none ({_with_ci(known)})."
    )
    return [gives, much, LIMITS.get(name, "Nothing is said of larger models.")]


def biases() -> str:
    found = _read("biases")
    rows = []
    for row in found["biases"]:
        gaps = []
        for part in ("embedded", "published"):
            models = (row[part] or {}).get("models", {})
            gaps += [(m, one["gap"]) for m, one in models.items() if one["gap"] and one["gap"]["ci"]]
        sure = [m for m, gap in gaps if gap["ci"][0] > 0]
        order = row["published"]
        rows.append([
            f"`{row['set']}`", _rule(row["cue"]), _with_ci(row["accuracy"], ""), _pct(row["chance"]),
            _p(row["p_corrected"]),
            f"{len(sure)} of {len(gaps)}" + (f", most {_pct(max(g['value'] for _, g in gaps))}" if gaps else ""),
            "-" if order is None else f"{len(order['overtakes'])} / {len(order['moved'])} of {order['pairs']}",
        ])  # fmt: skip
    head = "set | cue: the key is | right, % | chance | p | models that gain, points | pairs: overtake / surely moved"
    return (
        f"{len(rows)} of {found['hypotheses']} rules on all sets are above chance ({found['correction']}).\n\n"
        + table(head, rows, 2)
    )


def orders() -> str:
    found, out = _read("predictions"), []
    for name, says in (("mmlu-ten", "HELM's ten models"), ("truthfulqa-binary", "five models")):
        part = found[name]
        one = part["filter"]
        changed = [
            f"{' and '.join(row['pair'])} ({row['all']}, then {row['robust']})" for row in one["changed"]
        ]
        moved = sum(a != b for a, b in zip(one["order_all"], one["order_robust"], strict=True))
        out.append(
            f"- `{name}`, {says}: {part['n'] - part['kept']:,} of {part['n']:,} items are flagged; without them "
            f"{moved} of {len(one['order_all'])} places of the ranking change, and {len(changed)} of {one['pairs']} "
            f"comparisons of two models{': ' + '; '.join(changed) if changed else ''}."
        )
    return "\n".join(out) + "\n"


def published() -> str:
    rows = [
        [f"`{one['set']}`", one["what"], f"{one['theirs']} ({one['source']})", _ours(one["ours"]), one["why"]]
        for one in yaml.safe_load(PUBLISHED.read_text(encoding="utf-8"))
    ]
    return table("set | what | theirs | ours, % | why they differ", rows, 5)


def _ours(path: Sequence[str]) -> str:
    found = _read(path[0])
    for name in path[1:]:
        found = None if found is None else found.get(name)
    return "not measured" if found is None else _with_ci(found, "")


def criteria() -> str:
    sets, found = _sets(), _read("predictions")
    cue = found["mmlu-ten"]["cues"]["longest_answer"]
    helm = cue["models"]
    five = found["truthfulqa-binary"]["cues"]["longest_answer"]["models"]
    sure = {
        part: sum(m["gap"]["ci"][0] > 0 for m in of.values()) for part, of in (("helm", helm), ("five", five))
    }
    asked = {name: row["models"] for name, row in sets.items() if row["models"] is not None}
    together = [name for name, row in asked.items() if row["both_right"]["p_corrected"] <= NEGLIGIBLE]
    labels = _read("agreement")
    better = {
        name: 1 - row["residual"]["value"] / (row["probe"]["value"] - row["chance"])
        for name, row in sets.items()
        if row["flagged"]["value"] > NEGLIGIBLE
    }
    shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in better.items())
    changed = {s: len(found[s]["filter"]["changed"]) for s in ("mmlu-ten", "truthfulqa-binary")}
    pairs = {s: found[s]["filter"]["pairs"] for s in changed}
    rows = [
        ["models score more where the longest option is the key (heuristic gap)",
         f"{sure['helm']} of {len(helm)} of HELM's on `mmlu-ten`, {sure['five']} of {len(five)} on `truthfulqa-binary`",
         "partly"],
        ["models agree on shortcut items beyond chance",
         f"{len(together)} of {len(asked)} sets, by two small models: {', '.join(together) or 'none'}", "partly"],
        ["the filter agrees with labels of shortcuts",
         f"kappa {labels['verdict']['kappa']['value']:.2f} on {labels['n']} items of the demo; no real set has labels",
         "not shown on real sets"],
        ["at least three biases", f"{len(_read('biases')['biases'])} cues on "
         f"{len({b['set'] for b in _read('biases')['biases']})} sets", "yes"],
        ["more than 10 % less to be had without the question, after the filter",
         f"{shares}; on the other {len(sets) - len(better)} sets nothing or hardly an item is removed",
         f"yes on {sum(s > 0.1 for s in better.values())} sets"],
        ["conclusions on models that change",
         f"without what is flagged {changed['mmlu-ten']} of {pairs['mmlu-ten']} comparisons on `mmlu-ten` and "
         f"{changed['truthfulqa-binary']} of {pairs['truthfulqa-binary']} on `truthfulqa-binary`; where the longest option "
         f"is not the key {len(cue['overtakes'])} of {cue['pairs']} pairs of HELM's models change places, "
         f"{len(cue['moved'])} of them beyond chance",
         "few" if any(changed.values()) else "hardly"],
    ]  # fmt: skip
    return table("criterion | what was found | met", rows, 3)


def labels() -> str:
    found = _read("agreement")
    names = ("W", "surface", "models")
    rows = [
        [
            {
                "W": "W, the scorer's confidence",
                "surface": "surface cues alone",
                "models": "votes and vectors alone",
            }[n],
            *(
                f"{q['value']:.2f} ({q['ci'][0]:.2f} to {q['ci'][1]:.2f})"
                for q in found["rankings"][n].values()
            ),
        ]
        for n in names
    ]
    k = found["rankings"]["W"]["precision_at_k"]["k"]
    return table(f"ranking | AUROC, {found['n']} items | precision among the {k} highest", rows)


def control() -> str:
    rows = []
    for name, pair in _read("control").items():
        alone, both = pair["removed"]
        moved = pair["moved"]
        rows.append([
            f"`{name}`", str(pair["n_common"]), str(alone), str(both), _with_ci(pair["jaccard"], ""),
            str(moved.get("robust -> shortcut", 0) + moved.get("undecided -> shortcut", 0)),
        ])  # fmt: skip
    return table(
        "set | items | flagged without voters | with two voters | Jaccard, % | flagged with voters alone",
        rows,
    )


def _from(block: Callable[[], str], *files: str) -> Callable[[], str]:
    """The block and below it the files that it was made of."""
    links = ", ".join(f"[{name}.json](../results/atlas/{name}.json)" for name in files)
    return lambda: f"{block()}\nFrom {links}.\n"


BLOCKS: dict[str, Callable[[], str]] = {
    "findings-worst": _from(worst, "index"),
    "findings-table": _from(every_set, "index"),
    "findings-models": _from(models, "index"),
    "findings-sets": _from(by_set, "index"),
    "findings-biases": _from(biases, "biases"),
    "findings-orders": _from(orders, "predictions"),
    "findings-published": _from(
        published, "truthfulqa-binary", "truthfulqa-mc1", "arct", "negation", "predictions"
    ),
    "findings-criteria": _from(criteria, "index", "predictions", "biases", "agreement"),
    "findings-labels": _from(labels, "agreement"),
    "findings-control": _from(control, "control"),
}
