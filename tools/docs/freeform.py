"""The generated blocks of docs/freeform.md: the templates and their words, statuses, checks, and what was measured.

Everything is read from the package and from results/bench; nothing of it is typed into the page.
"""

from collections.abc import Sequence
from typing import Any, get_args

from tools.docs import measured

_ERRORS = {
    "empty": "nothing, or nothing but reasoning and fences",
    "unterminated_reasoning": "reasoning was open at the end",
    "format_error": "no structure that may be the answer",
    "truncation": "cut off; labels that are whole are kept",
    "ambiguous": "two structures that differ, and it is not certain which is the answer",
    "duplicate_index": "one number twice",
    "missing_index": "a number is missing; the others are kept",
    "count_mismatch": "too many or too few entries, or a number out of range",
    "unknown_label": "an entry that is no label of the set; the others are kept",
    "off_scale": "a score that is not exactly on the scale",
    "unsafe_input": "more than a megabyte, or more brackets, lines or tags than a judge writes",
    "tie": "two verdicts with as many votes",
    "no_majority": "no verdict of more than half of the votes that were requested",
    "api_error": "the judge's server failed",
    "timeout": "it took too long",
    "rate_limited": "it was still busy at the last retry",
    "auth_error": "it refused the credentials (the run stops)",
    "content_filter": "it refused the prompt",
}
_STATUSES = {
    "scored": "right, wrong or between",
    "no_answer": "empty, a refusal, or a letter where no options were shown: 0, and counted",
    "truncated": "the model was cut off before an answer: no score (`--truncated-as wrong` makes it 0)",
    "needs_judge": "the rules cannot tell and no judge was asked: no score",
    "grader_error": "the judge cannot be read, failed or tied: no score",
    "reference_error": "the reference cannot be used: no score",
}


def _table(head: str, rows: Sequence[Sequence[str]]) -> str:
    return measured.table(head, rows, head.count("|") + 1)


def statuses() -> str:
    from robustify.freeform.schema import STATUSES

    assert set(STATUSES) == set(_STATUSES)
    return _table("status | means", [[f"`{name}`", _STATUSES[name]] for name in STATUSES])


def errors() -> str:
    from robustify.freeform.schema import ErrorType

    assert set(get_args(ErrorType)) == set(_ERRORS)
    return _table("error type | means", [[f"`{name}`", _ERRORS[name]] for name in get_args(ErrorType)])


def templates() -> str:
    from robustify.freeform.judge.store import get_store

    rows = [
        [
            f"`{t.id}`",
            t.reads + (f" ({t.label_set or t.scale})" if t.label_set or t.scale else ""),
            ", ".join(t.formats) or "-",
            ", ".join(t.languages()),
            f"`{t.sha256[:16]}`",
            t.changelog,
        ]
        for t in get_store()
    ]
    return _table("template | reads | formats | languages | sha256 (first 16) | change", rows)


def prompts() -> str:
    """Every file of every template, with the versions that use it and where its words come from."""
    from robustify.freeform.judge.store import get_store, pack_text

    store = get_store()
    used: dict[str, list[str]] = {}
    sources: dict[str, str] = {}
    texts: dict[str, str] = {}
    for template in store:
        for name in template.files:
            used.setdefault(name, []).append(template.id)
            sources.setdefault(name, template.source)
            texts[name] = pack_text(template.root, name)
    return "\n".join(
        f"### `{name}`\n\nUsed by {', '.join(f'`{i}`' for i in used[name])}. Words: {sources[name]}.\n\n"
        f"```jinja\n{texts[name].rstrip()}\n```\n"
        for name in sorted(texts)
    )


def checks() -> str:
    from robustify.freeform.judge_audit import CHECKS, PAYLOADS

    payloads = ", ".join(f"`{name}`" for name in PAYLOADS)
    return f"Checks: {', '.join(f'`{c}`' for c in CHECKS)}.\nPayloads of `injection`: {payloads}.\n"


@measured.measured("bench/freeform.json")
def bench(found: Any) -> str:
    rows = [
        [
            f"`{name}`",
            f"{case['replies']:,}",
            f"{case['cpu_seconds']:.1f}",
            f"{case['replies'] / case['cpu_seconds']:,.0f}",
        ]
        for name, case in found["cases"].items()
    ]
    machine = found["machine"]
    total = (
        f"All together {found['cpu_seconds']:.1f} s of one core; goal {found['goal_seconds']:g} s,"
        f" {'met' if found['met'] else '**not met**'}. Machine: {machine['cores']} cores, {machine['cpu']}, Python"
        f" {machine['python']}, load before {machine['load_before']:g}. Measured on {machine['date']}."
    )
    return f"{_table('work | replies | CPU seconds | replies a second', rows)}\n{total}\n"


BLOCKS = {
    "free-statuses": statuses,
    "free-errors": errors,
    "free-templates": templates,
    "free-prompts": prompts,
    "free-checks": checks,
    "free-bench": bench,
}
