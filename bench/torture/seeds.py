"""Valid inputs of commands, and seeded changes to them: random bytes, or valid syntax with values of the wrong type."""

import copy
import csv
import io
import json
import random
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from bench.results import ROOT
from robustify.models.engines.cache import Cache, CachedScores
from robustify.models.engines.plan import Encoded
from robustify.models.engines.protocols import Logprob
from robustify.models.replies import Replies
from robustify.runs.run import write_items
from tests.support.exported_run import made_run
from tests.support.fake_logs import boxes, jsonl, lm_eval_row
from tests.support.model_cache import tiny_llama

Json = Any
ODD: tuple[Json, ...] = (
    None, True, False, 0, -1, 1, 4, 255, 2**31, 2**63, -(2**63), 10**400, 0.5, -0.0, 1e308, float("nan"), float("inf"),
    "", " ", "0", "A", "é", "\u202e", "\x00", "\x1b[2J", "a" * 5000, "../../x", "/dev/stdin", "=1+1", "3:30", "~",
    [], {}, [[]], [None], {"": ""}, {"a": {"a": {}}}, ["a", 1, None], [[[[[[[[]]]]]]]], list(range(300)),
)  # fmt: skip
CELLS = (None, 0.5, 7, b"\xff", "x", True, [1, 2], {"a": 1}, float("nan"))


def _delimited(mark: str) -> tuple[Callable[[bytes], Json], Callable[[Json], str]]:
    """Return how the lines of a text are read as rows of fields and written."""

    def written(rows: Json) -> str:
        out = io.StringIO()
        cells = (row if isinstance(row, list) else [row] for row in rows)
        csv.writer(out, delimiter=mark, lineterminator="\n").writerows(cells)
        return out.getvalue()

    return lambda data: list(csv.reader(data.decode().splitlines(), delimiter=mark)), written


TREES: dict[str, tuple[Callable[[bytes], Json], Callable[[Json], str]]] = {
    "json": (json.loads, json.dumps),
    "jsonl": (
        lambda data: [json.loads(line) for line in data.splitlines()],
        lambda rows: "".join(f"{json.dumps(row)}\n" for row in rows),
    ),
    "yaml": (yaml.safe_load, lambda tree: yaml.safe_dump(tree, allow_unicode=True)),
    "text": _delimited(","),
    "tabs": _delimited("\t"),
}


def bytewise(data: bytes, chance: random.Random) -> bytes:
    """Apply one to eight changes: flip a byte; cut, double, move, or overwrite a range; or truncate the file."""
    made = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        if not made:
            break
        at, other = chance.randrange(len(made)), chance.randrange(len(made))
        to = min(len(made), at + chance.randint(1, 64))
        match chance.randrange(6):
            case 0:
                made[at] ^= 1 << chance.randrange(8)
            case 1:
                del made[at:to]
            case 2:
                made[at:at] = made[at:to] * chance.randint(1, 4)
            case 3:
                made[at:to] = chance.randbytes(to - at)
            case 4:
                del made[at:]
            case _:
                made[other:other] = made[at:to]
    return bytes(made)


def _places(tree: Json) -> list[tuple[Json, Any]]:
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [place for name, value in pairs for place in ((tree, name), *_places(value))]


def retyped(tree: Json, chance: random.Random) -> Json:
    """Change one to three values anywhere in the tree: odd values, omitted, doubled, renamed, or nested."""
    for _ in range(chance.randint(1, 3)):
        places = _places(tree)
        # Copied, because a value in the tree may be changed later.
        odd = copy.deepcopy(chance.choice(ODD))
        if not places or chance.random() < 0.03:
            return odd
        parent, name = chance.choice(places)
        match chance.randrange(7):
            case 0 | 1 | 2:
                parent[name] = odd
            case 3:
                del parent[name]
            case 4 if isinstance(parent, dict):
                parent[str(odd)[:200]] = parent.pop(name)
            case 5:
                other, at = chance.choice(places)
                parent[name] = copy.deepcopy(other[at])
            case _:
                parent[name] = [parent[name]]
    return tree


def _edited_parquet(data: bytes, chance: random.Random) -> bytes:
    table = pq.read_table(pa.BufferReader(data))
    at, n = chance.randrange(table.num_columns), table.num_rows
    name = table.column_names[at]
    match chance.randrange(4):
        case 0:
            table = table.drop_columns([name])
        case 1:
            table = table.slice(0, chance.choice((0, 1, n // 2)))
        case 2:
            table = table.append_column(name, table.column(at))
        case _:
            table = table.set_column(at, name, pa.array([chance.choice(CELLS)] * n))
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def structured(path: Path, form: str, chance: random.Random) -> bytes:
    """Return the file with valid syntax and odd values; `form` is one of `TREES`, parquet, or else bytes."""
    data = path.read_bytes()
    if form in TREES:
        parse, dump = TREES[form]
        return dump(retyped(parse(data), chance)).encode(errors="surrogatepass")
    return _edited_parquet(data, chance) if form == "parquet" else bytewise(data, chance)


FIELD, SMALL = ROOT / "tests" / "data" / "field", 20_000
"""Cases whose files have at most `SMALL` bytes are used, because larger ones take seconds."""
FORMS = {
    ".json": "json", ".jsonl": "jsonl", ".csv": "text", ".tsv": "tabs", ".md": "text", ".yaml": "yaml",
    ".parquet": "parquet",
}  # fmt: skip
"""How a structured change reads a file. Only bytes of other files are changed."""
KEPT = (".json", ".jsonl", ".parquet", ".csv", ".safetensors", ".sqlite")
"""Of the files in a folder, only these are read again."""
TEXTS = {
    "c.yaml": "name: boxes\nsensitivity: public\ndata: items.jsonl\nprobe: {folds: 5}\nlimits: {min_kept: 1}\n",
    "asked.yaml": "name: asked\nsensitivity: public\ndata: items.jsonl\nmodels: [{name: tiny, model: model}]\n",
    "free.yaml": "free: {rel_tol: 0.01, mode: auto, max_tokens: 64}\n",
    "notes.md": "# Notes\n\nA page.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
    "labels.csv": "".join(f"i{n},{'shortcut' if n % 3 else 'not'}\n" for n in range(30)),
    "items.csv": "question,A,B,answer\n" + "".join(f"Box {n}?,red {n},green {n},{'AB'[n % 2]}\n" for n in range(12)),
}  # fmt: skip
QUESTIONS = (
    {"id": "q1", "type": "mcq", "topic": "light", "question": "Which is a colour?\n(A) stone\n(B) green", "answer": "B"},
    {"id": "q2", "type": "numeric", "question": "How far is 5 m and 3 m?", "answer": "8", "unit": "m"},
)  # fmt: skip
COMMANDS: Mapping[str, str] = {
    "init": "init items.csv -o new.yaml",
    "lint": "lint items.csv",
    "heuristics": "heuristics items.csv",
    "config": "run c.yaml -o out --no-progress",
    "import": "import samples_alpha.jsonl --data items.jsonl --name b -o out",
    "labels": "agree run labels.csv",
    "grade": "free grade rows.jsonl --items questions.json -o out --max-unscored 1",
    "grade config": "free grade rows.jsonl --items questions.json -o out --max-unscored 1 --config free.yaml",
    "gate": "gate notes.md items.jsonl",
    "judge": "judge run -o out",
    "check": "check run",
    "report": "report run",
    "dashboard": "dashboard .",
    "explain": "explain run i0",
    "compare": "compare run other --html compare.html",
    **{f"export {to}": f"export {to} run -o out --kept" for to in ("lm-eval", "inspect", "dataset")},
    "export sarif": "export sarif run --data made.jsonl -o out.sarif",
    "cache": "models cache info --cache-dir scores",
}
ASKED = {"model": "run asked.yaml -o out --cache-dir scores --limit 2 --no-progress"}


@dataclass(frozen=True, slots=True)
class Seed:
    """A valid input: `file` (in the folder `home`) is changed, then `arguments` are run beside it.

    `model`: the command loads torch, so it is tried less often.
    """

    name: str
    home: Path
    file: str
    arguments: tuple[str, ...]
    model: bool = False

    @property
    def form(self) -> str:
        """How a structured change reads the file."""
        return FORMS.get(Path(self.file).suffix, "bytes")


def _inputs(home: Path) -> None:
    """Write the files by hand, a run with its source, and caches."""
    home.mkdir(parents=True)
    items = boxes(12)
    write_items(home / "items.jsonl", items)
    rows = [lm_eval_row(item, at, [-1.0, -2.0, -3.0, -4.0], hidden=True) for at, item in enumerate(items)]
    jsonl(home / "samples_alpha.jsonl", rows)
    jsonl(home / "rows.jsonl", [{"id": q["id"], "model": "m", "prediction": q["answer"]} for q in QUESTIONS])
    for name, text in {**TEXTS, "questions.json": json.dumps(QUESTIONS)}.items():
        (home / name).write_text(text)
    with Cache(home / "scores") as scores, Replies(home / "scores") as replies:
        CachedScores(scores, {}, "m").keep({Encoded((1,), (n,)): Logprob(-1.5, 1) for n in range(40)})
        replies.put([(bytes([n]) * 32, {"text": "a reply"}) for n in range(40)])
    made = made_run(home / "made").folder
    shutil.move(made.with_name("items.jsonl"), home / "made.jsonl")
    shutil.copytree(made, home / "other")
    shutil.move(made, home / "run")
    shutil.rmtree(home / "made")


def _read(home: Path, word: str) -> Iterator[str]:
    """Find the files that a command reads because of this word: a file, also those named in a config, or a folder."""
    path = home / ("run" if word == "." else word)
    if path.is_dir() and word != "other":
        yield from (str(p.relative_to(home)) for p in sorted(path.rglob("*")) if p.suffix in KEPT)
    elif path.is_file():
        yield word
        if path.suffix == ".yaml":
            for inner in re.findall(r"[\w.]+", path.read_text()):
                yield from _read(home, inner)


def _seeds(home: Path, name: str, words: tuple[str, ...], *, model: bool = False) -> Iterator[Seed]:
    files = dict.fromkeys(file for word in words for file in _read(home, word))
    yield from (Seed(f"{name} {file}", home, file, words, model) for file in files)


def _cases() -> Iterator[Seed]:
    for case in sorted(FIELD.glob("*/case.json")):
        if sum(path.stat().st_size for path in case.parent.rglob("*")) <= SMALL:
            run = json.loads(case.read_text("utf-8"))["check"]["run"]
            words = run[-1] if isinstance(run[0], list) else run
            given = tuple("out" if word == "OUT" else word for word in words)
            yield from _seeds(case.parent, case.parent.name, given)


def seeds(home: Path, *, models: bool = True) -> tuple[Seed, ...]:
    """Fill `home` with the valid inputs by hand, and return them with those of the cases."""
    _inputs(home)
    found = [seed for name, line in COMMANDS.items() for seed in _seeds(home, name, tuple(line.split()))]
    if models:
        tiny_llama(home / "model")
        found += [
            s for name, line in ASKED.items() for s in _seeds(home, name, tuple(line.split()), model=True)
        ]
    return (*found, *_cases())
