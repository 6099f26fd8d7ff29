"""Random files of multiple-choice items with their truth: formats, layouts, and forms of keys and options at random."""

import csv
import io
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robustify.base.errors import DataError
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Loaded, Source, load
from tests.support.cases import contents

Row = dict[str, Any]
COLOURS, THINGS, ENDS, POOLS, SERIES, STEMS, LISTS, KEYS = contents("random_files").values()
LETTERS = "ABCDE"
MORE: dict[str, Callable[[random.Random], Any]] = {
    "topic": lambda r: r.choice(["toys", "tools"]), "explanation": lambda r: f"As seen on page {r.randrange(90)}.",
    "year": lambda r: 1990 + r.randrange(30), "passage": lambda r: f"Once there was a {_text(r)}.",
    "label": lambda r: r.randrange(2), "category": lambda r: r.choice("ABC"), "n_options": lambda _: 4,
    "prediction": lambda r: r.choice("ABCD"), "hint": lambda _: "", "votes": lambda _: [1, 2],
}  # fmt: skip
"""Columns beside the item."""


@dataclass(frozen=True)
class Truth:
    """An item as it was meant."""

    question: str
    options: tuple[str, ...]
    key: int


def _text(r: random.Random) -> str:
    return r.choices(ENDS, (8, 4, 1, 3, 2, 1, 0.5, 1))[0].format(
        r.choice(COLOURS), r.choice(THINGS), r.randrange(1, 400)
    )


def _items(r: random.Random) -> list[Truth]:
    k, even, found = r.choice([2, 3, 4, 4, 4, 5]), r.random() < 0.85, list[Truth]()
    pool = r.choices((None, *POOLS), (80, *[4] * len(POOLS)))[0]
    for at in range(r.randrange(6, 41)):
        size, options = k if even else r.randrange(2, 6), dict[str, None]()
        while len(options) < size:
            options[r.choice(pool) if pool else _text(r)] = None
        found.append(
            Truth(f"Which thing of shelf {at} is {r.choice(COLOURS)}?", (*options,), r.randrange(size))
        )
    return found


def _joined(label: str, between: str) -> Callable[[Truth], str]:
    return lambda t: between.join(
        label.format(L=LETTERS[i], n=i + 1) + one for i, one in enumerate(t.options)
    )


KEY_FORMS: dict[str, Callable[[Truth], Any]] = {
    "letter": lambda t: LETTERS[t.key],
    "small letter": lambda t: LETTERS[t.key].lower(),
    "letter in brackets": lambda t: f"({LETTERS[t.key]})",
    "letter and text": lambda t: f"{LETTERS[t.key]}. {t.options[t.key]}",
    "from 0": lambda t: t.key,
    "from 1": lambda t: t.key + 1,
    "text": lambda t: t.options[t.key],
    "sentence": lambda t: f"The answer is {LETTERS[t.key]}.",
}
TEXT_FORMS: dict[str, Callable[[Truth], Any]] = {
    "printed list": lambda t: str([*t.options]),
    "JSON in text": lambda t: json.dumps(t.options),
    "lettered lines": _joined("{L}. ", "\n"),
    "numbered lines": _joined("{n}) ", "\n"),
    "lettered line": _joined("({L}) ", " "),
    "bars": _joined("", " | "),
    "semicolons": _joined("", ";"),
}
OPTION_FORMS: dict[str, Callable[[Truth], Any]] = {
    **TEXT_FORMS,
    "list": lambda t: [*t.options],
    "labelled list": lambda t: _joined("{L}. ", "\n")(t).split("\n"),
    "object": lambda t: dict(zip(LETTERS, t.options, strict=False)),
    "objects": lambda t: [{"label": LETTERS[i], "text": one} for i, one in enumerate(t.options)],
    "marked objects": lambda t: [{"text": one, "correct": i == t.key} for i, one in enumerate(t.options)],
    "parallel": lambda t: {"text": [*t.options], "label": [*LETTERS[: len(t.options)]]},
}


def _rows(r: random.Random, items: Sequence[Truth], forms: Sequence[str]) -> tuple[str, list[Row]]:
    """The layout and the rows of a file."""
    stem, key, name, key_form = r.choice(STEMS), r.choice(KEYS), r.choice(LISTS), r.choice([*KEY_FORMS])
    layout = r.choice(["columns", "columns", "right and wrong", "cell", "cell"])
    series, form, more = (
        r.choice(SERIES),
        r.choice(forms),
        r.sample([one for one in MORE if one != key], r.randrange(4)),
    )
    width, found = max(len(one.options) for one in items), list[Row]()
    for one in items:
        row: Row = {stem: one.question}
        if layout == "columns":
            names = [series.format(L=LETTERS[i], l=LETTERS[i].lower(), n=i + 1, i=i) for i in range(width)]
            row |= dict(zip(names, [*one.options, *[""] * width], strict=False))
        elif layout == "cell":
            row[name] = OPTION_FORMS[form](one)
        else:
            wrong = [*one.options[: one.key], *one.options[one.key + 1 :], *[""] * width]
            row |= {"correct_answer": one.options[one.key]}
            row |= {f"incorrect_answer_{i + 1}": wrong[i] for i in range(width - 1)}
        if layout == "columns" or (layout == "cell" and form != "marked objects"):
            row[key] = KEY_FORMS[key_form](one)
        found.append(row | {extra: MORE[extra](r) for extra in more})
    return {"columns": f"{series}, {key_form}", "cell": f"{form}, {key_form}"}.get(layout, layout), found


def read_random_file(seed: int, folder: Path) -> tuple[str, str]:
    """Write the random file of a seed and read it. Return its form, and `right`, `refused`, or `wrong`."""
    r = random.Random(seed)
    kind, items = r.choice(["csv", "csv", "tsv", "csv;", "jsonl", "json", "data.json"]), _items(r)
    delimiter = {"csv": ",", "tsv": "\t", "csv;": ";"}.get(kind, "")
    form, rows = _rows(r, items, [*(TEXT_FORMS if delimiter else OPTION_FORMS)])
    out = io.StringIO()
    if delimiter:
        writer = csv.DictWriter(out, [*rows[0]], delimiter=delimiter, lineterminator=r.choice(["\n", "\r\n"]))
        writer.writeheader()
        writer.writerows(rows)
    elif kind == "jsonl":
        out.writelines(json.dumps(row) + "\n" for row in rows)
    else:
        json.dump(rows if kind == "json" else {"name": "toys", "data": rows}, out, indent=r.choice([None, 1]))
    path = folder / f"f{seed}.{kind.strip(';')}"
    path.write_bytes(r.choice([b"", b"", b"\xef\xbb\xbf"]) + out.getvalue().encode())
    try:
        return f"{kind}: {form}", "right" if _same(
            load(Source(path=str(path)), UNGUARDED), items, form
        ) else "wrong"
    except DataError:
        return f"{kind}: {form}", "refused"


def _same(found: Loaded, items: Sequence[Truth], form: str) -> bool:
    """Whether the items are the true ones. White space that all options share may be gone."""
    order: Callable[[Any], list[str]] = sorted if form == "right and wrong" else list
    return len(found.items) == len(items) and all(
        one.stem.endswith(true.question)
        and one.choices[one.key].strip() == true.options[true.key].strip()
        and order(map(str.strip, one.choices)) == order(map(str.strip, true.options))
        for one, true in zip(found.items, items, strict=True)
    )
