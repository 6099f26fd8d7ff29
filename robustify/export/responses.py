"""Export of right and wrong answers to the full question, for item response models of other tools."""

from pathlib import Path

from robustify.base.errors import DataError
from robustify.base.files import neutral
from robustify.export.writing import Exporter, files_of, refuse_restricted, staged
from robustify.items.scoring import FULL_OF
from robustify.judging.screen.votes import first_block, models_asked
from robustify.runs.run import Run, write_lines


def export_responses(run: Run, folder: Path) -> list[Path]:
    """Write 1 for each right answer of a model and 0 for each wrong one, as lines for py-irt and as a matrix. Unread and
    tied answers are left out. Raise `DataError` if no model was asked the full question."""
    import pandas as pd  # type: ignore[import-untyped]

    refuse_restricted(run)
    run.require_unchanged("summary.json", "answers.parquet")
    answers, view = run.answers, FULL_OF[run.summary.full_mode]
    asked = {name: first_block(answers, view, name).first() for name in models_asked(answers, view)}
    if not asked:
        raise DataError(
            f"{run.folder}: no model was asked the full question. Ask it, or import such answers."
        )
    of_model = {
        name: pd.Series(block.correct, [answers.items[at] for at in block.item])
        for name, block in asked.items()
    }
    whole = pd.DataFrame(of_model, answers.items).dropna(how="all").T
    table = whole.where(whole.isin((0, 1))).astype("Int8")
    with staged(folder) as place:
        lines = (
            {"subject_id": name, "responses": row.dropna().astype(int).to_dict()} for name, row in table.iterrows()
        )  # fmt: skip
        write_lines(place / "py_irt.jsonlines", lines)
        table.rename(index=neutral, columns=neutral).to_csv(
            place / "responses.csv", index_label="model", lineterminator="\n"
        )
    return files_of(folder)


RESPONSES = Exporter(
    "responses",
    r"""Write right and wrong answers for item response models.

    The files are py_irt.jsonlines, and responses.csv with a row for each model and a column for each item, which
    mirt reads (girth takes it transposed).

    \b
    Example:
        robustify export responses results/imported -o irt
        py-irt train 2pl irt/py_irt.jsonlines irt/fitted
    """,
    export_responses,
    {},
)
