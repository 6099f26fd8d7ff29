"""Tables of the report page, keyed by the names of their CSV files."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from robustify.judging.baselines.heuristics import SEES_STEM
from robustify.judging.lint.rules import DEFECT_WORDS
from robustify.judging.measures import SECTIONS, Measure, Section, of_section
from robustify.judging.summary.model_parts import COLDEST, HOTTEST, Looks, LooksSourceName, Paired
from robustify.judging.summary.quantity import Measured, Quantity, Score
from robustify.judging.summary.result import AuditorResult, Summary
from robustify.report.format import (
    Cell,
    Row,
    Table,
    cell,
    count,
    p_cell,
    p_value,
    plain,
    signed,
    spaced,
    table,
    voting,
)
from robustify.report.printing import KINDS, catalogue, cue_words, in_items, label, sentence
from robustify.report.quoting import LONGEST_MODEL, Quote

MOST_PAIRS, MOST_CHARTED = 15, 4
WIDE = ("gaps", "norms")
"""Sections whose measures are columns."""
Tables = Mapping[str, Table]


def page_tables(s: Summary, provenance: Mapping[str, Any], kept: str, *, explorer: bool) -> Tables:
    """Return the tables of a summary. `kept` is the word for items that are not flagged."""
    models, Kept = provenance["models"].items(), kept.capitalize()
    return {
        **_of_items(s, explorer=explorer),
        **{name: by_model(s, name) if name in WIDE else measured(s, name, Kept) for name in SECTIONS},
        **_of_models(s, kept, Kept),
        "models": table(
            "Models", ("Model", "Engine", "Weights", "Type", "License"),
            ((name, *map(m.get, ("engine", "weights", "dtype", "licence"))) for name, m in models),
        ),
    }  # fmt: skip


def _of_items(s: Summary, *, explorer: bool) -> Tables:
    hidden, labels = s.screen.hidden if s.screen else "question", cue_words("label")
    link = "explorer.html#verdict=flagged&cue=" if explorer else ""
    files = s.contamination.overlap.files if s.contamination else ()
    return {
        "flagged": table(
            "Flagged, by rule", ("Rule", "Flagged", "Expected under the null (no shortcut)", "Overlap"),
            ((name, flagged, cell(expected, "count"), overlap) for name, flagged, expected, overlap in _rules(s)),
        ),
        "cues": table(
            "Flagged items by their first cue", ("First cue", "Items", "Of the flagged"),
            ((Cell(plain(labels[cue]), link=link and link + cue),
              None if q.value is None else Cell(count(in_items(q)), value=in_items(q)), q)
             for cue, q in (s.evidence.cues if s.evidence else {}).items()),
        ),
        "voters": table(
            f"The voters, asked without the {hidden}",
            ("Voter", "Picks by position shown", "Unanswered", "Ties"),
            ((name, _shares(v.position_share), v.unanswered, v.ties)
             for name, v in (s.screen.voters if s.screen else {}).items()),
        ),
        "defects": table(
            "Defects by kind", ("Kind", "Items", "Which"),
            ((DEFECT_WORDS.get(kind, kind), defect.n, ", ".join(plain(item_id, 60) for item_id in defect.items) or None)
             for kind, defect in s.benchmark.defects.items()),
        ),
        "excluded": table(
            "Items that cannot be asked as cloze, by reason", ("Reason", "Items"), s.splits.cloze_excluded.items()
        ),
        "topics": table(
            "Kept, by topic", ("Topic", "Kept", "p"),
            ((name, t.retention, p_cell(t.p_bh))
             for name, t in (s.topics.by_topic if s.topics else {}).items()),
        ),
        "texts": table(
            "Searched texts", ("File", "Words", "Bytes", "SHA-256"), ((f.name, f.words, f.bytes, f.sha256) for f in files)
        ),
    }  # fmt: skip


def _rules(s: Summary) -> Iterator[tuple[str, Quantity | None, Quantity | None, float | None]]:
    """Yield each rule's name, its flags, the flags expected by chance, and the overlap with the flags of this run."""
    if s.screen is None:
        return
    by_position, d4 = s.screen.by_position, s.screen.d4_rule
    yield "This run", s.screen.flagged, s.screen.expected_flags, None
    yield "This run, positions known", None, by_position.expected_flags if by_position else None, None
    for rule in s.sensitivity:
        yield rule.name, rule.flagged, rule.expected, rule.jaccard
    if d4 and not s.sensitivity:
        yield "D.4", d4.flagged, d4.expected_flags, None
    if d4 and d4.by_position:
        yield "D.4, positions known", None, d4.by_position.expected_flags, None


def _shares(values: tuple[float, ...] | None) -> Cell | None:
    shown = "/".join(f"{100 * x:.1f}" for x in values or ()) + " %"
    return Cell(shown, value=shown, parts=values) if values else None


def _of_models(s: Summary, kept: str, Kept: str) -> Tables:
    views = [
        (name, view, items, c) for name, curve in s.calibration.items()
        for view, items, c in (
            ("full", "all", curve.full), ("full", "kept", curve.full_kept),
            ("cloze", "all", curve.cloze_chars), ("cloze", "kept", curve.cloze_chars_kept),
        ) if c
    ]  # fmt: skip
    return {
        "looks": table(
            "Points that models owe to options that look like keys",
            ("Model", "Looks", "By wrong picks", "Without question", "By other models", "State"),
            ((voting(name, m.is_voter), cell(m.looks, "points"), *_by_source(m.looks), _looks_state(m.looks))
             for name, m in s.models.items() if m.looks),
        ),
        "pairs": table(
            "Pairs of models on the same items", ("Pair", "Items", "First less second", "p", "Detectable"),
            _pairs(s, kept), names=2,
        ),
        "auditors": table(
            "The auditors",
            ("Auditor", "Kind", "Right on kept items", "Chance", "p", "Right on all", "Detectable rate"),
            ((*names, q, q.chance, p_cell(q.p), q.before, q.noticeable) for names, q in auditors(s)), names=2,
        ),
        "random": table(
            "Kept items against random removals", ("Model", Kept, "Random", "Percentile"),
            ((voting(name, f.is_voter), f.kept, Quantity(value=f.mean, ci=f.ci), cell(f.percentile, "number"))
             for name, f in (s.random_removal or {}).items()),
        ),
        "order": table(
            "Order of the options", ("Model", "Mean", "SD", "Flips", "Same in all"),
            ((voting(name, f.is_voter), Quantity(value=f.mean, n=f.n, ci=f.mean_ci), cell(f.sd, "points"),
              f.flip_rate, f.consistency) for name, f in s.permutation.by_model.items() if f),
        ),
        "calibration": table(
            "Calibration", ("Model", "View", "Items", "ECE", "ECE scaled", "Brier", "Brier scaled", "Temperature"),
            ((*names, cell(Quantity(value=c.ece, ci=c.ece_ci), "number", p_value(c.ece_p),
                           f"{signed(c.ece_if_calibrated, 3)} if calibrated"), cell(c.scaled_ece, "number"),
              cell(Quantity(value=c.brier, ci=c.brier_ci), "number"), cell(c.scaled_brier, "number"),
              _temperature(c.temperature)) for *names, c in views), names=3,
        ),
    }  # fmt: skip


def _by_source(looks: Looks) -> Iterator[Cell]:
    for source in get_args(LooksSourceName):
        yield cell(looks.sources.get(source), "points")


def _looks_state(looks: Looks) -> Cell:
    return Cell(looks.state, sentence(looks.reason) if looks.reason else "", value=looks.state)


def _temperature(t: float) -> Cell:
    """Format a temperature. A value at an end of the search is called a bound (scores without signal, or never wrong)."""
    bound = {HOTTEST: f"at least {count(t)}", COLDEST: f"at most {t:g}"}.get(t)
    return cell(t, "number") if bound is None else Cell(bound, value=t)


def measured(s: Summary, section: Section, Kept: str) -> Table:
    """Return the measures of a section as rows, with a column for each part. A single measure is not named."""
    measures = [measure for measure in of_section(section) if measure.read(s)]
    rows = [
        ((_named(measure), *_subject(s, measure, name)),
         tuple(_score(measure, score) for score in (parts.all, parts.flagged, parts.kept)))
        for measure in measures for name, parts in measure.read(s).items()
    ]  # fmt: skip
    heads = ("Number", *(("Model",) if rows and len(rows[0][0]) > 1 else ()))
    if len(measures) == 1 and measures[0].scope == "rule":
        heads, rows = ("Rule",), [(names[1:], cells) for names, cells in rows]
    caption = catalogue()["sections"][section]
    return table(caption, (*heads, "All", "Flagged", Kept), ((*n, *cells) for n, cells in rows), len(heads))


def by_model(s: Summary, section: Section) -> Table:
    """Return the measures of a section on all items as columns, with a row for each model."""
    columns = [(measure, measure.read(s)) for measure in of_section(section)]
    rows = (
        (voting(name, m.is_voter), *(_score(of, by.get(name, Measured()).all) for of, by in columns))
        for name, m in s.models.items()
    )
    heads = ("Model", *(_named(measure) for measure, _ in columns))
    return table(catalogue()["sections"][section], heads, rows)


Bar = tuple[str, Quantity, float]
"""Bar of a chart: its label, the number at its end, and what looks brought beyond it, as a share."""


def charted(quotes: Sequence[Quote]) -> list[tuple[str, list[Bar]]]:
    """Return up to four models with bars for the number to quote (or otherwise the score) and the points by looks."""
    charts: list[tuple[str, list[Bar]]] = []
    for quote in quotes[:MOST_CHARTED]:
        claimed = quote.number is not None and quote.number.kind == "score less looks"
        brought = (quote.looks.value or 0.0) if claimed and quote.looks else 0.0
        kind = "Score" if quote.number is None else quote.number.kind.capitalize()
        kind = {"full": kind, "cloze": "Cloze", "blind": f"Without the {quote.hidden}"}[quote.view]
        charts.append((plain(quote.model, LONGEST_MODEL), [(kind, quote.number or quote.full, brought)]))
    return charts


def _named(measure: Measure) -> str:
    words = label(measure.name)
    return words[:1].upper() + words[1:]


def _subject(s: Summary, measure: Measure, name: str) -> tuple[str | Cell, ...]:
    """Return cells that name a model (marked if it votes) or a rule (marked if it sees the question), or no cells."""
    if measure.scope == "model":
        return (voting(name, s.models[name].is_voter),)
    return (f"{name} (reads the question)" if name in SEES_STEM else name,) if name else ()


def _score(measure: Measure, score: Score | None) -> Cell:
    match measure.unit:
        case "points":
            return cell(score, "points")
        case "p":
            return p_cell(None if score is None else score.value)
        case "accuracy" | "share":
            return cell(score)


def _pairs(s: Summary, kept: str) -> Iterator[Row]:
    for name, pair in list((s.pairs or {}).items())[:MOST_PAIRS]:
        named = voting(name, pair.is_voter)
        if pair.full:
            yield named, "all", *_paired(pair.full.all)
            yield named, kept, *_paired(pair.full.kept)
        if pair.looks is not None:
            yield named, "owed to looks", cell(pair.looks, "points"), None, None
        if pair.cloze_chars:
            yield named, "cloze, all", *_paired(pair.cloze_chars.all)


def _paired(pair: Paired) -> tuple[Cell, ...]:
    return cell(pair.difference, "points"), p_cell(pair.p_holm), cell(pair.mde, "points")


def auditors(s: Summary) -> Iterator[tuple[tuple[str, str], AuditorResult]]:
    """Yield the name, kind, and result of each auditor of the kept items."""
    if (residual := s.residual) is None:
        return
    for name, auditor in residual.non_voters.items():
        yield (name, KINDS["non_voter"]), auditor
    for name, auditor in residual.leave_one_out.items():
        yield (name, KINDS["leave_one_out"]), auditor
    for name, auditor in (residual.heuristics or {}).items():
        yield (spaced(name), "rule"), auditor
    if residual.probe:
        yield ("probe", "fresh, but a probe voted" if residual.probe_voted else "fresh"), residual.probe
    if residual.encoder:
        yield ("encoder", KINDS["encoder"]), residual.encoder
    for name, auditor in (residual.others or {}).items():
        yield (name, "other"), auditor
