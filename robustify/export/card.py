"""The card of an exported data set: what the splits are, how they were made, how far to believe them.

Every number is read from the run's summary and printed with its n and its interval. Names are escaped; no text of an
item stands here. The licence is the author's to set: where none was given the card says so and names none.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import jinja2

from robustify.export.heading import Heading, one_line
from robustify.report.environment import markdown
from robustify.report.reading import at, deciding, named, number, quantity, records, text, texts, whole
from robustify.report.sections.removal import rule_words
from robustify.report.words import count, p_value, plain, points, rate, spaced, verdict

Summary = Mapping[str, object]
SAYS = {
    "robust": "not answered from the choices alone",
    "shortcut": "answered from the choices alone by the rule below",
    "undecided": "missing answers could still turn the verdict",
    "cloze": "can be asked without choices",
}
MEASURES = {
    "full": "question and choices, by letter",
    "choices_only": "choices alone, by letter",
    "choices_only_text": "choices alone, by text",
    "cloze_chars": "cloze, by characters",
}
ENVIRONMENT = jinja2.Environment(
    loader=jinja2.PackageLoader("robustify.export"),
    undefined=jinja2.StrictUndefined,
    autoescape=False,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
ENVIRONMENT.filters["md"] = markdown


@dataclass(frozen=True, slots=True)
class Publication:
    """What only the author of a data set knows; "" where it is not known yet. `published` is YYYY-MM-DD."""

    licence: str = ""
    url: str = ""
    creator: str = ""
    published: str = ""


def card(heading: Heading, summary: Summary, sizes: Mapping[str, int], front: str, about: Publication) -> str:
    """README.md of a data set; `sizes` are the items of each split, `front` its YAML head."""
    word, _, sentence = verdict(summary)
    safe = replace(
        heading,
        benchmark=one_line(heading.benchmark),
        signature=one_line(heading.signature),
        warning=one_line(heading.warning) if heading.warning else "",
    )
    return ENVIRONMENT.get_template("card.md.j2").render(
        heading=safe,
        about=about,
        front=front,
        splits=[(name, n, SAYS[name]) for name, n in sizes.items()],
        rule=rule_words(summary) if at(summary, "screen") else "none",
        screen=list(_screen(summary)),
        verdict=word,
        sentence=sentence,
        reasons=[plain(r, 600) for r in texts(at(summary, "certificate", "reasons")) if r not in sentence],
        scores=list(_scores(summary)),
        topics=list(_topics(summary)),
        guardrails=[_guardrail(one) for one in records(summary.get("guardrails"))],
    )


def _screen(summary: Summary) -> Iterator[tuple[str, str]]:
    screen = at(summary, "screen")
    if not isinstance(screen, Mapping):
        return
    yield "removed", rate(quantity(screen.get("flagged")))
    luck = quantity(deciding(screen, "expected_false_flags"))
    if luck.value is not None:
        ends = "" if luck.lo is None or luck.hi is None else f" ({count(luck.lo)} to {count(luck.hi)})"
        yield "luck alone would remove", f"{count(luck.value)} items{ends}"
    excess = deciding(screen, "excess_over_chance")
    if quantity(excess).value is not None:
        yield "removed beyond luck", f"{points(quantity(excess))}, {p_value(number(at(excess, 'p')))}"
    for name, voter in named(screen, "voters"):
        right = rate(quantity(voter.get("choices_only_accuracy")))
        yield f"voter {plain(name)}, right from the choices alone", right


def _scores(summary: Summary) -> Iterator[Sequence[str]]:
    for name, entry in named(summary, "accuracy"):
        for measure, says in MEASURES.items():
            cells = [quantity(at(entry, measure, part)) for part in ("all", "robust", "shortcut")]
            if any(cell.value is not None for cell in cells):
                voted = " (voted)" if at(entry, "is_voter") is True else ""
                yield (plain(name) + voted, says, *(rate(cell) for cell in cells))


def _topics(summary: Summary) -> Iterator[Sequence[str]]:
    for name, entry in named(summary, "topics"):
        before, after = whole(entry.get("before")), whole(entry.get("after"))
        if before is not None and after is not None:
            yield plain(name), count(before), count(after), rate(quantity(entry.get("retention")))
    kl = number(at(summary, "topics", "kl_nats"))
    if kl is not None:
        null = number(at(summary, "topics", "kl_null"))
        beside = "" if null is None else f", {null:.4f} expected of random removal"
        yield "all (mix)", "", "", f"KL {kl:.4f} nats{beside}"


def _guardrail(one: Mapping[str, object]) -> Sequence[str]:
    return (
        spaced(text(one.get("name"))),
        "yes" if one.get("passed") is True else "no",
        plain(text(one.get("reason")), 600),
    )
