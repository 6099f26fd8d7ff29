"""Tables of the report page by the name of their CSV file."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from robustify.judging.measures import ADJUSTED, CLOZE, FULL, SECTIONS, Measure, Section, of_section
from robustify.report.format import count, p_value, plain, shares, spaced
from robustify.report.messages import catalogue, cue_words, in_items, label
from robustify.report.tables import Cell, Name, Table, cell, p_cell, table, text, voting
from robustify.summary.measured import Measured, Score
from robustify.summary.quantity import Quantity
from robustify.summary.result import AuditorResult, Summary
from robustify.summary.scored import AdjustedDifference, Paired

MOST_PAIRS, MOST_SCORES, MOST_CHARTED = 15, 8, 4
WIDE = ("gaps", "norms")
"""Sections whose measures are columns."""
Tables = Mapping[str, Table]


def page_tables(s: Summary, provenance: Mapping[str, Any], kept: str, *, explorer: bool) -> Tables:
    """Return the tables of a summary. `kept` is the word for items that are not flagged."""
    hidden = s.screen.hidden if s.screen else "question"
    return {
        **_flagged(s, hidden, explorer=explorer),
        **_scores(s, kept, kept.capitalize()),
        **_checks(s),
        **_appendix(s, kept.capitalize()),
        "models": table(
            "Models", "Model", provenance["models"].items(),
            ("Engine", lambda m: text(m.get("engine"))), ("Weights", lambda m: text(m.get("weights"))),
            ("Type", lambda m: text(m.get("dtype"))), ("Licence", lambda m: text(m.get("licence"))),
        ),
    }  # fmt: skip


def _flagged(s: Summary, hidden: str, *, explorer: bool) -> Tables:
    cues, labels = s.evidence.cues if s.evidence else {}, cue_words("label")
    link = "explorer.html#verdict=shortcut&cue=" if explorer else ""
    return {
        "flagged": table(
            "Flagged, by rule", "Rule", _rules(s),
            ("Flagged", lambda row: row[0]),
            ("Expected under the null (no shortcut)", lambda row: cell(row[1], "count")),
            ("Overlap", lambda row: row[2]),
        ),
        "cues": table(
            "Flagged items by their first cue", "First cue",
            ((Cell(plain(labels[cue]), link=link and link + cue), q) for cue, q in cues.items()),
            ("Items", lambda q: None if q.value is None else Cell(count(in_items(q)), value=in_items(q))),
            ("Of the flagged", lambda q: q),
        ),
        "voters": table(
            f"The voters, asked without the {hidden}", "Voter", (s.screen.voters if s.screen else {}).items(),
            (f"Right without the {hidden}", lambda v: v.accuracy),
            ("Picks by position shown", lambda v: _shares(v.position_share)),
            ("Unanswered", lambda v: cell(v.unanswered, "count")), ("Ties", lambda v: cell(v.ties, "count")),
        ),
        "defects": table(
            "Defects by kind", "Kind",
            ((catalogue()["defects"].get(kind, kind), found) for kind, found in s.benchmark.defects.items()),
            ("Items", lambda f: cell(f.n, "count")),
            ("Which", lambda found: text(", ".join(plain(one, 60) for one in found.items) or None)),
        ),
        "excluded": table(
            "Items that cannot be asked as cloze, by reason", "Reason", s.splits.cloze_excluded.items(),
            ("Items", lambda n: cell(n, "count")),
        ),
    }  # fmt: skip


def _rules(s: Summary) -> Iterator[tuple[str, tuple[Quantity | None, Quantity | None, float | None]]]:
    """Yield the flags of the run's rule and of other rules, the flags expected, and the overlap of both rules."""
    if s.screen is None:
        return
    by_position, d4 = s.screen.by_position, s.screen.d4_rule
    yield "This run", (s.screen.flagged, s.screen.expected_flags, None)
    yield "This run, positions known", (None, by_position.expected_flags if by_position else None, None)
    for rule in s.sensitivity:
        yield rule.name, (rule.flagged, rule.expected, rule.jaccard)
    if d4 and not s.sensitivity:
        yield "D.4", (d4.flagged, d4.expected_flags, None)
    if d4 and d4.by_position:
        yield "D.4, positions known", (None, d4.by_position.expected_flags, None)


def _shares(values: tuple[float, ...] | None) -> Cell | None:
    return Cell(shares(values), value=shares(values), parts=values) if values else None


def _scores(s: Summary, kept: str, Kept: str) -> Tables:
    return {
        **{section: by_model(s, section) if section in WIDE else measured(s, section, Kept) for section in SECTIONS},
        "most": measured(s, "scores", Kept, MOST_SCORES),
        "left": table(
            "Auditors above chance", "Auditor", (s.adjustment.left if s.adjustment else {}).items(),
            ("Unweighted", lambda q: cell(q.before, "points")), ("Weighted", lambda q: cell(q, "points")),
            ("p", lambda q: p_cell(q.p_holm)),
        ),
        "pairs": table(
            "Pairs of models on the same items", ("Pair", "Items"), _pairs(s, kept),
            ("First less second", lambda pair: cell(pair.difference if isinstance(pair, Paired) else pair, "points")),
            ("p", lambda pair: p_cell(pair.p_holm if isinstance(pair, Paired) else pair.p)),
            ("Detectable", lambda pair: cell(pair.mde if isinstance(pair, Paired) else None, "points")),
        ),
    }  # fmt: skip


def measured(s: Summary, section: Section, Kept: str, most: int | None = None) -> Table:
    """Return the measures of a section as rows, at most `most` for each measure, with a column for each part.

    A column with the name of the measure is left out if there is only one.
    """
    measures = [measure for measure in of_section(section) if measure.of(s)]
    rows = [
        ((_named(measure), *_subject(s, measure, name)), (measure, parts))
        for measure in measures for name, parts in list(measure.of(s).items())[:most]
    ]  # fmt: skip
    heads = ("Number", *(("Model",) if rows and len(rows[0][0]) > 1 else ()))
    if len(measures) == 1 and measures[0].scope == "rule":
        heads, rows = ("Rule",), [(names[1:], row) for names, row in rows]
    return table(
        catalogue()["sections"][section], heads, rows,
        ("All", lambda row: _score(row[0], row[1].all)),
        ("Flagged", lambda row: _score(row[0], row[1].flagged)),
        (Kept, lambda row: _score(row[0], row[1].kept)),
    )  # fmt: skip


def by_model(s: Summary, section: Section) -> Table:
    """Return the measures of a section on all items as columns, with a row for each model."""

    def score(measure: Measure, name: str) -> Cell:
        return _score(measure, measure.of(s).get(name, Measured()).all)

    measures = of_section(section)
    columns = [(_named(measure), partial(score, measure)) for measure in measures]
    rows = ((voting(name, model.is_voter), name) for name, model in s.models.items())
    return table(catalogue()["sections"][section], "Model", rows, *columns)


def charted(s: Summary, Kept: str) -> list[tuple[str, list[tuple[str, Score, bool]]]]:
    """Return the scores of up to four models, then their cloze scores: label, score, and whether its items are robust."""
    called = {name: plain(name, 40) + "*" * m.is_voter for name, m in list(s.models.items())[:MOST_CHARTED]}
    full, adjusted, cloze = (
        {name: measure.of(s).get(name, Measured()) for name in called} for measure in (FULL, ADJUSTED, CLOZE)
    )
    found = [
        (words, [("All items", full[name].all), (f"{Kept} items", full[name].kept), ("Adjusted", adjusted[name].all)])
        for name, words in called.items()
    ]  # fmt: skip
    found.append(
        ("Cloze: another task, no option shown", [(called[name], cloze[name].all) for name in called])
    )
    shown = (
        (heading, [(said, score, said == "Robust items") for said, score in rows if score and score.value is not None])
        for heading, rows in found
    )  # fmt: skip
    return [group for group in shown if group[1]]


def _named(measure: Measure) -> str:
    words = label(measure.name)
    return words[:1].upper() + words[1:]


def _subject(s: Summary, measure: Measure, name: str) -> tuple[Name, ...]:
    """Return the name of a model or rule. Empty for the set."""
    match measure.scope:
        case "set":
            return ()
        case "model":
            return (voting(name, s.models[name].is_voter),)
        case "rule":
            return (name,)


def _score(measure: Measure, score: Score | None) -> Cell:
    match measure.unit:
        case "points":
            return cell(score, "points")
        case "p":
            return p_cell(None if score is None else score.value)
        case "accuracy" | "share":
            return cell(score)


def _pairs(s: Summary, kept: str) -> Iterator[tuple[tuple[Name, str], Paired | AdjustedDifference]]:
    for name, pair in list((s.pairs or {}).items())[:MOST_PAIRS]:
        named = voting(name, pair.is_voter)
        if pair.full:
            yield (named, "all"), pair.full.all
            yield (named, kept), pair.full.robust
        if pair.adjusted:
            yield (named, "adjusted"), pair.adjusted
        if pair.cloze_chars:
            yield (named, "cloze, all"), pair.cloze_chars.all


def _checks(s: Summary) -> Tables:
    files = s.contamination.overlap.files if s.contamination else ()
    return {
        "auditors": table(
            "The auditors", ("Auditor", "Kind"), auditors(s),
            ("Right on kept items", lambda q: q), ("Chance", lambda q: q.chance), ("p", lambda q: p_cell(q.p)),
            ("Right on all", lambda q: q.before), ("Detectable rate", lambda q: q.noticeable),
        ),
        "texts": table(
            "Searched texts", "File", ((file.name, file) for file in files),
            ("Words", lambda f: cell(f.words, "count")), ("Bytes", lambda f: cell(f.bytes, "count")),
            ("SHA-256", lambda f: text(f.sha256)),
        ),
    }  # fmt: skip


def auditors(s: Summary) -> Iterator[tuple[tuple[str, str], AuditorResult]]:
    """Yield the name, kind, and result of each auditor of the kept items."""
    if (found := s.residual) is None:
        return
    for name, auditor in found.non_voters.items():
        yield (name, "did not vote"), auditor
    for name, auditor in found.leave_one_out.items():
        yield (name, "left out of the vote"), auditor
    for name, auditor in (found.heuristics or {}).items():
        yield (spaced(name), "rule"), auditor
    if found.probe:
        yield ("probe", "fresh, but a probe voted" if found.probe_voted else "fresh"), found.probe
    if found.encoder:
        yield ("meaning of the options", "sentence encoder"), found.encoder
    for name, auditor in (found.others or {}).items():
        yield (name, "other"), auditor


def _appendix(s: Summary, Kept: str) -> Tables:
    views = [
        ((name, label), view) for name, found in s.calibration.items()
        for label, view in (("full", found.full), ("cloze", found.cloze_chars)) if view
    ]  # fmt: skip
    return {
        "random": table(
            "Kept items against random removals", "Model",
            ((voting(name, found.is_voter), found) for name, found in (s.random_removal or {}).items()),
            (Kept, lambda f: f.robust), ("Random", lambda f: Quantity(value=f.mean, ci=f.ci)),
            ("Percentile", lambda f: cell(f.percentile, "number")),
        ),
        "order": table(
            "Order of the options", "Model",
            ((voting(name, found.is_voter), found) for name, found in s.permutation.by_model.items() if found),
            ("Mean", lambda f: Quantity(value=f.mean, n=f.n, ci=f.mean_ci)), ("SD", lambda f: cell(f.sd, "points")),
            ("Lowest", lambda f: f.min), ("Highest", lambda f: f.max), ("Flips", lambda f: f.flip_rate),
            ("Same in all", lambda f: f.consistency),
        ),
        "calibration": table(
            "Calibration", ("Model", "View"), views,
            ("ECE", lambda c: cell(Quantity(value=c.ece, ci=c.ece_ci), "number", p_value(c.ece_p))),
            ("If calibrated", lambda c: cell(c.ece_if_calibrated, "number")),
            ("Brier", lambda c: cell(Quantity(value=c.brier, ci=c.brier_ci), "number")),
            ("Temperature", lambda c: cell(c.temperature, "number")),
        ),
        "topics": table(
            "Topics before and after", "Topic", (s.topics.by_topic if s.topics else {}).items(),
            ("Before", lambda t: cell(t.before, "count")), ("After", lambda t: cell(t.after, "count")),
            ("Kept", lambda t: t.retention), ("p", lambda t: p_cell(t.p_bh)),
        ),
    }  # fmt: skip
