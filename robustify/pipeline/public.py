"""Read public sets, and write their run folders with answers and verdicts, and with items if their text is known."""

import csv
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from robustify.base.arrays import ROWS
from robustify.base.errors import AuthorisationError
from robustify.base.files import neutral, write_json
from robustify.export.tasks import write_tasks
from robustify.export.writing import Heading
from robustify.items.item import Item
from robustify.judging import Judgement
from robustify.judging.cloze import cloze_labels
from robustify.judging.evidence import EvidenceTable, ItemEvidence
from robustify.judging.screen.screen_rules import FDR
from robustify.models.forecast import Forecast
from robustify.pipeline.config import Config
from robustify.pipeline.manifest import public_manifest
from robustify.pipeline.run_input import RunInput, judge_input
from robustify.reading.guard import Guard
from robustify.reading.loaders import Loaded, load_many, notes
from robustify.report import explorer, write_report
from robustify.report.explaining import evidence_rows
from robustify.report.opening import opening
from robustify.report.printing import standing
from robustify.runs import run as runs
from robustify.runs.run import Run, write_items, write_lines


@dataclass(frozen=True, slots=True)
class PublicPolicy:
    """Policy of a public set. Everything may be kept and shown, and scores are cached under digests without a key."""

    config: Config
    guard: Guard
    cache_key: None = None
    keeps_texts: bool = True

    def __post_init__(self) -> None:
        if self.config.sensitivity != "public":
            raise AuthorisationError(
                f"{self.config.name} is a restricted set; expected a public set. Run it with its adapter.",
                code="restricted-set",
            )

    @property
    def identity(self) -> Mapping[str, object]:
        """No fields, because only restricted sets have any."""
        return {}

    def inside(self, folder: Path) -> AbstractContextManager[None]:
        """Return a context that changes nothing."""
        return nullcontext()

    def read(self) -> Loaded:
        """Load the items of the config's files. Raise `AuthorisationError` if they are recognized as sensitive."""
        about = self.config
        return load_many(about.data, self.guard, adapter=about.adapter, names=[about.name])

    def require_public(self) -> None:
        """Accept the set, because it is public."""

    def notes(self, bench: Loaded) -> Sequence[str]:
        """Return all notes on how the data were read."""
        return notes(bench)

    def first_page(self, folder: Path, forecast: Forecast) -> Callable[[Judgement], None] | None:
        """Return a function that writes a preliminary report during a long run, or None if no such report is needed."""
        if not forecast.is_long or self.config.screen.criterion != FDR or (folder / runs.MANIFEST).is_file():
            return None

        def begin(judgement: Judgement) -> None:
            with runs.beginning(folder) as place:
                write_report(place, judgement.summary, {"growing": True})

        return begin

    def write(self, folder: Path, run_input: RunInput, judgement: Judgement) -> Run:
        """Write the run's folder. If a guardrail stops exports, omit the tasks for lm-eval. Raise `ResourceError` if the
        folder, or run.log, which the digests of a run do not cover, cannot be written."""
        config, manifest = self.config, public_manifest(self.config, run_input)
        summary = judgement.summary.model_copy(update={"signature": manifest["signature"]})
        with runs.replacing(folder, manifest) as staged:
            run_input.answers.write(staged / "answers.parquet")
            write_verdicts(staged / runs.VERDICTS, judgement, run_input.facts.topics)
            names = list(map(neutral, judgement.verdicts.items))
            if owed := {
                m: looks.values for m, looks in judgement.looks.items() if looks.part.value is not None
            }:
                by_model = {runs.looks_column(neutral(m)): values for m, values in owed.items()}
                _write_csv(staged / runs.LOOKS, {"item": names, **by_model})
            if judgement.analysed is not None:
                columns = {"item": names, **judgement.analysed.columns}
                _write_csv(staged / runs.ITEM_ANALYSIS, columns)
            places = ("file", "line", "reason")
            aside = ({name: row[name] for name in places} for row in run_input.data["quarantined"])
            write_lines(staged / "quarantine.jsonl", aside)
            if run_input.facts.free is not None:
                write_lines(staged / runs.FREE, run_input.facts.free.lines)
            write_json(staged / "summary.json", summary.tree())
            if run_input.items is not None:
                splits = _write_texts(staged, config, run_input, run_input.items, judgement)
                if summary.state == "passed":
                    write_items(staged / runs.ROBUST, splits["kept"])
                if not summary.halting:
                    heading = Heading(config.name, manifest["signature"], standing(summary))
                    write_tasks(staged / "lm_eval_tasks", heading, splits, config.hidden)
            notes = [*config.notes, *run_input.data.get("notes", ())]
            beside = {"notes": notes, "explorer": (staged / runs.EXPLORER).is_file()}
            write_report(staged, summary, {**manifest, **beside})
        run_input.log(folder)
        return runs.open_run(folder, self.guard)


def judged_run(config: Config, run_input: RunInput, folder: Path, guard: Guard, *, force: bool) -> Run:
    """Judge the answers to a public set, and write the run. Raise `UsageError` if the folder has a run of another benchmark
    and `force` is false, and the errors of `PublicPolicy.write`."""
    if not force:
        runs.refuse_other(folder, config.name, run_input.data["sha256"], run_input.items or (), guard)
    with runs.run_lock(folder):
        return PublicPolicy(config, guard).write(folder, run_input, judge_input(config, run_input))


def _write_texts(
    place: Path, config: Config, run_input: RunInput, items: Sequence[Item], judgement: Judgement
) -> dict[str, list[Item]]:
    """Write the splits, and the evidence for each item if there is any. Return the items of each split."""
    verdicts, excluded = judgement.verdicts, judgement.cloze_excluded
    verdict = {v.item: v.verdict for v in verdicts}
    splits = {
        name: [item for item in items if verdict[item.id] == name]
        for name in ("kept", "flagged", "undecided")
    }
    splits["cloze"] = [item for item in items if item.id not in excluded]
    for name, chosen in splits.items():
        write_items(place / f"{name}.jsonl", chosen)
    if config.cloze.labels is not None:
        labels = cloze_labels(Path(config.cloze.labels))
        write_lines(place / runs.LABELS, ({"id": item, "is_mcqa_only": labels[item]} for item in verdict))
    if judgement.evidence is None:
        return splits
    write_lines(place / runs.EVIDENCE, evidence_rows(judgement.evidence, verdicts, items))
    if config.explore:
        cues = judgement.summary.evidence
        rule = cues.whole.rule if cues and cues.whole else ""
        mend = opening(judgement.summary, public_manifest(config, run_input)).mend
        heading = explorer.ExplorerHeading(config.name, rule, mend)
        explorer.write_explorer(place, heading, items, verdicts, excluded)
    return splits


def write_verdicts(path: Path, judgement: Judgement, topics: Mapping[str, str]) -> None:
    """Write one row per item, in the order in which items were asked, with a summary of the evidence for the item. Names
    that look like formulas are quoted. Columns without evidence are empty."""
    verdicts, items = judgement.verdicts, judgement.verdicts.items
    spelled = {topic: neutral(topic) for topic in set(topics.values())}
    kinds = [*zip(*verdicts.kinds, strict=True)] or [()] * 4
    of_kind = (map(kind.__getitem__, _each(verdicts.which)) for kind in kinds)
    columns: dict[str, Iterable[object]] = {
        "item": map(neutral, items),
        "topic": (spelled[topics[item]] if item in topics else "" for item in items),
        **dict(zip(("verdict", "votes", "of", "reason"), of_kind, strict=True)),
        "cloze_excluded": (judgement.cloze_excluded.get(item, "") for item in items),
        **_evidence(judgement.evidence, len(items)),
    }
    _write_csv(path, columns)


def _write_csv(path: Path, columns: Mapping[str, Iterable[object]]) -> None:
    """Write columns as CSV. Floats in arrays have four decimals, and NaN becomes an empty cell."""
    cells = (
        ("" if x != x else f"{x:.4f}" for x in _each(column))
        if isinstance(column, np.ndarray) and column.dtype.kind == "f"
        else column
        for column in columns.values()
    )
    with path.open("w", encoding="utf-8", errors="surrogatepass", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(columns)
        rows.writerows(zip(*cells, strict=True))
        file.flush()
        os.fsync(file.fileno())


def _each(values: npt.NDArray[Any]) -> Iterator[Any]:
    """Yield the values of an array as Python objects, converting a few at a time."""
    for start in range(0, len(values), ROWS):
        yield from values[start : start + ROWS].tolist()


def _evidence(evidence: ItemEvidence | None, n: int) -> dict[str, Iterable[object]]:
    names = [column.name for column in fields(EvidenceTable)]
    if evidence is None:
        return dict.fromkeys(names, [""] * n)
    table = evidence.table
    spelled = {voters: neutral("; ".join(voters)) for voters in set(table.picked_by)}
    return {name: getattr(table, name) for name in names} | {
        "pick": (pick if pick >= 0 else "" for pick in _each(table.pick)),
        "picked_by": map(spelled.__getitem__, table.picked_by),
    }
