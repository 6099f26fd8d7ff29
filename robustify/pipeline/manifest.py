"""The manifest of a run (run.json): its settings, sources and signature."""

import contextlib
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from robustify import __version__
from robustify.items.views import View, template
from robustify.judging.screen.screen_rules import criterion_words
from robustify.pipeline.asked import RunInput, rules
from robustify.pipeline.config import NAMED_FILES, Config, edited
from robustify.runs.run import LABELS
from robustify.runs.stored import FORMAT


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
    """Return the part of run.json that all runs share. `settings` is the public part of the config, and `about` adds
    fields."""
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
    how = [criterion_words(screen).replace(" ", "-"), screen.mode]
    how += [screen.norm] if screen.mode == "text" and screen.norm != "chars" else []
    how += ["forced"] if screen.force_letters else []
    parts = {
        "set": config.name,
        "n": asked.data["n_items"],
        "data": asked.data["sha256"][:8],
        "voters": ",".join(screen.voters) or "none",
        **({} if config.hidden == "question" else {"hidden": config.hidden}),
        "screen": "/".join([*how, _screened(config, asked)]),
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
        tree = edited(tree, place.split("."), lambda name: Path(name).name)
    return dict(edited(tree, ["cloze", "labels"], lambda _: LABELS))


def _versions() -> dict[str, str]:
    found = {"robustify": __version__, "python": platform.python_version()}
    for package in ("numpy", "scipy", "scikit-learn", "pyarrow", "torch", "transformers", "tokenizers"):
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found
