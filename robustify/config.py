"""The config: a table of contents of the settings that live beside the code that reads them.

A config is YAML. It may extend another one, name data relative to itself or under an environment variable,
and is checked whole: every fault is reported at once, with its path and never with its value.
"""

import copy
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from robustify.ask import Asking
from robustify.ask.inferring import Inferring
from robustify.baselines.artifact_probe import ProbeSettings
from robustify.engines.settings import NAME_PATTERN, HFModel, OpenAIModel, RayModel, served_at
from robustify.errors import AuthorisationError, UsageError
from robustify.files import read_expected
from robustify.freeform.settings import FreeSettings
from robustify.judging.cloze import ClozeSettings
from robustify.judging.guardrails import Limits
from robustify.loaders import Source
from robustify.ngrams.overlap import ContaminationSettings
from robustify.redaction import firewall
from robustify.restricted import adapters
from robustify.screen.screen_rules import ScreenRules
from robustify.settings_files import MOST_YAML, Settings, faults, read_yaml
from robustify.settings_files import find_config as find_config
from robustify.settings_files import shipped as shipped
from robustify.summary.adjusted import WITH_MEANING, Adjust
from robustify.views import BEFORE_A_QUESTION, NO_PASSAGE, Hidden

MOST_EXTENDED = 32
"""Files that one config is made of, counted as often as they are named."""
_FILES = (
    "cloze.labels", "contamination.files.[]", "free.answers.[]", "free.facts", "free.people",
    "free.template_dir.[]", "infer_question.tables.[]", "data", "data.[]", "data.path", "data.[].path",
)  # fmt: skip
"""Where a config names files, which it does relative to itself."""
Model = HFModel | OpenAIModel | RayModel


def _named(value: object) -> Any:
    """Return a model as keys and values; one that is given by its place alone gets the last part of that as its name."""
    match value:
        case str() if served := served_at(value):
            return {"name": _short(served[0]), "engine": "openai", "model": served[0], "base_url": served[1]}
        case str() if re.fullmatch(NAME_PATTERN, value):
            return {"name": value, "engine": "hf"}
        case str():
            return {"name": _short(value), "engine": "hf", "model": value}
        case {"model": str(model), **rest} if "name" not in rest:
            return {"engine": "hf", **rest, "name": _short(model), "model": model}
        case Mapping():
            return {"engine": "hf", **value}
    return value


def _short(reference: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", Path(reference).name.split("@")[0]).strip("-.")[:64] or "model"


def _listed(value: object) -> object:
    return [value] if isinstance(value, str | Mapping) else value


class Config(Settings):
    """Everything that a run depends on."""

    name: str = Field(pattern=NAME_PATTERN)
    sensitivity: Literal["public", "restricted"]
    adapter: str | None = None
    """A sensitive set's entrance, by name or folder: it says the data, their fields and the sensitivity."""
    data: Annotated[
        tuple[
            Annotated[Source, BeforeValidator(lambda one: {"path": one} if isinstance(one, str) else one)],
            ...,
        ],
        BeforeValidator(_listed),
        Field(min_length=1),
    ]
    models: tuple[
        Annotated[Annotated[Model, Field(discriminator="engine")], BeforeValidator(_named)], ...
    ] = ()
    hidden: Hidden = "question"
    """What the screen does not show of an item: its question, or the passage or context before that."""
    asking: Asking = Asking()
    screen: ScreenRules = ScreenRules()
    alternatives: tuple[ScreenRules, ...] = ()
    cloze: ClozeSettings = ClozeSettings()
    probe: ProbeSettings = ProbeSettings()
    encoder: bool = True
    """Whether a sentence encoder audits what is kept, if it was pulled (`models pull minilm-l6-v2`)."""
    adjust: Adjust = "form"
    """What the weights of the adjusted score balance; under `form+meaning` the encoder does not audit them."""
    contamination: ContaminationSettings | None = None
    free: FreeSettings | None = None
    """Ask the questions without their options too, and grade the answers in words."""
    infer_question: Inferring | None = None
    """Ask for the question of which the options alone are shown, and measure how like the real one it is."""
    limits: Limits = Limits()
    limit: int | None = Field(default=None, ge=1, strict=True)
    explore: bool = True
    """Whether a public run gets explorer.html, which holds the text of its items."""
    notes: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _one_mode(cls, tree: Any) -> Any:
        """`asking.mode` is the mode of every screen that names none."""
        match tree:
            case {"asking": {"mode": mode}} if isinstance(tree.get("alternatives") or [], list | tuple):
                rules = tree.get("screen", {}), *(tree.get("alternatives") or ())
                first, *others = [{"mode": mode, **r} if isinstance(r, Mapping) else r for r in rules]
                return {**tree, "screen": first, "alternatives": others}
        return tree

    @model_validator(mode="before")
    @classmethod
    def _words_without(cls, tree: Any) -> Any:
        """If a passage is hidden, the default templates of the screen show the question without it."""
        match tree:
            case {"hidden": hidden} if hidden in BEFORE_A_QUESTION:
                asking = tree.get("asking") or {}
                if isinstance(asking, Mapping):
                    words = {"letter_templates": [NO_PASSAGE], "text_template": NO_PASSAGE}
                    return {**tree, "asking": {**words, **asking}}
        return tree

    @field_validator("models")
    @classmethod
    def _one_of_each(cls, models: tuple[Model, ...]) -> tuple[Model, ...]:
        names = [m.name for m in models]
        references = [(m.reference, m.dtype if isinstance(m, HFModel | RayModel) else "") for m in models]
        if len(set(names)) < len(names):
            raise ValueError("two models have one name; expected a name for each")
        if len(set(references)) < len(references):
            raise ValueError("one model stands twice; a model must not vote twice")
        return models

    @model_validator(mode="after")
    def _restricted_sets_are_local(self) -> "Config":
        if self.sensitivity == "restricted" and any(source.hub for source in self.data):
            raise ValueError(
                "a restricted set is read from local files only; expected data with `path`, not `hub`"
            )
        return self

    @model_validator(mode="after")
    def _meaning_needs_the_encoder(self) -> "Config":
        if self.adjust == WITH_MEANING and not self.encoder:
            raise ValueError("adjust: form+meaning needs the encoder; expected no `encoder: false` beside it")
        return self

    @property
    def voters(self) -> tuple[str, ...]:
        """The names of the models that vote in the screen."""
        return tuple(m.name for m in self.models if m.role == "voter")


def skipping_bad(config: Config) -> Config:
    """The config with rows that cannot be items set aside instead of refusing the file."""
    return config.model_copy(
        update={"data": tuple(s.model_copy(update={"skip_bad": True}) for s in config.data)}
    )


def load(path: Path, overrides: Mapping[str, object] | None = None) -> Config:
    """Read a config with everything it extends; `overrides` (dotted names) win over the file.

    Raises:
        UsageError: unreadable YAML, unknown keys (with a suggestion), wrong values; all faults at once.
    """
    return parse(_adapted(overridden(_tree(path, (), []), overrides or {}), path.name), path.name)


def free_block(path: Path) -> Mapping[str, Any]:
    """Return the `free:` block of a config, which needs no other key; raise `UsageError` if there is none."""
    block = _tree(path, (), []).get("free")
    if not isinstance(block, dict):
        raise UsageError(f"{path.name}: no free block; expected `free:` with keys and values")
    return block


def overridden(tree: Mapping[str, Any], overrides: Mapping[str, object]) -> dict[str, Any]:
    """A copy of plain data in which values have been put at dotted names."""
    out: dict[str, Any] = copy.deepcopy(dict(tree))
    for dotted, value in overrides.items():
        *steps, last = dotted.split(".")
        part = out
        for step in steps:
            part = part.setdefault(step, {})
        part[last] = value
    return out


def parse(tree: Mapping[str, Any], name: str) -> Config:
    """A checked config from plain data; `name` stands before every fault."""
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        lines = faults(error, Config, "config", also=["extends"])
        raise UsageError(*(f"{name}: {line}" for line in lines)) from None


def _adapted(tree: dict[str, Any], name: str) -> dict[str, Any]:
    """The config with what its adapter says; a config may raise an adapter's label and never lower it."""
    if tree.get("adapter") is None:
        return tree
    if "data" in tree:
        raise UsageError(f"{name}: data: the adapter says it; expected one of the two")
    adapter = adapters.find_adapter(str(tree["adapter"]))
    manifest = adapter.manifest
    if manifest.restricted and tree.get("sensitivity", "restricted") != "restricted":
        raise AuthorisationError(
            f"{name}: sensitivity: {manifest.id} is a restricted set; a config never lowers the label of an adapter"
        )
    sources = [source.model_dump() for source in adapters.unplaced(adapter)]
    return {"name": manifest.id, "sensitivity": manifest.sensitivity, **tree, "data": sources}


def _tree(path: Path, seen: tuple[Path, ...], read: list[int]) -> dict[str, Any]:
    """What a config and all that it extends say; `read` are the sizes of the files so far, in bytes."""
    path = path.resolve()
    if path in seen:
        raise UsageError(f"{path.name}: extends itself; expected a chain that ends")
    raw = read_expected(path, "a config (keys and values in YAML)", MOST_YAML)
    read.append(len(raw))
    if len(read) > MOST_EXTENDED or sum(read) > MOST_YAML:
        raise UsageError(
            f"{path.name}: is number {len(read)} of the files that are extended, {sum(read):,} bytes together; "
            f"expected at most {MOST_EXTENDED} and {MOST_YAML:,} bytes"
        )
    tree = read_yaml(raw, path.name)
    # A question that somebody pasted into a config must not appear in an error.
    firewall.withhold(tree)
    if not isinstance(tree, dict):
        found = "is empty" if tree is None else f"a {type(tree).__name__}"
        raise UsageError(f"{path.name}: {found}; expected keys and values")
    parent = tree.pop("extends", None)
    match tree.get("adapter"):
        case str(name) if adapters.is_path(name):
            tree["adapter"] = str(adapters.place(_resolved(name, path)).resolve())
    if tree.get("sensitivity") != "restricted":
        for place in _FILES:
            tree = dict(_anchored(tree, place.split("."), path))
        match tree.get("models"):
            case list(models):
                tree["models"] = [_with_variable(model) for model in models]
    if parent is None:
        return tree
    below: dict[str, Any] = {}
    for one in parent if isinstance(parent, list) else [parent]:
        below = _merged(below, _tree(_parent(str(one), path), (*seen, path), read))
    return _merged(below, tree)


def _parent(name: str, path: Path) -> Path:
    """What a config extends: a file beside it, else one that ships with the package."""
    for folder in (path.parent, shipped()):
        if (folder / name).is_file():
            return folder / name
    return find_config(name)


def _anchored(node: Any, steps: Sequence[str], path: Path) -> Any:
    """The tree with the files at this place, a path of `_FILES`, where they are from here."""
    match node, steps:
        case str(), []:
            return _resolved(node, path)
        case list(), ["[]", *rest]:
            return [_anchored(one, rest, path) for one in node]
        case dict(), [step, *rest] if step in node:
            return {**node, step: _anchored(node[step], rest, path)}
    return node


def _with_variable(model: object) -> object:
    match model:
        case {"model": str(folder), **rest} if "$" in folder:
            # A variable that is not set stays as it is: what asks no model must not need one.
            return {**rest, "model": os.path.expandvars(folder)}
    return model


def _resolved(where: str, path: Path) -> str:
    missing = [v for v in re.findall(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)", where) if v not in os.environ]
    if missing:
        raise UsageError(f"{path.name}: ${missing[0]} is not set; expected the folder that holds the data")
    expanded = Path(os.path.expandvars(where)).expanduser()
    return str(expanded if expanded.is_absolute() else (path.parent / expanded))


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    out = dict(below)
    for key, value in above.items():
        both = isinstance(value, Mapping) and isinstance(out.get(key), Mapping)
        out[key] = _merged(out[key], value) if both else value
    return out


def with_models(config: Config, names: Sequence[str], device: str | None = None) -> Config:
    """Return the config asked with these models instead of its own; names it already has keep their settings.

    `ID=openai:URL` names a model at a server.

    Raises:
        UsageError: two models of one name, or an address that is none.
    """
    have = {m.name: m.model_dump() for m in config.models}
    models = [have.get(name) or _named(name) for name in names] or list(have.values())
    if device is not None:
        models = [{**m, "device": device} if m["engine"] == "hf" else m for m in models]
    return parse({**config.model_dump(), "models": models}, "--models")


def require_public(config: Config) -> None:
    """What `--safe-demo` asks for.

    Raises:
        AuthorisationError: the set is restricted.
    """
    if config.sensitivity != "public":
        raise AuthorisationError(
            f"{config.name}: is a {config.sensitivity} set; --safe-demo runs public sets only"
        )
