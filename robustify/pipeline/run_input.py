"""Input of judging: the answers, and facts about a set, from a new or a stored run."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from robustify.base.errors import DataError, UsageError
from robustify.base.files import writable
from robustify.items.answers import Answers
from robustify.items.item import Item, no_collector
from robustify.judging import Judgement, judge
from robustify.judging.baselines.heuristics import guess
from robustify.judging.context import Rules
from robustify.judging.readers.reader_rows import encoded, meaning, probe
from robustify.judging.response_data import Facts
from robustify.judging.screen.screen_rules import same_model
from robustify.judging.stats.intervals import wilson
from robustify.judging.summary.quantity import Quantity
from robustify.models.folder import has_encoder
from robustify.models.names import ENCODER
from robustify.pipeline.config import Config
from robustify.reading.loaders import Loaded
from robustify.runs.run import Run

if TYPE_CHECKING:
    from robustify.judging.text_overlap import Overlap
    from robustify.models.engines.protocols import Progress, Watch


@dataclass(frozen=True, slots=True, repr=False)
class RunInput:
    """Answers of the models, with all other input of judging and reporting.

    `items` is None if their text is unknown. `data`, `templates` and `origin` are parts of run.json: the benchmark, the
    SHA-256 of each template, and the sources of imported answers. `spent` is the usage that servers reported.
    """

    items: tuple[Item, ...] | None
    facts: Facts
    data: Mapping[str, Any]
    answers: Answers
    fingerprints: Mapping[str, Mapping[str, str]]
    templates: Mapping[str, str]
    origin: Mapping[str, Any] | None = None
    spent: Sequence[Mapping[str, object]] = ()

    def log(self, folder: Path) -> None:
        """Append the calls, tokens, and cost of each server to run.log. Raise `ResourceError` if it cannot be written."""
        if not self.spent:
            return
        file, now = folder / "run.log", datetime.now(timezone.utc).isoformat(timespec="seconds")
        with writable(file, "the run itself is complete"), file.open("a", encoding="utf-8") as log:
            log.writelines(json.dumps({"at": now, **usage}) + "\n" for usage in self.spent)


def unwatched(_label: str, _total: int) -> "AbstractContextManager[Progress]":
    """Return a progress context that shows nothing."""
    return nullcontext(lambda _n: None)


def one_thread() -> AbstractContextManager[object]:
    """Return a context in which NumPy and SciPy multiply in one thread. The arrays are so small that a second thread would
    mostly wait, and use processor time while it waits."""
    import scipy.linalg  # noqa: F401 (only libraries that are loaded are limited)

    return threadpool_limits(1, "blas")  # type: ignore[no-any-return]


def answer_from_options(
    items: Sequence[Item],
    config: Config,
    cache: Path,
    *,
    keep: bool,
    watch: "Watch" = unwatched,
) -> Answers:
    """Answer items from their options alone, by heuristics, the artifact probe, and the sentence encoder. If `keep`, cache
    the encoder's vectors."""
    with one_thread(), _encoder_answers(items, config, cache, keep=keep, watch=watch) as by_meaning:
        tables = [guess(items), Answers.of(probe(items, config.probe))]
        return Answers.concat([*tables, *by_meaning()])


@contextmanager
def _encoder_answers(
    items: Sequence[Item], config: Config, cache: Path, *, keep: bool, watch: "Watch"
) -> Iterator[Callable[[], Sequence[Answers]]]:
    """Start the sentence encoder, and yield a function that waits for its table of answers, if there is one."""
    if not config.encoder or not has_encoder(cache):
        yield tuple
        return
    from robustify.pipeline.encoder import embedding

    chosen = encoded(items)
    texts = [choice for item in chosen for choice in item.choices]
    dtype = config.encoder if isinstance(config.encoder, str) else "float32"

    def table() -> Sequence[Answers]:
        with watch("encoding options", len(set(texts))) as progress:
            vectors = embedded(progress)
            rows = [] if vectors is None else meaning(chosen, vectors, ENCODER.name, config.probe)
        return (Answers.of(rows),)

    with embedding(texts, cache, keep=keep, dtype=dtype, leave_core=True) as embedded:
        yield table


def refuse_twins(config: Config, fingerprints: Mapping[str, Mapping[str, str]]) -> None:
    """Raise `UsageError` if two voters are the same model."""
    twins = same_model(fingerprints, config.screen.voters or config.voters)
    if twins is not None:
        raise UsageError(
            f"{twins[0]} and {twins[1]} are the same model (same files or revision), so they would vote twice. Remove "
            "one of them, or name other voters in screen.voters.",
            code="same-model-twice",
        )


def judging_rules(config: Config) -> Rules:
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
    )


@no_collector()
def judge_input(config: Config, run_input: RunInput) -> Judgement:
    """Judge the answers by the rules of the config."""
    with one_thread():
        return judge(run_input.answers, run_input.facts, judging_rules(config), run_input.items)


def bench_facts(bench: Loaded) -> Facts:
    """Return facts about the benchmark that the answer table does not contain."""
    return Facts(
        name=bench.name,
        topics={i.id: i.topic for i in bench.items},
        groups={i.id: i.group for i in bench.items if i.group},
        n_quarantined=len(bench.quarantined),
        defects=list(map(asdict, bench.defects)),
    )


def cloze_accuracies(origin: Mapping[str, Any]) -> dict[str, dict[str, Quantity]]:
    """Return each model's accuracies on cloze answers as stated in its logs, keyed by model and metric."""
    counts: dict[str, dict[str, tuple[int, int]]] = {}
    for log in origin.get("logs", ()):
        if log["views"] != ["cloze"] or len(log["models"]) != 1:
            continue
        of_model = counts.setdefault(log["models"][0], {})
        for metric, more in log.get("accuracies", {}).items():
            right, n = of_model.get(metric, (0, 0))
            of_model[metric] = right + more["right"], n + more["n"]
    return {
        model: {
            metric: Quantity(value=right / n, n=n, ci=wilson(right, n)) for metric, (right, n) in of.items()
        }
        for model, of in counts.items()
    }


def _read_overlap(tree: Mapping[str, Any]) -> "Overlap":
    from robustify.judging.text_overlap import Overlap

    return Overlap.from_json(tree)


def read_input(run: Run, config: Config) -> RunInput:
    """Read the answers of a run and the facts about its items. Raise `DataError` if its split files or `run.json` are
    incomplete."""
    data = run.manifest["data"]
    items = run.items
    if items is not None and len(items) != data["n_items"]:
        raise DataError(
            f"{run.folder}: the split files lack items ({len(items)} of {data['n_items']} found). Run the audit again.",
            code="split-files-lack-items",
        )
    return RunInput(
        items=items,
        facts=Facts(
            name=config.name,
            topics=run.topics if items is None else {i.id: i.topic for i in items},
            groups={i.id: i.group for i in items or () if i.group},
            n_quarantined=len(data["quarantined"]),
            defects=data["defects"],
            overlap=_read_overlap(data["overlap"]) if data.get("overlap") else None,
            free=run.free,
            logged=cloze_accuracies(run.manifest.get("import") or {}),
        ),
        data=data,
        answers=run.answers,
        fingerprints=run.manifest["models"],
        templates=run.manifest["templates"],
        origin=run.manifest.get("import"),
    )
