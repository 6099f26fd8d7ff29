"""What lm-eval calls to get the items of a restricted split: from the local copy, with the key, at run time.

The task file names this function of the installed package, so that no code and no text travels with a task. It
refuses to load where lm-eval was asked to write prompts or answers down.
"""

import logging
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from robustify.errors import AuthorisationError, DataError
from robustify.judge.cloze import ClozeSettings, excluded
from robustify.restricted.hashed_split import Split, matched, read_split
from robustify.restricted.local_copy import items, open_for

WRITES = ("--log_samples", "--predict_only", "--write_out", "--use_cache", "--cache_requests", "--wandb_args",
          "--hf_hub_log_args")  # fmt: skip
"""Options with which lm-eval writes text, or digests of it, to disk or sends it elsewhere."""
SHORT = "sxwc"
"""Their letters. lm-eval takes several at once and a value right behind one (`-ws`, `-c/tmp/x`), so a letter in a value
is refused too: better apart."""


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
    copy = items(access)
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
