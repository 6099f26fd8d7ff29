"""Run folder of a public set, with its answers, verdicts and items.

If the text of the items is unknown, as in an imported table of picks, files with text are not written.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robustify.config import Config
from robustify.export.lm_eval_tasks import write_tasks
from robustify.files import write_json
from robustify.item import Item
from robustify.judging.judgement import Judgement
from robustify.loaders import Loaded, Quarantined, describe, load_many
from robustify.policy.asked import RunInput
from robustify.policy.manifest import public_manifest
from robustify.policy.verdict_table import write_verdicts, write_weights
from robustify.report import write_report
from robustify.report.explaining import evidence_rows
from robustify.report.explorer import write_explorer
from robustify.report.explorer.transcripts import Record
from robustify.restricted.recognition import require_ordinary
from robustify.run import (
    EVIDENCE,
    EXPLORER,
    FREE,
    WEIGHTS,
    Run,
    beginning,
    open_run,
    replacing,
    write_items,
    write_lines,
    write_quarantine,
)


@dataclass(frozen=True, slots=True)
class PublicPolicy:
    """Policy of a public set. Everything may be kept and shown, and scores are cached under plain digests."""

    config: Config | None = None
    """None if a file is read without a config."""
    access: None = None
    cache_key: None = None

    def inside(self, _folder: Path) -> AbstractContextManager[None]:
        """Return a context that changes nothing."""
        return nullcontext()

    def read(self) -> Loaded:
        """Load the items of the config's files. Raises `AuthorisationError` if they are recognised as sensitive."""
        assert self.config is not None
        bench = load_many(self.config.data)
        require_ordinary(bench, self.config.data, self.config.adapter, [self.config.name])
        return bench

    def described(self, bench: Loaded) -> dict[str, Any]:
        """Return the complete description of the benchmark."""
        return describe(bench)

    def features(self, table: dict[str, Any]) -> dict[str, Any]:
        """Return the table unchanged."""
        return table

    def asking(self) -> AbstractContextManager[None]:
        """Return a context in which errors may name items."""
        return nullcontext()

    def begin(self, folder: Path, judgement: Judgement) -> None:
        """Write a preliminary report before models answer. The final report replaces it."""
        with beginning(folder) as place:
            write_report(place, judgement.summary, {"growing": True})

    def write(self, folder: Path, asked: RunInput, judgement: Judgement) -> Run:
        """Write the run's folder with answers, verdicts and items."""
        assert self.config is not None
        return print_run(folder, self.config, asked, judgement)


def print_run(folder: Path, config: Config, asked: RunInput, judgement: Judgement) -> Run:
    """Write the run's folder. If a guardrail stops exports, tasks for lm-eval are not written."""
    manifest = public_manifest(config, asked)
    summary = judgement.summary.model_copy(update={"signature": manifest["signature"]})
    halted = any(c.halts_export and not c.passed for c in judgement.summary.guardrails)
    with replacing(folder, manifest) as staged:
        asked.answers.write(staged / "answers.parquet")
        write_verdicts(
            staged / "verdicts.csv",
            judgement.verdicts,
            judgement.cloze_excluded,
            asked.facts.topics,
            judgement.evidence,
            judgement.numbers,
        )
        if judgement.balance is not None:
            write_weights(staged / WEIGHTS, judgement.verdicts.items, judgement.balance)
        if judgement.evidence is not None and asked.items is not None:
            write_lines(staged / EVIDENCE, evidence_rows(judgement.evidence, judgement.verdicts, asked.items))
            if config.explore:
                write_explorer(
                    staged,
                    config.name,
                    asked.items,
                    judgement.verdicts,
                    judgement.cloze_excluded,
                    Record(
                        asked.answers,
                        asked.templates,
                        config.hidden,
                        config.asking.shots if asked.origin is None else 0,
                    ),
                )
        write_quarantine(staged / "quarantine.jsonl", [Quarantined(**q) for q in asked.data["quarantined"]])
        if asked.items is not None:
            for name, items in splits(asked.items, judgement).items():
                write_items(staged / f"{name}.jsonl", items)
        if asked.facts.free is not None:
            write_lines(staged / FREE, asked.facts.free.lines)
        write_json(staged / "summary.json", summary.tree())
        beside = {
            "notes": [*config.notes, *asked.data.get("notes", ())],
            "explorer": (staged / EXPLORER).is_file(),
        }
        write_report(staged, summary, {**manifest, **beside})
        if not halted and asked.items is not None:
            write_tasks(staged / "lm_eval_tasks", config.name, signature=manifest["signature"])
    return open_run(folder)


def splits(items: Sequence[Item], judgement: Judgement) -> dict[str, list[Item]]:
    """Return the items of each split in their original order. The split `cloze` has the items that can be asked without
    choices."""
    verdict = {v.item: v.verdict for v in judgement.verdicts}
    parts = {
        name: [i for i in items if verdict[i.id] == name] for name in ("robust", "shortcut", "undecided")
    }
    return {**parts, "cloze": [i for i in items if i.id not in judgement.cloze_excluded]}
