"""The folder of a restricted run: sealed, private, read again by every command, and without a single item in it."""

import json
import os
import re
import stat
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from robustify.base.errors import AuthorisationError, DataError
from robustify.base.files import sha256
from robustify.base.key_file import evaluator_key
from robustify.gate.refused_content import private_states
from robustify.pipeline.steps import rejudge
from robustify.restricted import restricted_folder
from robustify.restricted.access import authorised
from robustify.restricted.disclosure import record
from robustify.restricted.disclosure.released import Candidates
from robustify.restricted.disclosure.released_number import ReleasedNumber
from robustify.restricted.disclosure.released_page import read_released
from robustify.restricted.ids import read_split
from robustify.restricted.loader import documents, local_items, require_silence
from robustify.restricted.restricted_folder import emit_split, publish
from robustify.runs.run import Run, open_run
from robustify.wings import GUARD
from tests.support import restricted_run, restricted_set
from tests.support.cases import refuses
from tests.support.command import invoked

TASKS = ("all", "kept", "flagged", "kept_choices_only", "cloze")
FILES = frozenset({"summary.json", "report.html", "report.md", "release.json", "candidates.json"})
"""Files of a run without splits and tasks."""


@pytest.fixture
def run(restricted: Path) -> Run:
    return open_run(restricted / "out" / "run", GUARD)


@pytest.fixture
def public(run: Run, tmp_path: Path) -> Path:
    """What of it may be published."""
    publish(run, tmp_path / "public")
    return tmp_path / "public"


@pytest.fixture
def audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """Audits a set of so many items, under changes of the config, into a folder of this name."""

    def made(n: int = 200, name: str = "run", **changes: Any) -> Run:
        if not (tmp_path / "out").exists():
            restricted_run.prepare(tmp_path, monkeypatch, n)
        return restricted_run.run(tmp_path, tmp_path / "out" / name, restricted_run.config(**changes))

    return made


@pytest.fixture
def spoilt(restricted: Path, tmp_path: Path) -> Path:
    """A copy of the run."""
    return restricted_run.copied(restricted / "out" / "run", tmp_path / "run")


def page_in(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "summary.json").read_text("utf-8"))


def held(run: Run) -> Candidates:
    return Candidates.model_validate_json((run.folder / "candidates.json").read_text("utf-8"))


def test_the_folder_holds_no_row_of_an_item(run: Run) -> None:
    # A run that was published also counts the releases.
    names = set(restricted_run.files(run.folder)) - {".run.releases"}
    files = {"run.json", *FILES, *(f"splits/{name}.json" for name in ("kept", "flagged"))}
    assert names == files | {f"lm_eval_tasks/mock_{name}.yaml" for name in TASKS}
    assert set(run.manifest["files"]) == names - {"run.json"}
    for path in (run.folder, *run.folder.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path.name


def test_no_text_and_no_plain_id_or_digest_is_in_any_file(run: Run, public: Path, restricted: Path) -> None:
    records = restricted_set.items()
    words = {w.encode() for w in restricted_set.canaries(records)}
    words |= {
        b"whistles",
        b"thimbles",
        b'"line"',
        b"explorer",
    }  # topics smaller than a cell, and parts of other pages
    words |= {sha256(restricted / "data" / "mock" / "items.jsonl").encode()[:16]}
    record = {"record": (restricted / "secret" / "ids.key.releases").read_bytes()}
    files = restricted_run.files(run.folder) | record
    for name, content in [*files.items(), *restricted_run.files(public).items()]:
        assert not [w for w in words if w in content], name
        assert b"rb1_" not in content or name.startswith("splits/"), name


def test_the_manifest_says_what_it_is_and_under_which_key(run: Run) -> None:
    told = run.manifest
    assert run.restricted
    assert (told["sensitivity"], told["adapter"]["id"]) == ("restricted", restricted_set.ADAPTER)
    assert told["key_id"] in restricted_set.key_text(restricted_set.SECRET)
    assert len(told["mac"]) == 64
    assert set(told["data"]) == {"layout", "n_items", "hmac_sha256"}
    assert "notes" not in told["config"]
    assert "path" not in json.dumps(told["config"])


def test_what_is_published_is_the_page_of_the_run_less_its_guardrails(run: Run, public: Path) -> None:
    shown, mine = page_in(public), page_in(run.folder)
    assert (mine["release_level"], shown["release_level"]) == ("evaluator", "published")
    level = {"release_level": "", "failed": [], "halting": [], "releases": 1}
    assert {**mine, **level} == {**shown, **level}
    assert {p.name for p in public.iterdir()} == {"summary.json", "report.html", "report.md"}
    assert {stat.S_IMODE(p.stat().st_mode) for p in (public, *public.rglob("*"))} == {0o600, 0o700}


def test_what_was_published_is_counted_and_a_few_numbers_take_less(
    tmp_path: Path, audit: Callable[..., Run]
) -> None:
    run = audit()
    some = publish(run, tmp_path / "some", ["screen"])
    assert 0 < some.bits < read_released(run).bits
    assert publish(run, tmp_path / "again", ["screen"]).bits == 0
    whole = publish(run, tmp_path / "whole")
    # Numbers of a later rank that the first page showed take the place of others.
    assert (
        read_released(run).bits - 5
        < some.bits + whole.bits
        <= read_released(run).available - read_released(run).owed
    )
    assert publish(run, tmp_path / "part", ["accuracy"]).bits == 0
    # Another criterion flags other items, and another model asks about the same ones.
    second = audit(name="other", screen={"criterion": "1-of-2", "mode": "text"})
    with refuses("other-split-released"):
        publish(second, tmp_path / "other", ["audit"])
    third = audit(name="third", models=[*restricted_run.NAMES, {"name": "stub-c", "role": "under_test"}])
    assert publish(third, tmp_path / "third", ["audit"])


@pytest.mark.parametrize("forgets", ["nothing", "the run", "the pages"])
def test_an_older_copy_of_the_record_is_refused(
    tmp_path: Path, audit: Callable[..., Run], forgets: str
) -> None:
    run, file = audit(80), record.record_file()
    publish(run, tmp_path / "first", ["screen"])
    older = file.read_bytes()
    for name in ("pipe", "odd", "elsewhere"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "pipe" / "summary.json")
    (tmp_path / "odd" / "summary.json").write_text('["no page"]')
    publish(run, tmp_path / "second", ["cues"])
    newest = file.read_bytes()
    file.write_bytes(older)
    if forgets == "the run":
        (run.folder / ".run.releases").unlink()
    place = tmp_path / ("elsewhere/third" if forgets == "the pages" else "third")
    acts = [lambda: publish(run, place, ["accuracy"])]
    acts += [lambda: emit_split(run, "kept")] if forgets != "the run" else []
    for act in acts:
        with refuses("outdated-release-record"):
            act()
    assert not place.exists()
    assert file.read_bytes() == older
    file.write_bytes(newest)
    assert publish(run, tmp_path / "again", ["cues"]).bits == 0
    assert len(record.releases_of(evaluator_key(), file)) == 2


def test_a_run_that_is_repeated_still_knows_its_releases(tmp_path: Path, audit: Callable[..., Run]) -> None:
    run, file = audit(80), record.record_file()
    older = file.read_bytes()
    publish(run, tmp_path / "a" / "first")
    file.write_bytes(older)
    again = audit(name="run")
    with refuses("outdated-release-record"):
        publish(again, tmp_path / "b" / "second")
    # Another run of the set knows by a page beside its own.
    other = audit(name="other", models=[*restricted_run.NAMES, {"name": "stub-c", "role": "under_test"}])
    with refuses("outdated-release-record"):
        publish(other, tmp_path / "a" / "third")


def test_a_group_that_does_not_fit_is_refused_with_the_true_reason(
    tmp_path: Path, audit: Callable[..., Run]
) -> None:
    run = audit(80)
    for group, word in (("free", "free"), ("topics", "topic table")):
        with refuses("no-number-fits", says=f": .*{word}"):
            publish(run, tmp_path / group, [group])
        assert not (tmp_path / group).exists()
    assert record.releases_of(evaluator_key(), record.record_file()) == []


def test_what_the_whole_page_withholds_is_shown_if_its_group_is_named(
    tmp_path: Path, audit: Callable[..., Run]
) -> None:
    run = audit()
    withheld = read_released(run).withheld
    group = next(number.group for number in held(run).numbers if number.name in withheld)
    publish(run, tmp_path / "some", [group])
    shown = page_in(tmp_path / "some")
    assert set(withheld) & {number["name"] for number in shown["numbers"]}
    assert shown["withheld"] == []
    # Later pages show what was shown and what still fits, and say what does not.
    publish(run, tmp_path / "whole")
    rest = page_in(tmp_path / "whole")
    assert not [number for number in shown["numbers"] if number not in rest["numbers"]]
    assert rest["withheld"]


def test_which_numbers_fill_a_group_does_not_depend_on_values(audit: Callable[..., Run]) -> None:
    made = held(audit())
    half = (n.model_copy(update={"value": 0.5}) if isinstance(n, ReleasedNumber) else n for n in made.numbers)
    other = made.model_copy(update={"numbers": tuple(half)})
    for groups in ([], ["accuracy"], ["topics", "audit"], ["cues"]):
        assert made.shown(groups) == other.shown(groups) != []


def test_the_gate_refuses_the_candidates(audit: Callable[..., Run]) -> None:
    text = (audit(80).folder / "candidates.json").read_text("utf-8")
    for some in (text, json.dumps(json.loads(text)), yaml.safe_dump(json.loads(text))):
        assert "RBG403" in {rule for rule, *_ in private_states(some)}


def test_the_sheet_of_a_restricted_run_has_only_what_is_published_and_costs_no_bits_again(
    tmp_path: Path, audit: Callable[..., Run]
) -> None:
    run, place = audit(80), tmp_path / "sheet"
    done = invoked("export", "sheet", run.folder, "-o", tmp_path / "first", "--only", "accuracy")
    (first,) = record.releases_of(evaluator_key(), record.record_file())
    assert first.bits > 0
    assert f" {first.bits:.0f} bits" in done.stderr
    done = invoked("export", "sheet", run.folder, "-o", place, "--only", "accuracy")
    assert done.exit_code == 0, done.output
    assert re.search(r"\b0 bits\b", done.stderr)
    releases = record.releases_of(evaluator_key(), record.record_file())
    assert sum(one.bits for one in releases) == first.bits
    text = (place / "sheet.json").read_text("utf-8")
    by_name = {criterion["name"]: criterion for criterion in json.loads(text)["criteria"]}
    facts = [fact for criterion in by_name.values() for fact in criterion["facts"]]
    numbers = {fact["label"] for fact in facts if fact["path"].startswith("numbers.")}
    assert set() < numbers <= {number["name"] for number in page_in(place)["numbers"]}
    assert {fact["file"] for fact in facts} == {"summary.json"}
    assert {fact["value"]["measure"] for fact in by_name["blind_baselines"]["facts"]} == {"choices_only"}
    assert "published" in by_name["models"]["provide"]
    assert "restricted" in by_name["example"]["provide"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in place.iterdir()} == {0o600}
    assert not [digest for digest in run.manifest["files"].values() if digest in text]


@pytest.mark.parametrize("form", [str.upper, lambda text: f"We doubt that anybody asks ({text}) at all."])
def test_a_sheet_whose_answers_repeat_an_item_is_refused_before_a_release(
    tmp_path: Path, audit: Callable[..., Run], form: Callable[[str], str]
) -> None:
    run, stem = audit(80), restricted_set.items(80)[3]["question"]
    given = ("export", "sheet", run.folder, "--only", "accuracy", "--answers", tmp_path / "answers.yaml")
    (tmp_path / "answers.yaml").write_text(json.dumps({"cost": "2 hours", "disagreement": form(stem)}))
    done = invoked(*given, "-o", tmp_path / "first")
    assert done.exception.exit_code == 4
    assert "disagreement" in str(done.exception)
    assert not any(word in str(done.exception).lower() for word in stem.lower().split() if len(word) > 8)
    assert not (tmp_path / "first").exists()
    assert not record.releases_of(evaluator_key(), record.record_file())
    (tmp_path / "answers.yaml").write_text(json.dumps({"disagreement": "Two reviewers doubted a key."}))
    assert invoked(*given, "-o", tmp_path / "second").exit_code == 0


def test_a_reworded_label_is_charged_once(
    tmp_path: Path, audit: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = publish(audit(), tmp_path / "first")
    monkeypatch.setattr(restricted_folder, "label", lambda name: f"reworded {name}")
    again = audit(name="again")
    assert all("reworded" in number.name for number in read_released(again).numbers)
    published = publish(again, tmp_path / "again")
    assert (published.bits, len(published.numbers)) == (0, len(first.numbers))
    assert published.content != first.content


FORMER = {
    "probe": "probe without questions",
    "probe_by_chance": "the same by chance",
    "looks": "owed to looks",
}
"""Labels of earlier versions, whose records had the digest of a number with its label."""


def test_the_record_of_an_earlier_version_knows_its_numbers(
    tmp_path: Path, audit: Callable[..., Run]
) -> None:
    run = audit()
    key, former = evaluator_key(), []
    for number in page_in(run.folder)["numbers"]:
        bits, old = number.pop("bits"), FORMER.get(number.pop("measure"))
        del number["part"]
        subject = number.pop("subject")
        if old is not None:
            number["name"] = f"{subject}: {old}" if subject else old
        former.append((record.digest(key, number), bits))
    whole = publish(run, tmp_path / "unrecorded")
    record.record_file().unlink()
    record.begin(key, record.record_file())
    bits = sum(bits for _, bits in former)
    earlier = replace(whole, content="of an earlier version", bits=bits, numbers=tuple(former), codes=())
    assert record.record(key, record.record_file(), earlier).bits == pytest.approx(bits)
    again = publish(run, tmp_path / "again")
    table = 0.0 if read_released(run).topics is None else read_released(run).topics.bits
    assert again.bits == pytest.approx(table)


def test_check_and_report_work_and_judging_anew_says_the_mend(run: Run, spoilt: Path) -> None:
    checked = invoked("check", spoilt)
    assert checked.return_value == (7 if read_released(run).failed else 0)
    assert checked.output.startswith("not evaluated  run\n")
    assert checked.output.endswith(": evaluator\n")
    with refuses("restricted-run"):
        rejudge(run, {"screen.criterion": "majority"}, spoilt)


EDITS: dict[str, Callable[[dict[str, Any]], object]] = {
    "label": lambda tree: tree.update(sensitivity="public"),
    "label and seal": lambda tree: (tree.update(sensitivity="public"), tree.pop("mac")),
    "every sign": lambda tree: [*map(tree.pop, ("sensitivity", "mac", "key_id", "adapter", "release"))],
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
    with pytest.raises(AuthorisationError):
        open_run(spoilt, GUARD)


@pytest.mark.parametrize("name", ["summary.json", "release.json", "splits/kept.json", "candidates.json"])
def test_an_edited_file_is_found(spoilt: Path, name: str) -> None:
    (spoilt / name).write_text((spoilt / name).read_text("utf-8").replace("1", "2", 1), encoding="utf-8")
    run = open_run(spoilt, GUARD)
    with pytest.raises(DataError, match=f"{name} "):
        run.require_unchanged()
    with pytest.raises(DataError, match=f"{name} "):
        emit_split(run, "kept") if "kept" in name else publish(run, spoilt / "x")


@pytest.mark.parametrize("key", ["none", "other"])
def test_without_its_key_a_run_is_not_opened(
    restricted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.delenv("ROBUSTIFY_KEY_FILE")
    if key == "other":
        other = restricted_set.key_file(tmp_path, b"another key of thirty-two bytes!")
        monkeypatch.setenv("ROBUSTIFY_KEY_FILE", str(other))
    with refuses("missing-ids-key" if key == "none" else "other-run-key"):
        open_run(restricted / "out" / "run", GUARD)


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


@pytest.mark.parametrize("given", ["lm_eval_tasks", "lm_eval_tasks/", "."])
@pytest.mark.parametrize("form", ["--include_path {}", "--include_path={}"])
def test_the_loader_finds_the_splits_of_the_tasks_that_lm_eval_was_given(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, form: str
) -> None:
    pytest.importorskip("datasets")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["lm_eval", "run", *form.format(f"{run.folder}/{given}").split()])
    rows = local_items(["splits/kept.json"])["test"]
    # An option of another program can look like a part of `--include_path`.
    monkeypatch.setattr(sys, "argv", ["any.py", "--in"])
    # So lm-eval names the file of a task, whoever calls it.
    source = str(run.folder / "lm_eval_tasks" / "mock_kept.yaml")
    assert list(local_items(["splits/kept.json"], version=1, config_source=source)["test"]) == list(rows)
    for elsewhere in ("inline", str(tmp_path / "mock_kept.yaml")):
        with refuses("split-not-found"):
            local_items(["splits/kept.json"], config_source=elsewhere)
    assert set(rows["id"]) == set(read_split(run.folder / "splits" / "kept.json").ids)


def test_a_safe_demo_reads_no_restricted_set(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = read_split(run.folder / "splits" / "kept.json")
    for value in ("1", "yes", "on"):
        monkeypatch.setenv("SAFE_DEMO", value)
        for read in (
            lambda: documents([kept]),
            partial(authorised, "mock", restricted_set.ADAPTER, None, public=True),
        ):
            with refuses("no-safe-demo", says="demo_benign.yaml"):
                read()
    monkeypatch.setenv("SAFE_DEMO", "off")
    assert documents([kept])


def test_the_loader_finds_the_items_of_the_splits_with_the_key(run: Run) -> None:
    kept, flagged = (read_split(run.folder / "splits" / f"{name}.json") for name in ("kept", "flagged"))
    rows = documents([kept])
    assert {row["id"] for row in rows} == set(kept.ids)
    assert [row["stem"] for row in rows] == [
        r["question"] for r in restricted_set.items() if r["question"] in {row["stem"] for row in rows}
    ]
    assert len(documents([kept, flagged])) == len(kept.ids) + len(flagged.ids)
    assert documents([kept], passages=True) == []
    with refuses("several-sets"):
        documents([kept, replace(flagged, version="2")])
    with refuses("other-set-split"):
        documents([replace(kept, version="2")])
    with refuses("revealing-split"):
        documents([replace(kept, ids=kept.ids[:9])])
    with refuses("unknown-cloze-profile", says="'labels'"):
        documents([kept], "labels")


def test_what_cannot_be_asked_as_cloze_is_left_out_by_the_local_text(
    audit: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = restricted_set.items(80)
    rows[0]["choices"][(rows[0]["answer"] + 1) % 4] = "Both A and B"
    monkeypatch.setattr(restricted_set, "items", lambda *_: rows)
    run = audit(80)
    assert sorted(p.stem for p in (run.folder / "splits").iterdir()) == ["flagged", "kept"]
    assert 79 not in {number.n for number in read_released(run).numbers}
    assert "cloze: cross-ref" in (run.folder / "lm_eval_tasks" / "mock_cloze.yaml").read_text("utf-8")
    asked = documents([read_split(path) for path in (run.folder / "splits").iterdir()], "cross-ref")
    assert {row["stem"] for row in asked} == {row["question"] for row in rows[1:]}


WRITES = (
    "lm_eval run --log_samples", "/x/lm_eval/__main__.py --log_s", "lm-eval -s", "lm_eval --write_out=True",
    "lm_eval --model_args x=1,write_out=True",
    "lm_eval -a x=1 write_out=True", "lm_eval --use_cache c", "lm_eval --cache_requests true",
    *(f"lm_eval run {given}" for given in ("-c/tmp/x", "-sx", "-ws", "-xw", "-sLM5", "--p", "--l", "--w")),
)  # fmt: skip
PLAIN = (
    "lm_eval run -L 4 -t mock_kept -m hf -- x", "lm_eval run --limit 4 --tasks mock_kept", "pytest -s -x",
)  # fmt: skip


@pytest.mark.parametrize("line", [*WRITES, *PLAIN])
def test_lm_eval_is_refused_where_it_would_write_texts_down(line: str) -> None:
    with refuses("lm-eval-saves-text") if line in WRITES else nullcontext():
        require_silence(line.split())


@pytest.mark.parametrize("form", ["--config {}", "--config={}", "-C {}"])
@pytest.mark.parametrize(
    "setting",
    [
        "model_args: {write_out: true}",
        "log_samples: true",
        "predict_only: 1",
        "use_cache: c",
        "tasks: [mock_kept]",
    ],
)
def test_an_option_in_a_config_of_lm_eval_is_refused_as_on_its_command_line(
    tmp_path: Path, form: str, setting: str
) -> None:
    (tmp_path / "é.yaml").write_text(f"model: dummy\nwrite_out: false\n{setting}\n")
    line = ["lm_eval", "run", *form.format(tmp_path / "é.yaml").split()]
    with nullcontext() if "tasks" in setting else refuses("lm-eval-saves-text"):
        require_silence(line)


def test_an_empty_config_of_lm_eval_has_no_option(tmp_path: Path) -> None:
    (tmp_path / "none.yaml").write_text("# nothing\n")
    require_silence(["lm_eval", "run", "--config", str(tmp_path / "none.yaml")])
    with refuses("lm-eval-saves-text"):
        require_silence(["lm_eval", "run", "--config", str(tmp_path / "none.yaml"), "--log_samples"])


def test_nothing_of_a_part_of_the_set_is_for_publication(tmp_path: Path, audit: Callable[..., Run]) -> None:
    run = audit(80, limit=70)
    assert read_released(run).n == 70
    for release in (lambda: publish(run, tmp_path / "public"), lambda: emit_split(run, "kept")):
        with refuses("part-of-set"):
            release()
    assert not (tmp_path / "public").exists()


def test_a_set_too_small_to_tell_of_shows_n_and_the_verdict(
    tmp_path: Path, audit: Callable[..., Run]
) -> None:
    run = audit(24)
    assert set(run.manifest["files"]) == FILES
    assert (read_released(run).n, read_released(run).numbers, read_released(run).topics) == (24, (), None)
    assert publish(run, tmp_path / "public").bits == 0
    assert "# mock: not evaluated" in (tmp_path / "public" / "report.md").read_text("utf-8")


def test_a_run_without_models_tells_its_cues(audit: Callable[..., Run]) -> None:
    run = audit(models=[])
    assert read_released(run).available is None
    assert [(n.measure, n.subject, n.part) for n in read_released(run).numbers if n.value is not None] == [
        ("reader", "", "all"), ("rule", "longest_answer", "all"), ("rule", "most_common_position", "all"),
    ]  # fmt: skip
    assert not (run.folder / "splits").exists()
