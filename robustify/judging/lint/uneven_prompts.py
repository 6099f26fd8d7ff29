"""Lint rules for inconsistencies: options listed in a different order or scored differently, prompts unlike the rest of a
log, damaged examples, a key that is formatted differently, and models with identical replies."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from robustify.judging.lint.few_shots import before_question
from robustify.judging.lint.log_evidence import LintedLog, LoggedRow, LogHit, gathered
from robustify.reading.marks.labelling import cut_at_labels

_FEWEST, _NEARLY_ALL = 10, 0.9
"""Fewest rows that are compared, and share of rows with a property above which all rows should have it."""
_LONGEST_CUE, _FEWEST_WORDS, _LETTER = 40, 3, re.compile(r"\b[A-Z]\b")
_LABEL = re.compile(r"^[\s>*_`-]*[(\[]?([A-Z]|\d{1,2})(?=[.):\]])")


def other_order(logs: Sequence[LintedLog]) -> Iterator[LogHit]:
    """Find prompts whose options are not in the order of the document by which keys are counted. Inspect shuffles
    options itself, and logs the letters of its own order."""
    for log in logs:
        rows = [] if log.log.kind == "inspect" else [row for row in log.rows if row.prompt and row.by_letter]
        turned = [row for row in rows if row.order_in_prompt != tuple(range(row.item.k))]
        words = "the prompt lists the options in a different order than the key counts"
        yield from gathered(log, [(row, words) for row in turned])


def unequal_requests(row: LoggedRow) -> str:
    """Describe a row whose options were scored in different ways."""
    prompt = row.prompt
    if prompt is None or prompt.written:
        return ""
    texts = prompt.continuations
    requests = {*zip(prompt.contexts, texts, strict=True)}
    if len(requests) < len({*row.item.choices}):
        return "two options were scored by the same request"
    spaces = {text[: len(text) - len(text.lstrip())] for text in texts}
    if len(spaces) > 1 and not any(choice[:1].isspace() for choice in row.item.choices):
        return "some answers begin with a space, and others do not"
    if spaces == {"  "}:
        return "the answers begin with two spaces"
    return "" if row.reply.scores else "an option has no finite score"


def uneven_prompts(logs: Sequence[LintedLog]) -> Iterator[LogHit]:
    """Find prompts that lack the log's usual instruction or have an unusual number of examples."""
    for log in logs:
        rows = [
            row for row in log.rows if row.prompt is not None and row.question and row.question in row.context
        ]
        if len(rows) < _FEWEST:
            continue
        before = [before_question(row) for row in rows]
        head, n_head = Counter(text.split("\n")[0] for text in before).most_common(1)[0]
        has_head = len(head.split()) >= _FEWEST_WORDS and 2 * n_head >= len(rows)
        cue, n_cue = Counter(map(_cue, rows)).most_common(1)[0]
        counts = [text.count(f"\n{cue}") for text in before]
        usual, n_usual = Counter(counts).most_common(1)[0]
        has_cue = bool(cue) and n_cue > _NEARLY_ALL * len(rows) and 2 * n_usual > len(rows)
        hits = []
        for row, text, count in zip(rows, before, counts, strict=True):
            if has_head and not text.strip():
                hits.append((row, "the prompt lacks the instruction of most others"))
            elif has_cue and count != usual:
                hits.append((row, f"the prompt has {count} examples, and most others have {usual}"))
        yield from gathered(log, hits)


def _cue(row: LoggedRow) -> str:
    """Return the last line of a prompt, such as `Answer:`, if it may announce the answer."""
    line = row.context.rstrip().rpartition("\n")[2]
    return line if line.endswith((":", "：")) and len(line) <= _LONGEST_CUE else ""


def broken_examples(row: LoggedRow) -> str:
    """Describe a prompt whose examples lack answers, run into each other, or use different labels from its options."""
    before, raw = before_question(row), row.exchange.contexts[:1]
    if not before.strip() or raw[0].lstrip().startswith("[{"):
        return ""
    cue = _cue(row)
    if cue and f"\n{cue}" in before:
        if re.search(rf"\n{re.escape(cue)}[ \t]*\n[ \t]*\n(?!\S+[ \t]*\n[ \t]*\n)", before):
            return "an example has no answer"
        word = row.context[len(before.rstrip()) :].split(maxsplit=1)[0] if row.context else ""
        start = next((token for token in before.split() if token.endswith(":")), "")
        if start and start != cue and re.search(rf"[^\s]{re.escape(start)}[ \t]", before) and word:
            return "an example runs into the next question"
    listed = cut_at_labels(before)
    labels = row.parts.labels if row.parts and row.by_letter else ()
    if listed is None or not labels or not cue or len(listed.labels) < len(labels):
        return ""
    return (
        ""
        if {*labels} & {*listed.labels}
        else "the options of an example are labeled differently from those of the item"
    )


def key_stands_out(log: LintedLog) -> list[tuple[LoggedRow, str]]:
    """Return the rows of a log in which only the key has a different form than the options, or in which other lines name
    the key, if nearly all rows have this fault."""
    rows = [
        row for row in log.rows if row.item.key is not None and row.by_letter and row.question in row.context
    ]
    if len(rows) < _FEWEST or len({row.item.key for row in rows}) == 1:
        return []
    framed = [row for row in rows if _has_own_frame(row)]
    if len(framed) >= _NEARLY_ALL * len(rows):
        return [(row, "in the prompt, only the key's line has a different form") for row in framed]
    named = [dict(_lines_with_key(row)) for row in rows]
    forms = Counter(form for own in named for form in own)
    for form, n in forms.items():
        lines = {own[form] for own in named if form in own}
        if n >= _NEARLY_ALL * len(rows) and len(lines) > 1:
            return [
                (row, "a line of the prompt names the key")
                for row, own in zip(rows, named, strict=True)
                if form in own
            ]
    return []


def _own_lines(row: LoggedRow) -> list[str]:
    return row.context[row.context.rfind(row.question) + len(row.question) :].split("\n")


def _has_own_frame(row: LoggedRow) -> bool:
    """Return whether the option lines share one form, from which only the key's line differs."""
    lines, frames = _own_lines(row), list[str]()
    for choice in row.item.choices:
        own = [line for line in lines if choice in line and _LABEL.match(line)]
        own = [line for line in own if line.rstrip().endswith(choice)] or own
        if not own:
            return False
        frames.append(_LABEL.sub("#", own[0]).replace(choice, "", 1))
    key = row.item.key or 0
    return len({*frames[:key], *frames[key + 1 :]}) == 1 and frames[key] not in (
        frames[key - 1],
        frames[key - 2],
    )


def _lines_with_key(row: LoggedRow) -> Iterator[tuple[str, str]]:
    """Yield lines that name only the key, by its letter or text: with `#` in place of the key, and unchanged. Lines that
    stand several times with different letters are of examples."""
    key = row.item.key or 0
    text = row.item.choices[key]
    listed = [line for line in row.context.split("\n") if not _LABEL.match(line) and len(line.split()) >= 2]
    forms = Counter(_LETTER.sub("#", line) for line in listed)
    place = row.order_in_prompt.index(key)
    for line in listed:
        letters = _LETTER.findall(line)
        masked = _LETTER.sub("#", line)
        if (
            letters == ["ABCDEFGHIJKLMNOPQRSTUVWXYZ"[place]]
            and forms[masked] == 1
            and len(line.split()) >= _FEWEST_WORDS
        ):
            yield masked, line
        elif (
            text in line
            and row.question not in line
            and not any(other in line for other in row.item.choices if other not in text)
        ):
            yield line.replace(text, "#"), line


def copied_replies(logs: Sequence[LintedLog]) -> Iterator[LogHit]:
    """Find models of one comparison that have the same replies, or the same scores, to all items."""
    first: dict[tuple[object, ...], tuple[str, str]] = {}
    for log in logs:
        for model, rows in log.by_model.items():
            replies = tuple((row.content, row.exchange.texts, row.reply.scores) for row in rows)
            distinct = {reply[1:] for reply in replies}
            if len(rows) < _FEWEST or len(distinct) < _FEWEST:
                continue
            name, _ = first.setdefault(replies, (model, log.path))
            if name != model and not all(len(str(reply)) < _LONGEST_CUE for reply in distinct):
                yield LogHit(log.path, 1, "", f"{model} has the same {len(rows):,} replies as {name}")
