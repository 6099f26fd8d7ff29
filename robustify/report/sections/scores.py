"""What the models score: by view and split, from being shown the options, and in free response."""

from collections.abc import Iterator, Sequence

from robustify.report.blocks import (
    Block,
    Cell,
    Line,
    Paragraph,
    Row,
    Section,
    Table,
    text_table,
    under,
)
from robustify.report.format import (
    absent,
    against_chance_cell,
    between,
    by_mode,
    count,
    model_cell,
    noted,
    percent,
    plain,
    points_cell,
    rate,
    rate_cell,
)
from robustify.summary.quantity import Quantity
from robustify.summary.result import Summary
from robustify.summary.scored import Accuracy, AgainstChance, FreeRate, FreeScores, ViewScores
from robustify.summary.screened import Benchmark

Models = Sequence[tuple[str, Accuracy]]
SPLITS = ("all", "shortcut", "robust")
UNCALIBRATED = "uncalibrated"


def accuracy(summary: Summary) -> Section:
    """All, Shortcut, Robust and Cloze by model; then the same for every other view."""
    models = list((summary.accuracy or {}).items())
    title = "Scores on All, Shortcut, Robust and Cloze"
    if not models:
        return Section.of("scores", title, "Not measured: no model was asked the full question or cloze.")
    free = [(name, e, e.free) for name, e in models if e.free is not None]
    return Section.of(
        "scores",
        title,
        at_chance(summary, models),
        _main(models, summary.full_mode),
        _views(models),
        _gaps(models),
        *(_free_response(free) if free else ()),
        words="rate voter chance significant cloze choices_only gap" + (" free" if free else ""),
    )


def at_chance(summary: Summary, models: Models) -> Paragraph | None:
    """Which models cannot be distinguished from chance on All, and how else they were asked; None where all can."""
    said = [
        f"{plain(name)} cannot be distinguished from chance on All {by_mode(summary.full_mode)}: {_beside_chance(full)}; "
        f"{_otherwise(e, 'letter' if summary.full_mode == 'text' else 'text')}."
        for name, e in models
        if (full := (e.full or ViewScores()).all) is not None and full.significant is False
    ]
    tail = " Of such a model Shortcut and Robust say nothing." if said else ""
    return Paragraph(" ".join(said) + tail) if said else None


def _beside_chance(q: AgainstChance) -> str:
    return rate(q) + ("" if q.chance is None else f", chance {percent(q.chance)}")


def _otherwise(e: Accuracy, other: str) -> str:
    """Where the model is distinct from chance, of the other mode and cloze; else that it cannot, or was not asked."""
    tried = (by_mode(other), e.full_other), ("by cloze", (e.cloze_chars or ViewScores()).all)
    asked = [(how, q) for how, q in tried if q is not None and q.significant is not None]
    can = [f"{how} it can: {_beside_chance(q)}" for how, q in asked if q.significant and _above(q)]
    if can:
        return "; ".join(can)
    neither = f"{' and '.join(how for how, _ in asked)} neither" if asked else "it was asked in no other way"
    return neither if e.full_other is not None else f"{neither} (asking.mode: {other} was not asked)"


def _above(q: AgainstChance) -> bool:
    return q.value is not None and q.chance is not None and q.value > q.chance


def _main(models: Models, mode: str | None) -> Table:
    free = any(e.free is not None for _, e in models)
    judged = any(q.significant is not None for _, e in models for _, q in _four(e) if q is not None)
    by_chance = "" if judged else " Whether scores differ from chance was not judged."
    return text_table(
        "Accuracy by model",
        ("Model", "All", "Shortcut", "Robust", "Cloze", *(["Free"] if free else [])),
        (
            (
                model_cell(name, e.is_voter),
                *(against_chance_cell(q) for _, q in _four(e)),
                *([_free_cell(e.free)] if free else []),
            )
            for name, e in models
        ),
        f"All, Shortcut and Robust: the full question, {by_mode(mode)}.{by_chance}",
    )


def _four(e: Accuracy) -> Iterator[tuple[str, AgainstChance | None]]:
    full = e.full or ViewScores()
    yield from zip(SPLITS, (full.all, full.shortcut, full.robust), strict=True)
    yield "cloze", (e.cloze_chars or ViewScores()).all


def chance_line(summary: Summary) -> tuple[Line, ...]:
    """The benchmark's chance accuracy as a reference line."""
    chance = (summary.benchmark or Benchmark()).chance_accuracy
    return () if chance is None else (Line(chance, f"chance {percent(chance)}"),)


def _other_views(e: Accuracy) -> Iterator[Row]:
    for label, v in (
        ("choices only, letters", e.choices_only),
        ("choices only, texts", e.choices_only_text),
        ("cloze, by characters", e.cloze_chars),
        ("cloze, by tokens", e.cloze_tokens),
        ("cloze, by bytes", e.cloze_bytes),
        ("cloze, sum", e.cloze_sum),
        ("cloze, PMI", e.cloze_pmi),
    ):
        if v is not None:
            yield label, against_chance_cell(v.all), rate_cell(v.shortcut), rate_cell(v.robust)


def _views(models: Models) -> Table | str:
    rows = [(model_cell(name, e.is_voter), list(_other_views(e))) for name, e in models]
    if not any(views for _, views in rows):
        return "Choices-only and cloze accuracies: not measured."
    heads = ("Model", "View", *(s.capitalize() for s in SPLITS))
    return text_table("The other views", heads, under(rows), words=2)


def _gaps(models: Models) -> Table:
    heads = (
        "Longest option, full question",
        "Longest option, cloze by characters",
        "Full question less cloze",
    )
    return text_table(
        "What models gain from the longest option, and from seeing the options",
        ("Model", *heads),
        (
            (
                model_cell(name, e.is_voter),
                points_cell((e.full or ViewScores()).heuristic_gap),
                points_cell((e.cloze_chars or ViewScores()).heuristic_gap),
                points_cell(e.format_gap),
            )
            for name, e in models
        ),
    )


FreeModels = Sequence[tuple[str, Accuracy, FreeScores]]


def _free_cell(free: FreeScores | None) -> Cell:
    """The bounds of accuracy in free response; the rate of those with a score and who decided in small print."""
    if free is None or free.all is None:
        return absent()
    q, judged = free.all, (free.all.by_judge or Quantity()).value
    of_scored = rate_cell(q)
    return noted(
        of_scored if q.n == q.asked else _bounds(q),
        "" if q.n == q.asked else f"{of_scored.main} of those with a score",
        f"{percent(judged)} by a judge ({_status(free)})" if judged else "",
    )


def _free_response(models: FreeModels) -> Iterator[Block | str]:
    yield _free_splits(models)
    yield _free_gaps(models)
    yield from _trust(models)


def _free_splits(models: FreeModels) -> Table:
    heads = ("Bounds", "Accuracy of the scored", "With a score", "Decided by a judge")
    return text_table(
        "Free response",
        ("Model", "Split", *heads),
        under((model_cell(name, e.is_voter), _free_rows(free)) for name, e, free in models),
        words=2,
    )


def _free_rows(free: FreeScores) -> Iterator[Row]:
    for split, q in zip(SPLITS, (free.all, free.shortcut, free.robust), strict=True):
        q = q or FreeRate()
        yield split.capitalize(), _bounds(q), rate_cell(q), rate_cell(q.coverage), rate_cell(q.by_judge)


def _bounds(q: FreeRate) -> Cell:
    if q.lower is None or q.upper is None:
        return absent("none")
    return Cell(f"{between((q.lower, q.upper))} %")


def _free_gaps(models: FreeModels) -> Table:
    return text_table(
        "What models gain from being shown the options",
        ("Model", "Full question less free response", "Longest option, free response"),
        (
            (model_cell(name, e.is_voter), points_cell(free.full_gap), points_cell(free.heuristic_gap))
            for name, e, free in models
        ),
    )


def _trust(models: FreeModels) -> Iterator[Block | str]:
    judged = [(name, free, free.judges) for name, _, free in models if free.judges]
    left_out = models[0][2].left_out or {}
    if left_out:
        reasons = ", ".join(f"{plain(name).replace('_', ' ')} {n}" for name, n in left_out.items())
        yield f"Not asked in words: {reasons}."
    if any(_status(free) == UNCALIBRATED for _, free, _ in judged):
        judges = ", ".join(sorted({plain(judge) for _, _, judges in judged for judge in judges}))
        yield Paragraph(
            f"The judge ({judges}) is uncalibrated: labels of people (30 or more, kappa surely above 0.6) do not show how "
            "often it is right."
        )
    for name, free, _ in judged:
        kappa = free.judge_kappa
        kappa = kappa if isinstance(kappa, Quantity) else Quantity(value=kappa)
        if kappa.value is not None:
            ends = "" if kappa.ci is None else f" ({between(kappa.ci, 1.0, 2)})"
            yield Paragraph(f"{plain(name)}: the judge agrees with people at kappa {kappa.value:.2f}{ends}.")
        if free.self_judging:
            yield Paragraph(f"{plain(name)} judged {count(free.self_judging)} of its own answers.")


def _status(free: FreeScores) -> str:
    return plain(free.judge_status or UNCALIBRATED)
