"""Export a run as data: a dataset folder with a card, training instructions, or a table of right and wrong answers.

Nothing is uploaded.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from robustify.base.errors import DataError
from robustify.base.files import neutral, write_text
from robustify.export import writing
from robustify.export.balanced import balanced_items
from robustify.items.item import Item, item_row
from robustify.items.orders import own
from robustify.items.scoring import FULL_OF
from robustify.items.views import template
from robustify.judging.measures import CHOICES_ONLY, FULL
from robustify.judging.screen.votes import first_block, models_asked
from robustify.judging.summary.result import AUDIT
from robustify.report.opening import opening, reader_line
from robustify.report.printing import in_markdown, sentence
from robustify.runs.run import Run, write_lines

SAYS = {
    "kept": "the screen did not find the key",
    "flagged": "the screen found the key",
    "undecided": "missing answers could still change the verdict",
    "cloze": "can be asked without choices",
}


@writing.exporter(
    "dataset",
    writing.KEPT,
    writing.TRIM,
    ("--license ID", "State this license of the items, e.g. cc-by-4.0.", {"default": ""}),
)
def export_dataset(
    run: Run, folder: Path, kept: bool = False, license: str = "", trim: bool = False
) -> list[Path]:
    """Write a dataset folder with a card and one Parquet file per split.

    In addition to the splits, `balanced.parquet` contains the largest subset found in which no listed cue
    predicts the key. Nothing is uploaded.

    \b
    Example:
        robustify export dataset results/demo -o dataset --license mit
    """
    with writing.exporting(run, folder, kept) as (staging, heading):
        splits = []
        for name in writing.SPLITS:
            if items := writing.exported_items(run, name, trim):
                writing.write_parquet(staging, name, [item_row(item) for item in items])
                splits.append({"name": name, "n": len(items), "says": SAYS[name]})
        if (balanced := balanced_items(run.items or (), run.answers)) is not None:
            chosen, imbalance = balanced
            rows = [item_row(item.trimmed() if trim else item) for item in chosen]
            writing.write_parquet(staging, "balanced", rows)
            says = f"no listed cue predicts the key: imbalance at most {imbalance:.2f} deviations"
            splits.append({"name": "balanced", "n": len(rows), "says": says})
        if not splits:
            raise DataError(
                f"{run.folder}: all splits are empty, so there is nothing to export. Choose another run.",
                code="empty-splits",
            )
        named = {"name": heading.benchmark, "state": heading.state, "signature": heading.signature}
        text = writing.ENVIRONMENT.get_template("card.md.j2").render(
            **{
                name: words and writing.one_line(words)
                for name, words in {**named, "license": license}.items()
            },
            splits=splits,
            audit=[sentence(g.reason) for g in run.summary.guardrails if g.name == AUDIT],
            screen=run.summary.screen,
            models=run.summary.models,
            blind=CHOICES_ONLY.read(run.summary),
            full=FULL.read(run.summary),
            reader=reader_line(run.summary),
            quotes=opening(run.summary).quotes,
        )
        write_text(staging / "README.md", text)
    return writing.files_of(folder)


Form = Literal["mcq", "free"]
BY_LETTER = "Answer the multiple-choice question with the letter of the right choice."
WARNING = "A model that was trained on these items can no longer be evaluated on them."
_MARKS = re.compile(r"\[/?INST\]|</?s>", re.IGNORECASE)
"""Mistral's format markers. An item that contains one would end the instruction early."""


@writing.exporter(
    "instruct",
    writing.KEPT,
    (
        "--form mcq|free",
        "Write questions with choices (mcq), or with free-text answers (free).",
        {"default": "mcq"},
    ),
    (f"--split {'|'.join(writing.SPLITS)}", "Write this split.", {"default": "kept"}),
    asks_free=True,
)
def export_instruct(
    run: Run,
    folder: Path,
    as_free: writing.AsFreeRows,
    kept: bool = False,
    *,
    form: Form = "mcq",
    split: str = "kept",
) -> list[Path]:
    """Write a split as training instructions.

    One of the files has the text format of Mistral. Do not evaluate a model on items that it was trained on.

    \b
    Example:
        robustify export instruct results/demo -o train --form free
    """
    with writing.exporting(run, folder, kept) as (staging, heading):
        write_instruct(staging, heading, writing.exported_items(run, split), form, as_free)
    return writing.files_of(folder)


def mistral(instruction: str, input_: str, output: str) -> str:
    r"""Format an instruction as `[INST] instruction\n\ninput [/INST] output`. An empty input is omitted."""
    question = f"{instruction}\n\n{input_}" if input_ else instruction
    return f"[INST] {question} [/INST] {output}"


def write_instruct(
    folder: Path, heading: writing.Heading, items: Sequence[Item], form: Form, as_free: writing.AsFreeRows
) -> None:
    """Write `instruct.jsonl` with separate fields, `mistral.jsonl` in Mistral's format, and `README.md`. Items are asked
    with choices and answered by letter (`mcq`), or, if possible, without choices and answered in words (`free`). Raise
    `DataError` if no item can be exported, or if an item contains a marker of Mistral's format."""
    if form == "mcq":
        rows, says = list(map(_by_letter, items)), f"{len(items)} of {len(items)} items"
    else:
        free = as_free(items)
        rows = [(row["id"], row["question"].strip(), "", row["reference"]) for row in free.rows]
        says = free.says
    if not rows:
        raise DataError(
            f"{heading.benchmark}: this export has no form for the items of this split. Choose another --split.",
            code="no-suitable-item",
        )
    if marked := [id_ for id_, *parts in rows if any(map(_MARKS.search, parts))]:
        raise DataError.gather([f"{i}: contains a marker of Mistral's format. Remove it." for i in marked])
    lines = [*heading.lines(f"{says} as instructions."), WARNING]
    write_text(folder / "README.md", "\n\n".join(map(in_markdown, lines)) + "\n")
    fields = ({"id": i, "instruction": text, "input": given, "output": out} for i, text, given, out in rows)
    write_lines(folder / "instruct.jsonl", fields)
    write_lines(folder / "mistral.jsonl", ({"id": i, "text": mistral(*parts)} for i, *parts in rows))


def _by_letter(item: Item) -> tuple[str, str, str, str]:
    full = template("full")
    requests = full.requests(item, own(item.k))
    shown = requests[0].context.removeprefix(full.description)
    return item.id, BY_LETTER, shown, requests[item.key].continuation.strip()


@writing.exporter("responses")
def export_responses(run: Run, folder: Path) -> list[Path]:
    """Write right and wrong answers for item response models.

    The files are py_irt.jsonlines and responses.csv. mirt reads responses.csv, which has a row for each model and a column
    for each item. girth reads it transposed.

    \b
    Example:
        robustify export responses results/imported -o irt
        py-irt train 2pl irt/py_irt.jsonlines irt/fitted
    """
    import pandas as pd  # type: ignore[import-untyped]

    writing.refuse_restricted(run)
    run.require_unchanged("summary.json", "answers.parquet")
    answers, view = run.answers, FULL_OF[run.summary.full_mode]
    blocks = {name: first_block(answers, view, name).first() for name in models_asked(answers, view)}
    if not blocks:
        raise DataError(
            f"{run.folder}: no model was asked the full question. Ask a model, or import answers to full questions.",
            code="no-full-answers",
        )
    of_model = {
        name: pd.Series(block.correct, [answers.items[i] for i in block.item])
        for name, block in blocks.items()
    }
    credits = pd.DataFrame(of_model, answers.items).dropna(how="all").T
    # An unread answer is NaN, and a tied one has a credit between 0 and 1. Both are left out.
    table = credits.where(credits.isin((0, 1))).astype("Int8")
    with writing.staged(folder) as place:
        lines = (
            {"subject_id": name, "responses": row.dropna().astype(int).to_dict()} for name, row in table.iterrows()
        )  # fmt: skip
        write_lines(place / "py_irt.jsonlines", lines)
        table.rename(index=neutral, columns=neutral).to_csv(
            place / "responses.csv", index_label="model", lineterminator="\n"
        )
    return writing.files_of(folder)
