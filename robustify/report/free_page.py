"""The page of free response: what each model scores by kind and topic, who judged, and how far the judge is to be believed.

Bounds come first: they are over all answers, and an accuracy over those with a score alone. Counts, rates and names of
models and templates are printed, never text of an item or an answer.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from robustify.judge.free_response import LEAST_COVERAGE
from robustify.report.blocks import (
    Cell,
    FirstScreen,
    Group,
    Kind,
    Mark,
    Page,
    Paragraph,
    Plot,
    PlotRow,
    Row,
    Section,
    Tile,
    Todo,
    Tone,
    text_table,
    under,
)
from robustify.report.format import (
    absent,
    as_released,
    between,
    count,
    counted,
    joined,
    missing,
    p_cell,
    percent,
    plain,
    points_cell,
    rate_cell,
    signed,
    spaced,
)
from robustify.report.printing import html, whole_markdown
from robustify.summary.quantity import Interval, Quantity

Node = Mapping[str, Any]
LEGEND: tuple[tuple[Kind, str], ...] = (
    ("before", "all answers, unscored wrong to right"),
    ("main", "those with a score"),
)
MOST_DRAWN = 12
"""Lines of the first screen's figure."""
_DOUBTS = {
    "few_labels": "fewer than 30 answers have a label of a person and of the judge",
    "kappa_undefined": "kappa has no interval: people gave one label alone, or too few items are labelled",
    "kappa_low": "the lower bound of kappa is not above 0.6",
}


def markdown_page(summary: Node) -> str:
    """The summary of `freeform.report.summarise` as a page of Markdown."""
    return _printed(summary, whole_markdown)


def html_page(summary: Node) -> str:
    """The same as report.html."""
    return _printed(summary, html)


def _printed(summary: Node, printer: Callable[[Page], str]) -> str:
    with as_released(bool(summary["restricted"])):
        return printer(_page(summary))


def _page(summary: Node) -> Page:
    against = tuple(_against(summary))
    groups = (
        Group("models", "How models score", "An answer without a score may be wrong or right; bounds leave both open.",
              (_scores(summary), *_topics(summary), *_nuggets(summary))),
        Group("change", "What changed", "The same questions, answered by both models.", against),
        Group("trust", "How far to trust this", "Who decided what is right, and what nobody decided.",
              (_calibration(summary), _unscored(summary))),
    )  # fmt: skip
    return Page("Free response", _first(summary), tuple(group for group in groups if group.sections), "")


def parts_of(summary: Node) -> Iterator[tuple[str, str, Node]]:
    """Each model's answers of each kind: the model, the kind, and their numbers. Kinds mean different things."""
    for model, entry in summary["models"].items():
        for kind, part in (entry["kinds"] or {"all": entry["all"]}).items():
            yield plain(model), spaced(kind), part


def _first(summary: Node) -> FirstScreen:
    parts = list(parts_of(summary))
    shares = [part["coverage"]["value"] for *_, part in parts]
    low = sum(share is not None and share < LEAST_COVERAGE for share in shares)
    judged = any(entry["judges"] for entry in summary["models"].values())
    status, models = summary["calibration"]["status"], summary["models"].values()
    best = max((p for p in parts if p[2]["lower"] is not None), key=lambda p: p[2]["lower"], default=None)
    asked = [entry["all"]["n"] for entry in models]
    return FirstScreen(
        *_verdict(low, len(parts), judged, status),
        above=(),
        tiles=(
            Tile("right at best, over all answers", missing() if best is None else bounds(best[2]),
                 "" if best is None else f"{best[0]}, {best[1]}"),
            Tile("answers", count(sum(asked)) if all(isinstance(n, int) for n in asked) else missing(),
                 f"{counted(len(models), 'model')}, {summary['n_items']} items prepared"),
            Tile("decided by a judge", _judged(parts), f"judge {status}" if judged else "rules decided all"),
        ),
        bar=(),
        scores=_plot(parts),
        todo=tuple(_todo(summary, low, judged)),
    )  # fmt: skip


def _verdict(low: int, of: int, judged: bool, status: str) -> tuple[str, Tone]:
    if not of:
        return "No answer was graded.", "unsure"
    if low:
        return f"Do not compare yet: {low} of {counted(of, 'score')} rest on too few answers.", "bad"
    if judged and status == "uncalibrated":
        return "Trust it with care: a judge decided, and nobody has shown how often it is right.", "unsure"
    return (
        f"Trust it: {'people agree with the judge' if judged else 'rules alone decided, and no judge'}.",
        "good",
    )


def _judged(parts: list[tuple[str, str, Node]]) -> str:
    shares = [share for *_, part in parts if (share := part["by_judge"]["value"]) is not None]
    if not shares:
        return missing()
    ends = min(shares), max(shares)
    return percent(ends[0]) if ends[0] == ends[1] else f"{between(ends)} %"


def _plot(parts: list[tuple[str, str, Node]]) -> Plot | None:
    rows: list[PlotRow] = []
    before = ""
    for model, kind, part in islice((p for p in parts if p[2]["upper"] is not None), MOST_DRAWN):
        rows += [PlotRow(model)] if model != before else []
        before, q = model, _quantity(part["accuracy"])
        marks = [Mark(part["lower"], (part["lower"], part["upper"]), "before")]
        marks += [] if q.value is None else [Mark(q.value, q.ci)]
        rows.append(PlotRow(kind, tuple(marks), bounds(part)))
    return Plot("accuracy", "Right answers", tuple(rows), LEGEND) if rows else None


def _todo(summary: Node, low: int, judged: bool) -> Iterator[Todo]:
    if low:
        yield Todo(
            "Grade the answers that have no score",
            "below 80 % with a score no accuracy is given",
            "#unscored",
        )
    if judged and summary["calibration"]["status"] == "uncalibrated":
        yield Todo(
            "Have people label 30 answers (free agree)",
            "nobody knows how often the judge is right",
            "#judge",
        )
    own = [plain(name) for name, entry in summary["models"].items() if entry["self_judging"]]
    if own:
        yield Todo("Ask another judge", f"{joined(*own)} judged its own answers", "#scores")


def _quantity(node: Node) -> Quantity:
    """A number; a count too small to be shown is left out."""
    n, ci = node.get("n"), node.get("ci")
    return Quantity(
        value=node["value"],
        n=n if isinstance(n, int) else None,
        ci=ci and tuple(ci),
        withheld=node.get("withheld"),
    )


def bounds(part: Node) -> str:
    """What is right over all answers: every unscored one wrong, to every one right."""
    ends: Interval = (part["lower"], part["upper"])
    return "-" if ends[1] is None else f"{percent(ends[0])} to {percent(ends[1])}"


MEASURES = ("Answers", "Right: unscored wrong to right", "Accuracy of the scored", "Coverage", "By judge")


def measures(part: Node) -> Row:
    """The numbers of a part as cells: how many answers, bounds, then the accuracy of those with a score."""
    n = part["n"]
    rates = (rate_cell(_quantity(part[name])) for name in ("accuracy", "coverage", "by_judge"))
    return count(n) if isinstance(n, int) else n, bounds(part), *rates


def _scores(summary: Node) -> Section:
    status = summary["calibration"]["status"]
    rows: list[Row] = []
    for model, entry in summary["models"].items():
        judge = f"{joined(*map(plain, entry['judges']))} ({status})" if entry["judges"] else "none"
        judge += f", {entry['self_judging']} of its own answers" if entry["self_judging"] else ""
        kinds = entry["kinds"] or {"all": entry["all"]}
        kinds = {**kinds, "all kinds": entry["all"]} if len(kinds) > 1 else kinds
        parts = [(spaced(kind), judge, *measures(part)) for kind, part in kinds.items()]
        rows += under([(Cell(plain(model)), parts)])
    left_out = ", ".join(f"{spaced(name)} {n}" for name, n in summary.get("left_out", {}).items())
    title, note = "By kind of answer", f"Rows left out: {left_out}." if left_out else ""
    scores = text_table(title, ("Model", "Kind", "Judge", *MEASURES), rows, note, words=3)
    return Section.of("scores", title, scores, words="free", open=True)


def _topics(summary: Node) -> Iterator[Section]:
    parts = {
        (plain(topic), spaced(kind), plain(model)): part
        for model, entry in summary["models"].items()
        for topic, kinds in entry["topics"].items()
        for kind, part in kinds.items()
    }
    rows = ((*names, *measures(parts[names])) for names in sorted(parts))
    if parts:
        found = text_table("By topic", ("Topic", "Kind", "Model", *MEASURES), rows, words=3)
        yield Section.of("topics", "By topic", found)


def _nuggets(summary: Node) -> Iterator[Section]:
    """The nugget scores, and how often each label was given."""
    rows, said = [], []
    for model, entry in summary["models"].items():
        part = entry["kinds"].get("nuggets") or {}
        for name, score in (part.get("nugget_scores") or {}).items():
            names = plain(model), spaced(name), str(score["asked"])
            rows.append((*names, bounds(score), rate_cell(_quantity(score))))
        if counts := part.get("labels") or {}:
            given = ", ".join(f"{spaced(label)} {n}" for label, n in counts.items())
            said.append(
                f"{plain(model)}: {sum(counts.values())} nuggets: {given}; unreviewed {part['nuggets_unreviewed']}."
            )
    heads = "Model", "Score", "Answers", "If unread: not stated to stated", "Mean of the read"
    if rows:
        yield Section.of(
            "nuggets", "Nuggets", text_table("Nuggets", heads, rows, words=2), *map(Paragraph, said)
        )


def _calibration(summary: Node) -> Section:
    node = summary["calibration"]
    parts = {name: node[name] for name in ("verdicts", "nuggets") if node.get(name) is not None}
    said = []
    if not parts:
        said.append(
            f"{node['status']}: no person has labelled these answers, so it is not known how often the judge is right."
        )
    elif node["status"] == "uncalibrated":
        whys = [f"{name}: {_DOUBTS[part['doubt']]}" for name, part in parts.items() if part["doubt"]]
        said.append(
            f"{node['status']}: {'; '.join(whys) or 'no person has labelled all that the judge decided'}."
        )
    said += [line for name, part in parts.items() for line in _agreement(name, part)]
    return Section.of("judge", "How reliable the judge is", *map(Paragraph, said))


def _agreement(name: str, part: Node) -> Iterator[str]:
    shares = ", ".join(f"{spaced(label)} {percent(x)}" for label, x in part["base_rates"]["first"].items())
    kappa = _quantity(part["kappa"])
    ends = f" ({between(kappa.ci, 1.0, 2)})" if kappa.ci else ""
    written = "not defined" if kappa.value is None else f"{signed(kappa.value, 2)}{ends}"
    yield (
        f"{name}: n {part['n']}, kappa {written}, the same word {_rate(part['raw'])}; people say {shares or '(too few)'}; "
        f"unread by the judge {part['n_judge_unread']}."
    )
    if corrected := part.get("corrected_rate"):
        yield f"Rate of right answers, corrected for the judge's errors, among those it judged: {_rate(corrected)}."


def _rate(node: Node) -> str:
    return rate_cell(_quantity(node)).exact


def _unscored(summary: Node) -> Section:
    said = []
    for model, entry in summary["models"].items():
        counts = entry.get("statuses", entry["all"].get("statuses"))
        words = (
            "too few of one status"
            if counts is None
            else ", ".join(f"{spaced(k)} {n}" for k, n in counts.items())
        )
        said.append(f"{plain(model)}: {words}.")
    return Section.of("unscored", "Why answers have no score", *map(Paragraph, said))


def _against(summary: Node) -> Iterator[Section]:
    """Every other model against the base model, by kind and by topic."""
    node = summary["against_base"]
    if node is None:
        return
    base, rows = node["base"], []
    for model, entry in node["models"].items():
        for topic, pairs in {"": entry["kinds"], **entry["topics"]}.items():
            for kind, pair in pairs.items():
                both = [summary["models"][name] for name in (base, model)]
                kinds = [entry["topics"].get(topic, {}) if topic else entry["kinds"] for entry in both]
                ends = (bounds(parts[kind]) if kind in parts else "-" for parts in kinds)
                names = (plain(topic) if topic else "all topics", spaced(kind), plain(model))
                rows.append((*names, *ends, *_pair(pair)))
    heads = (
        "Topic", "Kind", "Model", plain(base), "Model's", "Decided of both", "Difference", "Unscored against to for",
        "Gained, lost", "p (Holm)",
    )  # fmt: skip
    title = f"Against {plain(base)}"
    yield Section.of("against", title, text_table(title, heads, rows, words=3))


def _pair(pair: Node) -> Row:
    moved = ("-" if pair[name] is None else str(pair[name]) for name in ("gained", "lost"))
    difference = _quantity(pair["difference"])
    decided = f"{'-' if difference.n is None else difference.n} of {pair['n_both']}"
    ends = "-" if pair["upper"] is None else f"{between((pair['lower'], pair['upper']))} points"
    p = absent("not tested") if pair["p_holm"] is None else p_cell(pair["p_holm"])
    return decided, points_cell(difference), ends, ", ".join(moved), p
