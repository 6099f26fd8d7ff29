"""Logs for `lint`: rows with the question, reply, and score, and the parts of an item that each prompt shows.

The readers of logs load large libraries, so they are imported where a log is read."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

from robustify.base.redaction import HoldsText
from robustify.base.texts import folded, unspaced
from robustify.reading.marks.labelling import cut_at_labels, without_tail
from robustify.reading.marks.picks import runs_on

if TYPE_CHECKING:
    from robustify.reading.logs.exchanges import Exchange
    from robustify.reading.logs.log import Log, LoggedItem, LogReply
    from robustify.reading.logs.prompts import Prompt, ShownParts


_WITHOUT_QUESTION = re.compile(
    r"question (?:is|was|has been) (?:not (?:shown|given)|hidden|withheld|omitted|removed|missing|unknown)"
    r"|without (?:(?:seeing|reading|knowing) )?(?:the|its|a) question",
    re.IGNORECASE,
)


_LONGEST_LABEL = 3
"""Characters of the longest label of an option, such as (A)."""


@dataclass(frozen=True, repr=False)
class LoggedRow(HoldsText):
    """Reply of a model to an item, with the question. A table of picks has no prompts."""

    reply: "LogReply"
    exchange: "Exchange"

    @property
    def item(self) -> "LoggedItem":
        """Item that was asked."""
        return self.reply.item

    @cached_property
    def prompt(self) -> "Prompt | None":
        """Prompts of the row, or None if the log has no prompts."""
        from robustify.reading.logs.prompts import Prompt

        exchange = self.exchange
        if not any(exchange.contexts) or not self.item.choices:
            return None
        return Prompt(self.item, exchange.contexts, exchange.continuations)

    @cached_property
    def parts(self) -> "ShownParts | None":
        """Parts that the prompt shows, or None if there is no prompt."""
        from robustify.reading.logs.prompts import parts_shown

        return parts_shown(self.prompt) if self.prompt else None

    @cached_property
    def context(self) -> str:
        """Text of the first prompt, without the form of a chat."""
        from robustify.reading.logs.prompts import plain_context

        return plain_context(self.exchange.contexts[0]) if self.exchange.contexts else ""

    @property
    def question(self) -> str:
        """Question of the item, without its passage."""
        return self.item.stem[self.item.question_at :].strip()

    @cached_property
    def order_in_prompt(self) -> tuple[int, ...]:
        """Index of each option in the order of the prompt. If the prompt lists no options, the order is that of the log."""
        own, listed = [*map(unspaced, self.item.choices)], cut_at_labels(self.context)
        listed = without_tail(listed) if listed else None
        shown = [*map(unspaced, listed.texts)] if listed else own
        order = sorted(range(len(own)), key=own.__getitem__)
        places = sorted(range(len(shown)), key=shown.__getitem__)
        if [own[index] for index in order] != [shown[place] for place in places]:
            return tuple(range(len(own)))
        return tuple(index for _, index in sorted(zip(places, order, strict=True)))

    @property
    def by_letter(self) -> bool:
        """Whether the model had to name a label, because it wrote a reply or labels were scored."""
        return self.prompt is not None and (self.prompt.written or self.prompt.by_letter)

    @cached_property
    def runs_on(self) -> bool:
        """Whether the reply continues with a question that the model made up."""
        return any(runs_on(text, self.item.choices) for text in self.exchange.texts[:1])

    @cached_property
    def content(self) -> tuple[str, tuple[str, ...]]:
        """Folded question and sorted options, which are the same in every order."""
        return folded(self.item.stem), tuple(sorted(map(unspaced, self.item.choices)))


@dataclass(frozen=True, repr=False)
class LintedLog(HoldsText):
    """Log in one file, with the path for findings. `meant_blind` is set if the user named a view without the question."""

    path: str
    log: "Log"
    meant_blind: bool = False

    @cached_property
    def rows(self) -> tuple[LoggedRow, ...]:
        """Rows in the order of the file."""
        from robustify.reading.logs.exchanges import Exchange

        empty = Exchange()
        return tuple(
            LoggedRow(reply, self.log.exchanges.get((reply.line, reply.model), empty))
            for reply in self.log.replies
        )

    @property
    def says_more_than_picks(self) -> bool:
        """Whether any row has a prompt or a reply that is longer than a label."""
        exchanges = self.log.exchanges.values()
        return any(
            x.contexts or any(len(text.strip()) > _LONGEST_LABEL for text in x.texts) for x in exchanges
        )

    @cached_property
    def by_model(self) -> dict[str, list[LoggedRow]]:
        """Rows of each model."""
        models: dict[str, list[LoggedRow]] = {}
        for row in self.rows:
            models.setdefault(row.reply.model or self.path, []).append(row)
        return models

    @cached_property
    def is_blind(self) -> bool:
        """Whether the question is hidden on purpose: the user or all prompts say so, or all prompts match such a template
        of robustify."""
        if self.meant_blind or any(name.startswith("choices_only") for name in self.log.templates):
            return True
        prompts = [row.context for row in self.rows if row.prompt]
        return bool(prompts) and all(map(_WITHOUT_QUESTION.search, prompts))


class LogHit(NamedTuple):
    """Place and description of a fault that a rule finds in a log. `item` is "" for a finding on a whole log."""

    path: str
    line: int
    item: str
    message: str
    severity: Literal["note", "warning"] = "warning"


Find = Callable[[Sequence[LintedLog]], Iterator[LogHit]]
"""Function that returns what a rule finds in several logs of one comparison."""
_MOST_ROWS = 0.5
"""Share of the rows of a log from which a finding is one on the log."""
_FEWEST = 4


def of_rows(test: Callable[[LoggedRow], str]) -> Find:
    """Return a rule's function that checks single rows. `test` returns the description of a fault, or "" if it finds
    no fault. If most rows have a fault, that is one finding on the log."""

    def find(logs: Sequence[LintedLog]) -> Iterator[LogHit]:
        for log in logs:
            yield from gathered(log, [(row, words) for row in log.rows if (words := test(row))])

    return find


def gathered(log: LintedLog, hits: Sequence[tuple[LoggedRow, str]]) -> Iterator[LogHit]:
    """Yield a finding for each row, or one finding for the log if most of its rows have hits."""
    n = len(log.rows)
    if len(hits) >= _FEWEST and len(hits) > _MOST_ROWS * n:
        row, words = hits[0]
        yield LogHit(
            log.path, row.reply.line, "", f"in {len(hits):,} of {n:,} rows, such as this one, {words}"
        )
        return
    for row, words in hits:
        yield LogHit(log.path, row.reply.line, row.item.name or f"line {row.reply.line}", words)
