"""What the screen removed, and how much of that is expected by chance."""

from collections.abc import Callable, Iterator, Sequence

from robustify.report.blocks import Cell, Paragraph, Plot, PlotRow, Row, Section, Table, labelled, text_table
from robustify.report.format import (
    absent,
    count_cell,
    counted,
    dot,
    missing,
    number_cell,
    percent,
    plain,
    points_cell,
    present,
    rate_cell,
    shares_cell,
    spaced,
)
from robustify.report.reasons import screen_sentence
from robustify.report.sections.benchmark import key_place_blocks
from robustify.summary.quantity import Quantity
from robustify.summary.result import Summary
from robustify.summary.screened import (
    Benchmark,
    ByPlace,
    D4Rule,
    DecoyCut,
    ExcessOverChance,
    Independence,
    SampledVoter,
    Screen,
    Voter,
    VoterAgreement,
)

Rule = Screen | D4Rule
NO_LETTERS = absent("no letter answers")


def removed(summary: Summary) -> Section:
    """Flagged against expected, D.4's rule, where the keys are."""
    title = "Removed, and how much of it is due to chance"
    screen, places = present(summary.screen), key_place_blocks(summary)
    if screen is None:
        return Section.of("chance", title, "Not measured: this run holds no choices-only screen.", *places)
    cut = None if screen.cut is None or screen.cut.hits is None else _cut(screen.cut)
    blocks = (flagged_plot(screen), cut, _flags(summary, screen), *places)
    return Section.of(
        "chance", title, _sentence(summary, screen), *blocks, words="shortcut expected fdr d4 places"
    )


def voters(summary: Summary) -> Section:
    """What the voters pick without the question, and how alike."""
    screen, title = present(summary.screen), "Who decided, without the question"
    if screen is None:
        return Section.of("voters", title, "Not measured: this run holds no choices-only screen.")
    return Section.of(
        "voters", title, _voters(screen), _independence(screen), words="voter places independence"
    )


def _sentence(summary: Summary, screen: Screen) -> Paragraph | None:
    # A release makes no sentence of numbers that it may not show.
    text = screen_sentence(screen) if summary.release is None else ""
    return Paragraph(plain(text, 1000)) if text else None


def flagged_plot(screen: Screen) -> Plot | None:
    """Flagged and expected as shares of the items, for the rule of this run and for D.4's."""
    rules = (("This run's rule", screen), ("Deep Ignorance D.4's rule", screen.d4_rule))
    rows = tuple(row for label, rule in rules if rule is not None for row in _drawn(label, rule))
    if not rows:
        return None
    return Plot(
        "flagged",
        "Items flagged by the screen, and items expected to be flagged by chance alone",
        rows,
        (("main", "flagged"), ("chance", "expected by chance")),
        note="Share of the items asked; bars are 95 % intervals.",
    )


def _drawn(label: str, rule: Rule) -> Iterator[PlotRow]:
    n = (rule.flagged or Quantity()).n or 0
    known = None if rule.by_place is None else rule.by_place.expected_flags
    rows = [
        *dot("flagged", rule.flagged),
        *dot("expected by chance", _over(rule.expected_flags, n), "chance"),
        *dot("expected, places known", _over(known, n), "chance"),
    ]
    yield from [PlotRow(label), *rows] if rows else []


def _over(q: Quantity | None, n: int) -> Quantity | None:
    """The quantity as a share of `n`."""
    if q is None or q.value is None or not n:
        return None
    return Quantity(value=q.value / n, ci=None if q.ci is None else (q.ci[0] / n, q.ci[1] / n))


def _flags(summary: Summary, screen: Screen) -> Table:
    rules: tuple[Rule | None, ...] = (screen, screen.d4_rule)
    rows: list[Row] = [("Flagged", *(NO_LETTERS if r is None else rate_cell(r.flagged) for r in rules))]
    if screen.false_share is not None:
        shares = (NO_LETTERS if r is None else rate_cell(r.false_share) for r in rules)
        rows.append(("Of these by chance", *shares))
    rows += _chance_rows([(rule, NO_LETTERS) for rule in rules])
    if any(rule is not None and rule.by_place is not None for rule in rules):
        known = [
            (None, NO_LETTERS) if rule is None else (rule.by_place, absent("no places shown"))
            for rule in rules
        ]
        rows += _chance_rows(known, ", places known")
    d4 = screen.d4_rule
    template = f" D.4's rule: template {plain(d4.template or missing())}." if d4 is not None else ""
    return text_table(
        "Flagged, and what chance explains",
        ("", "This run's rule", "D.4's rule"),
        rows,
        f"This run: {rule_words(summary)}.{template}",
    )


def _cut(cut: DecoyCut) -> Table:
    rows = [
        ("By chance, at most (q)", rate_cell(cut.q)),
        ("Items ranked, near-duplicates once", count_cell(cut.ranked)),
        ("Least probability of the pick", rate_cell(cut.threshold)),
        ("Above it, the key (flagged)", count_cell(cut.hits)),
        ("Above it, another option", count_cell(cut.misses)),
        ("Hits by chance, from these misses", count_cell(cut.decoys)),
        ("Of the flagged, by chance", rate_cell(cut.false_share)),
    ]
    return labelled(f"Where the ranking was cut{' (by e-values)' if cut.exact else ''}", rows)


def _chance_rows(rules: Sequence[tuple[Rule | ByPlace | None, Cell]], suffix: str = "") -> list[Row]:
    """What chance explains, by rule; a rule that is absent comes with the cell to show instead."""
    rows: list[tuple[str, Callable[[Rule | ByPlace], Cell]]] = [
        ("Expected by chance", lambda rule: count_cell(rule.expected_flags)),
        ("Excess over chance", lambda rule: excess_cell(rule.excess_over_chance)),
        ("Real shortcuts (estimate)", lambda rule: rate_cell(rule.latent_shortcut_rate)),
    ]
    return [
        (label + suffix, *(none if rule is None else cell(rule) for rule, none in rules))
        for label, cell in rows
    ]


def excess_cell(excess: ExcessOverChance | None) -> Cell:
    """What was flagged beyond chance, with its p."""
    return points_cell(excess, None if excess is None else excess.p)


def rule_words(summary: Summary) -> str:
    """The screen's rule in words. Items with fewer options are asked in fewer orders."""
    screen, bench = summary.screen or Screen(), summary.benchmark or Benchmark()
    if screen.cut is not None:
        return f"a cross-fitted scorer's ranking, cut at a false share of {percent(screen.cut.q or 0.0)}"
    words = [
        f"{plain(screen.criterion or 'criterion unknown')} vote",
        f"{plain(screen.mode or 'unknown')} mode",
        f"template {plain(screen.template or 'unknown')}",
    ]
    if screen.rotations is not None:
        mixed = screen.rotations > 1 and len(bench.option_counts or ()) > 1
        words.append(f"{'up to ' if mixed else ''}{counted(screen.rotations, 'order')} an item")
    return ", ".join([*words, probe_words(screen.probe_vote)])


def probe_words(vote: str | None) -> str:
    """What part the artifact probe has in a rule."""
    match vote:
        case "with":
            return "the probe votes as one more voter"
        case "alone":
            # A rule of earlier versions, whose summaries still open.
            return "a confident probe flags alone"
        case "none":
            return "the probe does not vote"
        case _:
            return "whether the probe votes is not recorded"


def _independence(screen: Screen) -> Table:
    formula, agree = screen.independence or Independence(), screen.agreement or VoterAgreement()
    rows = [
        ("All right, product of accuracies", rate_cell(formula.unanimous_by_accuracy)),
        ("All right, product of 1/k", rate_cell(formula.unanimous_by_chance)),
        ("Same option: observed", rate_cell(Quantity(value=agree.observed, n=agree.n, ci=agree.observed_ci))),
        ("Same option: were they independent", rate_cell(agree.independent)),
        ("Observed over independent", number_cell(agree.ratio, 2, agree.ratio_ci)),
        ("Fleiss kappa of being right", number_cell(agree.fleiss_kappa, 2, agree.fleiss_kappa_ci)),
    ]
    if "all_right" in agree.model_fields_set:
        right = Quantity(value=agree.all_right, n=agree.n, ci=agree.all_right_ci)
        rows += [
            ("All right: observed", rate_cell(right)),
            (
                "Observed over product of accuracies",
                number_cell(agree.all_right_ratio, 2, agree.all_right_ratio_ci),
            ),
        ]
    return labelled("If voters were independent (for reference)", rows)


def _voters(screen: Screen) -> Table | str:
    voters = screen.voters or {}
    if not voters:
        return "No voters are recorded."
    by_text = screen.mode == "text" and not any(v.position_share for v in voters.values())
    tied = any("ties" in v.model_fields_set for v in voters.values())

    def row(name: str, v: Voter) -> Row:
        kind = "" if v.kind == "model" else spaced(v.kind or "kind unknown")
        shares = absent("no letters shown") if by_text else shares_cell(v.position_share)
        right, ties = rate_cell(v.choices_only_accuracy), [count_cell(v.ties)] if tied else []
        return (Cell(plain(name), badge=kind), right, shares, count_cell(v.unanswered), *ties)

    heads = ("Voter", "Right without the question", "Picks by place shown", "Unanswered")
    return text_table(
        "The voters, asked with the choices only",
        (*heads, *(["Ties"] if tied else [])),
        (row(name, v) for name, v in voters.items()),
        "".join(_drawn_anew(name, v.sampled) for name, v in voters.items() if v.sampled is not None).strip(),
    )


def _drawn_anew(name: str, sampled: SampledVoter) -> str:
    again = rate_cell(sampled.redrawn)
    return (
        f" {plain(name)} shows no probabilities: its scores are shares of up to {sampled.replies} replies to an asking. "
        f"Picks that another drawing would change: {again.main}{f' ({again.small})' if again.small else ''}."
    )
