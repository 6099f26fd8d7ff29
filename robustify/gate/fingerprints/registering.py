"""`robustify gate index`: sets of items become a sealed index, and the command says what it cannot recognise."""

import json
import sys
from argparse import Namespace
from pathlib import Path

from robustify.errors import AuthorisationError, UsageError
from robustify.gate.findings import shown
from robustify.gate.fingerprints.index import register
from robustify.gate.fingerprints.items import Texts, read_items
from robustify.gate.fingerprints.sealed import write
from robustify.gate.key_file import load_key


def index(asked: Namespace) -> int:
    """Register the sets and write the index. Raises `AuthorisationError` without a key, `DataError` for bad files."""
    key = load_key(asked.key)
    if key is None:
        raise AuthorisationError(
            "no key to seal the index with; expected --key FILE (make one: robustify key new)"
        )
    sets: dict[str, list[Texts]] = {}
    for name in asked.items:
        sets.setdefault(asked.name or Path(name).stem, []).extend(read_items(Path(name)))
    background = [Path(name) for name in asked.background]
    if missing := [shown(str(path)) for path in background if not path.exists()]:
        raise UsageError(f"no such background: {', '.join(missing)}")
    found = register(sets, key, background)
    write(Path(asked.out), found.tables, key)
    told = {
        "index": asked.out,
        "key_id": key.id,
        "sets": {name: len(items) for name, items in sets.items()},
        "shingles": found.shingles,
        "left_out_as_ordinary": found.dropped,
        "recognised_whole_only": found.thin,
        "not_recognised": found.blind,
    }
    if asked.json:
        print(json.dumps(told))
        return 0
    print(f"{shown(asked.out)}: {found.items:,} items, {found.shingles:,} shingles, key {key.id}")
    if found.thin or found.blind:
        print(
            f"robustify gate: {found.thin:,} items are recognised only verbatim, {found.blind:,} not at all: too short,"
            " or too much like ordinary text",
            file=sys.stderr,
        )
    return 0
