"""Ask models (writers) for the candidates missing from the pools, and parse their replies.

A rule picks the option that has the most of something. If no candidate of an item has as much as the key, the rule finds
the key. If this bounds the rule's accuracy above chance, no choice balances the set, and the items that the rule must win
need candidates of another form.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from robustify.base.arrays import Floats, Ints
from robustify.base.errors import UsageError
from robustify.composing.pool import Candidate, Pool
from robustify.items.prompt_templates import rendered, template_named
from robustify.judging.lint.cues import FORM
from robustify.judging.stats.intervals import clopper_pearson
from robustify.judging.stats.tests import LEVEL
from robustify.models.engines.protocols import Metered, Progress, Watch, Writer
from robustify.models.forecast import CHARS_A_TOKEN, Forecast, Need, with_words
from robustify.models.model_settings import ModelSettings
from robustify.models.replies import BATCH, Purpose, Replies, replies_to
from robustify.reading.marks.labelling import cut_at_labels, positions_in_series, split_labels, without_tail
from robustify.reading.reply_structures import Pairs, Reading, line_of, readable, require_packages, structures

ASKED = 2
"""Candidates asked for an item that a rule must win. One breaks the rule, and two leave a choice."""
ROUNDS = 3
"""How often a writer is asked at most, because new candidates can be unfit, or lack a form themselves."""
TEMPLATE = "writer/distractors@1.0"
_LENGTHS = ("fewest characters", "most characters", "fewest words", "most words")
_TRAITS = ("initial capital", "full stop at the end", "number", "comma", "bracket", "hyphen")
"""Names of the first of `FORM`."""
RULES = (*_LENGTHS, *(f"{which} {trait}" for trait in _TRAITS for which in ("with", "without")))
_NAMES = ("option", "distractor", "text", "answer", "choice", "candidate", "")
"""Members of an object that hold the text of an option."""
_BOLD = re.compile(r"(\*\*|__)(?P<text>[^*_]+)\1")
_QUOTES = ('""', "''", "``", "\u201c\u201d", "\u2018\u2019")
_UNFIT = "Some options of your reply repeated an option, gave the correct answer, or had another form."
Grow = Callable[[Sequence[Sequence[Candidate]]], tuple[Pool, ...]]
"""Function that returns the pools with the given candidates added to each."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Lower bound on a rule's accuracy over n items, for any choice of distractors. In `lacking` of the items, the rule
    always finds the key, because no candidate has as much of the property as the key.

    `above` says whether the bound is significantly above chance (one-sided, 5 %).
    """

    rule: str
    least: float
    chance: float
    lacking: int
    n: int
    above: bool


@dataclass(frozen=True, slots=True)
class CandidateRequest:
    """Request for at least `n` more candidates, because the pool has too few, or because a rule finds its key in any set.

    `form` has the properties that each candidate must have, in words, such as `at most 9 characters`.
    """

    pool_index: int
    n: int
    form: tuple[str, ...] = ()


def find_bounds(pools: Sequence[Pool], most: int) -> tuple[Bound, ...]:
    """Return a lower bound on each rule's accuracy for items that show up to `most` options. The worst rule comes first."""
    credit, chance, _ = _least_credits(pools, most)
    n, even, bounds = len(pools), float(chance.mean()) if len(pools) else 0.0, []
    for rule, credits in zip(RULES, credit.T, strict=True):
        above = clopper_pearson(int(credits.sum()), n, 1 - 2 * LEVEL)[0] > even
        bounds.append(
            Bound(rule, float(credits.sum()) / max(n, 1), even, int((credits == 1).sum()), n, above)
        )
    return tuple(sorted(bounds, key=lambda bound: bound.chance - bound.least))


def find_requests(pools: Sequence[Pool], shown: tuple[int, int]) -> tuple[CandidateRequest, ...]:
    """Return a request for each pool that has too few candidates, or whose key a rule above chance always finds.

    `shown` are the fewest and the most options of an item.
    """
    credit, _, keys = _least_credits(pools, shown[1])
    above = sorted(RULES.index(bound.rule) for bound in find_bounds(pools, shown[1]) if bound.above)
    requests = []
    for index, pool in enumerate(pools):
        form = tuple(_needed(j, int(keys[index, j])) for j in above if credit[index, j] == 1)
        n = max(ASKED * bool(form), shown[0] - 1 - len(pool.candidates))
        if n > 0 and not pool.stays:
            requests.append(CandidateRequest(index, n, form))
    return tuple(requests)


def writer_requests(pools: Sequence[Pool], shown: tuple[int, int]) -> list[CandidateRequest]:
    """Return a request for each pool that needs candidates, which asks for enough candidates to fill two sets."""
    by_pool = {request.pool_index: request for request in find_requests(pools, shown)}
    for index, pool in enumerate(pools):
        request = by_pool.get(index, CandidateRequest(index, 0))
        by_pool[index] = replace(request, n=max(request.n, 2 * (shown[1] - 1) - len(pool.candidates)))
    return [request for index, request in sorted(by_pool.items()) if request.n > 0 and not pools[index].stays]


def _least_credits(pools: Sequence[Pool], most: int) -> tuple[Floats, Floats, Ints]:
    """Return each rule's lowest accuracy on each pool (n, rules), the chance (n,), and the key's amounts (n, rules)."""
    credit, keys = np.zeros((len(pools), len(RULES))), np.zeros((len(pools), len(RULES)), dtype=np.int64)
    for index, pool in enumerate(pools):
        amounts = np.array([_amounts(text) for text in pool.texts])
        keys[index] = amounts[0]
        ties = np.minimum((amounts[1:] == keys[index]).sum(axis=0), most - 1)
        credit[index] = np.where((amounts[1:] > keys[index]).any(axis=0), 0.0, 1 / (1 + ties))
    return credit, np.array([1 / min(most, len(pool.texts)) for pool in pools]), keys


def _amounts(text: str) -> tuple[int, ...]:
    """Return the properties of an option that the rules compare, such as its length. Each rule picks the largest value."""
    chars, words = len(text), len(text.split())
    traits = (int(mark) for cue in FORM[: len(_TRAITS)] for mark in cue.marks([text], ""))
    return (-chars, chars, -words, words, *(has for trait in traits for has in (trait, 1 - trait)))


def _needed(rule: int, key: int) -> str:
    """Describe the form that a candidate needs so that the rule does not find a key with this amount."""
    which, _, what = RULES[rule].partition(" ")
    if rule >= len(_LENGTHS):
        return f"{which} {'an' if what[0] == 'i' else 'a'} {what}"
    least = abs(key + (key != -1))
    unit = what if least != 1 else what.removesuffix("s")
    return f"at {'most' if which == 'fewest' else 'least'} {least} {unit}"


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """Settings of a writer: the model, the maximum number of tokens in a reply, and the maximum cost of all replies."""

    model: ModelSettings
    max_tokens: int = 1024
    budget: float | None = None


def price(pools: Sequence[Pool], requests: Sequence[CandidateRequest], settings: WriterSettings) -> Forecast:
    """Estimate the requests, tokens, and cost of asking for these candidates once. The cost assumes the longest replies.
    Raise `UsageError` for a budget without a price."""
    model, prompts = settings.model, [writer_prompt(pools[r.pool_index], r) for r in requests]
    if settings.budget is not None and model.cost(0, 0) is None:
        fault = f"{model.name}: a budget needs a price. Give the price of the writer, or no budget."
        raise UsageError(fault, code="budget-without-price")
    blank = Forecast(model.name, len(requests), (Need(model.name, 0, 0, model.cost(0, 0)),))
    return with_words(blank, [model], prompts, settings.max_tokens)


class CandidateWriter:
    """Model that is asked for candidates in rounds. Replies are cached, so that an interrupted call can resume.

    Raise `UsageError` if the engine of the model only scores options.
    """

    def __init__(self, model: object, kept: Replies, settings: WriterSettings) -> None:
        if not isinstance(model, Writer):
            fault = f"{settings.model.name}: the engine only scores options."
            raise UsageError(f"{fault} Choose a writer that generates text.", code="engine-cannot-write")
        require_packages()
        self._model, self._kept, self._settings = model, kept, settings
        self._faults, self._unread = dict[int, str](), Counter[str]()
        self._replies = self._unasked = 0

    def fill_pools(
        self, pools: tuple[Pool, ...], grow: Grow, shown: tuple[int, int], watch: Watch
    ) -> tuple[tuple[Pool, ...], dict[str, Any]]:
        """Ask for candidates in a few rounds. Return the pools with these candidates, and statistics of the replies. Raise
        `ModelError` if the model or server cannot generate text."""
        offered: list[tuple[Candidate, ...]] = [()] * len(pools)
        for number in range(1, ROUNDS + 1):
            if not (lacking := writer_requests(pools, shown)):
                break
            with watch(f"candidates, round {number}", len(lacking)) as progress:
                for index, new in self._round(pools, lacking, progress).items():
                    offered[index] = (*offered[index], *new)
            pools = grow(offered)
        return pools, {
            "writer": self._settings.model.name, "replies": self._replies, "unread": dict(self._unread.most_common()),
            "unasked": self._unasked, "lacking": len(writer_requests(pools, shown)), "spent": dict(self._spent()),
        }  # fmt: skip

    def _spent(self) -> Mapping[str, Any]:
        return self._model.usage() if isinstance(self._model, Metered) else {}

    def _round(
        self, pools: Sequence[Pool], requests: Sequence[CandidateRequest], progress: Progress
    ) -> dict[int, tuple[Candidate, ...]]:
        """Ask for candidates until the budget is spent, and return them by pool. A prompt states the last reply's fault."""
        offered, settings = dict[int, tuple[Candidate, ...]](), self._settings
        purpose = Purpose(TEMPLATE, settings.max_tokens, getattr(settings.model, "base_url", None))
        for start in range(0, len(requests), BATCH):
            batch = requests[start : start + BATCH]
            prompts = [writer_prompt(pools[r.pool_index], r, self._faults.get(r.pool_index)) for r in batch]
            tokens = round(sum(map(len, prompts)) / CHARS_A_TOKEN), len(batch) * settings.max_tokens
            spent, more = self._spent().get("cost") or 0.0, settings.model.cost(*tokens) or 0.0
            if settings.budget is not None and spent + more > settings.budget:
                break
            replies = replies_to(prompts, self._model, self._kept, purpose, progress)
            for request, reply in zip(batch, replies, strict=True):
                read = parse_options(reply["text"], request.n, reply.get("finish_reason"))
                if fault := reply.get("error") or read.error_type:
                    self._unread[fault] += 1
                self._faults[request.pool_index] = line_of(fault) if fault else _UNFIT
                offered[request.pool_index] = tuple(
                    Candidate(text, self._model.name) for text in read.value or ()
                )
        self._unasked = len(requests) - len(offered)
        self._replies += len(offered)
        return offered


def writer_prompt(pool: Pool, request: CandidateRequest, fault: str | None = None) -> str:
    """Return the prompt that asks for candidates of a pool. `fault` is the fault of the last reply."""
    template, (key, *others) = template_named(TEMPLATE), pool.texts
    values = {
        "question": pool.item.stem, "reference": key, "known": others, "n": request.n, "form": request.form,
        "nonce": pool.item.id, "fault": fault or None,
    }  # fmt: skip
    return "\n\n".join(message.content for message in rendered(template, values))


def parse_options(reply: str, n: int, finish_reason: str | None = None) -> Reading[tuple[str, ...]]:
    """Parse the options in a reply to a request for `n` of them, in linear time. No reply raises an error.

    The last JSON list counts, of those with `n` texts if there are any. Without JSON, a Markdown list, a table, XML
    elements, or lines with labels are read, unless there are several.
    """
    text, fault = readable(reply, exact=True)
    if fault is not None:
        return Reading(None, fault)
    parsed, left_open = structures(text)
    read = [(structure.format, texts) for structure in parsed if (texts := _texts(structure.value))]
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
    """Return the texts of a reply's labeled lines, such as `A) ...` or `Option 1: ...`."""
    lines = [line.replace("*", "") for line in text.split("\n") if line.strip()]
    listed = split_labels(lines) or split_labels(lines[1:])
    if listed is None and (cut := cut_at_labels(text)) is not None:
        return [tail.texts] if (tail := without_tail(cut)) else []
    return [listed.texts] if listed else []


def _texts(value: Any) -> tuple[str, ...]:
    """Return the options in a JSON value: the texts of a list, of a list in an object, or of labeled members."""
    match value:
        case Pairs():
            inner = [texts for _, member in value if isinstance(member, list) and (texts := _texts(member))]
            names = [name for name, _ in value]
            if inner or positions_in_series([name.split("_")[-1] for name in names]) is None:
                return inner[-1] if inner else _texts([value])
            return _texts([member for _, member in value])
        case list():
            return tuple(text for member in value if (text := _text(member)))
    return ()


def _text(entry: Any) -> str:
    if isinstance(entry, Pairs):
        named = entry.all(*_NAMES)
        return _text(named[0]) if named else ""
    if isinstance(entry, str):
        return " ".join(entry.split())
    return str(entry) if isinstance(entry, int | float) and not isinstance(entry, bool) else ""


def _bare(text: str) -> str:
    """Remove quotation marks or emphasis around an option, and any remark after the emphasis."""
    if (bold := _BOLD.match(text)) is not None:
        return bold["text"].strip(" :")
    return text[1:-1].strip() if len(text) > 2 and text[0] + text[-1] in _QUOTES else text
