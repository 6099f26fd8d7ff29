"""Access to the items of hashed splits for users with the licence, the data and the key of a restricted set.

Item text goes only into files readable by their owner, or into the memory of lm-eval. A task file names `local_items`,
so that a task contains neither code nor text. The loader refuses to work if lm-eval would save prompts or answers.
"""

import json
import logging
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from robustify.errors import AuthorisationError, DataError
from robustify.files import write_new
from robustify.item import Item
from robustify.judging.cloze import ClozeSettings, excluded
from robustify.restricted.access import Access, admitted
from robustify.restricted.adapters import find_adapter
from robustify.restricted.confinement import require_private
from robustify.restricted.ids import Split, matched, read_split


def open_for(split: Split, adapter: str) -> Access:
    """Return the permission to read the set of a split.

    Raises:
        AuthorisationError: A requirement is not met, the split has another key, or it is smaller than a cell of the set.
        DataError: The split belongs to another set or version.
    """
    found = find_adapter(adapter)
    manifest = found.manifest
    if (manifest.id, manifest.version) != (split.dataset, split.version):
        raise DataError(
            f"split {split.name} belongs to {split.dataset} version {split.version}, but the adapter of {manifest.id} has "
            f"version {manifest.version}. Use the adapter of the split's set and version."
        )
    access = admitted(manifest.id, found, None)
    if split.key_id != access.key.id:
        raise AuthorisationError(
            f"split {split.name} of {split.dataset} was made with key {split.key_id}, but your key is {access.key.id}. "
            "Set $ROBUSTIFY_KEY_FILE to the key of the split."
        )
    if len(split.ids) < manifest.min_cell:
        raise AuthorisationError(
            f"split {split.name} of {split.dataset} has fewer than {manifest.min_cell} IDs, which describes single items. "
            "Use a split that a run wrote."
        )
    return access


def write_copy(path: Path, chosen: Iterable[Item]) -> None:
    """Write items as labelled JSON lines into a new file of mode 0600 in a private folder.

    Raises:
        AuthorisationError: The folder is not private.
        UsageError: The file exists already.
        ResourceError: The file cannot be written.
    """
    require_private(path.absolute().parent, [path.name])
    rows = (
        {"sensitivity": "restricted", "id": i.id, "stem": i.stem, "choices": list(i.choices), "key": i.key,
         "topic": i.topic} | ({"group": i.group} if i.group else {})
        for i in chosen
    )  # fmt: skip
    write_new(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


WRITES = ("--log_samples", "--predict_only", "--write_out", "--use_cache", "--cache_requests", "--wandb_args",
          "--hf_hub_log_args")  # fmt: skip
"""Options with which lm-eval saves text or its digests, or sends them to a service."""
SHORT = "sxwc"
"""Short forms of these options. lm-eval accepts several in one argument with a value (`-ws`), so these letters are
refused anywhere in such an argument."""


def local_items(splits: Sequence[str], cloze: str | None = None, **_given: object) -> Mapping[str, Any]:
    """Return `{"test": dataset}` with the items of all hashed splits in the given files. The items stay in memory.

    `cloze` names a profile that excludes items which cannot be asked without their choices.

    Raises:
        AuthorisationError: The licence, data or key is missing, or lm-eval would save text.
        DataError: The splits belong to several sets, or IDs match no local item.
    """
    from datasets import Dataset

    require_silence(sys.argv)
    return {"test": Dataset.from_list(documents([read_split(Path(name)) for name in splits], cloze))}


def documents(splits: Sequence[Split], cloze: str | None = None) -> list[dict[str, object]]:
    """Return the items of some splits in the order of the data, with the fields that task files read."""
    sets = {(s.dataset, s.version) for s in splits}
    if len(sets) != 1:
        raise DataError(f"Found splits of {len(sets)} sets; expected hashed splits of one set.")
    access = None
    for split in splits:
        access = open_for(split, split.dataset)
    assert access is not None
    copy = access.read().items
    wanted = {item.id for split in splits for item in matched(split, copy)}
    if cloze is not None:
        wanted -= set(excluded(copy, _profile(cloze)))
    return [
        {"id": i.id, "stem": i.stem, "choices": list(i.choices), "key": i.key, "topic": i.topic}
        for i in copy
        if i.id in wanted
    ]


def _profile(name: str) -> ClozeSettings:
    match name:
        case "cross-ref" | "strict":
            return ClozeSettings(profile=name)
        case _:
            raise DataError(f"cloze: {name[:40]!a} is not a profile; expected cross-ref or strict.")


def require_silence(argv: Sequence[str]) -> None:
    """Refuse an lm-eval call that saves prompts or answers, through an option (even abbreviated) or through its log.

    A config file of lm-eval (`--config`) or a program that calls lm-eval is not checked.

    Raises:
        AuthorisationError: An option or the log level would save text.
    """
    if logging.getLogger("lm_eval.api.task").isEnabledFor(logging.DEBUG):
        raise AuthorisationError(
            "The log level of lm-eval is DEBUG, which logs text of a restricted set. Use INFO or above."
        )
    if not argv or not any(name in argv[0] for name in ("lm_eval", "lm-eval")):
        return
    for given in argv[1:]:
        name = given.split("=")[0]
        full = len(name) > 2 and name.startswith("--")
        short = re.fullmatch(r"-[^-].*", name, re.DOTALL) is not None
        if (full and any(o.startswith(name) for o in WRITES)) or (short and set(SHORT) & set(name)):
            raise AuthorisationError(
                f"{name} makes lm-eval save text of a restricted set, or digests of it. Remove this option."
            )
