"""Results of asking models, as kept in memory and as read back from a run."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from robustify.answers import Answers
from robustify.config import Config
from robustify.errors import DataError
from robustify.item import Item
from robustify.judging.context import Facts, Rules
from robustify.loaders import Loaded, notes
from robustify.ngrams.overlap import Overlap
from robustify.run import Run


@dataclass(frozen=True, slots=True, repr=False)
class RunInput:
    """Results of asking models that judging and reporting need.

    `items` is None if their text is unknown. `data`, `templates` and `origin` are parts of run.json: the benchmark, the
    SHA-256 of each template, and the sources of imported answers.
    """

    items: tuple[Item, ...] | None
    facts: Facts
    data: Mapping[str, Any]
    answers: Answers
    fingerprints: Mapping[str, Mapping[str, str]]
    templates: Mapping[str, str]
    origin: Mapping[str, Any] | None = None


def rules(config: Config) -> Rules:
    """Return the settings of a config that judging needs."""
    screens = [
        s if s.voters else s.model_copy(update={"voters": config.voters})
        for s in (config.screen, *config.alternatives)
    ]
    under_test = tuple(m.name for m in config.models if m.role == "under_test")
    return Rules(
        screens[0],
        config.cloze,
        config.probe,
        config.limits,
        under_test,
        tuple(screens[1:]),
        mode=config.asking.mode,
        part=config.limit is not None,
        hidden=config.hidden,
        adjust=config.adjust,
    )


def bench_facts(bench: Loaded) -> Facts:
    """Return facts about the benchmark that the answer table does not contain."""
    return Facts(
        name=bench.name,
        topics={i.id: i.topic for i in bench.items},
        groups={i.id: i.group for i in bench.items if i.group},
        n_quarantined=len(bench.quarantined),
        defects=list(map(asdict, bench.defects)),
    )


def data_tree(bench: Loaded, n_items: int, found: Overlap | None = None) -> dict[str, Any]:
    """Return `data` of run.json: layout, digest, counts, defects by line, and items found in text files.

    A run can be judged again from these facts without its data.
    """
    found_odd = notes(bench)
    return {
        **({"notes": found_odd} if found_odd else {}),
        "layout": bench.layout,
        "sha256": bench.sha256,
        "n_items": n_items,
        "lines": line_runs(bench.lines[:n_items]),
        "defects": list(bench_facts(bench).defects),
        "quarantined": list(map(asdict, bench.quarantined)),
        "overlap": None if found is None else found.json(),
    }


def line_runs(lines: Sequence[int]) -> list[list[int]]:
    """Return line numbers in compact form: the index and line of each item that does not follow the item before it."""
    return [[at, line] for at, line in enumerate(lines) if not at or line != lines[at - 1] + 1]


def asked_again(run: Run, config: Config) -> RunInput:
    """Read the results of asking from a run. Raises `DataError` if its split files or `run.json` are incomplete."""
    data = run.manifest["data"]
    items = run.items
    if items is not None and len(items) != data["n_items"]:
        raise DataError(
            f"{run.folder}: The split files contain {len(items)} of {data['n_items']} items; expected all of them."
        )
    return RunInput(
        items=items,
        facts=Facts(
            name=config.name,
            topics=run.topics if items is None else {i.id: i.topic for i in items},
            groups={i.id: i.group for i in items or () if i.group},
            n_quarantined=len(data["quarantined"]),
            defects=data["defects"],
            overlap=Overlap.of(data["overlap"]) if data.get("overlap") else None,
            free=run.free,
        ),
        data=data,
        answers=run.answers,
        fingerprints=run.manifest["models"],
        templates=run.manifest["templates"],
        origin=run.manifest.get("import"),
    )
