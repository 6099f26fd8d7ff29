"""Removal of text that all stems or choices of a file share, such as labels, the word `Question:`, or a space."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from robustify.base.errors import Notice
from robustify.base.texts import edges, undressed
from robustify.reading.loaders import listed_options, rows
from robustify.reading.marks import labelling

_COLONS = (":", "：")
_PROMPT_LEAD, _PROMPT_TAIL = "Question: ", "\nAnswer:"
_SHARED_SPACE = Notice(
    "all options began or ended with the same white space, which was taken off", code="shared-space-removed"
)


@dataclass(frozen=True, slots=True)
class Bare:
    """Items without text that all stems or choices of a file share, whether labels were removed (`labelled`), and
    notes. Rows whose labels are `damaged` keep theirs."""

    raws: rows.Raws
    labelled: bool = False
    notes: tuple[Notice, ...] = ()
    damaged: Collection[int] = ()


def bare_items(raws: rows.Raws, lines: Sequence[int], n_with_lead: int, n_labelled: int) -> Bare:
    """Remove text that all stems or choices of a file share. `lines` are those of the items. `n_with_lead` items have a
    line above their options, and `n_labelled` have labels."""
    plain = _bare_stems(raws)
    if n_with_lead * 2 > len(raws):
        # The first choice is a line such as "Options:".
        plain = rows.changed(plain, _without_lead)
    damaged, notes = list[int](), list[Notice]()
    labelled = all(_labelled_inside(raw) is not None for raw in plain)
    if not labelled and 2 * n_labelled > len(raws):
        damaged = [i for i, raw in enumerate(plain) if _labelled_inside(raw) is None]
        labelled = all(labelling.damaged_labels(plain[i].choices) for i in damaged)
    unlabelled = plain
    if labelled:
        inside = map(_labelled_inside, plain)
        moved = [line for line, split in zip(lines, inside, strict=True) if split and not split.in_order]
        if 0 < 2 * len(moved) < len(lines):
            order = f"the labels of the options are in a different order on line {rows.line_spans(moved)}"
            notes.append(
                Notice(
                    f"{order}. If a key is a letter, it names the option with this label.",
                    code="labels-in-other-order",
                )
            )
        unlabelled = rows.changed(plain, _without_labels)
    bare = _evened(unlabelled)
    notes += [_SHARED_SPACE] * (bare is not unlabelled)
    return Bare(bare, labelled, (*notes,), damaged if labelled else ())


def _bare_stems(raws: rows.Raws) -> rows.Raws:
    """Remove `Question: ` and `Answer:` from the stems if all stems have them."""
    lead = _PROMPT_LEAD if all(raw.stem.startswith(_PROMPT_LEAD) for raw in raws) else ""
    tail = _PROMPT_TAIL if all(raw.stem.removeprefix(lead).endswith(_PROMPT_TAIL) for raw in raws) else ""
    if not lead and not tail:
        return raws
    return rows.changed(raws, lambda raw: replace(raw, stem=raw.stem.removeprefix(lead).removesuffix(tail)))


def has_lead(raw: rows.RawItem) -> bool:
    """Return whether the first choice alone ends in a colon, and the choices have no labels."""
    if raw.labels or not raw.choices or not raw.choices[0].rstrip().endswith(_COLONS):
        return False
    return not any(text.rstrip().endswith(_COLONS) for text in raw.choices[1:])


def _without_lead(raw: rows.RawItem) -> rows.RawItem:
    return (
        replace(raw, choices=raw.choices[1:], unread=(*raw.unread, listed_options.LINE_ABOVE))
        if has_lead(raw)
        else raw
    )


def _labelled_inside(raw: rows.RawItem) -> labelling.Labelled | None:
    """Return the choices without their labels. Return None if a label is missing, or the key could mean two choices."""
    if raw.cut == listed_options.BY_LABEL:
        return labelling.Labelled(raw.labels, raw.choices, tuple(range(len(raw.choices))))
    labelled = labelling.split_labels(raw.choices)
    return None if labelled is None or _differs_from_labels(raw, labelled) else labelled


def _without_labels(raw: rows.RawItem) -> rows.RawItem:
    if (labelled := _labelled_inside(raw)) is None:
        return raw
    return replace(
        raw,
        choices=labelled.texts,
        labels=raw.labels or tuple(label.upper() for label in labelled.labels),
        key_is="label" if raw.key_is == "letter" and not labelled.in_order else raw.key_is,
    )


def _differs_from_labels(raw: rows.RawItem, labelled: labelling.Labelled) -> bool:
    """Return whether the key could mean two choices, because the labels of the file and of the choices differ in order."""
    ours, theirs = ([*map(labelling.as_mark, labels)] for labels in (raw.labels, labelled.labels))
    return (
        labelling.bare_mark(str(raw.key)) in ours
        and ours != theirs
        and {*ours} == {*theirs}
        and not labelled.in_order
    )


def _evened(raws: rows.Raws) -> rows.Raws:
    """Remove white space from the ends of choices if all choices of a file have it, such as the space after each comma."""
    if not (raws and raws[0].choices and any(edges(raws[0].choices[0]))):
        return raws
    every = [choice for raw in raws for choice in raw.choices]
    texts = iter(even := undressed(every))
    if even[0] == every[0]:
        return raws
    return rows.changed(raws, lambda raw: replace(raw, choices=tuple(islice(texts, len(raw.choices)))))
