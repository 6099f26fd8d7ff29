"""The run's folder: whole or not there, byte-identical, locked, checked. No model: a fake scorer asks."""

import csv
import json
import os
import re
from pathlib import Path

import pyarrow.compute as pc
import pytest

from robustify.base.errors import DataError, ResourceError, UsageError
from robustify.base.files import sha256
from robustify.export.dataset import export_dataset
from robustify.items.item import Item, item_row
from robustify.pipeline import model_steps, steps
from robustify.pipeline import public as printing
from robustify.pipeline.config import Config, parse
from robustify.pipeline.recomputing import recomputed
from robustify.runs.run import LABELS, MANIFEST, Run, beginning, open_run, run_lock, write_items, write_lines
from robustify.wings import GUARD, wings
from tests.support import files
from tests.support.cases import cases, refuses
from tests.support.command import invoked
from tests.support.exported_run import renewed
from tests.support.fake_logs import jsonl
from tests.support.fake_scorer import fake_models, finds
from tests.support.trees import measured

FILES = {
    "answers.parquet", "verdicts.csv", "kept.jsonl", "flagged.jsonl", "undecided.jsonl", "cloze.jsonl",
    "quarantine.jsonl", "evidence.jsonl", "summary.json", "report.html", "report.md",
    "explorer.html",
}  # fmt: skip


@pytest.fixture
def config(tmp_path: Path, toys: list[Item], monkeypatch: pytest.MonkeyPatch) -> Config:
    """Two fake voters that find the word which four of the eight keys hold."""
    write_items(tmp_path / "items.jsonl", toys)
    fake_models(monkeypatch, finds("right"))
    rules = {"screen": {"criterion": "unanimous"}, "limits": {"min_kept": 1}}
    return public("toys", tmp_path, models=[{"name": "one"}, {"name": "two"}], **rules)


def public(name: str, folder: Path, **more: object) -> Config:
    """The config of an audit of the items in a folder."""
    data = [{"path": str(folder / "items.jsonl")}]
    return parse({"name": name, "sensitivity": "public", "data": data, **more}, "test")


def audit(config: Config, folder: Path) -> Run:
    return steps.robustify(config, folder, folder / "cache", wings())


def test_a_forged_number_or_page_is_not_as_computed(config: Config, tmp_path: Path) -> None:
    """Digests alone do not show it, because a forger can renew them."""
    run = audit(config, tmp_path / "out")
    whole = json.loads(invoked("check", run.folder, "--recompute", "--json").stdout)["recomputed"]
    assert whole["other_versions"] == []
    assert whole["files"] == len(run.manifest["files"]) - 1
    kept, summary, page = (run.folder / name for name in ("run.json", "summary.json", "report.html"))
    before = {file: file.read_bytes() for file in (kept, summary, page)}
    tree = json.loads(before[summary])
    tree["splits"]["kept"] += 1
    for file, text in ((summary, json.dumps(tree)), (page, before[page].decode() + "<p>Trust it</p>")):
        file.write_text(text)
        forged = renewed(run.folder, file.name)
        assert not isinstance(invoked("check", forged.folder).exception, DataError)
        error = invoked("check", forged.folder, "--recompute").exception
        assert isinstance(error, DataError)
        assert (error.exit_code, {*error.codes}) == (3, {"not-as-computed"})
        result = recomputed(forged)
        assert [value.path for value in result.values] == (["splits.kept"] if file == summary else [])
        assert result.files == (() if file == summary else (page.name,))
        for changed, content in before.items():
            changed.write_bytes(content)
    for member, value in (("signature", "x"), ("more", "none"), ("more", [])):
        summary.write_text(json.dumps({**json.loads(before[summary]), member: value}))
        changed_values = recomputed(renewed(run.folder, summary.name)).values
        assert [value.path for value in changed_values] == [member]
    summary.write_bytes(before[summary])
    renewed(run.folder, summary.name)
    last_digit = re.sub(r"(?<=\d\.\d{6})\d+", lambda digits: digits[0] + "1", before[page].decode())
    assert last_digit != before[page].decode()
    page.write_text(last_digit)
    assert recomputed(renewed(run.folder, page.name)).agrees
    page.write_bytes(before[page])
    manifest = json.loads(before[kept])
    kept.write_text(json.dumps({**manifest, "versions": {**manifest["versions"], "robustify": "0"}}))
    upgraded = invoked("check", run.folder, "--recompute", "--json")
    whole = json.loads(upgraded.stdout)["recomputed"]
    assert (upgraded.exit_code, whole["files"], whole["other_versions"]) == (0, None, ["robustify"])
    assert "not compared" in invoked("check", run.folder, "--recompute").stdout


def test_a_run_holds_the_files_of_the_design_and_their_digests(config: Config, tmp_path: Path) -> None:
    run = audit(config, tmp_path / "out")
    held = {str(p.relative_to(run.folder)) for p in run.folder.rglob("*") if p.is_file()}
    assert held >= FILES
    assert set(run.manifest["files"]) == held - {"run.json"}
    assert all(sha256(run.folder / name) == digest for name, digest in run.manifest["files"].items())
    run.require_unchanged()


def test_the_split_partitions_the_items(config: Config, tmp_path: Path, toys: list[Item]) -> None:
    run = audit(config, tmp_path / "out")
    parts = {
        n: [json.loads(x)["id"] for x in (run.folder / f"{n}.jsonl").read_text().splitlines()]
        for n in ("kept", "flagged", "undecided")
    }
    assert sorted(i for ids in parts.values() for i in ids) == sorted(i.id for i in toys)
    assert parts["flagged"] == ["t0", "t1", "t2", "t3"]
    assert run.verdict_table is run.verdict_table  # read once
    rows = list(csv.DictReader((run.folder / "verdicts.csv").open()))
    assert {r["item"]: r["verdict"] for r in rows} == {i: n for n, ids in parts.items() for i in ids}
    assert run.items == tuple(toys)


def test_the_same_inputs_give_the_same_bytes(config: Config, tmp_path: Path) -> None:
    for name in ("a", "b"):
        audit(config, tmp_path / name)
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_judging_under_other_rules_needs_no_model(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = audit(config, tmp_path / "out")
    monkeypatch.delattr(model_steps, "open_scorer")
    rules = run.manifest["config"]["screen"]
    assert rules.keys().isdisjoint(steps.RETIRED)
    rules.update(steps.RETIRED)  # as an earlier version wrote them
    (source,) = run.manifest["config"]["data"]
    source.update(path="", hub="owner/name", revision="0" * 40, config=None, files=None)
    again = steps.rejudge(run, {"screen.mode": "text"}, tmp_path / "again")
    assert again.summary.tree()["screen"]["mode"] == "text"
    rules["fdr_exact"] = True
    with pytest.raises(UsageError, match="fdr_exact"):
        steps.rejudge(run, {}, tmp_path / "third")
    assert (again.folder / "answers.parquet").read_bytes() == (run.folder / "answers.parquet").read_bytes()


def test_a_run_is_judged_again_by_the_cloze_labels_that_it_keeps(
    config: Config, tmp_path: Path, toys: list[Item]
) -> None:
    labels = tmp_path / "kept.jsonl"  # a name that a file of the run has, too
    write_lines(labels, ({"id": i.id, "is_mcqa_only": i.id != "t0", "note": "?"} for i in toys))
    labelled = parse({**config.model_dump(), "cloze": {"profile": "labels", "labels": str(labels)}}, "test")
    run = audit(labelled, tmp_path / "out")
    labels.unlink()
    assert str(tmp_path) not in json.dumps(run.manifest["config"]["cloze"])
    moved = open_run((tmp_path / "out").rename(tmp_path / "moved"), GUARD)
    again = steps.rejudge(steps.rejudge(moved, {}, tmp_path / "again"), {}, tmp_path / "again")
    assert again.summary.splits.cloze == 1
    assert again.manifest == run.manifest
    (moved.folder / LABELS).write_text("")
    with pytest.raises(DataError, match=LABELS):
        steps.rejudge(moved, {}, tmp_path / "third")


def test_a_hidden_passage_is_named_wherever_its_screen_is(
    config: Config, tmp_path: Path, toys: list[Item]
) -> None:
    rows = [{**item_row(item), "passage": "P" * (at % 4)} for at, item in enumerate(toys)]
    jsonl(tmp_path / "items.jsonl", rows)
    settings = {**config.model_dump(exclude={"asking"}), "hidden": "passage"}
    run = audit(parse(settings, "test"), tmp_path / "out")
    screen = run.summary.screen
    # Two items have no passage that could be hidden.
    assert (screen.hidden, screen.template, screen.flagged.n) == ("passage", "no-passage-v1", 6)
    without = run.answers.table.filter(pc.field("error") == "no_passage")["item"]
    assert set(without.to_pylist()) == {"t0", "t4"}
    assert measured(run.summary, "cloze_pmi", "one") is None
    assert "|hidden:passage|" in run.manifest["signature"]
    page = (run.folder / "report.html").read_text()
    assert len(re.findall("passage hidden|without the passage", page)) > 2
    assert "ithout the question" not in page
    card = next(p for p in export_dataset(run, tmp_path / "card", kept=True) if p.suffix == ".md")
    assert "without the passage" in card.read_text()
    write_items(tmp_path / "items.jsonl", toys)
    with refuses("no-passage"):
        audit(parse(settings, "test"), tmp_path / "out")


def test_a_changed_file_is_found(config: Config, tmp_path: Path) -> None:
    run = audit(config, tmp_path / "out")
    with (run.folder / "kept.jsonl").open("a") as file:
        file.write("\n")
    with pytest.raises(DataError, match=r"kept\.jsonl"):
        steps.rejudge(run, {}, tmp_path / "again")


def test_a_failed_asking_leaves_an_earlier_run_whole(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = audit(config, tmp_path / "out")
    monkeypatch.setattr(printing, "write_report", _full_disk)
    with pytest.raises(ResourceError):
        audit(config, tmp_path / "out")
    open_run(run.folder, GUARD).require_unchanged()
    assert not list(run.folder.glob(".staging-*"))


def _full_disk(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_run_that_lacks_run_json_is_no_run(config: Config, tmp_path: Path) -> None:
    run = audit(config, tmp_path / "out")
    (run.folder / "run.json").unlink()
    for folder in (run.folder, tmp_path / "nowhere"):
        with refuses("not-a-run"):
            open_run(folder, GUARD)


def test_a_published_page_is_no_run_that_can_be_checked(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text('{"release_level": "published"}')
    with refuses("published-page"):
        open_run(tmp_path, GUARD)


def test_another_rule_for_the_same_folder_is_said(robustify, config: Config, tmp_path: Path) -> None:
    command = (tmp_path / "items.jsonl", "--public", "-o", "again")
    notes = [
        [line for line in robustify(*command, *rule).err.splitlines() if "-o DIR" in line]
        for rule in ((), (), ("--criterion", "majority"))
    ]
    assert [len(lines) for lines in notes] == [0, 0, 1]
    assert "screen" in notes[2][0]


@pytest.mark.parametrize("part", ["files", "config", "models", "templates", "data", "signature"])
@pytest.mark.parametrize("value", [None, 3, float("nan"), [1]])
def test_a_manifest_edited_by_hand_is_refused(
    tmp_path_factory: pytest.TempPathFactory, part: str, value: object
) -> None:
    folder = tmp_path_factory.mktemp("run")
    data = {"n_items": 1, "layout": "a", "sha256": "a", "defects": [], "quarantined": []}
    parts = {"files": {}, "models": {}, "templates": {}, "data": data}
    tree = {"format": 1, "config": {"name": "a", "data": []}, "signature": "a", **parts}
    (folder / "run.json").write_text(json.dumps(tree))
    open_run(folder, GUARD)
    without = ({"data": {k: v for k, v in data.items() if k != name}} for name in data)
    for edit in ({part: value}, *without, {"files": {"free.jsonl": "0"}}):
        (folder / "run.json").write_text(json.dumps(tree | edit))
        with refuses("other-run-format"):
            open_run(folder, GUARD)


@pytest.mark.parametrize(("changes", "code"), cases("runs", "refused_at_the_start"))
def test_what_would_be_refused_at_the_end_is_refused_at_the_start(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object], code: str
) -> None:
    monkeypatch.setattr(steps, "load_bench", lambda *_: pytest.fail("read too early"))
    with refuses(code):
        audit(parse({**config.model_dump(), **changes}, "test"), tmp_path / "out")


def test_a_model_is_looked_for_before_any_is_asked(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    both = config.model_dump() | {"models": [{"name": "smollm2-135m"}, {"name": "no-such-model"}]}
    monkeypatch.setattr(model_steps, "ask_models", lambda *_: pytest.fail("asked too early"))
    with refuses("model-not-pulled"):
        audit(parse(both | {"screen": {"criterion": "unanimous"}}, "test"), tmp_path / "out")


@pytest.mark.parametrize("name", ["report.md", "figures/mine.png"])
def test_a_folder_with_somebody_s_files_is_refused_and_left_alone(
    config: Config, tmp_path: Path, name: str
) -> None:
    mine = tmp_path / "out" / name
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    with refuses("foreign-files") as error:
        audit(config, tmp_path / "out")
    assert error.value.exit_code == 2
    assert mine.read_text() == "mine"


def boxes(word: str, n: int) -> list[Item]:
    return [Item(f"t{i}", f"Which {word} is number {i}?", (f"red {i}", f"blue {i}"), i % 2) for i in range(n)]


@pytest.mark.parametrize(
    ("name", "word", "refused"), [("others", "box", True), ("toys", "crate", True), ("toys", "box", False)]
)
def test_a_run_of_another_benchmark_is_replaced_by_force_only(
    tmp_path: Path, name: str, word: str, refused: bool
) -> None:
    folder, cache = tmp_path / "out", tmp_path / "out" / "cache"
    write_items(tmp_path / "items.jsonl", boxes("box", 8))
    first = audit(public("toys", tmp_path), folder)
    write_items(tmp_path / "items.jsonl", boxes(word, 9))
    other = public(name, tmp_path)
    if not refused:
        assert audit(other, folder).summary.benchmark.n_items == 9
        return
    for start in (steps.robustify, steps.foretold):
        with refuses("run-of-another-benchmark"):
            start(other, folder, cache, wings())
    apart = audit(other, tmp_path / "apart")
    with refuses("run-of-another-benchmark"):
        steps.rejudge(apart, {}, folder)
    assert open_run(folder, GUARD).manifest == first.manifest
    assert steps.rejudge(apart, {}, folder, force=True).summary.benchmark.name == name
    write_items(tmp_path / "items.jsonl", boxes("box", 8))
    assert steps.robustify(public("toys", tmp_path), folder, cache, wings(), force=True).folder == folder


def test_a_folder_that_was_there_stays_and_one_made_for_nothing_goes(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    for name in ("mine", "made"):
        with pytest.raises(ValueError, match="failed"), run_lock(tmp_path / name):
            raise ValueError("failed")
    assert sorted(os.listdir(tmp_path)) == ["mine"]


def test_no_text_of_an_item_and_no_place_of_this_machine_stands_in_numbers(
    config: Config, tmp_path: Path
) -> None:
    run = audit(config, tmp_path / "out")
    for name in ("answers.parquet", "verdicts.csv", "summary.json", "report.html", "report.md", "run.json"):
        data = (run.folder / name).read_bytes()
        assert [word for word in (b"is meant", str(tmp_path).encode()) if word in data] == [], name


def test_a_first_page_leaves_a_finished_run_and_the_list_of_a_killed_one_alone(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text("{}")
    (tmp_path / ".run.writing").write_text('{"files": ["verdicts.csv"]}')
    with beginning(tmp_path) as place:
        (place / "report.html").write_text("first")
    assert (tmp_path / MANIFEST).read_text() == "{}"
    assert json.loads((tmp_path / ".run.writing").read_text())["files"] == ["report.html", "verdicts.csv"]


def test_a_changed_file_is_judged_again_only_if_judging_writes_it(tmp_path: Path) -> None:
    write_items(tmp_path / "items.jsonl", boxes("box", 9))
    run = audit(public("toys", tmp_path), tmp_path / "out")
    files = [name for name in run.manifest["files"] if "/" not in name]
    judged = {name for name in files if name in run.judged_files}
    assert judged
    assert {*files} - judged
    for name in files:
        path, code = run.folder / name, "judged-file-changed" if name in judged else "result-changed"
        before = path.read_bytes()
        path.write_bytes(before + b"\n")
        with refuses(code):
            open_run(run.folder, GUARD).require_unchanged()
        if name in judged:
            with refuses(code):
                steps.rejudge(open_run(run.folder, GUARD), {}, run.folder)
            path.write_bytes(before)
        else:
            steps.rejudge(open_run(run.folder, GUARD), {}, run.folder).require_unchanged()
