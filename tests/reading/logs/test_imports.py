"""From logs to a judged run: matching by content, what is refused, and runs whose items have no text."""

import gzip
import json
import random
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robustify.base.arrays import Floats
from robustify.base.errors import DataError, Notice, UsageError
from robustify.items.item import Item
from robustify.pipeline import steps
from robustify.pipeline.from_logs import run_of_logs
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Source, load
from robustify.reading.logs import (
    Gathered,
    LogOptions,
    LogPath,
    file_names,
    gather,
    is_log,
    latest,
    logs_in,
    parse_log_path,
    read_log,
    read_logs,
    unused_in,
)  # fmt: skip
from robustify.runs.run import Run, open_run, write_items
from robustify.wings import GUARD
from tests.support import files
from tests.support.cases import codes, contents, fact, refuses
from tests.support.command import invoked
from tests.support.exported_run import made_run
from tests.support.fake_logs import (
    boxes,
    inspect_sample,
    inspect_tree,
    jsonl,
    lm_eval_row,
    results,
    scores_for,
)
from tests.support.trees import measured

SECRET = "zanzibar-platypus"
DATE = "2026-01-02T03-04-05.678"
PICKS: dict[str, list[int]] = {
    "one": [0, 1, 2, 3, 0, 1, 2, 3],
    "two": [0, 1, 2, 3, 1, 2, 3, 0],
    "three": [0, 1, 3, 3, 0, 1, 2, 2],
}


def logged(folder: Path, model: str, items: list[Item], picks: list[int], **more: object) -> Path:
    rows = [
        lm_eval_row(item, at, scores, **more)
        for at, (item, scores) in enumerate(zip(items, scores_for(picks), strict=True))
    ]
    return jsonl(folder / model / "samples_boxes.jsonl", rows)


@pytest.fixture
def items() -> list[Item]:
    return boxes(8)


@pytest.fixture
def logs(tmp_path: Path, items: list[Item]) -> list[LogPath]:
    return [LogPath(logged(tmp_path / "logs", m, items, p), view="full") for m, p in PICKS.items()]


@pytest.fixture
def data(tmp_path: Path, items: list[Item]) -> Path:
    write_items(tmp_path / "boxes.jsonl", items)
    return tmp_path / "boxes.jsonl"


def blind(folder: Path, picks: dict[str, list[int | None]], keys: str) -> Path:
    """A table of choices-only picks without any text."""
    rows = [
        {"model": m, "id": f"i{at}", "condition": "choices_only", "bank": f"bank {at % 2}", "gold": key,
         "pick": None if pick is None else "ABCD"[pick]}
        for m, held in picks.items()
        for at, (key, pick) in enumerate(zip(keys, held, strict=True))
    ]  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "picks.json").write_text(json.dumps(rows))
    return folder / "picks.json"


def test_a_compressed_log_is_read_as_the_log_in_it(tmp_path: Path, items: list[Item]) -> None:
    tree = tmp_path / "boxes.json"
    tree.write_text(json.dumps(inspect_tree([inspect_sample(item, "B") for item in items])))
    picks = tmp_path / "picks.csv"
    picks.write_text("model,view,item,k,key,pick\n" + "".join(f"m,full,b{i},4,A,B\n" for i in range(8)))
    for path in (logged(tmp_path, "one", items, PICKS["one"]), tree, picks):
        packed = path.with_name(f"{path.name}.gz")
        packed.write_bytes(gzip.compress(path.read_bytes()))
        expected, found = (read_log(log, LogOptions()) for log in (path, packed))
        assert found == replace(expected, sha256=found.sha256)
        assert found.replies
        assert is_log(packed)


def rows(run: Run, view: str = "full") -> list[tuple[object, ...]]:
    return [
        (r["model"], r["item"], tuple(r["order"]), r["pick"], r["correct"])
        for r in run.answers.table.to_pylist()
        if r["view"] == view
    ]


def merge(folder: Path, items: list[Item], data: Path) -> Gathered:
    """The logged answers of model "one", merged with the items of a file."""
    log = logged(folder / "logs", "one", items, PICKS["one"])
    return gather([read_log(log, LogOptions())], load(Source(path=str(data)), UNGUARDED))


def numbers(notes: Sequence[Notice]) -> dict[str, int]:
    """The last number in each note, by the code of the note."""
    return {note.code: int(re.findall(r"\d+", note)[-1]) for note in notes if re.search(r"\d", note)}


def import_one(folder: Path, items: list[Item], picks: list[int] | None = None, *data: Path) -> Run:
    """A run of the logged answers of model "one", by default its usual picks."""
    log = logged(folder / "logs", "one", items, PICKS["one"] if picks is None else picks)
    return run_of_logs([LogPath(log)], folder / "out", GUARD, data=data)


# Matching


def test_rows_are_matched_by_content_whatever_their_order_and_that_of_their_choices(
    tmp_path: Path, items: list[Item], data: Path
) -> None:
    draw = random.Random(5)
    order = {item.id: draw.sample(range(4), 4) for item in items}
    shown = [item.permuted(order[item.id]) for item in items]
    draw.shuffle(shown)
    by_stem = {item.stem: item for item in items}
    wanted = [draw.randrange(4) for _ in shown]
    picks = [order[by_stem[i.stem].id].index(w) for i, w in zip(shown, wanted, strict=True)]
    run = import_one(tmp_path, shown, picks, data)
    expected = {by_stem[i.stem].id: w for i, w in zip(shown, wanted, strict=True)}
    found = rows(run)
    assert [r[1] for r in found] == [item.id for item in items]
    assert {r[1]: r[3] for r in found} == expected
    assert {r[1]: list(r[2]) for r in found} == order
    assert all(r[4] == float(r[3] == next(i.key for i in items if i.id == r[1])) for r in found)
    held = run.answers.block("full", "one")
    assert held.scores.argmax(axis=1).tolist() == [expected[item.id] for item in items]


def test_what_matches_no_item_is_listed_by_line_and_counted(
    tmp_path: Path, items: list[Item], data: Path
) -> None:
    shown = [*items[:3], replace(items[3], stem=f"Which {SECRET} is it?"), *items[4:]]
    # Rows that stand at each other's index are told by their content too.
    shown[0], shown[1] = shown[1], shown[0]
    run = import_one(tmp_path, shown, None, data)
    assert [(r[1], r[3]) for r in rows(run)] == [
        ("b0", 1), ("b1", 0), ("b2", 2), ("b4", 0), ("b5", 1), ("b6", 2), ("b7", 3),
    ]  # fmt: skip
    assert numbers(merge(tmp_path / "merged", shown, data).notes) == {
        "items-left-out": 1,
        "unmatched-rows": 1,
    }
    (row,) = map(json.loads, (run.folder / "quarantine.jsonl").read_text().splitlines())
    assert (row["file"], row["line"]) == ("samples_boxes.jsonl", 4)
    assert run.manifest["import"]["logs"][0]["set_aside"] == 1
    assert run.manifest["import"]["items"] == {"from": "data", "n": 7, "left_out": 1}
    assert measured(run.summary, "full", "one")["all"]["n"] == 7
    for path in run.folder.rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes(), path


def test_two_logs_that_disagree_on_a_key_keep_the_first(tmp_path: Path, items: list[Item]) -> None:
    shown = {"one": items, "two": [replace(items[0], key=(items[0].key + 1) % items[0].k), *items[1:]]}
    paths = [LogPath(logged(tmp_path, model, its, PICKS[model])) for model, its in shown.items()]
    merged = gather(read_logs(paths, LogOptions(view="full")), None)
    assert numbers(merged.notes) == {"other-keys": 1}
    assert [item.key for item in merged.items or ()] == [item.key for item in items]


def test_items_that_stand_twice_are_taken_one_after_the_other(tmp_path: Path) -> None:
    held = [
        *boxes(3),
        replace(boxes(3)[1], id="again", key=2),
        replace(boxes(3)[2].permuted([3, 2, 1, 0]), id="turned"),
    ]
    write_items(tmp_path / "data.jsonl", held)
    log = logged(tmp_path / "logs", "one", held, [0, 1, 2, 3, 0])
    run = run_of_logs([LogPath(log)], tmp_path / "out", GUARD, data=[tmp_path / "data.jsonl"])
    assert [(r[1], r[2], r[3]) for r in rows(run)] == [
        (item.id, (0, 1, 2, 3), pick) for item, pick in zip(held, [0, 1, 2, 3, 0], strict=True)
    ]
    without = run_of_logs([LogPath(log)], tmp_path / "none", GUARD)
    assert [i.stem for i in without.items or ()] == [i.stem for i in held]


@pytest.mark.parametrize("first", ["own", "turned"])
def test_two_orders_of_one_item_are_two_rows_and_give_the_permutation_control(
    tmp_path: Path, items: list[Item], data: Path, first: str
) -> None:
    turned = [item.permuted([3, 2, 1, 0]) for item in items]
    given_ = {
        "own": LogPath(logged(tmp_path / "a", "one", items, PICKS["one"])),
        "turned": LogPath(
            logged(tmp_path / "b", "one", turned, [3 - p for p in PICKS["one"][:4]] + [0, 0, 0, 0])
        ),
    }
    both = [given_[first], *(log for name, log in given_.items() if name != first)]
    run = run_of_logs(both, tmp_path / "out", GUARD, data=[data])
    assert run.manifest["data"]["n_items"] == 8
    told = run.summary.tree()["permutation"]["by_model"]["one"]
    assert (told["orders"], told["n"]) == (2, 8)
    firsts = {r[1]: r[2] for r in reversed(rows(run))}
    assert set(firsts.values()) == {(0, 1, 2, 3)}, (
        "an item's own order is the plain one, whichever log came first"
    )
    right = sum(p == i.key for p, i in zip(PICKS["one"], items, strict=True))
    assert measured(run.summary, "full", "one")["all"]["value"] == right / 8


def test_two_logs_of_one_run_are_refused_and_both_are_named(tmp_path: Path, items: list[Item]) -> None:
    log = logged(tmp_path / "logs", "one", items, PICKS["one"])
    copy = shutil.copy(log, tmp_path / "logs" / "one" / "samples_again.jsonl")
    with pytest.raises(DataError) as error:
        run_of_logs([LogPath(log), LogPath(Path(copy))], tmp_path / "out", GUARD)
    assert error.value.codes == ("repeated-rows",)
    assert all(
        name in error.value.lines[0] for name in ("samples_again.jsonl:1:", "samples_boxes.jsonl:1 ", " 8 ")
    )
    with refuses("repeated-log"):
        run_of_logs([LogPath(log), LogPath(log)], tmp_path / "out", GUARD)


# The run


@pytest.mark.parametrize("case", contents("logs/imported_runs"), ids=lambda case: case["name"])
def test_an_imported_run_says_what_its_case_says(
    tmp_path: Path, items: list[Item], case: dict[str, Any]
) -> None:
    if "keys" in case:
        logs = [LogPath(blind(tmp_path, case["picks"], case["keys"]))]
    else:
        logs = [
            LogPath(
                logged(tmp_path, model, items[: len(picks)], picks, hidden=case.get("hidden", False)),
                view=case.get("view"),
            )
            for model, picks in case["picks"].items()
        ]
    run = run_of_logs(logs, tmp_path / "out", GUARD, overrides=case.get("settings", {}))
    notes = gather(read_logs(logs, LogOptions()), None).notes
    tree = {
        "summary": run.summary.tree(), "manifest": run.manifest, "signature": run.manifest["signature"].split("|"),
        "notes": {note.code: re.findall(r"\d+", note) for note in notes},
    }  # fmt: skip
    seen = {path: fact(tree, path) for path in case["says"]}
    assert {path: [*value] if isinstance(value, dict) else value for path, value in seen.items()} == case[
        "says"
    ]
    run.require_unchanged()


def test_the_same_logs_give_the_same_bytes_and_no_place_of_this_machine(
    tmp_path: Path, logs: list[LogPath], data: Path
) -> None:
    for name in ("a", "b"):
        run_of_logs(logs, tmp_path / name, GUARD, data=[data])
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert [name for name, data in files(tmp_path / "a").items() if str(tmp_path).encode() in data] == []
    run = open_run(tmp_path / "a", GUARD)
    assert steps.rejudge(run, {}, tmp_path / "again").manifest == run.manifest


def test_a_run_of_another_benchmark_is_replaced_only_by_force(tmp_path: Path, logs: list[LogPath]) -> None:
    words, folder = [*(f"full:{log.path}" for log in logs), "-q"], tmp_path / "out"
    for name in ("boxes", "boxes", "crates"):
        refused = invoked("import", *words, "-o", folder, "--name", name).exception
        assert type(refused) is (UsageError if name == "crates" else type(None))
        assert open_run(folder, GUARD).manifest["config"]["name"] == "boxes"
    assert invoked("import", *words, "-o", folder, "--name", "crates", "--force").exception is None
    assert open_run(folder, GUARD).manifest["config"]["name"] == "crates"


@pytest.mark.parametrize(("chosen", "audits"), [({}, True), ({"encoder": False}, False)])
def test_the_encoder_audits_an_import_as_it_does_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: dict[str, object], audits: bool
) -> None:
    def vectors(_folder: Path, texts: list[str], _progress: object, **_: object) -> Floats:
        found = np.random.default_rng(0).normal(size=(len(texts), 8))
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    for room in ("models.folder", "pipeline.encoder"):
        monkeypatch.setattr(f"robustify.{room}.encoder", lambda _: tmp_path)
    monkeypatch.setattr("robustify.models.engines.local.sentence_encoder.sentence_vectors", vectors)
    run = made_run(tmp_path, overrides=chosen)
    assert (run.summary.residual.encoder is not None) == audits


def test_an_import_says_what_was_hidden(robustify, tmp_path: Path) -> None:
    picks = [{"model": m, "item": f"i{at}", "condition": how, "key": "A", "pick": "AB"[at % 2], "k": 4}
             for m in ("one", "two") for how in ("no_image", "with_image") for at in range(40)]  # fmt: skip
    (tmp_path / "picks.json").write_text(json.dumps(picks))
    code, _, _ = robustify("import", tmp_path / "picks.json", "-o", tmp_path / "out", "--hidden", "image",
                           "--criterion", "unanimous")  # fmt: skip
    assert code == 7
    summary = open_run(tmp_path / "out", GUARD).summary
    assert summary.screen.hidden == "image"
    assert measured(summary, "full", "one")["all"]["n"] == 40


# Runs whose items have no text

KEYS = "ABCDABCD"
VOTES: dict[str, list[int | None]] = {
    "one": [0, 1, 2, 3, 3, 3, 3, 3], "two": [0, 1, 2, 0, 3, 3, None, 3], "three": [0, 1, 1, 3, 3, 2, 3, 3],
}  # fmt: skip
NO_TEXT = {"kept.jsonl", "flagged.jsonl", "undecided.jsonl", "cloze.jsonl", "lm_eval_tasks"}


@pytest.fixture
def textless(tmp_path: Path) -> Run:
    counted = {"screen.criterion": "unanimous"}
    return run_of_logs([LogPath(blind(tmp_path, VOTES, KEYS))], tmp_path / "out", GUARD, overrides=counted)


def test_a_run_without_items_is_judged_and_says_what_is_absent(textless: Run) -> None:
    assert not NO_TEXT & {p.name for p in textless.folder.iterdir()}
    assert (textless.items, textless.holds_text) == (None, False)
    (absent, *_) = textless.manifest["config"]["notes"][-2:]
    assert absent in (textless.folder / "report.html").read_text()


def test_a_run_without_items_is_opened_checked_judged_and_printed_again(
    textless: Run, tmp_path: Path
) -> None:
    open_run(textless.folder, GUARD).require_unchanged()
    assert steps.rejudge(textless, {}, tmp_path / "again").manifest == textless.manifest
    other = steps.rejudge(textless, {"screen.criterion": "majority"}, tmp_path / "other")
    assert other.summary.tree()["splits"]["flagged"] == 5
    assert other.summary.tree()["benchmark"]["topics"] == textless.summary.tree()["benchmark"]["topics"]
    assert not NO_TEXT & {p.name for p in other.folder.iterdir()}
    (textless.folder / "report.html").unlink()
    steps.rejudge(textless, {}, textless.folder).require_unchanged()


# The command line


def test_import_prints_one_object_on_stdout_and_its_assumptions_on_stderr(
    robustify, logs: list[LogPath], data: Path
) -> None:
    code, out, err = robustify("import", *(log.path for log in logs), "--data", data, "-o", "out", "--json")
    told = json.loads(out)
    assert code == 0
    assert told["import"]["items"] == {"from": "data", "n": 8, "left_out": 0}
    assert set(told["summary"]["models"]) == set(PICKS)
    codes = [note["code"] for note in told["notes"]]
    assert "assumed-view" in codes
    assert all(codes)
    assert all(note["text"] in err for note in told["notes"])


def test_a_log_may_be_written_with_its_model_and_its_view(robustify, logs: list[LogPath]) -> None:
    code, _, _ = robustify("import", f"mine=choices_only:{logs[0].path}", "-o", "out")
    assert code == 3
    assert robustify("import", logs[0].path, "-o", "out", "--map", "pick=said").code == 2
    code, _, _ = robustify("import", f"mine=full:{logs[0].path}", f"full:{logs[1].path}", "-o", "out")
    assert code == 0
    assert {r[0] for r in rows(open_run(Path("out"), GUARD))} == {"mine", "two"}


@pytest.mark.parametrize(
    ("text", "model", "view", "path"),
    [
        ("a.jsonl", None, None, "a.jsonl"),
        ("m=a.jsonl", "m", None, "a.jsonl"),
        ("cloze:a.jsonl", None, "cloze", "a.jsonl"),
        ("o/m=full:a=b.jsonl", "o/m", "full", "a=b.jsonl"),
        ("x:a.jsonl", None, None, "x:a.jsonl"),
    ],
)
def test_a_prefix_is_read_off_a_path_unless_the_whole_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, model: str | None, view: str | None, path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_log_path(text) == LogPath(Path(path), model, view)
    Path(text).parent.mkdir(parents=True, exist_ok=True)
    Path(text).touch()
    assert parse_log_path(text) == LogPath(Path(text))


@pytest.mark.parametrize(
    ("name", "content", "exit_code", "code"),
    [
        ("a.jsonl", '{"doc_id": 0, "doc": {"q": "' + SECRET, 3, "truncated-json"),
        ("folder", None, 2, "folder-not-log"),
        ("nowhere", None, 2, "no-such-file"),
        ("choices_ony:nowhere", None, 2, "no-such-file"),
    ],
)
def test_what_is_no_log_is_one_line_and_its_exit_code(
    robustify, tmp_path: Path, name: str, content: str | None, exit_code: int, code: str
) -> None:
    (tmp_path / "folder").mkdir()
    if content is not None:
        (tmp_path / name).write_text(content)
    ended, out, err = robustify("import", name, "-o", "out")
    assert (ended, out) == (exit_code, "")
    assert re.fullmatch(rf"robustify: .* \[{code}\]\n", err)
    assert SECRET not in err
    assert not Path("out").exists()


def test_bad_rows_refuse_the_log_or_are_set_aside_and_counted(
    robustify, tmp_path: Path, items: list[Item]
) -> None:
    path = logged(tmp_path / "logs", "one", items, PICKS["one"])
    with path.open("a") as file:
        file.write('{"doc_id": 8, "doc": {"question": "' + SECRET)
    code, _, err = robustify("import", path, "-o", "out")
    assert (code, len(err.strip().split("\n"))) == (3, 1)
    assert "samples_boxes.jsonl:9: " in err
    code, _, err = robustify("import", path, "-o", "out", "--skip-bad")
    run = open_run(Path("out"), GUARD)
    assert code == 0
    assert [q["line"] for q in run.manifest["data"]["quarantined"]] == [9]
    assert run.summary.tree()["benchmark"]["n_quarantined"] == 1
    assert SECRET not in err


def test_two_wordings_of_one_view_are_told(tmp_path: Path, items: list[Item]) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(inspect_tree([inspect_sample(i, "A") for i in items])))
    log = logged(tmp_path / "logs", "mockllm__model", items, PICKS["one"])
    merged = gather(read_logs([LogPath(path), LogPath(log)], LogOptions()), None)
    assert "several-templates" in codes(merged.notes)


def dated(folder: Path, items: list[Item], place: str, **more: object) -> list[LogPath]:
    """The logs of two models, each with its results file beside it; the models lie at `place`."""
    paths = []
    for model in ("one", "two"):
        log = logged(folder, model, items, PICKS[model], **more)
        paths.append(LogPath(log.rename(log.with_name(f"samples_boxes_{DATE}.jsonl"))))
        results(log.parent, DATE, "boxes", f"{place}{model}", 8)
    return paths


def test_one_model_does_not_vote_under_two_names(tmp_path: Path, items: list[Item]) -> None:
    given_ = dated(tmp_path, items, "", hidden=True)
    for log in given_:
        path = next(log.path.parent.glob("results_*.json"))
        path.write_text(path.read_text().replace("0123abcd", "0123abcd" * 5))
    with pytest.raises(UsageError):
        run_of_logs([replace(log, view="choices_only") for log in given_], tmp_path / "out", GUARD)
    assert not (tmp_path / "out").exists()


def test_provenance_is_kept_for_every_model(tmp_path: Path, items: list[Item]) -> None:
    given_ = dated(tmp_path, items, "/home/me/")
    run = run_of_logs(given_, tmp_path / "out", GUARD)
    assert {name: told["dtype"] for name, told in run.manifest["models"].items()} == {
        "one": "float32", "two": "float32",
    }  # fmt: skip
    assert [log["file"] for log in run.manifest["import"]["logs"]] == [
        f"{log.path.parent.name}/samples_boxes_{DATE}.jsonl" for log in given_
    ]
    paths = [Path(name) for name in ("a/x/s", "b/x/s", "c/s", "t")]
    assert file_names(paths) == ["1/s", "2/s", "c/s", "t"]
    assert b"/home/me" not in (run.folder / "run.json").read_bytes()


def test_of_two_logs_of_a_task_in_a_folder_the_later_is_read_and_the_other_is_listed(
    tmp_path: Path, items: list[Item]
) -> None:
    (early,) = [logged(tmp_path / "logs", "one", items, PICKS["one"])]
    other = early.with_name("samples_else_2026-01-01T00-00-00.jsonl")
    early = early.rename(early.with_name("samples_boxes_2026-01-01T00-00-00.jsonl"))
    late = early.with_name("samples_boxes_2026-02-01T00-00-00.jsonl")
    late.write_text(early.read_text())
    other.write_text(early.read_text())
    folder = LogPath(tmp_path / "logs")
    assert [log.path for log in logs_in(folder)] == [early, late, other]
    read = latest(logs_in(folder))
    assert [log.path for log in read] == [late, other]
    assert unused_in(folder, read) == [early]
    # Logs that the user names are all read, so that a repeated run is refused.
    assert latest(logs_in(LogPath(early))) == [LogPath(early)]


def test_compressed_logs_of_a_folder_are_found_as_the_logs_in_them(tmp_path: Path, items: list[Item]) -> None:
    early = logged(tmp_path / "logs", "one", items, PICKS["one"])
    packed = [early.with_name(f"samples_boxes_2026-0{month}-01T00-00-00.jsonl.gz") for month in (1, 2)]
    for path in packed:
        path.write_bytes(gzip.compress(early.read_bytes()))
    early.unlink()
    found = logs_in(LogPath(tmp_path / "logs"))
    assert [log.path for log in found] == packed
    assert [log.path for log in latest(found)] == packed[1:]


def test_a_folder_gives_its_logs_and_not_what_stands_beside_them(tmp_path: Path, items: list[Item]) -> None:
    logs = [logged(tmp_path / "logs", name, items, PICKS["one"]) for name in ("one", "two")]
    (logs[0].parent / "results_boxes.json").write_text("{}")
    (tmp_path / "logs" / "notes.csv").write_text("a,b\n1,2\n")
    inside = logs_in(parse_log_path(f"full:{tmp_path / 'logs'}"))
    assert [(log.path, log.view) for log in inside] == [(path, "full") for path in logs]
    assert logs_in(LogPath(logs[0])) == [LogPath(logs[0])]
    done = invoked("import", tmp_path / "logs", "-o", tmp_path / "out")
    assert done.return_value in (0, 7)
    assert [one["file"] for one in open_run(tmp_path / "out", GUARD).manifest["import"]["logs"]] == [
        f"{path.parent.name}/{path.name}" for path in logs
    ]
    (logs[0].parent / "samples_zother.jsonl").write_text('{"a": 1, "b": 2}\n')
    again = invoked("import", tmp_path / "logs", "-o", tmp_path / "again", "-q")
    assert again.return_value in (0, 7)
    notes = open_run(tmp_path / "again", GUARD).manifest["import"]["note_codes"]
    assert "unread-log" in notes
