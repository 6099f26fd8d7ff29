"""At which release level a restricted run is shown, and what was withheld at it; a public run has no such section."""

from collections.abc import Mapping

from robustify.report.blocks import Block, Bullets, Section, Text
from robustify.report.reading import at, part, text, texts, whole
from robustify.report.words import count, counted, plain

Summary = Mapping[str, object]
LEVELS = {
    "evaluator": "for the evaluator's machine; what may be published is printed in published/",
    "published": "for publication",
    "part": "for the evaluator's machine; of a part of the set (limit) nothing is for publication",
}


def level(summary: Summary) -> tuple[Section, ...]:
    """The level, its roundings and what is withheld."""
    told = part(summary, "release")
    if not told:
        return ()
    name = text(told.get("level"), "unknown")
    said = LEVELS.get("part" if told.get("published") is False else name, "unknown")
    opening = Text(
        f"A restricted set, shown under release level {plain(name)}: {said}. "
        "No text, row or id of an item stands here."
    )
    blocks: tuple[Block, ...] = (opening, Bullets(tuple(_rules(told))))
    return (Section("level", "What this report may show", "Release level", blocks),)


def alone(summary: Summary) -> tuple[Section, ...]:
    """The whole report where even the totals are too small to be told; empty otherwise."""
    return level(summary) if at(summary, "release", "too_small") is True else ()


def _rules(told: Mapping[str, object]) -> list[str]:
    k = whole(told.get("min_cell"))
    cell = "unknown" if k is None else count(k)
    if told.get("too_small") is True:
        return [f"withheld: everything but the number of items; fewer than {cell} were flagged, or were kept"]
    merged = whole(told.get("topics_merged")) or 0
    return [
        "rates in whole percents; p rounded upwards to one digit",
        f"counts of flags by topic in cells of {cell} or more",
        *(
            [f"topics: {counted(merged, 'topic')} with smaller cells stand together as Other"]
            if merged
            else []
        ),
        "cues by class: the row of a class is its strongest member on all items",
        *_groups(told, "coarser", "in steps of 5 points"),
        *_groups(told, "withheld", "withheld, over the bit budget"),
        *_bits(told),
    ]


def _groups(told: Mapping[str, object], key: str, said: str) -> list[str]:
    found = texts(told.get(key))
    return [f"{said}: {', '.join(plain(name) for name in found)}"] if found else []


def _bits(told: Mapping[str, object]) -> list[str]:
    spent, there = (whole(at(told, "bits", name)) for name in ("spent", "available"))
    if spent is None or there is None:
        return []
    return [
        f"bit budget: the numbers that depend on the flags can tell at most {count(spent)} bits of which items were "
        f"flagged; allowed are {count(there)}, half of what the sets of that size hold"
    ]
