"""Config of a run, composed of settings classes that are defined next to the code that uses them.

A YAML file may extend other configs, and name data relative to itself or by environment variable. Validation reports all
faults at once, each with its path and without its value.
"""

import copy
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

from pydantic import (
    BeforeValidator,
    Field,
    PlainValidator,
    SerializeAsAny,
    ValidationError,
    field_validator,
    model_validator,
)

from robustify.base.errors import UsageError
from robustify.base.files import read_expected
from robustify.base.redaction import withhold
from robustify.base.settings_files import (
    MOST_YAML,
    Settings,
    faults,
    is_config,
    known_keys,
    name_of,
    named_set,
    read_yaml,
    with_path,
    with_split,
)
from robustify.base.settings_files import find_config as find_config
from robustify.base.settings_files import shipped as shipped
from robustify.items.scoring import Mode
from robustify.items.views import BEFORE_A_QUESTION, NO_PASSAGE, Asking, Hidden
from robustify.judging.cloze import ClozeSettings
from robustify.judging.context import ContaminationSettings, Limits
from robustify.judging.readers.reader_rows import ProbeSettings
from robustify.judging.screen.screen_rules import ScreenRules
from robustify.models.model_settings import NAME_PATTERN, ModelSettings, served_at
from robustify.pipeline.free_settings import FreeSettings
from robustify.reading.loaders import Source

_MOST_EXTENDED = 32
"""Maximum number of files in a chain of configs, with repeats."""
NAMED_FILES = (
    "contamination.files.[]", "free.answers.[]", "free.facts", "free.people", "free.examples",
    "free.template_dir.[]", "data.[].path", "data.[].include_path.[]",
)  # fmt: skip
_FILES = (*NAMED_FILES, "cloze.labels", "data", "data.[]", "data.path", "data.include_path.[]")
"""Paths of config keys whose values are file names relative to the config."""


def _model_entry(value: object) -> Any:
    """Convert a model entry to a mapping. If only a path or address is given, the last part of it becomes the name."""
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


def _model_settings(entry: object) -> ModelSettings:
    from robustify.models.engines import model_of

    return model_of(_model_entry(entry))


def _short(reference: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", Path(reference).name.split("@")[0]).strip("-.")[:64] or "model"


def _listed(value: object) -> object:
    return [value] if isinstance(value, str | Mapping) else value


_Source = Annotated[
    Source, BeforeValidator(lambda source: {"path": source} if isinstance(source, str) else source)
]


class Inferring(Settings):
    """Choice of the models that infer questions. By default, these are all models that can generate text."""

    models: tuple[str, ...] = ()


class Adapters(Protocol):
    """Protocol by which configs name restricted sets."""

    def is_path(self, name: str) -> bool:
        """Return whether the name of an adapter is a path."""
        ...

    def place(self, name: str) -> Path:
        """Return the folder of an adapter, given its name or path."""
        ...

    def with_adapter(self, tree: dict[str, Any], name: str) -> dict[str, Any]:
        """Return the tree of the config `name`. If the config names an adapter, add the adapter's data and sensitivity."""
        ...


class Config(Settings):
    """All settings of a run."""

    name: str = Field(pattern=NAME_PATTERN)
    sensitivity: Literal["public", "restricted"]
    adapter: str | None = None
    """Adapter of a sensitive set, by name or folder, which defines its data, fields, and sensitivity."""
    data: Annotated[tuple[_Source, ...], BeforeValidator(_listed), Field(min_length=1)]
    models: tuple[
        Annotated[SerializeAsAny[ModelSettings], PlainValidator(_model_settings)],
        ...,
    ] = ()
    hidden: Hidden = "question"
    """Part of an item that the screen hides: the question, or the passage or context before it."""
    asking: Asking = Asking()
    screen: ScreenRules = ScreenRules()
    alternatives: tuple[ScreenRules, ...] = ()
    cloze: ClozeSettings = ClozeSettings()
    probe: ProbeSettings = ProbeSettings()
    encoder: bool | Literal["bfloat16"] = True
    """Whether a sentence encoder audits the kept items, if installed (`models pull minilm-l6-v2`), and if not in float32,
    the type of its numbers."""
    contamination: ContaminationSettings | None = None
    free: FreeSettings | None = None
    """Settings for asking the questions without options and grading the free-text answers."""
    infer_question: Inferring | None = None
    """Settings for asking models to infer the question from its options."""
    limits: Limits = Limits()
    limit: int | None = Field(default=None, ge=1, strict=True)
    explore: bool = True
    """Whether a public run writes explorer.html, which contains the text of its items."""
    notes: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _one_mode(cls, tree: Any) -> Any:
        """Copy `asking.mode` to each screen that does not set its own mode."""
        match tree:
            case {"asking": {"mode": mode}} if isinstance(tree.get("alternatives") or [], list | tuple):
                rules = tree.get("screen", {}), *(tree.get("alternatives") or ())
                first, *others = [{"mode": mode, **r} if isinstance(r, Mapping) else r for r in rules]
                return {**tree, "screen": first, "alternatives": others}
        return tree

    @model_validator(mode="before")
    @classmethod
    def _words_without(cls, tree: Any) -> Any:
        """Make screen templates without a passage the default if passages are hidden."""
        asking = (tree.get("asking") or {}) if isinstance(tree, Mapping) else None
        if isinstance(asking, Mapping) and tree.get("hidden") in BEFORE_A_QUESTION:
            words = {"letter_templates": [NO_PASSAGE], "text_template": NO_PASSAGE}
            return {**tree, "asking": {**words, **asking}}
        return tree

    @field_validator("models")
    @classmethod
    def _one_of_each(cls, models: tuple[ModelSettings, ...]) -> tuple[ModelSettings, ...]:
        names = [m.name for m in models]
        if len(set(names)) < len(names):
            raise ValueError("two models have the same name. Give each a different `name`.")
        if len({m.identity for m in models}) < len(models):
            raise ValueError("a model is listed twice and would vote twice. Remove one entry.")
        return models

    @property
    def asks_models(self) -> bool:
        """Whether a run asks models, rather than only reading answers that models wrote."""
        return bool(self.models) or self.free is not None or self.infer_question is not None

    @property
    def voters(self) -> tuple[str, ...]:
        """Names of the models that vote in the screen."""
        return tuple(m.name for m in self.models if m.role == "voter")


def load(path: Path, adapters: Adapters, overrides: Mapping[str, object] | None = None) -> Config:
    """Read a config and the configs that it extends. `overrides` maps dotted names to other values. Raise `UsageError`,
    with all faults, if the YAML is unreadable, or if keys or values are invalid."""
    tree = overridden(_tree(path, adapters), overrides or {})
    return parse(adapters.with_adapter(tree, path.name), path.name)


def config_for(
    data: str,
    adapters: Adapters,
    models: Sequence[str] = (),
    overrides: Mapping[str, object] | None = None,
    *,
    public: bool,
    source_options: Mapping[str, Any] | None = None,
) -> Config:
    """Return the config that `data` names, or make a config for a public file of items, with these `source_options`. Raise
    `UsageError` if the file does not exist, `public` is missing for a file of items, or an option does not fit."""
    source_options = source_options or {}
    if is_config(data) or not (os.path.isfile(data) or named_set(data) or (public and os.path.isdir(data))):
        path = find_config(data)
        options = {
            "--public": public,
            "--map": source_options.get("fields"),
            "--split": source_options.get("split"),
        }
        if wrong := [option for option, value in options.items() if value]:
            raise UsageError(
                f"{wrong[0]} works only with a file of items, but {path.name} is a config.",
                code="option-for-items-only",
            )
        settings = load(path, adapters, overrides)
        if not source_options.get("skip_bad"):
            return settings
        sources = tuple(source.model_copy(update={"skip_bad": True}) for source in settings.data)
        return settings.model_copy(update={"data": sources})
    if not public:
        quoted = shlex.quote(data)
        raise UsageError(
            f"{data} contains items, not a config. To audit it directly if its text is public, run "
            f"`robustify {quoted} --public` (-m NAME adds models). To write a config, run `robustify init {quoted}`.",
            code="items-not-config",
        )
    name = with_split(name_of(data), source_options.get("split"))
    tree = {
        "name": name,
        "sensitivity": "public",
        "data": [{"path": data, **source_options}],
        "asking": {"mode": mode_of(models)},
    }
    return parse(overridden(tree, overrides or {}), name)


def mode_of(models: Sequence[str]) -> Mode:
    """Return whether to ask these models by letter or by text. The embedded models are too small to answer by letter."""
    from robustify.models.names import KNOWN

    return "text" if any(model in KNOWN for model in models) else "letter"


def free_block(path: Path, adapters: Adapters) -> Mapping[str, Any]:
    """Return the `free:` block of a config, which needs no other block. Raise `UsageError` if the block is missing."""
    block = _tree(path, adapters).get("free")
    if not isinstance(block, dict):
        raise UsageError(
            f"{path.name} has no `free:` block; expected `free:` followed by settings", code="no-free-block"
        )
    return block


def overridden(tree: Mapping[str, Any], overrides: Mapping[str, object]) -> dict[str, Any]:
    """Return a copy of a config tree with new values at dotted names."""
    out: dict[str, Any] = copy.deepcopy(dict(tree))
    for dotted, value in overrides.items():
        *steps, last = dotted.split(".")
        part = out
        for step in steps:
            part = part.setdefault(step, {})
        part[last] = value
    return out


def parse(tree: Mapping[str, Any], name: str) -> Config:
    """Validate a config tree. Each fault in an error begins with `name`."""
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        from robustify.models.engines import ENGINES

        of_models = [key for engine in ENGINES.values() for key in known_keys(engine.settings)]
        lines = faults(error, Config, "config", prefix=f"{name}: ", also=["extends", *of_models])
        raise UsageError(*lines) from None


def _tree(
    path: Path, adapters: Adapters, seen: tuple[Path, ...] = (), read: list[int] | None = None
) -> dict[str, Any]:
    """Read a config, and merge it with the configs that it extends. The file sizes in bytes are appended to `read`."""
    path, read = path.resolve(), [] if read is None else read
    if path in seen:
        raise UsageError(
            f"{path.name} extends itself, directly or through another config. Remove the cycle.",
            code="config-cycle",
        )
    raw = read_expected(path, "a config (keys and values in YAML)", MOST_YAML)
    read.append(len(raw))
    if len(read) > _MOST_EXTENDED or sum(read) > MOST_YAML:
        raise UsageError(
            f"{path.name} is file {len(read)} of a chain of configs, {sum(read):,} bytes in total; "
            f"expected at most {_MOST_EXTENDED} files and {MOST_YAML:,} bytes",
            code="long-config-chain",
        )
    tree = read_yaml(raw, path.name)
    # A question pasted into a config must not appear in an error.
    withhold(tree)
    if not isinstance(tree, dict):
        content = "is empty" if tree is None else f"contains a {type(tree).__name__}"
        raise UsageError(f"{path.name} {content}; expected keys and values", code="config-without-keys")
    parent = tree.pop("extends", None)
    match tree.get("adapter"):
        case str(name) if adapters.is_path(name):
            tree["adapter"] = str(adapters.place(_resolved(name, path)).resolve())
    if tree.get("sensitivity") != "restricted":
        for place in _FILES:
            tree = dict(
                edited(
                    tree, place.split("."), lambda name: with_path(name, lambda file: _resolved(file, path))
                )
            )
        # A variable that is not set is kept, because commands that use no model must not need it.
        tree = dict(edited(tree, ["models", "[]", "model"], os.path.expandvars))
    if parent is None:
        return tree
    below: dict[str, Any] = {}
    for name in parent if isinstance(parent, list) else [parent]:
        # A parent is next to the config, or shipped with the package.
        near = [folder / str(name) for folder in (path.parent, shipped()) if (folder / str(name)).is_file()]
        above = near[0] if near else find_config(str(name))
        below = _merged(below, _tree(above, adapters, (*seen, path), read))
    return _merged(below, tree)


def edited(node: Any, steps: Sequence[str], change: Callable[[str], str]) -> Any:
    """Return a copy of a config tree with `change` applied to every text at a path, whose keys are `steps`."""
    match node, steps:
        case str(), []:
            return change(node)
        case list(), ["[]", *rest]:
            return [edited(entry, rest, change) for entry in node]
        case dict(), [step, *rest] if step in node:
            return {**node, step: edited(node[step], rest, change)}
    return node


def _resolved(where: str, path: Path) -> str:
    missing = [v for v in re.findall(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)", where) if v not in os.environ]
    if missing:
        raise UsageError(
            f"{path.name}: the environment variable ${missing[0]} is not set. Set it to the folder that contains the data.",
            code="unset-variable",
        )
    expanded = Path(os.path.expandvars(where)).expanduser()
    return str(expanded if expanded.is_absolute() else (path.parent / expanded))


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    out = dict(below)
    for key, value in above.items():
        both = isinstance(value, Mapping) and isinstance(out.get(key), Mapping)
        out[key] = _merged(out[key], value) if both else value
    return out


def models_named(names: Sequence[str]) -> tuple[ModelSettings, ...]:
    """Return the settings of models named on a command line, as in `with_models`. Raise the errors of `parse`."""
    tree = {"name": "models", "sensitivity": "public", "data": "-", "models": [*names]}
    return parse(tree, "--models").models


def with_models(config: Config, names: Sequence[str], device: str | None = None) -> Config:
    """Return a copy of a config with the named models. `ID=openai:URL` names a model on a server. Models that are already
    in the config keep their settings. Raise `UsageError` if two models share a name, or an address is invalid."""
    have = {m.name: m.model_dump() for m in config.models}
    models = [have.get(name) or _model_entry(name) for name in names] or list(have.values())
    if device is not None:
        models = [{**m, "device": device} if m["engine"] == "hf" else m for m in models]
    return parse({**config.model_dump(), "models": models}, "--models")
