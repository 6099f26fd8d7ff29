"""Build `run.json`, which contains the settings, sources, versions, and signature of a run."""

import contextlib
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robustify import __version__
from robustify.base.errors import notice_code
from robustify.base.settings_files import with_path
from robustify.items.views import View, template
from robustify.judging.screen.screen_rules import criterion_words
from robustify.pipeline.config import NAMED_FILES, Config, edited
from robustify.pipeline.run_input import RunInput, judging_rules
from robustify.reading.loaders import Loaded
from robustify.runs.run import LABELS
from robustify.runs.stored import FORMAT

if TYPE_CHECKING:
    from robustify.judging.text_overlap import Overlap


def data_tree(
    bench: Loaded, n_items: int, notes: Sequence[str] = (), matches: "Overlap | None" = None
) -> dict[str, Any]:
    """Return the `data` object of run.json, with which a run can be judged again without the benchmark file. It has the
    layout, digest, counts, defects by line, notes, and items found in text files."""
    return {
        **({"notes": list(notes), "note_codes": [*map(notice_code, notes)]} if notes else {}),
        "layout": bench.layout,
        **(
            {"origins": origins}
            if (origins := [dict(file.origin) for file in bench.recognised if file.origin])
            else {}
        ),
        "sha256": bench.sha256,
        "n_items": n_items,
        "lines": _line_runs(bench.lines[:n_items]),
        "defects": list(map(asdict, bench.defects)),
        "quarantined": list(map(asdict, bench.quarantined)),
        "overlap": None if matches is None else matches.json(),
    }


def _line_runs(lines: Sequence[int]) -> list[list[int]]:
    """Encode line numbers compactly: list the index and line of each item that does not follow the previous one."""
    return [[i, line] for i, line in enumerate(lines) if not i or line != lines[i - 1] + 1]


def public_manifest(config: Config, run_input: RunInput) -> dict[str, Any]:
    """Return run.json of a public run, without the digests of its files."""
    tree = _without_folders(config)
    if run_input.origin is not None:
        # Imported answers have no settings for asking.
        del tree["asking"]
    origin = {} if run_input.origin is None else {"import": dict(run_input.origin)}
    free = {} if run_input.facts.free is None else {"free": run_input.facts.free.about()}
    return {**manifest_of(config, run_input, tree), "data": dict(run_input.data), **free, **origin}


def manifest_of(
    config: Config, run_input: RunInput, settings: Mapping[str, Any], **about: object
) -> dict[str, Any]:
    """Return the part of run.json that all runs share. `settings` is the config's public part, and `about` adds fields."""
    return {
        "format": FORMAT,
        "robustify": __version__,
        **about,
        "signature": signature(config, run_input),
        "versions": _versions(),
        "config": settings,
        "models": {name: dict(print_) for name, print_ in run_input.fingerprints.items()},
        "templates": dict(run_input.templates),
    }


def signature(config: Config, run_input: RunInput) -> str:
    """Return a one-line recipe of every number in the run, in the style of sacrebleu's signatures."""
    screen, free = judging_rules(config).screen, run_input.facts.free
    rule_words = [criterion_words(screen).replace(" ", "-"), screen.mode]
    rule_words += [screen.norm] if screen.mode == "text" and screen.norm != "chars" else []
    rule_words += ["forced"] if screen.force_letters else []
    parts = {
        "set": config.name,
        "n": run_input.data["n_items"],
        "data": run_input.data["sha256"][:8],
        "voters": ",".join(screen.voters) or "none",
        **({} if config.hidden == "question" else {"hidden": config.hidden}),
        "screen": "/".join([*rule_words, _screen_recipe(config, run_input)]),
        "probe": "none",
        "cloze": f"chars/{config.cloze.profile}",
        **({"encoder": config.encoder} if isinstance(config.encoder, str) else {}),
        **({} if free is None else {"free": free.sha256[:8]}),
        **(
            {"shots": config.asking.shots}
            if run_input.origin is None
            else {"import": run_input.origin["formats"]}
        ),
        "robustify": __version__,
    }
    return "|".join(f"{name}:{value}" for name, value in parts.items())


def _screen_recipe(config: Config, run_input: RunInput) -> str:
    """Return the template and orders of the screen, from the config or from imported answers."""
    screen, asking = judging_rules(config).screen, config.asking
    view: View = "choices_only" if screen.mode == "letter" else "choices_only_text"
    if run_input.origin is not None:
        words = screen.template or next((t for v, _, t in run_input.answers.askings() if v == view), None)
        digest = run_input.templates.get(f"{view}/{words}", "")
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
    versions = {"robustify": __version__, "python": platform.python_version()}
    for package in ("numpy", "scipy", "scikit-learn", "pyarrow", "torch", "transformers", "tokenizers"):
        with contextlib.suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions
