"""Cases of the corpus `tests/data/cases/reading`: a small file, and how it is read, or the code with which it is refused.

A case has a `name`, a `text` (by default that of the case before it), the `rows` of a Parquet file, or several `files`, and
perhaps a `file` name and `options` of its `Source`. It expects the members of `seen` that it names, and always those of
`ALWAYS`. What a case lacks has the value at the top of its file. `mend` is a field map with which a refused file is read as
expected. No error, note, or repr may contain the words of `secret`, by default the longer right options.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from robustify.base.errors import RobustifyError, notice_code
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import FieldMap, Loaded, Source, load, load_many, notes
from robustify.reading.loaders.loaded import mapped_columns
from tests.support.tables import written

FOLDER = Path(__file__).parents[1] / "data" / "cases" / "reading"
Case = Mapping[str, Any]
ALWAYS: Case = {"refused": [], "notes": [], "aside": {}, "defects": {}, "layout": "fields"}
_TEXTS = ("right", "choices", "stems")


def cases(name: str) -> Iterator[Case]:
    """Yield the cases of a file, each with the defaults of the file."""
    tree = yaml.load((FOLDER / f"{name}.yaml").read_text("utf-8"), yaml.CSafeLoader)
    defaults, text = {key: value for key, value in tree.items() if key != "cases"}, ""
    for case in tree["cases"]:
        text = case.get("text", text)
        own = {**defaults, **case, "text": text}
        # A refused file shows no items, unless a map mends it.
        hidden = _TEXTS if "refused" in case and "mend" not in case else ()
        words = own.get("secret") or [word for word in own.get("right", ()) if len(str(word)) > 3]
        yield {key: value for key, value in own.items() if key not in hidden} | {"secret": words}


def read(options: Mapping[str, Any], *paths: Path) -> Loaded:
    sources = [Source.model_validate({"path": str(path), **options}) for path in paths]
    return load(sources[0], UNGUARDED) if len(sources) == 1 else load_many(sources, UNGUARDED)


def seen(loaded: Loaded) -> dict[str, Any]:
    """What is seen of a loaded file, in plain values."""
    defects: dict[str, list[int]] = {}
    for defect in loaded.defects:
        defects.setdefault(defect.kind, []).append(defect.line)
    items = loaded.items
    return {
        "right": [item.choices[item.key] for item in items],
        "choices": [list(item.choices) for item in items],
        "stems": [item.stem for item in items],
        "ids": [item.id for item in items],
        "topics": list(dict.fromkeys(item.topic for item in items if item.topic)),
        "lines": list(loaded.lines),
        "of_files": list(loaded.files),
        "groups": [item.group for item in items],
        "layout": loaded.layout,
        "benchmark": loaded.name,
        "sha256": loaded.sha256,
        "notes": list(dict.fromkeys(map(notice_code, notes(loaded)))),
        "aside": {row.line: notice_code(row.reason) for row in loaded.quarantined},
        "n_notes": len(notes(loaded)),
        "defects": defects,
        "defect_items": [defect.item for defect in loaded.defects],
    }


def refusal(error: RobustifyError) -> dict[str, Any]:
    """What is seen of a refusal: a code and the line of each fault, and the maps that it advises."""
    lines = [int(place[1]) for line in error.lines if (place := re.match(r"[^:]+:(\d+): ", line))]
    quoted = [
        text
        for text in re.findall(r"`([^`]*--map[^`]*)`", str(error))
        if not re.search("NAME|FORM|TEXT", text)
    ]
    advised = [[word for word in shlex.split(text) if word != "--map"] for text in quoted]
    places = re.findall(r"[\w-]+\.\w+:\d+", str(error))
    words = re.findall(r"[0-9a-f]{64}", str(error))
    return {
        "refused": list(error.codes),
        "lines": lines,
        "places": places,
        "words": words,
        "advised": advised,
    }


def misses(case: Case, folder: Path) -> list[str]:
    """Return the unmet expectations of a case."""
    files = case.get("files", {case.get("file", "cases"): case.get("rows", case["text"])})
    for name, content in files.items():
        written(folder / name, content)
    return [*_misses(case, *(folder / name for name in case.get("read", files)))]


def _misses(case: Case, *path: Path) -> Iterator[str]:
    options = case.get("options", {})
    try:
        loaded = read(options, *path)
        found, shown = seen(loaded), f"{loaded.items!r} {loaded.quarantined} {notes(loaded)}"
    except RobustifyError as error:
        found, shown = refusal(error), str(error)
        yield from (
            f"advice {words} mends nothing" for words in found["advised"] if not _mends(words, error, *path)
        )
        if "mend" in case:
            mended = seen(read({**options, "fields": case["mend"]}, *path))
            found |= {name: mended[name] for name in _TEXTS}
    for name, wanted in {**ALWAYS, **case}.items():
        always = name in ALWAYS and ("refused" not in found or name == "refused")
        value = found.get(name, ALWAYS.get(name))
        if (always or (name in found and name in case)) and value != wanted:
            yield f"{name}: {value}, not {wanted}"
    yield from (f"{word!r} is not shown" for word in case.get("says", ()) if word not in shown)
    for word in map(str, case["secret"]):
        if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", shown):
            yield f"{word!r} is shown"


def _mends(words: list[str], error: RobustifyError, *path: Path) -> bool:
    """Whether a map that a refusal advises leaves fewer faults, or none."""
    fields = FieldMap.from_options(mapped_columns(words, FieldMap.model_fields))
    try:
        read({"fields": fields}, *path)
    except RobustifyError as again:
        return len(again.lines) < len(error.lines)
    return True
