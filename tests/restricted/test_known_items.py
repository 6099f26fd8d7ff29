"""A set is pinned when its terms are accepted, and a copy of its items is refused as public in every form and command."""

import bz2
import csv
import gzip
import hashlib
import io
import json
import lzma
import random
import re
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import robustify as rb
from robustify.base.errors import AuthorisationError
from robustify.items.item import Item
from robustify.restricted import terms
from robustify.restricted.item_marks import SIZE, mark_items, sets_with_ids
from tests.restricted.conftest import edit, items_of, told
from tests.restricted.world import rows_as_json
from tests.support.cases import CANARY, contents, refuses
from tests.support.command import invoked
from tests.support.fake_archives import ARCHIVES
from tests.support.restricted_set import ADAPTER, items

N = 40
Rows = list[dict[str, Any]]
OTHERS = items(60, seed=7)


def accept() -> Result:
    digest = invoked("restricted", "license", "show", ADAPTER, "--json").stdout
    given = ("--name", "A Name", "--license-sha256", json.loads(digest)["sha256"])
    return invoked("restricted", "license", "accept", ADAPTER, *given)


def neutral(mock: Path, text: str, end: str = "jsonl") -> Path:
    """A file of a name that tells nothing."""
    place = mock / "elsewhere" / f"quiz.{end}"
    place.parent.mkdir(exist_ok=True)
    place.write_text(text, encoding="utf-8")
    return place


# Pins.


def repin(mock: Path, **pins: object) -> None:
    """Change the pins of the file in the manifest."""
    (file,) = told(mock)["data"]["files"]
    edit(mock, data={"root_env": "ROBUSTIFY_DATA", "files": [{**file, **pins}]})


def replaced(mock: Path, rows: Rows) -> None:
    """Put other items into the file of the set, and their digest into its manifest."""
    items_of(mock).write_text(rows_as_json(rows))
    repin(mock, sha256=hashlib.sha256(items_of(mock).read_bytes()).hexdigest())


def unpinned(done: Result, records: int) -> str:
    """Return the digest that the refusal of a file without a pin names."""
    assert done.exception.codes == ("unpinned-data",)
    assert f"`records: {records}`" in str(done.exception)
    return str(done.exception).split("sha256: ")[1][:64]


@pytest.mark.parametrize(("missing", "n"), [("sha256", N // 2), ("records", N)])
def test_what_is_not_pinned_is_refused_with_the_line_to_add(mock: Path, missing: str, n: int) -> None:
    repin(mock, **{"sha256": None, "records": None} if missing == "sha256" else {"records": None})
    items_of(mock).write_text(rows_as_json(items(N)[:n]))  # of the digest, half of the rows
    digest = unpinned(accept(), n)
    assert invoked("run", mock / "mock.yaml", "-o", mock / "out" / "run").exception.exit_code == 4
    check = json.loads(invoked("restricted", "adapter", "check", ADAPTER, "--json").stdout)
    assert {fact["fact"]: fact["holds"] for fact in check["facts"]}["data"] is False
    repin(mock, sha256=digest, records=N)
    assert accept().return_value == (0 if missing == "records" else None)


def test_an_acceptance_pins_the_data_and_forgets_no_item(mock: Path) -> None:
    assert accept().return_value == 0
    (row,) = terms.accepted()
    assert row.files["mock/items.jsonl"].records == N
    record = terms.licences_file()
    assert record.stat().st_mode & 0o777 == 0o600
    assert not CANARY.search(record.read_text())
    # The same set with other items, and then as a public one.
    items_of(mock).write_text(rows_as_json(OTHERS))
    edit(mock, sensitivity="public")
    repin(mock, sha256=None, records=None)
    repin(mock, sha256=unpinned(accept(), len(OTHERS)), records=len(OTHERS))
    assert accept().return_value == 0
    assert invoked("heuristics", neutral(mock, rows_as_json(items(N)[:-1]))).exception.exit_code == 4
    assert invoked("heuristics", neutral(mock, rows_as_json(OTHERS[:20]))).return_value == 0


# Copies.


def shuffled(rows: Rows) -> Rows:
    rng, made = random.Random(1), []
    for row in rows:
        order = rng.sample(range(4), 4)
        choices = [row["choices"][i] for i in order]
        made.append({"prompt": row["question"], "options": choices, "answer": order.index(row["answer"])})
    return rng.sample(made, len(made))


def as_csv(rows: Rows, write: Callable[[str], str] = str) -> str:
    file = io.StringIO()
    sheet = csv.writer(file)
    sheet.writerow(["Question", "A", "B", "C", "D", "Answer"])
    sheet.writerows(
        [write(row["question"]), *map(write, row["choices"]), "ABCD"[row["answer"]]] for row in rows
    )
    return file.getvalue()


def spaced_capitals(text: str) -> str:
    return f"  {text.upper().replace(' ', '  ')} ."


def changed(row: dict[str, Any], n: int = 2) -> str:
    """The stem with other words in place of its last ones."""
    return " ".join([*row["question"].split()[:-n], *["something"] * n])


WRITINGS: dict[str, Callable[[str], str]] = {
    "entities": lambda text: "".join(f"&#{ord(char)};" for char in text),
    "percent signs": lambda text: "".join(f"%{ord(char):02X}" for char in text),
    "blanks of addresses": lambda text: text.replace(" ", "%20"),
    "escapes": lambda text: "".join(f"\\u{ord(char):04x}" for char in text),
    "tags in words": lambda text: re.sub(r"(\w\w)(\w)", r"\1<wbr>\2", text),
    "soft hyphens as entities": lambda text: re.sub(r"(\w\w)(\w)", r"\1&shy;\2", text),
    "spaced letters": " ".join,
    "dotted letters": ".".join,
}
COPIES: dict[str, Callable[[Rows], tuple[str, str]]] = {
    **{
        name: lambda rows, write=write: (as_csv(rows, write), "csv") for name, write in WRITINGS.items()
    },
    "one blank line more": lambda rows: (rows_as_json(rows) + "\n", "jsonl"),
    "one row less": lambda rows: (rows_as_json(rows[1:]), "jsonl"),
    "a few rows": lambda rows: (rows_as_json(rows[4:9]), "jsonl"),
    "one row": lambda rows: (rows_as_json(rows[:1]), "jsonl"),
    "choices, rows and columns in another order": lambda rows: (rows_as_json(shuffled(rows)), "jsonl"),
    "as CSV": lambda rows: (as_csv(rows), "csv"),
    "as CSV in capitals with spaces": lambda rows: (as_csv(rows, spaced_capitals), "csv"),
    "stems without spaces": lambda rows: (
        as_csv([{**row, "question": row["question"].replace(" ", ""), "choices": list("wxyz")} for row in rows]), "csv"
    ),
    "other stems": lambda rows: (rows_as_json([{**row, "question": f"Now {i}?"} for i, row in enumerate(rows)]), "jsonl"),
    "other choices": lambda rows: (
        rows_as_json([{**row, "choices": ["yes", "no"], "answer": i % 2} for i, row in enumerate(rows)]), "jsonl"
    ),
    "two words of stems changed, and an option more": lambda rows: (
        rows_as_json([{**row, "question": changed(row), "choices": [*row["choices"], "none of these"]} for row in rows]),
        "jsonl",
    ),
    "a choice less, and other stems": lambda rows: (
        rows_as_json([
            {**row, "question": f"Now {i}?", "choices": row["choices"][:3], "answer": row["choices"][0]}
            for i, row in enumerate(rows)]), "jsonl"
    ),
    "stems as groups": lambda rows: (
        rows_as_json([{**new, "group": row["question"]} for new, row in zip(OTHERS, rows, strict=False)]), "jsonl"
    ),
    "stems as passages": lambda rows: (
        rows_as_json([{**new, "passage": row["question"]} for new, row in zip(OTHERS, rows, strict=False)]), "jsonl"
    ),
    "changed stems as topics": lambda rows: (
        rows_as_json([{**new, "topic": changed(row)} for new, row in zip(OTHERS, rows, strict=False)]), "jsonl"
    ),
    "IDs alone": lambda rows: (
        rows_as_json([{**new, "id": row["id"]} for new, row in zip(OTHERS, rows, strict=False)]), "jsonl"
    ),
    "changed stems as IDs": lambda rows: (
        rows_as_json([
            {**new, "id": changed(row).lower().replace(" ", "-")} for new, row in zip(OTHERS, rows, strict=False)]),
        "jsonl",
    ),
    "among many": lambda rows: (rows_as_json([*OTHERS, *rows[:5]]), "jsonl"),
}  # fmt: skip


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
def test_a_copy_is_known_by_its_items(mock: Path, copy: Callable[[Rows], tuple[str, str]]) -> None:
    text, end = copy(items(N))
    file = neutral(mock, text, end)
    assert invoked("validate", file).return_value == 0
    assert accept().return_value == 0
    is_known(invoked("validate", file))


def is_known(done: Result) -> None:
    """The command is refused, because the items are known, and shows none."""
    assert getattr(done.exception, "codes", ()) == ("known-items",)
    assert not CANARY.search(str(done.exception) + done.output)


def with_changes(rows: Rows) -> Rows:
    """Edit two words of each stem, and add an option."""
    return [{**row, "question": changed(row), "choices": [*row["choices"], "x"]} for row in rows]


def test_an_acceptance_of_before_is_renewed_when_the_set_is_opened(mock: Path) -> None:
    copy = neutral(mock, rows_as_json(with_changes(items(N))))
    assert accept().return_value == 0
    record = terms.licences_file()
    tree = json.loads(record.read_text())
    tree["accepted"][0]["parts"] = ""
    record.write_text(json.dumps(tree))
    assert invoked("validate", copy).return_value == 0
    says = [invoked("restricted", "adapter", "check", ADAPTER).output for _ in range(2)]
    assert ["renewed" in said for said in says] == [True, False]
    is_known(invoked("validate", copy))
    assert json.loads(record.read_text())["accepted"][0]["name"] == "A Name"


@pytest.mark.parametrize(("n", "refuses"), [(1, False), (4, False), (30, True)])
def test_an_edited_copy_among_many_other_items_is_known(mock: Path, n: int, refuses: bool) -> None:
    assert accept().return_value == 0
    many = [{**row, "id": f"other-{i}"} for i, row in enumerate(items(1500, seed=8))]
    done = invoked("validate", neutral(mock, rows_as_json([*many, *with_changes(items(N)[:n])])))
    assert getattr(done.exception, "code", "") == ("known-items" if refuses else "")


def test_answers_to_a_set_are_known_by_their_ids_alone(mock: Path) -> None:
    def table(names: list[str]) -> Path:
        rows = [f"m,{view},{name},A,B,4" for name in names for view in ("choices_only", "full")]
        return neutral(mock, "\n".join(["model,view,item,key,pick,k", *rows]), "csv")

    assert accept().return_value == 0
    out = mock / "elsewhere" / "run"
    done = invoked("import", table([row["id"] for row in items(N)][:30]), "-o", out)
    assert "30 of 30 records" in str(done.exception)
    assert not out.exists()
    assert invoked("import", table([row["id"] for row in OTHERS]), "-o", out).exception is None


def test_a_phrase_that_two_sets_share_makes_no_copy(mock: Path) -> None:
    phrase = "Consider the following peculiar mechanical contraption: "
    rows = [{**row, "question": phrase * (i == 3) + row["question"]} for i, row in enumerate(items(N))]
    replaced(mock, rows)
    assert accept().return_value == 0
    public = rows_as_json([{**row, "question": phrase + row["question"]} for row in OTHERS])
    assert invoked("validate", neutral(mock, public)).return_value == 0


@pytest.mark.parametrize("ids", [["q1", "test-12", "0007"], ["river-1", "river-2"]])
def test_ids_that_say_nothing_are_of_no_set(ids: list[str]) -> None:
    key, rows = b"k" * 32, [f"{name}{i}" for i in range(20) for name in ids]
    own = mark_items([Item(name, "Which?", ("a", "b"), 0) for name in rows], key)
    telling = ids[0].startswith("river")
    assert sets_with_ids(rows, key, {"set": own}) == ({"set": len(rows)} if telling else {})
    assert sets_with_ids([f"lake-{i}" for i in range(20)], key, {"set": own}) == {}


@pytest.mark.parametrize("n", [6, 12, 40])
def test_runs_of_a_registered_stem_do_not_overlap(n: int) -> None:
    """Overlapping runs could be guessed one word after the other."""
    words = [f"word{chr(97 + i % 26)}{i}" for i in range(n)]
    own = mark_items([Item("1", " ".join(words), ("a", "b"), 0)], b"k" * 32)
    assert 0 < len(own.parts) // SIZE <= n // 3


TASK = """
task: lamps
dataset_path: json
dataset_kwargs: {data_files: {test: FILE}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_choice: choices
doc_to_target: answer
"""


@pytest.mark.skipif(not find_spec("lm_eval"), reason="lm-eval is not installed")
def test_a_copy_is_known_by_its_items_if_a_harness_loads_it(
    mock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = neutral(mock, rows_as_json(items(N)[1:]))
    task = neutral(mock, TASK.replace("FILE", str(file)), "yaml")
    hub = mock / "hub" / "datasets--made--lamps"
    (hub / "snapshots" / ("a" * 40)).mkdir(parents=True)
    (hub / "refs").mkdir()
    (hub / "refs" / "main").write_text("a" * 40)
    (hub / "snapshots" / ("a" * 40) / "test.jsonl").write_text(file.read_text())
    for name, value in {"HF_HUB_CACHE": hub.parent, "HF_HUB_OFFLINE": "1", "HF_HOME": mock / "hf"}.items():
        monkeypatch.setenv(name, str(value))
    assert invoked("validate", f"lm-eval:{task}").return_value == 0
    assert accept().return_value == 0
    for name in (f"lm-eval:{task}", "hf:made/lamps"):
        is_known(invoked("validate", name))


@pytest.mark.parametrize("shared", [1, 4])
def test_a_few_shared_questions_lock_no_public_set(mock: Path, shared: int) -> None:
    assert accept().return_value == 0
    mixed = rows_as_json([*OTHERS, *items(N)[:shared]])
    assert invoked("validate", neutral(mock, mixed)).return_value == 0


def test_what_a_set_repeats_is_not_its_own(mock: Path) -> None:
    rows = [{**row, "question": "Which of these statements is true of lamps?"} for row in items(N)]
    items_of(mock).write_text(rows_as_json(rows))
    fault = accept().exception
    assert (fault.code, fault.exit_code) == ("data-not-as-pinned", 4)
    replaced(mock, rows)
    assert accept().return_value == 0
    generic = [{**row, "question": rows[0]["question"]} for row in OTHERS]
    assert invoked("validate", neutral(mock, rows_as_json(generic))).return_value == 0
    is_known(invoked("validate", neutral(mock, rows_as_json(rows[1:]))))


def as_log(rows: Rows) -> str:
    names = {"question": "stem", "choices": "choices", "answer": "key"}
    held = [{new: row[old] for old, new in names.items()} for row in rows]
    return rows_as_json(
        [{"id": f"q{i}", **row, "pick": 1, "model": "m", "k": 4} for i, row in enumerate(held)]
    )


def as_archive(kind: str) -> Callable[[Rows], str]:
    """Return the rows with replies, in the form of an archive."""

    def written(rows: Rows) -> str:
        known = [Item(f"q{i}", r["question"], tuple(r["choices"]), r["answer"]) for i, r in enumerate(rows)]
        with tempfile.TemporaryDirectory() as folder:
            (path,) = ARCHIVES[kind](Path(folder), known, {"m": ["B"] * len(known)})
            return path.read_text(encoding="utf-8")

    return written


def as_members(rows: Rows) -> str:
    """Name fields by words of the options, so that no reader finds the options, and messages would list the fields."""
    words = dict.fromkeys((word for choice in rows[0]["choices"] for word in choice.split()), "x")
    return rows_as_json([{"question": row["question"], **words, "answer": "x"} for row in rows])


def as_questions(rows: Rows) -> str:
    form = {"answer": "x", "prediction": "x"}
    return rows_as_json([{"id": f"q{i}", "question": row["question"], **form} for i, row in enumerate(rows)])


FORMS = {
    "json": rows_as_json,
    "log": as_log,
    "questions": as_questions,
    "members": as_members,
    **{kind: as_archive(kind) for kind in ARCHIVES},
}
COMMANDS = contents("restricted_commands")


@pytest.mark.parametrize(("form", "command"), COMMANDS["copies"].values(), ids=COMMANDS["copies"])
def test_every_command_refuses_a_copy(mock: Path, form: str, command: str) -> None:
    assert accept().return_value == 0
    file, out = neutral(mock, FORMS[form](items(N)[1:])), mock / "elsewhere" / "out"
    with refuses("known-items"):
        words = command.replace("FILE", str(file)).replace("OUT", str(out)).split()
        raise invoked(*words).exception or AssertionError("not refused")
    assert [path.name for path in file.parent.iterdir()] == [file.name]


COMPRESSED = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}


@pytest.mark.parametrize("compress", COMPRESSED.values(), ids=COMPRESSED)
@pytest.mark.parametrize("name", ["quiz.jsonl.gz", "quiz.jsonl"])
def test_a_compressed_copy_is_refused_whatever_its_name(
    mock: Path, compress: Callable[[bytes], bytes], name: str
) -> None:
    assert accept().return_value == 0
    file, out = mock / "elsewhere" / name, mock / "elsewhere" / "out"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(compress(rows_as_json(items(N)[1:]).encode()))
    for command in ("run FILE --public -o OUT", "validate FILE", "lint FILE", "heuristics FILE"):
        words = command.replace("FILE", str(file)).replace("OUT", str(out)).split()
        with refuses("known-items"):
            raise invoked(*words).exception or AssertionError(command)
    assert [path.name for path in file.parent.iterdir()] == [name]


@pytest.mark.parametrize(
    "names", [("a.jsonl.gz", "b.jsonl.xz"), ("a.json.gz", "b.json.gz"), ("a.jsonl", "b.jsonl.bz2")]
)
def test_compressed_copies_in_a_folder_are_refused(mock: Path, names: tuple[str, str]) -> None:
    assert accept().return_value == 0
    folder = mock / "elsewhere" / "quiz"
    folder.mkdir(parents=True, exist_ok=True)
    compress = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
    harmless = [{"question": f"Is {i} even?", "choices": ["yes", "no"], "answer": i % 2} for i in range(9)]
    for name, rows in zip(names, (harmless, items(N)[1:]), strict=True):
        text = rows_as_json(rows) if "jsonl" in name else json.dumps(rows)
        path = folder / name
        path.write_bytes(compress.get(path.suffix, bytes)(text.encode()))
    for command in ("validate", "lint", "heuristics"):
        with refuses("known-items"):
            raise invoked(command, str(folder)).exception or AssertionError(command)


FROM_PYTHON: dict[str, Callable[[Path, Path], object]] = {
    "audit of a file": lambda file, out: rb.audit(file, public=True, out=out),
    "audit of rows": lambda file, out: rb.audit(items(N)[1:], public=True, out=out),
    "heuristics": lambda file, _: rb.heuristics(file),
}


@pytest.mark.parametrize("call", FROM_PYTHON.values(), ids=FROM_PYTHON)
def test_python_refuses_a_copy(mock: Path, call: Callable[[Path, Path], object]) -> None:
    assert accept().return_value == 0
    file, out = neutral(mock, rows_as_json(items(N)[1:])), mock / "elsewhere" / "out"
    with refuses("known-items"):
        call(file, out)
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_public_run_of_before_the_acceptance_is_refused_too(mock: Path) -> None:
    run, again = mock / "elsewhere" / "run", mock / "elsewhere" / "again"
    file = neutral(mock, rows_as_json(items(N)[1:]))
    assert not isinstance(invoked(file, "--public", "-o", run).exception, AuthorisationError)
    assert accept().return_value == 0
    named = {"RUN": run, "OUT": again, "FILE": file, "ID": items(N)[1]["id"]}
    for command in COMMANDS["former_runs"]:
        is_known(invoked(*(named.get(word, word) for word in command.split())))
        assert not again.exists(), command
    with refuses("known-items"):
        _ = rb.open(run).verdicts


def test_a_shipped_adapter_pins_the_digest_by_its_acceptance(
    mock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repin(mock, sha256=None)
    monkeypatch.setattr("robustify.restricted.access.shipped", lambda _: mock / "adapters")
    assert accept().return_value == 0
    assert invoked("restricted", "adapter", "check", ADAPTER).return_value == 0
    items_of(mock).write_text(rows_as_json(items(N, seed=7)))
    facts = json.loads(invoked("restricted", "adapter", "check", ADAPTER, "--json").stdout)["facts"]
    assert [fact["code"] for fact in facts if fact["fact"] == "data"] == ["data-not-as-pinned"]
