"""What stands at the head of everything that is exported: lines for a task file, a card for a data set.

Names come from files that others wrote, so a head is made of single printable lines; it refuses to carry a line break
or a control character into a comment, a docstring or a page. Every number of a card is read from the run's summary and
printed with its n and its interval; no text of an item is on it. The licence is the author's to set: where none was
given the card says so and names none.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from robustify.report.format import between, by_mode, count, p_value, plain, points, rate, spaced
from robustify.report.printing import environment
from robustify.report.reasons import sentence
from robustify.report.sections.headline import certificate_reasons, verdict
from robustify.report.sections.removal import rule_words
from robustify.summary.result import Guardrail, Summary
from robustify.summary.screened import Screen, Topics

LONGEST = 2000


@dataclass(frozen=True, slots=True)
class Heading:
    """The benchmark's name, the run's signature, and why the export should not be used ("" where it may be)."""

    benchmark: str
    signature: str
    warning: str = ""

    def lines(self, says: str, *more: str) -> list[str]:
        """The head as single lines: what it is, the warning where there is one, more, the signature."""
        warning = [f"WARNING: {self.warning}"] if self.warning else []
        lines = [f"{self.benchmark}: {says}", *warning, *more, f"Signature: {self.signature}"]
        return [one_line(line) for line in lines]


def one_line(text: str) -> str:
    """A text that cannot end a comment: no line break, no control character."""
    return plain(text, LONGEST)


def commented(lines: list[str]) -> str:
    """Lines as comments of YAML or Python."""
    return "".join(f"# {one_line(line)}\n" for line in lines)


ENVIRONMENT = environment("robustify.export", "templates", autoescape=False)
SAYS = {
    "robust": "not answered from the choices alone",
    "shortcut": "answered from the choices alone by the rule below",
    "undecided": "missing answers could still turn the verdict",
    "cloze": "can be asked without choices",
}


@dataclass(frozen=True, slots=True)
class Publication:
    """What only the author of a data set knows; "" where it is not known yet. `published` is YYYY-MM-DD."""

    licence: str = ""
    url: str = ""
    creator: str = ""
    published: str = ""


def card(heading: Heading, summary: Summary, sizes: Mapping[str, int], front: str, about: Publication) -> str:
    """README.md of a data set; `sizes` are the items of each split, `front` its YAML head."""
    word, _, opening = verdict(summary)
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
        rule="none" if summary.screen is None else rule_words(summary),
        screen=[] if summary.screen is None else list(_screen(summary.screen)),
        verdict=word,
        sentence=opening,
        reasons=certificate_reasons(summary),
        scores=list(_scores(summary)),
        topics=list(_topics(summary.topics or Topics())),
        guardrails=[_guardrail(one) for one in summary.guardrails],
    )


def _screen(screen: Screen) -> Iterator[tuple[str, str]]:
    yield "removed", rate(screen.flagged)
    deciding = screen.by_place or screen
    expected, excess = deciding.expected_flags, deciding.excess_over_chance
    if expected is not None and expected.value is not None:
        ends = "" if expected.ci is None else f" ({between(expected.ci, 1.0, 1)})"
        yield "expected by chance alone", f"{count(expected.value)} items{ends}"
    if excess is not None and excess.value is not None:
        yield "removed beyond chance", f"{points(excess)}, {p_value(excess.p)}"
    for name, voter in (screen.voters or {}).items():
        yield f"voter {plain(name)}, right from the choices alone", rate(voter.choices_only_accuracy)


def _scores(summary: Summary) -> Iterator[Sequence[str]]:
    for name, entry in (summary.accuracy or {}).items():
        for says, measure in (
            (f"question and choices, {by_mode(summary.full_mode)}", entry.full),
            ("choices alone, by letter", entry.choices_only),
            ("choices alone, by text", entry.choices_only_text),
            ("cloze, by characters", entry.cloze_chars),
        ):
            cells = () if measure is None else (measure.all, measure.robust, measure.shortcut)
            if any(q is not None and q.value is not None for q in cells):
                yield (plain(name) + (" (voted)" if entry.is_voter else ""), says, *map(rate, cells))


def _topics(topics: Topics) -> Iterator[Sequence[str]]:
    for name, row in (topics.by_topic or {}).items():
        if row.before is not None and row.after is not None:
            yield plain(name), count(row.before), count(row.after), rate(row.retention)
    if topics.kl_nats is not None:
        by_chance = "" if topics.kl_null is None else f", {topics.kl_null:.4f} expected of random removal"
        yield "all (mix)", "", "", f"KL {topics.kl_nats:.4f} nats{by_chance}"


def _guardrail(one: Guardrail) -> Sequence[str]:
    reason = plain("" if one.reason is None else sentence(one.reason), 600)
    return spaced(one.name or ""), "yes" if one.passed else "no", reason
