"""Export of a run's splits as a dataset folder: one Parquet file per split, and a dataset card.

Nothing is uploaded. A further split, `balanced`, is the largest subset found in which no cue of the adjusted score
predicts the key. An empty split gets no file.
"""

from pathlib import Path

from robustify.base.errors import DataError
from robustify.base.files import write_text
from robustify.export import writing
from robustify.items.item import item_row
from robustify.judging.measures import CHOICES_ONLY, FULL
from robustify.judging.stats.balance import balanced_subset
from robustify.judging.summary.result import AUDIT
from robustify.report.messages import sentence
from robustify.report.opening import opening, reader_line
from robustify.runs.run import WEIGHTS, Run
from robustify.runs.stored import table

SAYS = {
    "kept": "the screen did not find the key",
    "flagged": "the screen found the key",
    "undecided": "missing answers could still change the verdict",
    "cloze": "can be asked without choices",
}


def export_dataset(
    run: Run, folder: Path, kept: bool = False, licence: str = "", trim: bool = False
) -> list[Path]:
    """Write `SPLIT.parquet` for each nonempty split, and `README.md`. Return their paths."""
    with writing.exporting(run, folder, kept) as (staging, heading):
        splits = []
        for name in writing.SPLITS:
            if items := writing.exported_items(run, name, trim):
                writing.write_parquet(staging, name, [item_row(item) for item in items])
                splits.append({"name": name, "n": len(items), "says": SAYS[name]})
        if WEIGHTS in run.manifest["files"]:
            n, off = _write_balanced(run, staging, trim)
            says = f"no listed cue predicts the key: imbalance at most {off:.2f} deviations"
            splits.append({"name": "balanced", "n": n, "says": says})
        if not splits:
            raise DataError(
                f"{run.folder}: all splits are empty, so there is nothing to export. Choose another run."
            )
        named = {"name": heading.benchmark, "state": heading.state, "signature": heading.signature}
        text = writing.ENVIRONMENT.get_template("card.md.j2").render(
            **{
                name: words and writing.one_line(words)
                for name, words in {**named, "licence": licence}.items()
            },
            splits=splits,
            audit=[sentence(g.reason) for g in run.summary.guardrails if g.name == AUDIT],
            screen=run.summary.screen,
            models=run.summary.models,
            blind=CHOICES_ONLY.of(run.summary),
            full=FULL.of(run.summary),
            reader=reader_line(run.summary),
            quotes=opening(run.summary).quotes,
        )
        write_text(staging / "README.md", text)
    return writing.files_of(folder)


def _write_balanced(run: Run, folder: Path, trim: bool) -> tuple[int, float]:
    """Write the items of a balanced subset. Return their number and the largest imbalance of a cue, in deviations."""
    import pandas as pd  # type: ignore[import-untyped]

    run.require_unchanged(WEIGHTS)
    cells = table(run.folder / WEIGHTS, "adjusted_weight")
    weights = cells.drop(columns="item").apply(pd.to_numeric).dropna(subset="adjusted_weight")
    taken, off = balanced_subset(weights.drop(columns="adjusted_weight").to_numpy(dtype=float))
    chosen = set(cells["item"][weights.index[taken]])
    items = [item.trimmed() if trim else item for item in run.items or () if item.id in chosen]
    writing.write_parquet(folder, "balanced", [item_row(item) for item in items])
    return len(items), off


DATASET = writing.Exporter(
    "dataset",
    r"""Write a dataset folder with a card and one Parquet file per split.

    In addition to the splits, `balanced.parquet` contains the largest subset found in which no cue of the adjusted
    score predicts the key. Nothing is uploaded.

    \b
    Example:
        robustify export dataset results/demo -o dataset --licence mit
    """,
    export_dataset,
    {
        "kept": writing.KEPT,
        "trim": writing.TRIM,
        "licence": writing.Option("State this licence of the items, e.g. cc-by-4.0.", "ID", default=""),
    },
)
