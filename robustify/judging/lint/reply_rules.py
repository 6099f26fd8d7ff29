"""Rules about the replies and scores of a log, such as repeated replies, and unreadable replies that earned credit."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from robustify.judging.lint.log_evidence import LintedLog, LoggedRow, LogHit, gathered
from robustify.reading.marks.picks import NoPick, Picked, read_pick

_MOST_UNREAD, _FEWEST_UNREAD, _FEWEST = 0.05, 3, 10
"""Share and number of unread replies from which a log has too many, and fewest replies of a model that are judged."""
_LEVEL, _ALPHA = 0.01, 0.05
"""Levels of the test of lengths, which is made for each model, and of the test of metrics."""
_FEWEST_EPOCHS, _LONG = 5, 100
"""Fewest items with several epochs that are judged, and fewest characters of a long reply."""

_Credits = Mapping[tuple[str, tuple[str, ...]], tuple[float, float]]
"""Credits of a model by `acc` and `acc_norm`, by the content of the item."""


def key_contradicted(row: LoggedRow) -> str:
    """Describe a row whose score contradicts its key."""
    return "the score contradicts the key and the pick" if row.exchange.contradicts else ""


def unread_but_credited(row: LoggedRow) -> str:
    """Describe a reply that names no option, but was scored as right."""
    credited = any(row.exchange.rightness.values())
    if not row.exchange.texts or row.reply.scores or not credited:
        return ""
    if row.reply.pick is None:
        return f"the reply was scored as right, but it names no option ({row.reply.reason})"
    choices = row.item.choices or ("",) * row.item.k
    several = NoPick("several options")
    if all(read_pick(text, choices) == several for text in row.exchange.texts):
        return "the reply was scored as right, but it names several options"
    return ""


def misread_reply(row: LoggedRow) -> str:
    """Describe a row that the harness misread: the reply clearly names another option, or the reply only repeats the
    prompt, but an option was scored. The letters of a prompt with shuffled options may be those of the log. If there are
    several replies, the harness may have used any of them."""
    texts, pick = row.exchange.texts, row.reply.pick
    if not texts or pick is None or row.reply.scores or row.runs_on:
        return ""
    if row.question and all(row.question in text and text.strip() in row.context for text in texts):
        return "the reply only repeats the prompt, but an option was scored"
    orders = {row.order_in_prompt, tuple(range(row.item.k))}
    choices = row.item.choices or ("",) * row.item.k
    readings = [
        (read_pick(text, [choices[index] for index in order]), order) for text in texts for order in orders
    ]
    named = {order[reading.index] for reading, order in readings if isinstance(reading, Picked)}
    if pick in named or not all(isinstance(reading, Picked) for reading, _ in readings):
        return ""
    return "the reply clearly names a different option than the one that was scored"


def next_question_scored(row: LoggedRow) -> str:
    """Describe a reply whose score belongs to a question that the model made up after its answer."""
    pick, rightness = row.reply.pick, row.exchange.rightness
    if not rightness or row.item.key is None or not row.runs_on or pick is None:
        return ""
    differs = all(right != (pick == row.item.key) for right in rightness.values())
    return "the score belongs to a question that the model made up after its answer" if differs else ""


def _written(rows: Sequence[LoggedRow]) -> list[LoggedRow]:
    return [
        row
        for row in rows
        if not row.reply.scores and (row.exchange.texts or (row.prompt and row.prompt.written))
    ]


def many_unread(logs: Sequence[LintedLog]) -> Iterator[LogHit]:
    """Find models whose replies often do not name an option."""
    for log in logs:
        for model, rows in log.by_model.items():
            written = _written(rows)
            unread = [row for row in written if row.reply.pick is None]
            if len(written) >= _FEWEST and len(unread) >= max(_FEWEST_UNREAD, _MOST_UNREAD * len(written)):
                reasons = Counter(row.reply.reason for row in unread).most_common(3)
                counts = ", ".join(f"{reason} {n:,}" for reason, n in reasons)
                share = (
                    f"{len(unread):,} of {len(written):,} replies ({100 * len(unread) / len(written):.0f} %)"
                )
                yield LogHit(
                    log.path, unread[0].reply.line, "", f"{model}: {share} name no option ({counts})"
                )


def unread_by_length(logs: Sequence[LintedLog]) -> Iterator[LogHit]:
    """Find models whose long replies are unreadable more often than short replies (Fisher's exact test, one-sided)."""
    for log in logs:
        for model, rows in log.by_model.items():
            written = sorted(
                (row for row in _written(rows) if row.exchange.texts),
                key=lambda row: len(row.exchange.texts[0]),
            )
            n_long = len(written) // 4
            if len(written) < 2 * _FEWEST or len(written[-n_long].exchange.texts[0]) < _LONG:
                continue
            import numpy as np
            from scipy.stats import fisher_exact

            unread = [row.reply.pick is None for row in written]
            long, short = sum(unread[-n_long:]), sum(unread[:-n_long])
            table = np.array([[long, n_long - long], [short, len(unread) - n_long - short]])
            if long >= _FEWEST_UNREAD and fisher_exact(table, alternative="greater").pvalue < _LEVEL:
                shortest = len(written[-n_long].exchange.texts[0])
                words = (
                    f"{model}: {long:,} of {n_long:,} replies of {shortest:,} or more characters name no option, but "
                    f"only {short:,} of {len(unread) - n_long:,} shorter ones do"
                )
                yield LogHit(log.path, written[-1].reply.line, "", words)


def same_replies(logs: Sequence[LintedLog]) -> Iterator[LogHit]:
    """Find models that give the same reply, or the same scores, to all items although keys differ."""
    for log in logs:
        for model, rows in log.by_model.items():
            values = {(row.exchange.texts[:1], row.reply.scores) for row in rows}
            keys = {row.item.key for row in rows}
            if len(rows) >= _FEWEST and len(keys) > 1 and len(values) == 1 and values != {((), ())}:
                yield LogHit(log.path, 1, "", f"{model}: all {len(rows):,} replies are the same")


def same_epochs(logs: Sequence[LintedLog]) -> Iterator[LogHit]:
    """Find logs in which all epochs have the same replies, so that more epochs add nothing."""
    for log in logs:
        several = [row.exchange.texts for row in log.rows if len(row.exchange.texts) > 1]
        if len(several) >= _FEWEST_EPOCHS and all(len({*texts}) == 1 for texts in several):
            yield LogHit(
                log.path, 1, "", f"the replies of all epochs are the same in all {len(several):,} items"
            )


def norm_changes_ranks(logs: Sequence[LintedLog]) -> Iterator[LogHit]:
    """Find pairs of models that `acc` and `acc_norm` rank differently, if the metric matters significantly on their common
    items (a sign test, with Bonferroni's correction for the pairs)."""
    models: dict[tuple[str, str], dict[str, tuple[str, _Credits]]] = {}
    for log in logs:
        for model, rows in log.by_model.items():
            credits = {row.content: _credits(row) for row in rows if _has_norm(row)}
            if len(credits) >= _FEWEST:
                place = (str(log.log.task), str(rows[0].reply.view))
                models.setdefault(place, {})[model] = (log.path, credits)
    for of_place in models.values():
        pairs = list(combinations(of_place, 2))
        for first, second in pairs:
            (path, first_credits), (other_path, second_credits) = of_place[first], of_place[second]
            items = first_credits.keys() & second_credits.keys()
            changes = [
                first_credits[item][0]
                - second_credits[item][0]
                - first_credits[item][1]
                + second_credits[item][1]
                for item in items
            ]
            by_acc, by_norm = (
                sum(first_credits[item][i] - second_credits[item][i] for item in items) for i in (0, 1)
            )
            if by_acc * by_norm < 0 and _sign_test(changes) * len(pairs) <= _ALPHA:
                better, worse = (first, second) if by_acc > 0 else (second, first)
                words = (
                    f"on {len(items):,} items, {better} has {abs(by_acc):,g} more right than {worse} by acc, but "
                    f"{abs(by_norm):,g} fewer by acc_norm; state which metric counts"
                )
                yield LogHit(other_path if worse == second else path, 1, "", words)


def _has_norm(row: LoggedRow) -> bool:
    return row.reply.by_text and row.item.key is not None and all(row.reply.n_chars)


def _credits(row: LoggedRow) -> tuple[float, float]:
    """Return the credit of a row by score, and by score per character."""
    from robustify.items.scoring import per_character

    scores = row.reply.scores
    return _credit(row, scores), _credit(row, per_character(scores, row.reply.n_chars))


def _sign_test(changes: Sequence[float]) -> float:
    """Return the two-sided p-value of a sign test on changes."""
    from scipy.stats import binomtest

    n_up, n_down = sum(change > 0 for change in changes), sum(change < 0 for change in changes)
    return float(binomtest(n_up, n_up + n_down).pvalue) if n_up + n_down else 1.0


def _credit(row: LoggedRow, scores: Sequence[float]) -> float:
    from robustify.base.arrays import tied_best

    best = tied_best(scores)
    return (row.item.key in best) / len(best)


def repeated_document(logs: Sequence[LintedLog]) -> Iterator[LogHit]:
    """Find items that occur twice in a log under different names, with their options in the same order."""
    for log in logs:
        first: dict[tuple[str, str, tuple[str, ...]], tuple[str, int]] = {}
        hits = []
        for row in log.rows:
            if not row.item.choices:
                continue
            name = str(row.item.name or row.reply.line)
            place = (str(row.reply.model), row.content[0], row.item.choices)
            earlier, line = first.setdefault(place, (name, row.reply.line))
            if earlier != name:
                hits.append((row, f"the item repeats that of line {line}"))
        yield from gathered(log, hits)
