"""Writers: models that are asked for candidates, in the form that each item needs, and the parser of their replies.

Replies are cached, so that an interrupted call resumes. A reply that cannot be read gives no candidate and is counted.
Whether a text may be a candidate is decided by its pool alone.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from robustify.base.errors import UsageError
from robustify.composing.pool import Candidate, Pool
from robustify.composing.shortage import CandidateRequest
from robustify.freeform.llm_judge.judges import line_of
from robustify.freeform.llm_judge.structures import Pairs, readable, structures
from robustify.freeform.llm_judge.verdicts import Reading
from robustify.freeform.prompt_templates import rendered, template_named
from robustify.freeform.schema import require_packages
from robustify.models.engines.protocols import Metered, Progress, Writer, no_progress
from robustify.models.engines.settings import ModelSettings
from robustify.models.forecast import CHARS_A_TOKEN, Forecast, Need, with_words
from robustify.models.replies import BATCH, Purpose, Replies, replies_to
from robustify.reading.marks.labelling import cut_at_labels, positions_in_series, split_labels, without_tail

TEMPLATE = "writer/distractors@1.0"
_NAMES = ("option", "distractor", "text", "answer", "choice", "candidate", "")
"""Members of an object that hold the text of an option."""
_BOLD = re.compile(r"(\*\*|__)(?P<text>[^*_]+)\1")
_QUOTES = ('""', "''", "``", "\u201c\u201d", "\u2018\u2019")
_UNFIT = "Some options of your reply repeated an option, gave the correct answer, or had another form."


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """Model to ask for candidates, the longest reply in tokens, and the most that all replies may cost."""

    model: ModelSettings
    max_tokens: int = 1024
    budget: float | None = None


def price(pools: Sequence[Pool], requests: Sequence[CandidateRequest], settings: WriterSettings) -> Forecast:
    """Estimate the requests, tokens, and cost of asking for these candidates once. The cost assumes the longest replies.
    Raise `UsageError` for a budget without a price."""
    model, prompts = settings.model, [writer_prompt(pools[one.at], one) for one in requests]
    if settings.budget is not None and model.cost(0, 0) is None:
        raise UsageError(f"{model.name}: a budget needs a price. Give the price of the writer, or no budget.")
    blank = Forecast(model.name, len(requests), (Need(model.name, 0, 0, model.cost(0, 0)),))
    return with_words(blank, [model], prompts, settings.max_tokens)


class CandidateWriter:
    """Writer that is asked once or several times, and what became of its replies.

    `replies` is their number, `unread` counts those that could not be read by reason, and `unasked` counts the requests
    that the budget did not allow at the last time. Raise `UsageError` if the engine of the model only scores options.
    """

    def __init__(self, model: object, kept: Replies, settings: WriterSettings) -> None:
        if not isinstance(model, Writer):
            raise UsageError(
                f"{settings.model.name}: the engine only scores options. Choose a writer that generates text."
            )
        require_packages()
        self._model, self._kept, self._settings = model, kept, settings
        self._faults: dict[int, str] = {}
        self.replies, self.unasked, self.unread = 0, 0, Counter[str]()

    @property
    def spent(self) -> Mapping[str, Any]:
        """Requests, tokens, and cost that a server counts, or nothing for a model on this machine."""
        return self._model.usage() if isinstance(self._model, Metered) else {}

    def candidates(
        self, pools: Sequence[Pool], requests: Sequence[CandidateRequest], progress: Progress = no_progress
    ) -> list[tuple[Candidate, ...]]:
        """Ask for candidates, and return those offered for each pool. A prompt names the fault of the last reply. Raise
        `ModelError` if the model or server cannot generate text."""
        offered: list[tuple[Candidate, ...]] = [()] * len(pools)
        self.unasked, how = len(requests), self._settings
        purpose = Purpose(TEMPLATE, how.max_tokens, getattr(how.model, "base_url", None))
        for start in range(0, len(requests), BATCH):
            batch = requests[start : start + BATCH]
            prompts = [writer_prompt(pools[one.at], one, self._faults.get(one.at)) for one in batch]
            tokens = round(sum(map(len, prompts)) / CHARS_A_TOKEN), len(batch) * how.max_tokens
            spent, more = self.spent.get("cost") or 0.0, how.model.cost(*tokens) or 0.0
            if how.budget is not None and spent + more > how.budget:
                break
            self.unasked -= len(batch)
            said = replies_to(prompts, self._model, self._kept, purpose, progress)
            for one, reply in zip(batch, said, strict=True):
                read = options_in(reply["text"], one.n, reply.get("finish_reason"))
                if why := reply.get("error") or read.error_type:
                    self.unread[why] += 1
                self._faults[one.at] = line_of(why) if why else _UNFIT
                offered[one.at] = tuple(Candidate(text, self._model.name) for text in read.value or ())
        self.replies += len(requests) - self.unasked
        return offered


def writer_prompt(pool: Pool, request: CandidateRequest, fault: str | None = None) -> str:
    """Return the prompt that asks for candidates of a pool. `fault` is what was wrong with the last reply."""
    template, (key, *known) = template_named(TEMPLATE), pool.texts
    values = {
        "question": pool.item.stem, "reference": key, "known": known, "n": request.n, "form": request.form,
        "nonce": pool.item.id, "fault": fault or None,
    }  # fmt: skip
    return "\n\n".join(message.content for message in rendered(template, values))


def options_in(reply: str, n: int, finish_reason: str | None = None) -> Reading[tuple[str, ...]]:
    """Parse the options of a reply that was asked for `n`, in linear time. Never raises because of its text.

    The last JSON list counts, of those with `n` texts if there are any. Without JSON, a Markdown list, a table, XML
    elements, or lines with labels are read, unless there are several.
    """
    text, fault = readable(reply, exact=True)
    if fault is not None:
        return Reading(None, fault)
    found, left_open = structures(text)
    read = [(one.format, texts) for one in found if (texts := _texts(one.value))]
    cut = finish_reason == "length"
    if not (lists := [texts for form, texts in read if form == "json"]):
        lists = [texts[:-1] if cut else texts for form, texts in read if form != "csv"] or _labelled(text)
        if len(lists) > 1:
            return Reading(None, "ambiguous")
    if not any(lists):
        return Reading(None, "truncation" if left_open or cut else "format_error")
    last = [*lists, *(texts for texts in lists if len(texts) == n)][-1]
    split = split_labels(last)
    return Reading(tuple(map(_bare, split.texts if split else last)), None)


def _labelled(text: str) -> list[tuple[str, ...]]:
    """Return the texts of lines with labels, such as `A) ...` or `Option 1: ...`, if the reply has them."""
    lines = [line.replace("*", "") for line in text.split("\n") if line.strip()]
    listed = split_labels(lines) or split_labels(lines[1:])
    if listed is None and (cut := cut_at_labels(text)) is not None:
        return [tail.texts] if (tail := without_tail(cut)) else []
    return [listed.texts] if listed else []


def _texts(value: Any) -> tuple[str, ...]:
    """Return the options in a structure: the texts of a list, of the list in an object, or of labelled members."""
    match value:
        case Pairs():
            inner = [texts for _, one in value if isinstance(one, list) and (texts := _texts(one))]
            names = [name for name, _ in value]
            if inner or positions_in_series([name.split("_")[-1] for name in names]) is None:
                return inner[-1] if inner else _texts([value])
            return _texts([one for _, one in value])
        case list():
            return tuple(text for one in value if (text := _text(one)))
    return ()


def _text(entry: Any) -> str:
    if isinstance(entry, Pairs):
        named = entry.all(*_NAMES)
        return _text(named[0]) if named else ""
    if isinstance(entry, str):
        return " ".join(entry.split())
    return str(entry) if isinstance(entry, int | float) and not isinstance(entry, bool) else ""


def _bare(text: str) -> str:
    """Return an option without quotation marks or emphasis around it, and without a remark after emphasis."""
    if (bold := _BOLD.match(text)) is not None:
        return bold["text"].strip(" :")
    return text[1:-1].strip() if len(text) > 2 and text[0] + text[-1] in _QUOTES else text
