"""Search for the part of a reply that answers the question, without reasoning, wrapping (JSON, a code fence, a list),
and questions that the model made up after its answer. The model may correct itself in this part (`No wait, B`), or
deny options before it names one (`Not A. C`)."""

import ast
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import accumulate, pairwise
from typing import NamedTuple

from robustify.base.redaction import HoldsText
from robustify.base.texts import unspaced
from robustify.reading.marks.labelling import CLOSING, OPENING, SERIES, TOKEN, as_mark

# `[^<>]` keeps every attempt within its own tag, so that the search stays linear.
_TAG = re.compile(
    r"</?\s*(?:\w{1,20}[:_])?(?:think|thinking|thoughts?|reasoning|scratchpad|analysis)(?:\s[^<>]*?)?/?>"
    r"|\[/?THINK\]|◁/?think▷|<\|(?:(?:start|end)_thinking|(?:begin|end)_of_thought|inner_(?:prefix|suffix))\|>|<unused9[45]>"
    r"|<\|/?(?:think|thinking|thoughts?|reasoning)\|>",
    re.IGNORECASE,
)
_CLOSES = re.compile(r"[<\[◁]/|<\|(?:end|/)|<\|inner_suffix|<unused95", re.IGNORECASE)
_CHANNEL, _MESSAGE = "<|channel|>", "<|message|>"
_FINAL = re.compile(r"<\|channel\|>\s*final\b|assistantfinal", re.IGNORECASE)
_BARE_CHANNEL = re.compile(r"(?:assistant)?analysis(?=[A-Z])|.*?assistantfinal", re.DOTALL)
"""Channels whose marks a server took off, as in `analysisWe see...assistantfinalB`."""
_ENDS = ("<|end|>", "<|return|>", "<|start|>", _CHANNEL)
_RESULTS = {
    "answer", "final_answer", "correct_answer", "result", "letter", "choice", "option", "prediction", "answer_letter",
    "answer_choice", "correct_option", "selected_option",
}  # fmt: skip
_BESIDE = {"reasoning", "explanation", "confidence"}
_FENCE = re.compile(r"```(?:json|python|text)?\s*(?P<in>[^`]{1,2000})\n?[ \t]*```", re.IGNORECASE)
_QUOTED = re.compile(r"'([^'\n]{0,500})'|\"([^\"\n]{0,500})\"")
_LIST = re.compile(rf"[\[({{]\s*(?:(?:{_QUOTED.pattern})[\s,;]*)+[\])}}]")
_MOST_QUESTIONS, _MOST_LINES = 8, 2000
"""Number of questions after an answer, and of lines, that are looked at."""


@cache
def answer_words() -> dict[str, str]:
    """Return the words around answers and questions by kind, as alternatives of a regular expression."""
    by_kind: dict[str, list[str]] = {}
    for line in files(__package__).joinpath("words.txt").read_text(encoding="utf-8").splitlines():
        kind, _, words = line.partition(": ")
        by_kind.setdefault(kind, []).append(words)
    return {kind: f"(?:{'|'.join(words)})" for kind, words in by_kind.items()}


class ReasoningSplit(NamedTuple):
    """A reply without its reasoning. `unterminated` is true if the reasoning had no end."""

    text: str
    unterminated: bool


def split_reasoning(text: str) -> ReasoningSplit:
    """Remove the reasoning from a reply, in linear time and without raising errors."""
    if _CHANNEL in text or _BARE_CHANNEL.match(text):
        return _final_channel(text)
    before, depth, end = "", 0, 0
    for tag in _TAG.finditer(text):
        if _CLOSES.match(tag[0]):
            # The opening tag may be missing, or have been part of the prompt. So nothing before a closing tag counts.
            before, depth = "", max(0, depth - 1)
        elif tag[0].endswith("/>"):
            continue
        else:
            before = before if depth else text[end : tag.start()]
            depth += 1
        end = tag.end()
    return ReasoningSplit((before if depth else text[end:]).strip(), depth > 0)


def _final_channel(text: str) -> ReasoningSplit:
    """Return the final channel of a reply. If it is missing, the model stopped while it was reasoning."""
    *_, channel = [None, *_FINAL.finditer(text)]
    if channel is None:
        return ReasoningSplit("", True)
    header = text.find(_MESSAGE, channel.end())
    start = channel.end() if header < 0 else header + len(_MESSAGE)
    ends = [end for mark in _ENDS if (end := text.find(mark, start)) >= 0]
    return ReasoningSplit(text[start : min(ends, default=len(text))].strip(), False)


def json_answer(text: str) -> str | None:
    """Return the only member of a JSON object that names an answer. Return None unless there is exactly one. The
    object may be in the only code fence of a reply."""
    fenced = [fence["in"].strip() for fence in _FENCE.finditer(text)] if "```" in text else []
    text = fenced[0] if len(fenced) == 1 else text
    return _only_result(parsed_object(text)) if text.startswith("{") else None


def parsed_object(text: str) -> object:
    """Return an object in JSON or Python syntax, or None."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text) if len(text) < _MOST_LINES else None
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return None


def _only_result(tree: object) -> str | None:
    names = set(tree) - _BESIDE if isinstance(tree, dict) else set()
    value = tree[names.pop()] if isinstance(tree, dict) and len(names) == 1 and names <= _RESULTS else None
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    if isinstance(value, dict):
        return _only_result(value)
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None


def unfenced(text: str) -> str:
    """Return the text in a code fence that is the whole reply. Return any other text unchanged."""
    fence = _FENCE.fullmatch(text) if text.startswith("```") else None
    return fence["in"].strip() if fence else text


def quoted_members(text: str) -> tuple[str, ...] | None:
    """Return the distinct texts of a list in Python or JSON syntax, such as `['B']`. Return None for any other text."""
    if text in ("[]", "()", "{}"):
        return ()
    if text[:1] not in ("[", "(", "{") or not _LIST.fullmatch(text):
        return None
    return tuple(dict.fromkeys(single or double for single, double in _QUOTED.findall(text)))


@dataclass(frozen=True, slots=True, repr=False)
class ReplyPart(HoldsText):
    """Part of a reply, from the position where a question seems to begin. The question is `certain` if a word such as
    `Question:` precedes it, or if a question mark precedes options that are not those of the item."""

    text: str
    certain: bool


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.MULTILINE)


_WORDS = answer_words()
_DRESS = r"[ \t]{0,20}[*_#>]{0,6}[ \t]{0,4}"
_NUMBER = r"[ \t]{0,4}(?:(?:no\.?|number|n[°º]|\#)[ \t]{0,4})?(?P<number>\d{1,4})?[ \t]{0,4}"
_CERTAIN = _compiled(
    rf"^{_DRESS}(?:(?:the[ \t])?(?:next|another|new)[ \t])?{_WORDS['question']}{_NUMBER}[*_]{{0,3}}"
    rf"(?:[ \t]?[:：]|(?(number)[.)）])|[ \t]{{0,20}}$)"
    rf"|^{_DRESS}(?:q\d{{0,4}}[ \t]?[:：]|q\d{{1,4}}[.)]|第\d{{1,4}}[题題])"
    r"|(?<=\S)[ \t]{1,4}(?-i:(?:Question|Q)[ \t]?\d{0,3}[:：])"
)
_LIKELY = _compiled(
    rf"^{_DRESS}{_WORDS['prompt']}{_NUMBER}[*_]{{0,3}}[ \t]?[:：]"
    r"|<\|(?:im_start|im_end|user|endoftext|eot_id|start_header_id)\|>|\[INST\]|</s>|<end_of_turn>|<start_of_turn>"
)
_LABEL = re.compile(rf"[ \t]*[*_]{{0,2}}[(\[（]?(?P<mark>{TOKEN})[)\].:：、．）](?P<text>[^\n]{{0,200}})")
_ANSWER_LINE = _compiled(rf"^{_DRESS}(?:{_WORDS['name']}|a)[*_]{{0,3}}[ \t]?[:：]")


def reply_parts(reply: str, options: Sequence[str]) -> list[ReplyPart]:
    """Split a reply at each question. The first part is empty if the reply begins with a question. Options listed
    after a line are a question unless they are the item's `options`."""
    certain = {match.start(): True for match in _first_matches(_CERTAIN, reply)}
    likely = {match.start(): False for match in _first_matches(_LIKELY, reply)}
    starts = {**_unmarked_questions(reply, options), **likely, **certain}
    cuts = [0, *sorted(start for start in starts if start or starts[start])[:_MOST_QUESTIONS]]
    return [
        ReplyPart(reply[start:end].strip(), index > 0 and starts[start])
        for index, (start, end) in enumerate(pairwise([*cuts, len(reply)]))
    ]


def _first_matches(pattern: re.Pattern[str], text: str) -> list[re.Match[str]]:
    return [match for match, _ in zip(pattern.finditer(text), range(_MOST_QUESTIONS), strict=False)]


def _unmarked_questions(reply: str, options: Sequence[str]) -> dict[int, bool]:
    """Return the start of each possible question, with True if it is certainly a question. A possible question is a
    paragraph after the first line that precedes other labeled options, or that asks and announces an answer."""
    lines = reply.split("\n", _MOST_LINES)[:_MOST_LINES]
    offsets = [0, *accumulate(len(line) + 1 for line in lines)]
    is_certain: dict[int, bool] = {}
    above = -1
    for index, line in enumerate(lines):
        if not line.strip():
            continue
        asks = above > 0 and lines[above].rstrip(" \t*_").endswith(("?", "？", "؟"))
        lists = above > 0 and lists_other_options(lines[index : index + 12], options)
        if lists or (asks and _ANSWER_LINE.match(line)):
            start = above
            while start > 1 and lines[start - 1].strip():
                start -= 1
            # A paragraph that follows the answer without a blank line is only its last line.
            start = above if start < 2 else start
            is_certain.setdefault(offsets[start], lists and asks and any(options))
        above = index
    return is_certain


def lists_other_options(lines: Sequence[str], options: Sequence[str]) -> bool:
    """Return whether the first lines with text have the labels of the first two options, but not their texts."""
    labels = [label for line in lines if line.strip() for label in [_LABEL.match(line)]][:2]
    if len(labels) < 2 or labels[0] is None or labels[1] is None:
        return False
    marks = [as_mark(label["mark"]) for label in labels if label is not None]
    if marks not in _PAIRS:
        return False
    texts = [unspaced(label["text"]).casefold() for label in labels if label is not None]
    own = [unspaced(option).casefold() for option in options[:2]]
    return not any(option and text.startswith(option) for text, option in zip(texts, own, strict=False))


_PAIRS = [[*series[:2]] for series in (*SERIES, ("1", "2"))]


def states_options(text: str, options: Sequence[str]) -> bool:
    """Return whether a text contains all options of an item, given that at least one option has text."""
    plain = unspaced(text).casefold()
    return any(options) and all(unspaced(option).casefold() in plain for option in options)


_MOST_CORRECTIONS = 16
"""Number of corrections in a reply that are looked at."""
_SHORT = 60
"""Length of a sentence, in characters, up to which it may do nothing but name an option."""
_AFTER = r"[\s,，.:：;!。…–—-]*"
_CORRECTION = _compiled(
    rf"(?<=\S)(?:\s*[,，;；.!?。！？…–—-]+\s*|\s*\n\s*|\s+(?={_WORDS['withdrawn']}))"
    rf"(?:(?:oh|ah|um|but|und|pero|mais)\b{_AFTER})?"
    rf"(?:(?P<withdrawn>{_WORDS['withdrawn']})|{_WORDS['corrected']}(?!['’]))(?:{_AFTER}{_WORDS['corrected']}(?!['’]))*{_AFTER}"
)
_DOUBT = _compiled(rf"{_WORDS['doubt']}\W+(?P<claim>\S.*)")
_OPTION = rf"(?:option\s+)?[{OPENING}]?(?P<mark>{TOKEN})[{CLOSING}]?"
_SO = rf"(?:(?:\s*[.!;。；]|\s*[,，](?=\s*{_WORDS['instead']}))\s*|\s+(?={_WORDS['instead']}))(?:{_WORDS['instead']}\W*)?"
_DENIALS = (
    _compiled(rf"(?:{_WORDS['filler']}\W+){{0,4}}{_WORDS['not']}\s+(?:be\s+)?{_OPTION}{_SO}(?P<claim>\S.*)"),
    _compiled(rf"{_OPTION}\s+(?:is|are|was|ist|es|est)\s+{_WORDS['not']}{_SO}(?P<claim>\S.*)"),
)
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s*")


@dataclass(frozen=True, slots=True, repr=False)
class Correction(HoldsText):
    """Text after a correction, up to the next correction. `withdraws` is true if the words before it take an answer
    back, and not if they may also introduce a remark (`Actually, ...`). It ends at `end` in the reply."""

    text: str
    withdraws: bool
    end: int


def corrections(reply: str) -> tuple[str, list[Correction]]:
    """Return the text before the first correction in a reply, and the corrections."""
    matches = [match for match, _ in zip(_CORRECTION.finditer(reply), range(_MOST_CORRECTIONS), strict=False)]
    if not matches:
        return reply, []
    ends = [*(match.start() for match in matches[1:]), len(reply)]
    return reply[: matches[0].start() + 1].strip(), [
        Correction(reply[match.end() : end].strip(), match["withdrawn"] is not None, end)
        for match, end in zip(matches, ends, strict=True)
    ]


def doubted(text: str) -> str:
    """Return the answer that a text gives with a doubt, such as `maybe B`, or ""."""
    match = _DOUBT.fullmatch(text)
    return match["claim"] if match else ""


def after_denials(text: str) -> tuple[list[str], str] | None:
    """Return the marks of the options that a text denies at its beginning, and the rest. Return None if it denies none."""
    marks: list[str] = []
    while len(text) <= _SHORT and (
        match := next((match for denial in _DENIALS if (match := denial.fullmatch(text))), None)
    ):
        marks.append(match["mark"])
        text = match["claim"].strip()
    return (marks, text) if marks else None


def short_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text that are short enough to name an option and nothing else."""
    return (sentence for sentence in _SENTENCE.split(text) if 0 < len(sentence) <= _SHORT)
