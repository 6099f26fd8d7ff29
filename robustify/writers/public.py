"""A run's folder, written from what was asked or imported and how it was judged.

It is a printing of what it is given. Where the text of the items is
not known (an imported table of picks) the files that hold text are left out, not written empty.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from robustify import __version__
from robustify.answers import Answers
from robustify.config import Config
from robustify.errors import DataError
from robustify.export.lm_eval_tasks import write_tasks
from robustify.files import write_json
from robustify.item import Item
from robustify.judge.judgement import Facts, Judgement, Rules
from robustify.loaders import Loaded, Quarantined, describe, load_many
from robustify.ngrams.overlap import Overlap
from robustify.report import write_report
from robustify.report.explaining import evidence_rows
from robustify.report.explorer import write_explorer
from robustify.restricted.access import Access
from robustify.restricted.recognition import require_ordinary
from robustify.run import (
    EVIDENCE,
    EXPLORER,
    FORMAT,
    FREE,
    MANIFEST,
    Run,
    open_run,
    replacing,
    versions,
    write_items,
    write_lines,
    write_quarantine,
)
from robustify.screen.screen_rules import ScreenRules, criterion_words
from robustify.views import View, template
from robustify.writers.verdict_table import write_verdicts


@dataclass(frozen=True, slots=True, repr=False)
class Asked:
    """What asking leaves behind: everything that judging and printing need, and no model.

    `items` None: their text is not known. `data`, `templates` and `origin` are parts of run.json: what the
    benchmark was, sha256 of the templates, and for an imported run where its answers come from.
    """

    items: tuple[Item, ...] | None
    facts: Facts
    data: Mapping[str, Any]
    answers: Answers
    fingerprints: Mapping[str, Mapping[str, str]]
    templates: Mapping[str, str]
    origin: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class PublicWriter:
    """The writer of a public set, of which everything may be kept and shown."""

    config: Config | None = None
    """None where a file is read without a config."""
    access: Access | None = None
    cache_key: bytes | None = None
    keeps_vectors: bool = True

    def inside(self, _folder: Path) -> AbstractContextManager[None]:
        """The process as it is."""
        return nullcontext()

    def read(self) -> Loaded:
        """The items of the config's files, unless they are recognised as sensitive."""
        assert self.config is not None
        bench = load_many(self.config.data)
        require_ordinary(bench, self.config.data, self.config.adapter, [self.config.name])
        return bench

    def described(self, bench: Loaded) -> dict[str, Any]:
        """Everything."""
        return describe(bench)

    def features(self, table: dict[str, Any]) -> dict[str, Any]:
        """The table as it is."""
        return table

    def asking(self) -> AbstractContextManager[None]:
        """Errors that name items."""
        return nullcontext()

    def write(self, folder: Path, asked: Asked, judgement: Judgement) -> Run:
        """The run's folder with its answers, verdicts and items."""
        assert self.config is not None
        return print_run(folder, self.config, asked, judgement)


def print_run(folder: Path, config: Config, asked: Asked, judgement: Judgement) -> Run:
    """Write the run's folder; the export is left out when a guardrail halts it."""
    manifest = _manifest(config, asked)
    summary = judgement.summary.model_copy(update={"signature": manifest["signature"]})
    halted = any(c.halts_export and not c.passed for c in judgement.checks)
    with replacing(folder, manifest) as place:
        asked.answers.write(place / "answers.parquet")
        write_verdicts(
            place / "verdicts.csv",
            judgement.verdicts,
            judgement.cloze_excluded,
            asked.facts.topics,
            judgement.evidence,
        )
        if judgement.evidence is not None and asked.items is not None:
            write_lines(place / EVIDENCE, evidence_rows(judgement.evidence, judgement.verdicts, asked.items))
            if config.explore:
                write_explorer(
                    place / EXPLORER,
                    place / EVIDENCE,
                    config.name,
                    asked.items,
                    judgement.verdicts,
                    judgement.cloze_excluded,
                )
        write_quarantine(place / "quarantine.jsonl", [Quarantined(**q) for q in asked.data["quarantined"]])
        if asked.items is not None:
            for name, items in splits(asked.items, judgement).items():
                write_items(place / f"{name}.jsonl", items)
        if asked.facts.free is not None:
            write_json(place / FREE, asked.facts.free.json())
        write_json(place / "summary.json", summary.tree())
        beside = {"notes": list(config.notes), "explorer": (place / EXPLORER).is_file()}
        write_report(place, summary, {**manifest, **beside})
        if not halted and asked.items is not None:
            write_tasks(place / "lm_eval_tasks", config.name, signature=manifest["signature"])
    return open_run(folder)


def splits(items: Sequence[Item], judgement: Judgement) -> dict[str, list[Item]]:
    """The items of each split in their own order; cloze is the items that can be asked without choices."""
    verdict = {v.item: v.verdict for v in judgement.verdicts}
    parts = {
        name: [i for i in items if verdict[i.id] == name] for name in ("robust", "shortcut", "undecided")
    }
    return {**parts, "cloze": [i for i in items if i.id not in judgement.cloze_excluded]}


def rules(config: Config) -> Rules:
    """The settings of a config that judging needs."""
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
    )


def facts(bench: Loaded) -> Facts:
    """What is known of the benchmark beside its rows."""
    return Facts(
        name=bench.name,
        topics={i.id: i.topic for i in bench.items},
        groups={i.id: i.group for i in bench.items if i.group},
        n_quarantined=len(bench.quarantined),
        defects=list(map(asdict, bench.defects)),
    )


def data_tree(bench: Loaded, n_items: int, found: Overlap | None = None) -> dict[str, Any]:
    """`data` of run.json: layout, digest, counts, by line what is wrong with the benchmark, and which items
    stand in given text files, so that a run is judged again without them.
    """
    return {
        "layout": bench.layout,
        "sha256": bench.sha256,
        "n_items": n_items,
        "defects": list(facts(bench).defects),
        "quarantined": list(map(asdict, bench.quarantined)),
        "overlap": None if found is None else found.json(),
    }


def asked_again(run: Run, config: Config) -> Asked:
    """What a run holds of its own asking.
    Raises `DataError`: its split files do not hold all of its items, or `run.json` not all that is known of them."""
    data = run.manifest["data"]
    if missing := [name for name in ("sha256", "defects", "quarantined") if name not in data]:
        raise DataError(
            f"{run.folder / MANIFEST}: data without {missing[0]}; expected the file as robustify wrote it"
        )
    items = run.items
    if items is not None and len(items) != data["n_items"]:
        raise DataError(
            f"{run.folder}: split files hold {len(items)} of {data['n_items']} items; expected all of them"
        )
    return Asked(
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


def _manifest(config: Config, asked: Asked) -> dict[str, Any]:
    tree = _without_folders(config)
    if asked.origin is not None:
        # Nothing was asked here, so there is no setting of it.
        del tree["asking"]
    origin = {} if asked.origin is None else {"import": dict(asked.origin)}
    return {**manifest_of(config, asked, tree), "data": dict(asked.data), **origin}


def manifest_of(config: Config, asked: Asked, settings: Mapping[str, Any], **about: object) -> dict[str, Any]:
    """What run.json holds of every run; `settings` are the config as it may be shown, `about` whose run it is."""
    return {
        "format": FORMAT,
        "robustify": __version__,
        **about,
        "signature": signature(config, asked),
        "versions": versions(),
        "config": settings,
        "models": {name: dict(print_) for name, print_ in asked.fingerprints.items()},
        "templates": dict(asked.templates),
    }


def signature(config: Config, asked: Asked) -> str:
    """The recipe of every number of the run, on one line (the habit of sacrebleu's signatures)."""
    screen = rules(config).screen
    parts = {
        "set": config.name,
        "n": asked.data["n_items"],
        "data": asked.data["sha256"][:8],
        "voters": ",".join(screen.voters) or "none",
        "screen": "/".join(
            [
                criterion_words(screen).replace(" ", "-"),
                screen.mode,
                *_turns(screen),
                *(["forced"] if screen.force_letters else []),
                _screened(config, asked),
            ]
        ),
        "probe": screen.probe_vote
        if screen.probe_vote == "none"
        else f"{screen.probe_vote}@{screen.probe_confidence}",
        "cloze": f"chars/{config.cloze.profile}",
        **({} if asked.facts.free is None else {"free": asked.facts.free.sha256[:8]}),
        **({"shots": config.asking.shots} if asked.origin is None else {"import": asked.origin["formats"]}),
        "robustify": __version__,
    }
    return "|".join(f"{name}:{value}" for name, value in parts.items())


def _turns(screen: ScreenRules) -> list[str]:
    """What of the rule is not the default."""
    text = [screen.norm] if screen.mode == "text" and screen.norm != "chars" else []
    return [*text, *([screen.rotation] if screen.rotation != "averaged" else [])]


def _screened(config: Config, asked: Asked) -> str:
    """The words and orders of the screen: as a config asks for them, or as imported answers hold them."""
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
    # Where the data lies differs from one machine to the next; its digest says what it was.
    tree = config.model_dump(mode="json")
    tree["data"] = [{**source, "path": Path(source["path"]).name} for source in tree["data"]]
    if tree["adapter"] is not None:
        tree["adapter"] = Path(tree["adapter"]).name
    if tree["contamination"] is not None:
        tree["contamination"]["files"] = [Path(file).name for file in tree["contamination"]["files"]]
    for model in tree["models"]:
        if "logs" in model:
            model["logs"] = [Path(log).name for log in model["logs"]]
    return tree
