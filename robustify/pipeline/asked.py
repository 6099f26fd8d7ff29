"""Input of judging (answers and facts about a set), and `run.json`, with a run's settings, sources, and signature."""

import contextlib
import json
import platform
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from robustify import __version__
from robustify.base.errors import DataError, UsageError
from robustify.base.files import writable
from robustify.base.settings_files import with_path
from robustify.items.answers import Answers
from robustify.items.item import Item, no_collector
from robustify.items.views import View, template
from robustify.judging import Judgement, judge
from robustify.judging.baselines.heuristics import guess
from robustify.judging.context import Rules
from robustify.judging.readers.reader_rows import encoded, probe
from robustify.judging.response_data import Facts
from robustify.judging.screen.screen_rules import criterion_words, same_model
from robustify.judging.stats.intervals import wilson
from robustify.judging.summary.quantity import Quantity
from robustify.judging.text_overlap import Overlap
from robustify.models.engines.protocols import Progress, Watch, no_progress
from robustify.pipeline.by_meaning import ask_by_meaning, can_audit
from robustify.pipeline.config import NAMED_FILES, Config, edited
from robustify.reading.loaders import Loaded
from robustify.runs.run import LABELS, Run
from robustify.runs.stored import FORMAT


@dataclass(frozen=True, slots=True, repr=False)
class RunInput:
    """Answers of the models, with everything else that judging and reporting need.

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
        """Append calls, tokens, and cost per server to run.log. Raise `ResourceError` if it cannot be written."""
        if not self.spent:
            return
        file, now = folder / "run.log", datetime.now(timezone.utc).isoformat(timespec="seconds")
        with writable(file, "the run itself is complete"), file.open("a", encoding="utf-8") as log:
            log.writelines(json.dumps({"at": now, **usage}) + "\n" for usage in self.spent)


def unwatched(_label: str, _total: int) -> AbstractContextManager[Progress]:
    """Return a progress context that shows nothing."""
    return nullcontext(no_progress)


def options_asked(
    items: Sequence[Item],
    config: Config,
    cache: Path,
    *,
    keep: bool,
    watch: Watch = unwatched,
) -> Answers:
    """Answer items from their options alone, by heuristics, the artifact probe, and the sentence encoder.
    `keep` caches the encoder's vectors."""
    tables = [guess(items), Answers.of(probe(items, config.probe))]
    if config.encoder and can_audit(cache):
        chosen = encoded(items)
        with watch("encoding options", len({text for item in chosen for text in item.choices})) as progress:
            rows = ask_by_meaning(chosen, config.probe, cache, keep=keep, progress=progress)
        tables.append(Answers.of(rows))
    return Answers.concat(tables)


def refuse_twins(config: Config, fingerprints: Mapping[str, Mapping[str, str]]) -> None:
    """Raise `UsageError` if two voters are the same model."""
    twins = same_model(fingerprints, config.screen.voters or config.voters)
    if twins is not None:
        raise UsageError(
            f"{twins[0]} and {twins[1]} are the same model (same files or revision), so they would vote twice. Remove "
            "one of them, or name other voters in screen.voters."
        )


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
    )


@no_collector()
def judged(config: Config, asked: RunInput) -> Judgement:
    """Judge the answers under the rules of the config."""
    with threadpool_limits(1, "blas"):
        return judge(asked.answers, asked.facts, rules(config), asked.items)


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
    """Return the accuracies by metric that logs of cloze answers state for each model, over all logs of the model."""
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


def data_tree(
    bench: Loaded, n_items: int, notes: Sequence[str] = (), found: Overlap | None = None
) -> dict[str, Any]:
    """Return the `data` object of run.json, with which a run can be judged again without the benchmark file.
    It has the layout, digest, counts, defects by line, notes, and items found in text files."""
    return {
        **({"notes": list(notes)} if notes else {}),
        "layout": bench.layout,
        **(
            {"origins": origins}
            if (origins := [dict(one.origin) for one in bench.recognised if one.origin])
            else {}
        ),
        "sha256": bench.sha256,
        "n_items": n_items,
        "lines": _line_runs(bench.lines[:n_items]),
        "defects": list(map(asdict, bench.defects)),
        "quarantined": list(map(asdict, bench.quarantined)),
        "overlap": None if found is None else found.json(),
    }


def _line_runs(lines: Sequence[int]) -> list[list[int]]:
    """Encode line numbers compactly: the index and line of each item that does not follow the item before it."""
    return [[at, line] for at, line in enumerate(lines) if not at or line != lines[at - 1] + 1]


def asked_again(run: Run, config: Config) -> RunInput:
    """Read the answers of a run and the facts about its items. Raises `DataError` if its split files or
    `run.json` are incomplete."""
    data = run.manifest["data"]
    items = run.items
    if items is not None and len(items) != data["n_items"]:
        raise DataError(
            f"{run.folder}: the split files lack items ({len(items)} of {data['n_items']} found). Run the audit again."
        )
    return RunInput(
        items=items,
        facts=Facts(
            name=config.name,
            topics=run.topics if items is None else {i.id: i.topic for i in items},
            groups={i.id: i.group for i in items or () if i.group},
            n_quarantined=len(data["quarantined"]),
            defects=data["defects"],
            overlap=Overlap.from_json(data["overlap"]) if data.get("overlap") else None,
            free=run.free,
            logged=cloze_accuracies(run.manifest.get("import") or {}),
        ),
        data=data,
        answers=run.answers,
        fingerprints=run.manifest["models"],
        templates=run.manifest["templates"],
        origin=run.manifest.get("import"),
    )


def public_manifest(config: Config, asked: RunInput) -> dict[str, Any]:
    """Return run.json of a public run, without the digests of its files."""
    tree = _without_folders(config)
    if asked.origin is not None:
        # Imported answers have no settings for asking.
        del tree["asking"]
    origin = {} if asked.origin is None else {"import": dict(asked.origin)}
    free = {} if asked.facts.free is None else {"free": asked.facts.free.about()}
    return {**manifest_of(config, asked, tree), "data": dict(asked.data), **free, **origin}


def manifest_of(
    config: Config, asked: RunInput, settings: Mapping[str, Any], **about: object
) -> dict[str, Any]:
    """Return the part of run.json that all runs share. `settings` is the public part of the config, `about` adds fields."""
    return {
        "format": FORMAT,
        "robustify": __version__,
        **about,
        "signature": signature(config, asked),
        "versions": _versions(),
        "config": settings,
        "models": {name: dict(print_) for name, print_ in asked.fingerprints.items()},
        "templates": dict(asked.templates),
    }


def signature(config: Config, asked: RunInput) -> str:
    """Return a one-line recipe of every number in the run, in the style of sacrebleu's signatures."""
    screen, free = rules(config).screen, asked.facts.free
    rule_words = [criterion_words(screen).replace(" ", "-"), screen.mode]
    rule_words += [screen.norm] if screen.mode == "text" and screen.norm != "chars" else []
    rule_words += ["forced"] if screen.force_letters else []
    parts = {
        "set": config.name,
        "n": asked.data["n_items"],
        "data": asked.data["sha256"][:8],
        "voters": ",".join(screen.voters) or "none",
        **({} if config.hidden == "question" else {"hidden": config.hidden}),
        "screen": "/".join([*rule_words, _screened(config, asked)]),
        "probe": "none",
        "cloze": f"chars/{config.cloze.profile}",
        **({} if free is None else {"free": free.sha256[:8]}),
        **({"shots": config.asking.shots} if asked.origin is None else {"import": asked.origin["formats"]}),
        "robustify": __version__,
    }
    return "|".join(f"{name}:{value}" for name, value in parts.items())


def _screened(config: Config, asked: RunInput) -> str:
    """Return the template and orders of the screen, from the config or from imported answers."""
    screen, asking = rules(config).screen, config.asking
    view: View = "choices_only" if screen.mode == "letter" else "choices_only_text"
    if asked.origin is not None:
        words = screen.template or next((t for v, _, t in asked.answers.askings() if v == view), None)
        digest = asked.templates.get(f"{view}/{words}", "")
        return "none" if words is None else f"{words}{'@' * bool(digest)}{digest[:8]}/as-logged"
    asked_by = asking.letter_templates if screen.mode == "letter" else (asking.text_template,)
    words = screen.template or next(iter(asked_by), None)
    if words is None:
        return "none"
    orders = f"{asking.rotations}-rotations" if screen.mode == "letter" else "own-order"
    return f"{words}@{template(view, words).digest[:8]}/{orders}"


def _without_folders(config: Config) -> dict[str, Any]:
    # Folders differ between machines, and the digest identifies the data.
    tree = config.model_dump(mode="json")
    for place in ("adapter", *NAMED_FILES):
        tree = edited(tree, place.split("."), lambda name: with_path(name, lambda file: Path(file).name))
    return dict(edited(tree, ["cloze", "labels"], lambda _: LABELS))


def _versions() -> dict[str, str]:
    found = {"robustify": __version__, "python": platform.python_version()}
    for package in ("numpy", "scipy", "scikit-learn", "pyarrow", "torch", "transformers", "tokenizers"):
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found
