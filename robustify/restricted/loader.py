"""Access to the items of hashed splits for users with the license, the data, and the key of a restricted set.

Item text goes only into files readable by their owner, or into the memory of lm-eval, whose task files name `local_items`
and contain neither code nor text. The loader refuses to work if lm-eval would save prompts or answers.
"""

import argparse
import json
import logging
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from robustify.base.errors import AuthorisationError, DataError, UsageError
from robustify.base.files import write_new
from robustify.items.item import Item, item_row
from robustify.judging.cloze import ClozeSettings, excluded
from robustify.restricted.access import Access, admitted, require_no_demo
from robustify.restricted.adapters import find_adapter
from robustify.restricted.confinement import require_private
from robustify.restricted.ids import Split, items_in, read_split


def open_for(split: Split, adapter: str) -> Access:
    """Return permission to read the set of a split. Raise `AuthorisationError` if a requirement is not met, or the
    split has another key or is smaller than a cell, and `DataError` if it belongs to another set or version."""
    loaded = find_adapter(adapter)
    manifest = loaded.manifest
    if (manifest.id, manifest.version) != (split.dataset, split.version):
        raise DataError(
            f"split {split.name} belongs to {split.dataset} version {split.version}, but the adapter of {manifest.id} has "
            f"version {manifest.version}. Use the adapter of the split's set and version.",
            code="other-set-split",
        )
    require_no_demo(manifest.id)
    access = admitted(manifest.id, loaded, None)
    if split.key_id != access.key.id:
        raise AuthorisationError(
            f"split {split.name} of {split.dataset} was made with key {split.key_id}, but your key is {access.key.id}. "
            "Set $ROBUSTIFY_KEY_FILE to the path of the key file that belongs to this split.",
            code="other-split-key",
        )
    if len(split.ids) < manifest.min_cell:
        raise AuthorisationError(
            f"split {split.name} of {split.dataset} has fewer than {manifest.min_cell} IDs, so it could reveal single "
            "items. Use a split that a run wrote.",
            code="revealing-split",
        )
    return access


def write_copy(path: Path, chosen: Iterable[Item]) -> None:
    """Write items as labeled JSON lines into a new file of mode 0600. Raise `AuthorisationError` if its folder is not
    private, `UsageError` if it exists already, and `ResourceError` if it cannot be written."""
    require_private(path.absolute().parent, [path.name])
    rows = ({"sensitivity": "restricted", **item_row(item)} for item in chosen)
    write_new(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


_WRITES = ("--log_samples", "--predict_only", "--write_out", "--use_cache", "--cache_requests", "--wandb_args",
          "--trackio_args", "--hf_hub_log_args")  # fmt: skip
"""Options with which lm-eval saves text or its digests, or sends them to a service."""
_SHORT = "sxwc"
"""Short forms of these options. lm-eval accepts several in one argument with a value (`-ws`), so these letters are
refused anywhere in such an argument."""


_INLINE = "inline"
"""Source that lm-eval gives for a task whose file it does not know."""


def local_items(
    splits: Sequence[str],
    cloze: str | None = None,
    passages: bool = False,
    config_source: str = _INLINE,
    **_given: object,
) -> Mapping[str, Any]:
    """Return `{"test": dataset}` with the items of all hashed splits in the given files. The items stay in memory.
    Files are looked for beside the folder of the task, whose file lm-eval names in `config_source`, then from the
    current folder.

    `cloze` names a profile that excludes items which cannot be asked without their choices, and `passages` excludes items
    without a passage. Raise `AuthorisationError` if the license, data or key is missing, or lm-eval would save text, and
    `DataError` if the splits belong to several sets, or IDs match no local item.
    """
    from datasets import Dataset

    require_silence(sys.argv)
    listed = [read_split(_near_the_task(name, config_source, sys.argv)) for name in splits]
    return {"test": Dataset.from_list(documents(listed, cloze, passages))}


def _near_the_task(name: str, source: str, argv: Sequence[str]) -> Path:
    """Return the path of a split next to the task folder. If lm-eval does not name the task file, because it is older or
    got the task as a path, use `--include_path` or the current folder. Raise `UsageError` if there is no such file."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--include_path", nargs="?", type=Path, default=Path("lm_eval_tasks"), const=Path())
    include_path = parser.parse_known_args(argv[1:])[0].include_path
    folder = include_path.resolve() if source == _INLINE else Path(source).resolve().parent
    for path in (folder.parent / name, folder / name, Path(name)):
        if path.is_file():
            return path
    raise UsageError(
        f"{name!a} is not next to the task folder. Keep the run's `splits` and `lm_eval_tasks` folders together, and pass "
        "the task name to lm-eval: --include_path RUN/lm_eval_tasks --tasks NAME.",
        code="split-not-found",
    )


def documents(
    splits: Sequence[Split], cloze: str | None = None, passages: bool = False
) -> list[dict[str, object]]:
    """Return the items of the given splits, in file order, with the fields that a task file reads."""
    sets = {(s.dataset, s.version) for s in splits}
    if len(sets) != 1:
        raise DataError(
            f"Found splits of {len(sets)} sets; expected hashed splits of one set.", code="several-sets"
        )
    copy = [open_for(split, split.dataset) for split in splits][-1].read().items
    wanted = {item.id for split in splits for item in items_in(split, copy)}
    match cloze:
        case "cross-ref" | "strict":
            wanted -= set(excluded(copy, ClozeSettings(profile=cloze)))
        case str():
            raise DataError(
                f"cloze: {cloze[:40]!a} is not a profile; expected cross-ref or strict.",
                code="unknown-cloze-profile",
            )
    return [item_row(i) for i in copy if i.id in wanted and not (passages and i.question is None)]


def require_silence(argv: Sequence[str]) -> None:
    """Raise `AuthorisationError` if an option of lm-eval (even abbreviated, or in its config file) or its log level would
    save prompts or answers. A program that calls lm-eval is not checked."""
    if logging.getLogger("lm_eval.api.task").isEnabledFor(logging.DEBUG):
        raise AuthorisationError(
            "The log level of lm-eval is DEBUG, which logs text of a restricted set. Use INFO or above.",
            code="lm-eval-debug-log",
        )
    if not argv or not any(name in argv[0] for name in ("lm_eval", "lm-eval")):
        return
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config", "-C", type=Path)
    config = parser.parse_known_args(argv[1:])[0].config
    settings = (yaml.safe_load(config.read_text(encoding="utf-8")) if config else None) or {}
    for option in [*argv[1:], *(f"--{name}={value}" for name, value in settings.items() if value)]:
        name = option.split("=")[0]
        full = len(name) > 2 and name.startswith("--")
        short = re.fullmatch(r"-[^-].*", name, re.DOTALL) is not None
        # Models can have an option `write_out`, too.
        saves = "write_out" in option or (full and any(o.startswith(name) for o in _WRITES))
        if saves or (short and set(_SHORT) & set(name)):
            raise AuthorisationError(
                f"{name} makes lm-eval save text of a restricted set, or digests of it. Remove this option.",
                code="lm-eval-saves-text",
            )
