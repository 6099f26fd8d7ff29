"""The folder of a restricted run: sealed, private, read again by every command, and without a single item in it."""

import csv
import json
import logging
import re
import stat
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from robustify.errors import AuthorisationError, DataError
from robustify.files import sha256
from robustify.pipeline import rejudge, reprint
from robustify.report.opening import closing
from robustify.restricted.ids import hashed, read_split, separable
from robustify.restricted.loader import documents, require_silence
from robustify.run import Run, open_run
from robustify.summary.format_1 import read
from robustify.writers import restricted as printing
from robustify.writers.releases import emitted, published
from tests.support import restricted_run, restricted_set
from tests.support.command import invoked

FIGURES = {"flagged", "accuracy", "heuristics", "order", "topics", "residual", "reliability"}
TASKS = ("all", "robust", "shortcut", "robust_choices_only", "cloze")


@pytest.fixture
def base(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The prepared folder, with the environment that points to it."""
    folder = restricted_run.once(tmp_path_factory)
    for name, value in restricted_run.environment(folder).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("ROBUSTIFY_KEY", raising=False)
    return folder


@pytest.fixture
def run(base: Path) -> Run:
    return open_run(base / "out" / "run")


@pytest.fixture
def public(run: Run, tmp_path: Path) -> Path:
    """What of it may be published."""
    published(run, tmp_path / "public")
    return tmp_path / "public"


@pytest.fixture
def spoilt(base: Path, tmp_path: Path) -> Path:
    """A copy of the run."""
    return restricted_run.copied(base / "out" / "run", tmp_path / "run")


def test_the_folder_holds_no_row_of_an_item(run: Run) -> None:
    held = set(restricted_run.files(run.folder))
    printed = {"summary.json", "report.html", "report.md", *(f"figures/{name}.svg" for name in FIGURES)}
    expected = {
        "run.json",
        *printed,
        *(f"splits/{name}.json" for name in ("robust", "shortcut")),
        *(f"lm_eval_tasks/mock_{name}.yaml" for name in TASKS),
        "release.json",
    }
    assert held == expected
    assert set(run.manifest["files"]) == held - {"run.json"}


def test_everything_is_for_its_owner_alone(run: Run) -> None:
    for path in (run.folder, *run.folder.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path.name


def test_no_text_and_no_plain_id_or_digest_is_in_any_file(run: Run, public: Path, base: Path) -> None:
    records = restricted_set.items()
    words = {w.encode() for w in restricted_set.canaries(records)}
    digest = sha256(base / "data" / "mock" / "items.jsonl").encode()
    assert len(words) == 6 * len(records)
    ledger = {"ledger": (base / "secret" / "ids.key.ledger").read_bytes()}
    files = restricted_run.files(run.folder) | ledger
    for name, content in [*files.items(), *restricted_run.files(public).items()]:
        assert not [w for w in words if w in content], name
        assert digest not in content, name
        assert digest[:16] not in content, name
        assert b"rb1_" not in content or name.startswith("splits/"), name
        assert b'"line"' not in content, name


def test_small_topics_are_named_nowhere(run: Run, public: Path) -> None:
    for folder in (run.folder, public):
        for name, content in restricted_run.files(folder).items():
            assert b"whistles" not in content, name
            assert b"thimbles" not in content, name
    assert b"lamps" in (public / "report.html").read_bytes()


def test_the_manifest_says_what_it_is_and_under_which_key(run: Run) -> None:
    told = run.manifest
    assert run.restricted
    assert (told["sensitivity"], told["adapter"]["id"]) == ("restricted", restricted_set.ADAPTER)
    assert told["key_id"] in restricted_set.key_text(restricted_set.SECRET)
    assert len(told["mac"]) == 64
    assert set(told["data"]) == {"layout", "n_items", "hmac_sha256"}
    assert "notes" not in told["config"]
    assert "path" not in json.dumps(told["config"])


def test_what_is_published_is_held_to_the_budget_and_the_evaluator_s_is_not(run: Run, public: Path) -> None:
    shown = json.loads((public / "summary.json").read_text("utf-8"))
    assert shown["release"]["level"] == "published"
    assert shown["release"]["bits"]["spent"] <= shown["release"]["bits"]["available"]
    assert shown["release"]["withheld"]
    assert {stat.S_IMODE(p.stat().st_mode) for p in (public, *public.rglob("*"))} == {0o600, 0o700}
    assert run.summary.tree()["release"]["level"] == "evaluator"
    assert run.summary.tree()["release"]["withheld"] == []
    assert shown["splits"] == run.summary.tree()["splits"]


def test_a_report_is_printed_again_byte_for_byte(run: Run, spoilt: Path) -> None:
    before = restricted_run.files(spoilt)
    (spoilt / "report.md").write_text("lost", encoding="utf-8")
    reprint(open_run(spoilt))
    assert restricted_run.files(spoilt) == before
    assert stat.S_IMODE((spoilt / "report.md").stat().st_mode) == 0o600


def test_check_and_report_work_and_judging_anew_says_the_mend(run: Run, spoilt: Path) -> None:
    checked = invoked("check", spoilt)
    passed = all(g["passed"] for g in run.summary.tree()["guardrails"])
    assert checked.return_value == (0 if passed else 7)
    assert "topic_collapse" in checked.output
    assert invoked("report", spoilt).return_value == 0
    with pytest.raises(AuthorisationError, match="run the same command with other rules"):
        rejudge(run, {"screen.criterion": "majority"}, spoilt)


EDITS: dict[str, Callable[[dict[str, Any]], object]] = {
    "label": lambda tree: tree.update(sensitivity="public"),
    "label and seal": lambda tree: (tree.update(sensitivity="public"), tree.pop("mac")),
    "every sign": lambda tree: [
        tree.pop(name) for name in ("sensitivity", "mac", "key_id", "adapter", "release")
    ],
    "digest": lambda tree: tree["files"].update({"summary.json": "0" * 64}),
    "cell": lambda tree: tree["release"].update(min_cell=5),
}


@pytest.mark.parametrize("change", EDITS.values(), ids=EDITS)
def test_an_edited_label_or_manifest_is_refused(
    spoilt: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    path = spoilt / "run.json"
    tree = json.loads(path.read_text("utf-8"))
    change(tree)
    path.write_text(json.dumps(tree), encoding="utf-8")
    with pytest.raises(AuthorisationError) as refused:
        open_run(spoilt)
    assert refused.value.exit_code == 4


@pytest.mark.parametrize("name", ["summary.json", "release.json", "splits/robust.json"])
def test_an_edited_file_is_found(spoilt: Path, name: str) -> None:
    (spoilt / name).write_text((spoilt / name).read_text("utf-8").replace("1", "2", 1), encoding="utf-8")
    run = open_run(spoilt)
    assert run.changed() == [name]
    with pytest.raises(DataError, match="as the run left it"):
        run.require_unchanged()
    again = {"summary.json": lambda: reprint(run), "release.json": lambda: published(run, spoilt / "x"),
             "splits/robust.json": lambda: emitted(run, "robust", "evaluator")}  # fmt: skip
    with pytest.raises(DataError, match="as the run left it"):
        again[name]()


@pytest.mark.parametrize("key", ["none", "other"])
def test_without_its_key_a_run_is_not_opened(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.delenv("ROBUSTIFY_KEY_FILE")
    if key == "other":
        monkeypatch.setenv(
            "ROBUSTIFY_KEY", restricted_set.key_text(b"another key of thirty-two bytes!").strip()
        )
    with pytest.raises(AuthorisationError):
        open_run(base / "out" / "run")


def test_a_public_run_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROBUSTIFY_KEY_FILE", raising=False)
    monkeypatch.delenv("ROBUSTIFY_KEY", raising=False)
    assert not open_run(Path(__file__).parents[2] / "results" / "benign_demo").restricted


def test_tasks_hold_no_text_and_name_a_loader_of_the_package(run: Run) -> None:
    class Loader(yaml.SafeLoader):
        pass

    Loader.add_constructor("!function", lambda _loader, node: node.value)
    for name in TASKS:
        text = (run.folder / "lm_eval_tasks" / f"mock_{name}.yaml").read_text("utf-8")
        tree = yaml.load(text, Loader)
        assert tree["custom_dataset"] == "robustify.restricted.loader.local_items"
        assert "dataset_path" not in tree
        assert all((run.folder / path).is_file() for path in tree["dataset_kwargs"]["splits"])
        assert "--log_samples" in text
    assert not list((run.folder / "lm_eval_tasks").glob("*.py"))


def verdicts(n_robust: int, n_shortcut: int, n_undecided: int) -> Any:
    words = ["robust"] * n_robust + ["shortcut"] * n_shortcut + ["undecided"] * n_undecided
    return SimpleNamespace(
        verdicts=[SimpleNamespace(item=keyed(i), verdict=word) for i, word in enumerate(words)],
        cloze_excluded={},
    )


def keyed(i: int) -> str:
    letters = "abcdefghijklmnopqrstuvwxyz234567"
    return f"rb1_{letters[i // 32]}{letters[i % 32]}{'a' * 24}"


ACCESS: Any = SimpleNamespace(manifest=SimpleNamespace(id="m", version="1"), key_id="0" * 16)


@pytest.mark.parametrize(
    ("sizes", "there"),
    [
        ((20, 20, 3), {"robust", "shortcut"}),
        ((20, 20, 10), {"robust", "shortcut", "undecided"}),
        ((20, 3, 20), {"robust", "undecided"}),
    ],
)
def test_no_sums_and_differences_of_the_lists_name_fewer_items_than_a_cell(
    sizes: tuple[int, int, int], there: set[str]
) -> None:
    made = printing._splits(verdicts(*sizes), ACCESS, 10)
    assert {split.name for split in made} == there
    cells = Counter(tuple(i in split.ids for split in made) for i in {i for split in made for i in split.ids})
    assert min(cells.values()) >= 10


@pytest.mark.parametrize(("shared", "n"), [(0, 2), (1, 1), (9, 1), (10, 2), (20, 2)])
def test_a_list_that_cuts_small_cells_out_of_another_is_left_out(shared: int, n: int) -> None:
    one = hashed("m", "1", "robust", "0" * 16, map(keyed, range(40)))
    other = hashed("m", "1", "shortcut", "0" * 16, map(keyed, range(40 - shared, 60)))
    assert [split.name for split in separable([one, other], 10)] == ["robust", "shortcut"][:n]


def with_cross_references(monkeypatch: pytest.MonkeyPatch, n: int) -> list[str]:
    """In the first `n` items a choice names other choices; their stems."""
    real = restricted_set.items

    def items(how_many: int = 200, seed: int = 2026) -> list[dict[str, Any]]:
        rows = real(how_many, seed)
        for row in rows[:n]:
            row["choices"][(row["answer"] + 1) % 4] = "Both A and B"
        return rows

    monkeypatch.setattr(restricted_set, "items", items)
    return [row["question"] for row in items(80)[:n]]


@pytest.mark.slow
def test_what_cannot_be_asked_as_cloze_is_told_by_no_list_and_by_no_subtraction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_out = with_cross_references(monkeypatch, 2)
    run = restricted_run.run(tmp_path, restricted_run.prepare(tmp_path, monkeypatch, 80) / "run")
    assert sorted(p.stem for p in (run.folder / "splits").iterdir()) == ["robust", "shortcut"]
    published(run, tmp_path / "public")
    for place in (run.folder, tmp_path / "public"):
        told = json.loads((place / "summary.json").read_text("utf-8"))
        assert told["splits"]["cloze"]["value"] is None
        told["heuristics"].pop("all")
        assert not {78, 79} & set(whole_numbers(told))
        assert 70 in whole_numbers(told["accuracy"])
        assert all(n is None or n % 10 == 0 for n in bins_of_cloze(told))
        assert any(bins_of_cloze(told))
        assert "cloze" not in "".join(closing(read(told), "run"))
    task = (run.folder / "lm_eval_tasks" / "mock_cloze.yaml").read_text("utf-8")
    assert "cloze: cross-ref" in task
    splits = [read_split(path) for path in (run.folder / "splits").iterdir()]
    assert len(documents(splits)) == 80
    asked = [row["stem"] for row in documents(splits, "cross-ref")]
    assert len(asked) == 78
    assert not set(left_out) & set(asked)
    with pytest.raises(DataError, match="is no profile"):
        documents(splits, "labels")


def bins_of_cloze(told: Any) -> list[int | None]:
    return [bin["n"] for entry in told["calibration"].values() for bin in entry["cloze_chars"]["bins"]]


def whole_numbers(node: object) -> list[int]:
    match node:
        case dict():
            return [n for one in node.values() for n in whole_numbers(one)]
        case list():
            return [n for one in node for n in whole_numbers(one)]
        case int() if not isinstance(node, bool):
            return [node]
    return []


@pytest.mark.slow
def test_enough_items_that_cannot_be_asked_as_cloze_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_cross_references(monkeypatch, 12)
    run = restricted_run.run(tmp_path, restricted_run.prepare(tmp_path, monkeypatch, 80) / "run")
    assert run.summary.tree()["splits"]["cloze"] == 68
    assert sum(run.summary.tree()["splits"]["cloze_excluded"].values()) == 12


@pytest.mark.slow
def test_of_a_replayed_log_only_the_format_and_a_keyed_digest_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = restricted_run.prepare(tmp_path, monkeypatch, 80)
    log = tmp_path / "picks-qxsecretname.csv"
    with log.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "question", "choices", "answer", "model", "pick"])
        for r in restricted_set.items(80)[:77]:
            choices = json.dumps(r["choices"], ensure_ascii=False)
            rows.writerow([r["id"], r["question"], choices, r["answer"], "m1", r["answer"]])
    replayed = {"name": "told", "engine": "replay", "logs": str(log), "role": "under_test", "view": "full"}
    config = restricted_run.config(models=[*restricted_run.NAMES, replayed])
    run = restricted_run.run(tmp_path, out / "run", config)
    facts = run.manifest["models"]["told"]
    assert set(facts) == {"engine", "format", "log_hmac_sha256"}
    assert facts["engine"] == "replay"
    digest = sha256(log)
    for name, content in restricted_run.files(run.folder).items():
        assert digest[:16].encode() not in content, name
        assert b"qxsecretname" not in content, name
        assert not re.search(rb"items[_ ]not[_ ]in[_ ]the[_ ]log", content), name
    assert facts["log_hmac_sha256"] in (run.folder / "report.html").read_text("utf-8")
    published(run, tmp_path / "public")
    for name, content in restricted_run.files(tmp_path / "public").items():
        assert facts["log_hmac_sha256"][:16].encode() not in content, name
        assert b"qxsecretname" not in content, name
    before = restricted_run.files(run.folder)
    assert restricted_run.files(reprint(run).folder) == before


def test_the_loader_finds_the_items_of_the_splits_with_the_key(run: Run) -> None:
    robust, shortcut = (read_split(run.folder / "splits" / f"{name}.json") for name in ("robust", "shortcut"))
    rows = documents([robust])
    assert {row["id"] for row in rows} == set(robust.ids)
    assert [row["stem"] for row in rows] == [
        r["question"] for r in restricted_set.items() if r["question"] in {row["stem"] for row in rows}
    ]
    assert len(documents([robust, shortcut])) == len(robust.ids) + len(shortcut.ids)
    with pytest.raises(DataError, match="splits of 2 sets"):
        documents([robust, replace(shortcut, version="2")])
    with pytest.raises(DataError, match="adapter of"):
        documents([replace(robust, version="2")])
    with pytest.raises(AuthorisationError, match="describes single items"):
        documents([replace(robust, ids=robust.ids[:9])])
    with pytest.raises(DataError, match="'labels' is no profile"):
        documents([robust], "labels")


def test_lm_eval_is_refused_where_its_log_would_hold_texts() -> None:
    log = logging.getLogger("lm_eval.api.task")
    before = log.level
    try:
        for level, refused in ((logging.DEBUG, True), (logging.INFO, False)):
            log.setLevel(level)
            with pytest.raises(AuthorisationError, match="log is at DEBUG") if refused else nullcontext():
                require_silence(["python"])
    finally:
        log.setLevel(before)


@pytest.mark.parametrize(
    ("argv", "refused"),
    [
        (["lm_eval", "run", "--log_samples"], True),
        (["/x/lm_eval/__main__.py", "--log_s"], True),
        (["lm-eval", "-s"], True),
        *(
            (["lm_eval", "run", given], True)
            for given in ("-c/tmp/x", "-sx", "-ws", "-xw", "-sLM5", "--p", "--l", "--w")
        ),
        (["lm_eval", "run", "-L", "4", "-t", "mock_robust", "-m", "hf", "--", "x"], False),
        (["lm_eval", "--write_out=True"], True),
        (["lm_eval", "--use_cache", "c"], True),
        (["lm_eval", "--cache_requests", "true"], True),
        (["lm_eval", "run", "--limit", "4", "--tasks", "mock_robust"], False),
        (["pytest", "-s", "-x"], False),
    ],
)
def test_lm_eval_is_refused_where_it_would_write_texts_down(argv: list[str], refused: bool) -> None:
    with pytest.raises(AuthorisationError, match="leave it out") if refused else nullcontext():
        require_silence(argv)


def test_lists_of_a_set_too_small_for_a_publication_are_for_the_evaluator_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = restricted_run.prepare(tmp_path, monkeypatch, 28)
    loose = {"min_items": 1, "min_robust": 1, "max_unanswered": 1, "max_ties": 1, "max_undecided": 1}
    run = restricted_run.run(tmp_path, out / "run", restricted_run.config(limits=loose))
    assert emitted(run, "robust", "evaluator").ids
    with pytest.raises(DataError, match="too few items for a publication"):
        emitted(run, "robust", "published")


def test_nothing_of_a_part_of_the_set_is_for_publication(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = restricted_run.prepare(tmp_path, monkeypatch, 80)
    run = restricted_run.run(tmp_path, out / "run", restricted_run.config(limit=70))
    assert run.summary.tree()["benchmark"]["n_items"] == 70
    assert "release.json" not in restricted_run.files(run.folder)
    with pytest.raises(AuthorisationError, match="a part of the set"):
        published(run, tmp_path / "public")
    assert not (tmp_path / "public").exists()
    assert run.manifest["release"]["levels"] == {"evaluator": "."}
    assert "nothing is for publication" in (run.folder / "report.md").read_text("utf-8")
    assert not [line for line in closing(run.summary, "run") if "publish" in line]
    before = restricted_run.files(run.folder)
    assert restricted_run.files(reprint(run).folder) == before
    name = read_split(next((run.folder / "splits").iterdir())).name
    with pytest.raises(AuthorisationError, match="a part of the set"):
        emitted(run, name, "published")
    assert emitted(run, name, "evaluator").ids


def test_the_closing_lines_of_a_whole_set_name_what_may_be_published(run: Run) -> None:
    assert [
        line
        for line in closing(run.summary, "run")
        if line == "to publish: robustify export published run -o DIR"
    ]


def test_a_set_too_small_to_tell_of_is_only_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = restricted_run.prepare(tmp_path, monkeypatch, 24)
    run = restricted_run.run(tmp_path, out / "run")
    assert run.summary.tree()["release"]["too_small"] is True
    assert set(run.manifest["files"]) == {"summary.json", "report.html", "report.md", "release.json"}
    entry = published(run, tmp_path / "public")
    assert (entry.release.bits, entry.release.cells) == (0, ())
    assert json.loads((tmp_path / "public" / "summary.json").read_text("utf-8"))["guardrails"] == []
    assert "withheld: everything but the number of items" in (run.folder / "report.md").read_text("utf-8")


HOSTILE = {"lamps": "<script>alert(1)</script>", "kettles": "=cmd|' /C calc'!A0", "ladders": "| [a](b) `c`"}


def renamed(monkeypatch: pytest.MonkeyPatch, names: dict[str, str]) -> None:
    """Other topic names in the mock set."""
    records = restricted_set.items

    def with_names(n: int = 200, seed: int = 2026) -> list[dict[str, Any]]:
        return [{**r, "topic": names.get(r["topic"], r["topic"])} for r in records(n, seed)]

    monkeypatch.setattr(restricted_set, "items", with_names)


def test_hostile_topic_names_stay_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    renamed(monkeypatch, HOSTILE)
    run = restricted_run.run(tmp_path, restricted_run.prepare(tmp_path, monkeypatch) / "run")
    files = restricted_run.files(run.folder)
    for name, content in files.items():
        text = content.decode("utf-8")
        if name.endswith((".html", ".svg")):
            assert "<script" not in text, name
        if name.endswith(".md"):
            assert not re.search(r"(?<!\\)(<script|\[a\]\()", text), name
    assert "&lt;script&gt;" in files["report.html"].decode("utf-8")


@pytest.mark.parametrize("name", ["\x1b]0;x\x07", "lad\u202eders"])
def test_topics_that_steer_a_terminal_refuse_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    renamed(monkeypatch, {"ladders": name})
    out = restricted_run.prepare(tmp_path, monkeypatch)
    with pytest.raises(DataError) as refused:
        restricted_run.run(tmp_path, out / "run")
    assert name not in str(refused.value)
    assert not (out / "run").exists()


def test_a_run_without_models_tells_its_cues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = restricted_run.prepare(tmp_path, monkeypatch)
    run = restricted_run.run(tmp_path, out / "run", restricted_run.config(models=[]))
    summary = run.summary.tree()
    assert summary["release"]["too_small"] is False
    assert set(summary["heuristics"]["all"]) >= {"length", "place"}
    assert summary["splits"]["all"] == 200
    text = (run.folder / "report.html").read_text("utf-8")
    assert "length" in text
    assert "this run holds no choices-only screen" in text
    assert {g["reason"]["code"] for g in summary["guardrails"]} == {"not_judged"}
