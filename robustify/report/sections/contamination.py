"""Items to look at: those that a model may have seen, keys that deserve a second look, the likeliest shortcuts.

That no sign of a model having seen them was found is no evidence of absence.
"""

from collections.abc import Iterator, Sequence

from robustify.report.blocks import (
    Block,
    Cell,
    Column,
    Folded,
    Paragraph,
    Row,
    Section,
    Table,
    labelled,
    text_table,
    under,
)
from robustify.report.cue_sentences import LABELS
from robustify.report.format import (
    AT_LIMIT,
    WHY_LIMIT,
    absent,
    count,
    count_cell,
    counted,
    likely,
    missing,
    p_before,
    p_cell,
    plain,
    points_cell,
    power,
    present,
    rate,
    rate_cell,
)
from robustify.report.reasons import contamination_sentence, sentence
from robustify.report.sections.paired import voter_cell
from robustify.stats.tests import LEVEL
from robustify.summary.quantity import Quantity
from robustify.summary.result import Memorisation, Recall, ShortMode, Summary, TextOverlap
from robustify.summary.scored import LabelNoise
from robustify.summary.screened import CueCode, CueCounts, LikelyItem

MOST_LISTED = 20
CAUTION = "This is a list for review: agreement is no proof that a key is wrong, and nothing was corrected."
RECALL_HEADS = ("Place of the key right", "By preferred places", "p, Holm", "Unanswered")


def contamination(summary: Summary) -> Section:
    """What was looked for, where, and what was found."""
    entry = present(summary.contamination)
    title = "Signs that a model has seen it"
    if entry is None:
        return Section.of(
            "contamination",
            title,
            (
                "Not looked for: no text files were given, and no model was asked for the place of a key without its "
                "options."
            ),
        )
    found = "" if summary.release is not None else contamination_sentence(entry)
    return Section.of(
        "contamination",
        title,
        Paragraph(plain(found, 2000)) if found else None,
        *_overlap(entry.overlap),
        _memorisation(summary, entry.memorisation or {}),
        words="overlap_texts memory",
    )


def _overlap(entry: TextOverlap | None) -> tuple[Block | str, ...]:
    if entry is None:
        return ("Overlap with texts: not looked for, no text files were given.",)
    words = "words" if entry.ngram is None else f"{entry.ngram} words"
    parts, short = entry.parts or {}, entry.short_mode or ShortMode()
    rows = [
        (f"Found by {words} in a row", rate_cell(entry.found)),
        ("Short items, found whole", rate_cell(short.found)),
        ("Too short to check", count_cell(entry.not_checkable)),
        ("The question's words found, mean share", rate_cell(entry.coverage)),
        ("Its question", rate_cell(parts.get("stem"))),
        ("Its question, then its key", rate_cell(parts.get("stem_key"))),
        ("Its options in a row", rate_cell(parts.get("choices"))),
        ("Found among Robust", rate_cell(entry.in_robust)),
        ("Found among Shortcut", rate_cell(entry.in_shortcut)),
    ]
    return (
        labelled("Items that occur in the given texts", rows),
        _files(entry),
        *_listed(entry.items, None),
    )


def _files(entry: TextOverlap) -> Block | str:
    if not entry.files:
        return f"The files that were read: {missing()}."
    return text_table(
        "The texts that were looked through",
        ("File", "Words", "Bytes", Column("SHA-256", figures=False)),
        (
            (
                plain(f.name or "unnamed"),
                count_cell(f.words),
                count_cell(f.bytes),
                plain(f.sha256) if f.sha256 else absent("not recorded"),
            )
            for f in entry.files
        ),
    )


def _memorisation(summary: Summary, models: dict[str, Memorisation]) -> Block | str:
    if not models:
        return "Memorised places: not looked for, no model was asked without the options."
    return text_table(
        "The place of the key, with no options to choose from",
        ("Model", "Asked with", *RECALL_HEADS),
        under((voter_cell(summary, name), _recalled(e)) for name, e in models.items()),
        words=2,
    )


def _recalled(e: Memorisation) -> list[Row]:
    rows: list[Row] = [
        (label, rate_cell(q), rate_cell(q.chance), _p(q), count_cell(q.unanswered))
        for label, q in (
            ("no options shown", e.no_choices),
            ("the key's text at every place", e.gold_repeated),
            ("empty options", e.empty_choices),
        )
        if q is not None
    ]
    return rows or [(absent("not asked"), *(absent() for _ in RECALL_HEADS))]


def _p(q: Recall) -> Cell:
    significant = q.p_holm is not None and q.p_holm <= LEVEL
    return p_cell(q.p_holm, p_before(q.p), "significantly above chance" if significant else power(q.mde))


def label_noise(summary: Summary) -> Section:
    """Items whose key deserves a second look: every strong model picks the same other option."""
    entry = present(summary.label_noise)
    title = "Keys that deserve a second look"
    if entry is None:
        return Section.of("noise", title, "Not measured: no model was asked the full question.")
    if entry.reason is not None:
        return Section.of("noise", title, f"Not judged: {plain(sentence(entry.reason), 600)}.")
    strong = ", ".join(plain(name) for name in entry.strong or ()) or "not named"
    found = (
        f"All strong models pick one and the same option that is not the key: {rate(entry.flagged)}. "
        f"Strong models, above chance on the full question: {strong}."
    )
    blocks = (Paragraph(found), _wrong_alike(entry), *_listed(entry.items, entry.flagged), CAUTION)
    return Section.of("noise", title, *blocks, words="review")


def _wrong_alike(entry: LabelNoise) -> Table:
    rows = [
        ("All strong models wrong", count_cell(entry.all_wrong)),
        ("Alike and wrong, were picks independent", count_cell(entry.expected)),
        ("Alike and wrong, among Robust", rate_cell(entry.in_robust)),
        ("Alike and wrong, among Shortcut", rate_cell(entry.in_shortcut)),
        ("Robust less Shortcut", points_cell(entry.difference)),
    ]
    return labelled("Wrong alike, and what independence would give", rows)


def _listed(ids: Sequence[str] | None, found: Quantity | None) -> Iterator[Block | str]:
    """The first ids, folded; where none are listed, that this run only counts."""
    if ids:
        share = None if found is None or found.value is None or found.n is None else found.value * found.n
        n = max(len(ids), round(share or 0))
        first = ids[:MOST_LISTED]
        title = counted(n, "item") if n == len(first) else f"The first {len(first)} of {count(n)} items"
        yield Folded(f"{title} found, by id", "\n".join(plain(i) for i in first))
    elif ids is None and (found is None or found.value != 0):
        yield "The items are counted and not listed in this run."


def items(summary: Summary) -> Section:
    """The cues of the flagged items, and the likeliest shortcuts by id."""
    title = "Which items, and why"
    found = summary.evidence
    if found is None:
        return Section.of("items", title, "Not measured: no question-free scorer ranked the items.")
    return Section.of("items", title, _cues(found), _likeliest(found), words="cue p_shortcut")


def _cues(found: CueCounts) -> Block | str:
    if not found.cues:
        return "No flagged item was picked by the question-free scorer, so no cue is counted."
    return text_table(
        "Flagged items by the cue that carries them",
        ("First cue", "Items", "Share of the flagged"),
        ((_cue_cell(cue), _n_items(q), rate_cell(q)) for cue, q in found.cues.items()),
        "robustify explain RUN ITEM shows all cues of an item.",
    )


def _n_items(q: Quantity) -> Cell:
    return absent() if q.value is None or q.n is None else Cell(count(round(q.value * q.n)))


def _likeliest(found: CueCounts) -> Block | None:
    rows = [row for row in found.likeliest or () if row.item is not None]
    if not rows:
        return None
    return text_table(
        "Items that most likely hold a shortcut",
        (Column("Item", figures=False), Column("P(shortcut | hit)"), Column("First cue", figures=False)),
        ((plain(row.item or "", 60), _probability(row), _cue_cell(row.cue)) for row in rows),
    )


def _probability(row: LikelyItem) -> Cell:
    p = None if row.p_shortcut is None else likely(row.p_shortcut)
    return absent() if p is None else Cell(p, WHY_LIMIT if p == AT_LIMIT else "")


def _cue_cell(cue: CueCode | str | None) -> Cell:
    label = next((label for code, label in LABELS.items() if code == cue), None)
    return absent() if label is None else Cell(label)
