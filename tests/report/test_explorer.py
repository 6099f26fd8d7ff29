"""Evidence on single items of public runs: its file, `robustify explain`, and the page of items without a browser, what it
holds, what it cannot hold, and who never gets one."""

import csv
import hashlib
import json
import re
from base64 import b64encode
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from robustify.base.errors import DataError, UsageError
from robustify.judging.summary.screen_parts import CUES
from robustify.pipeline.steps import rejudge
from robustify.report import explorer as islands
from robustify.report.explaining import evidence_lines, explained, flagged
from robustify.report.explorer import page
from robustify.runs.run import EVIDENCE, EXPLORER, Run
from tests.gate.repo import rules_of
from tests.report.explorer_islands import TRIES, hostile_island, large_island, read_island
from tests.restricted.conftest import world
from tests.restricted.world import MODELS, World
from tests.support import exported_run, restricted_set
from tests.support.cases import contents
from tests.support.command import invoked

__all__ = ["world"]


def tree_of(run: Run) -> dict[str, Any]:
    return read_island((run.folder / EXPLORER).read_text("utf-8"))


class Parts(HTMLParser):
    """The elements of a page with what stands in them, as a browser tells them apart."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.within: dict[str, list[str]] = {"style": [], "script": []}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.cdata_elem in self.within:
            self.within[self.cdata_elem].append(data)


def test_every_item_is_there_with_its_text_verdict_and_evidence(run: Run) -> None:
    assert EXPLORER in run.manifest["files"]
    tree = tree_of(run)
    assert [row["id"] for row in tree["items"]] == [item.id for item in run.items]
    assert sum(tree["counts"].values()) == len(run.items)
    cues = run.summary.evidence.cues
    flagged = Counter(row["cue"] for row in tree["items"] if row["verdict"] == "flagged")
    assert flagged == {cue: round((q.value or 0.0) * (q.n or 0)) for cue, q in cues.items()}
    for row, item in zip(tree["items"], run.items, strict=True):
        assert (row["stem"], row["choices"], row["key"]) == (item.stem, list(item.choices), item.key)
        assert (row["verdict"], row["topic"]) == (run.verdicts[item.id], item.topic)
        said, lines = explained(run, item.id)
        assert row["mends"] == said["mends"]
        assert set(row["says"]) < set(lines)
        assert dict(zip(tree["voters"], row["votes"], strict=True)) == said["votes"]
        assert [row["shortcut"], row["p_pick"]] == [said.get(name) for name in ("p_shortcut", "p_pick")]


def test_nothing_of_an_item_is_markup_and_nothing_is_asked_for() -> None:
    text = page(hostile_island())
    found = Parts(text)
    kinds = [attributes.get("type") for tag, attributes in found.tags if tag == "script"]
    assert kinds == ["application/json", None]
    assert not [tag for tag, attributes in found.tags if tag in ("img", "b") or "src" in attributes]
    assert {row["stem"] for row in json.loads(found.within["script"][0])["items"]} == {
        try_.replace("\u2028", " ").replace("\u202e", "\\u202e").replace("\ud800", "\\ud800")
        for try_ in TRIES
    }
    text.encode("utf-8")
    asks = r"https?:|//cdn|url\(|@import|innerHTML|outerHTML|insertAdjacent|eval\("
    assert not re.search(asks, found.within["script"][1] + found.within["style"][0])


def test_the_policy_allows_this_style_and_this_script_alone() -> None:
    assert len(page(large_island(1000)).encode()) <= 2_000_000
    found = Parts(page(large_island(3)))
    policy = next(a["content"] for tag, a in found.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "unsafe" not in policy
    for kind, body in (("style", found.within["style"][0]), ("script", found.within["script"][1])):
        digest = b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}';" in policy
    assert not [
        tag for tag, attributes in found.tags if any(a.startswith("on") or a == "style" for a in attributes)
    ]


def test_of_too_many_items_the_flagged_ones_are_shown_and_all_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(islands, "MOST_ITEMS", 50)
    tree = large_island(90)
    verdicts, ids = ([row[name] for row in tree["items"]] for name in ("verdict", "id"))
    assert (verdicts.count("flagged"), verdicts.count("kept")) == (30, 20)
    assert tree["counts"] == {"flagged": 30, "undecided": 0, "kept": 60}
    assert ids == sorted(ids)


def test_a_page_of_long_texts_is_cut_where_it_would_open_slowly(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tree_of(run)
    monkeypatch.setattr(islands, "MOST_CHARACTERS", 20_000)
    cut = tree_of(rejudge(run, {}, tmp_path / "cut"))
    assert cut["counts"] == whole["counts"]
    assert 0 < len(cut["items"]) < len(whole["items"])
    assert len(json.dumps(cut["items"])) < 40_000
    rank = {row["id"]: islands.WORDS.index(row["verdict"]) for row in whole["items"]}
    shown = [row["id"] for row in cut["items"]]
    assert max(rank[id_] for id_ in shown) <= min(rank[id_] for id_ in rank.keys() - shown)


def test_the_gate_refuses_a_page_of_items_by_its_shape(run: Run) -> None:
    assert "RBG101" in rules_of((run.folder / EXPLORER).read_bytes())


STAGES = [line.split() for line in contents("report")["restricted_stages"]]


def test_no_way_to_print_a_restricted_run_makes_an_explorer(world: World) -> None:
    world.write("mock.yaml", f"name: mock\nadapter: {restricted_set.ADAPTER}\nexplore: true\n{MODELS}")
    assert world.call("run", "mock.yaml", "-o", "RUN") in (0, 7)
    for stage in STAGES:
        world.call(*stage)
    # A run's manifest says that it is restricted; somebody edits that, and asks for the pages once more.
    manifest = world.run / "run.json"
    tree = json.loads(manifest.read_text("utf-8"))
    for edit in (
        {"sensitivity": "public"},
        {"config": {**tree["config"], "sensitivity": "public", "explore": True}},
    ):
        manifest.write_text(json.dumps({**tree, **edit}), "utf-8")
        for stage in STAGES[1:7]:
            world.call(*stage)
    written = [
        path for path in world.base.rglob("*") if path.is_file() and world.base / "data" not in path.parents
    ]
    assert len(written) > 10
    assert [path for path in written if path.name == EXPLORER or "explorer" in path.name] == []
    assert any(path.suffix == ".html" for path in written)


COLUMNS = ("pick", "p_pick", "chance", "posterior", "p_shortcut", "picked_by", "cue", "p_key")


def rows(run: Run) -> list[dict[str, Any]]:
    return exported_run.lines(run.folder / EVIDENCE)


def verdicts(run: Run) -> list[dict[str, str]]:
    with (run.folder / "verdicts.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_item_has_a_row_and_the_file_is_in_the_run_s_digests(run: Run) -> None:
    found = rows(run)
    assert [row["item"] for row in found] == [v["item"] for v in verdicts(run)]
    assert EVIDENCE in run.manifest["files"]
    for row in found:
        assert explained(run, row["item"])[1]
        if row["pick"] is not None:
            # Where places alone always give the key, nothing is said of shortcuts.
            ranked = row["chance"] < 1
            assert (row["p_shortcut"] is not None) == (ranked and row["pick"] == row["key"])
            assert (row["posterior"] is not None) == ranked
            assert not ranked or 0 <= row["chance"] <= row["posterior"] <= 1
            assert set(row["adds"]) <= set(CUES)
            assert all(cue["says"] and cue["adds"] > 0 for cue in row["cues"])
            assert all(abs(adds) >= 0.05 for adds in row.get("features", {}).values())


def test_new_columns_stand_after_those_that_were_there_and_say_the_same(run: Run) -> None:
    found = verdicts(run)
    assert list(found[0]) == ["item", "topic", "verdict", "votes", "of", "reason", "cloze_excluded", *COLUMNS]
    for cells, row in zip(found, rows(run), strict=True):
        if row["pick"] is None:
            assert not any(cells[name] for name in ("pick", "p_pick", "posterior", "p_shortcut", "picked_by"))
        else:
            assert int(cells["pick"]) == row["pick"]
            assert float(cells["p_pick"]) == row["p_pick"]
            assert cells["p_shortcut"] == ("" if row["p_shortcut"] is None else f"{row['p_shortcut']:.4f}")
            assert cells["cue"] == (row["cues"][0]["cue"] if row["cues"] else "none")
            assert cells["picked_by"] == "; ".join(row["voters"])


def test_without_text_or_a_screen_there_is_no_evidence(tmp_path: Path) -> None:
    bare = exported_run.made_run(tmp_path / "bare", text=False)
    unscreened = exported_run.made_run(tmp_path / "full", exported_run.made_up(12), view="full")
    for run in (bare, unscreened):
        assert EVIDENCE not in run.manifest["files"]
        with pytest.raises(DataError) as refused:
            flagged(run)
        assert refused.value.code == "no-evidence"
    assert {cells["cue"] for cells in verdicts(bare) if cells["pick"]} <= {"letter_votes", "none"}


def test_one_item_is_explained_by_its_id_or_the_beginning_of_it(run: Run, tmp_path: Path) -> None:
    tree, lines = explained(run, "i5")
    assert (tree["item"], tree["verdict"], tree["pick"]) == ("i5", "flagged", tree["key"])
    assert tree["voters"] == ["one", "two"]
    assert tree["votes"] == {"one": tree["key"], "two": tree["key"]}
    assert (tree["cloze_excluded"], bool(tree["mends"])) == (None, True)
    assert tree["stem"] in "\n".join(lines)
    for name in ("i", "no such item", ""):
        with pytest.raises(UsageError):
            explained(run, name)
    done = invoked("explain", run.folder, "i5", "--json")
    assert json.loads(done.output)["item"] == "i5"
    assert "i5" in invoked("explain", run.folder, "i5").output
    assert isinstance(invoked("explain", tmp_path, "i5").exception, UsageError)


def test_without_an_item_every_flagged_item_has_its_line_its_cue_and_a_mend(run: Run) -> None:
    done = invoked("explain", run.folder, "--csv")
    found = list(csv.DictReader(done.output.splitlines()))
    assert [row["item"] for row in found] == [f"i{at}" for at in range(0, 60, 5)]
    assert [int(row["line"]) for row in found] == [at + 1 for at in range(0, 60, 5)]
    assert all(row["cue"] and row["mend"] for row in found)
    tree = json.loads(invoked("explain", run.folder, "--json").stdout)
    assert [{name: str(value) for name, value in row.items()} for row in tree] == found
    lines = invoked("explain", run.folder).output.splitlines()
    assert lines[1].startswith("items.jsonl:6: i5: ")
    assert lines[-1].startswith("robustify: 12 items ")
    assert isinstance(invoked("explain", run.folder, "i5", "--csv").exception, UsageError)


def test_a_changed_file_is_refused(run: Run) -> None:
    files = {**run.manifest["files"], EVIDENCE: "0" * 64}
    with pytest.raises(DataError, match=EVIDENCE):
        explained(Run(run.folder, {**run.manifest, "files": files}, run.guard), "i5")


def test_a_kept_item_with_a_probable_shortcut_says_why_it_is_kept() -> None:
    demo = Path(__file__).parents[2] / "results" / "benign_demo" / EVIDENCE
    rows = map(json.loads, demo.read_text("utf-8").splitlines())
    flagged_row = next(row for row in rows if row["verdict"] == "flagged" and row["p_shortcut"] > 0.5)
    flagged_row |= {"cloze_excluded": None, "alike": []}
    kept = flagged_row | {"verdict": "kept"}
    unlikely = kept | {"p_shortcut": 0.4}
    lines = [evidence_lines(row) for row in (flagged_row, kept, unlikely)]
    assert [len(part) - len(lines[0]) for part in lines] == [0, 1, 0]
