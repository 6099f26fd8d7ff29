"""The local copy of a restricted set for those who have its licence, its data and its key; nothing else opens it.

Here the hashed splits meet the data again. What comes out holds text: it goes into files for their owner alone, or into
the memory of lm-eval. A task file names `local_items`, so that no code and no text travels with a task; it refuses to
load where lm-eval was asked to write prompts or answers down.
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
        AuthorisationError: as `admitted`; also another key than the split's, or a split smaller than a cell of the set.
        DataError: the split is of another set or version.
    """
    found = find_adapter(adapter)
    manifest = found.manifest
    if (manifest.id, manifest.version) != (split.dataset, split.version):
        raise DataError(
            f"split {split.name}: is of {split.dataset} version {split.version}, the adapter of {manifest.id} "
            f"version {manifest.version}; expected the same"
        )
    access = admitted(manifest.id, found, None)
    if split.key_id != access.key.id:
        raise AuthorisationError(
            f"split {split.name} of {split.dataset}: was made under key {split.key_id}, the key here is {access.key.id}; "
            "expected the same key ($ROBUSTIFY_KEY_FILE)"
        )
    if len(split.ids) < manifest.min_cell:
        raise AuthorisationError(
            f"split {split.name} of {split.dataset}: has fewer than {manifest.min_cell} ids, which describes single items; "
            "expected a split that a run let out"
        )
    return access


def write_copy(path: Path, chosen: Iterable[Item]) -> None:
    """The items as JSON lines, each with its label, in a new file of mode 0600 in a private folder.

    Raises:
        AuthorisationError: the folder is not private.
        UsageError: the file is there already.
        ResourceError: it cannot be written.
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
"""Options with which lm-eval writes text, or digests of it, to disk or sends it elsewhere."""
SHORT = "sxwc"
"""Their letters. lm-eval takes several at once, and a value behind one (`-ws`): a letter in a value is refused too."""


def local_items(splits: Sequence[str], cloze: str | None = None, **_given: object) -> Mapping[str, Any]:
    """`{"test": dataset}` of all items of the hashed splits in these files, kept in memory.

    `cloze`: a profile; items that cannot be asked without their choices are left out by their local text.

    Raises:
        AuthorisationError: licence, data or key is missing, or lm-eval would write text down.
        DataError: splits of several sets, or ids that no local item has.
    """
    from datasets import Dataset

    require_silence(sys.argv)
    return {"test": Dataset.from_list(documents([read_split(Path(name)) for name in splits], cloze))}


def documents(splits: Sequence[Split], cloze: str | None = None) -> list[dict[str, object]]:
    """The items of these splits, in the order of the data, with the fields that our task files read."""
    sets = {(s.dataset, s.version) for s in splits}
    if len(sets) != 1:
        raise DataError(f"splits of {len(sets)} sets; expected hashed splits of one set")
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
        case "cross-ref" | "seed" | "strict":
            return ClozeSettings(profile=name)
        case _:
            raise DataError(f"cloze: {name[:40]!a} is no profile; expected cross-ref, seed or strict")


def require_silence(argv: Sequence[str]) -> None:
    """Refuse an lm-eval that writes prompts or answers down: by an option, in full or abbreviated, or by its log.

    What a config file of lm-eval (`--config`) or a program of its own asks for is not seen here.

    Raises:
        AuthorisationError: the option, or the level of the log.
    """
    if logging.getLogger("lm_eval.api.task").isEnabledFor(logging.DEBUG):
        raise AuthorisationError(
            "lm-eval: its log is at DEBUG and would hold texts of a restricted set; expected INFO or above"
        )
    if not argv or not any(name in argv[0] for name in ("lm_eval", "lm-eval")):
        return
    for given in argv[1:]:
        name = given.split("=")[0]
        full = len(name) > 2 and name.startswith("--")
        short = re.fullmatch(r"-[^-].*", name, re.DOTALL) is not None
        if (full and any(o.startswith(name) for o in WRITES)) or (short and set(SHORT) & set(name)):
            raise AuthorisationError(
                f"{name}: lm-eval would write down texts of a restricted set, or digests of them; leave it out"
            )
