"""Free response as a part of a run: asked and graded with it, in its summary and page, kept when it is judged again."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from robustify.freeform.free_run import require_free
from robustify.freeform.llm_judge.judges import Call, Completion, HttpJudge
from robustify.items.item import Item
from robustify.items.prompt_templates import Message
from robustify.judging.free_response import FreeGrades
from robustify.judging.summary.model_parts import FreeFacts
from robustify.pipeline import config as configs
from robustify.pipeline import model_steps, steps
from robustify.pipeline.free_settings import FreeSettings
from robustify.reading.reply_structures import require_packages
from robustify.runs.run import Run, open_run, write_items
from robustify.wings import GUARD, wings
from tests.support import files
from tests.support.cases import cases, contents, refuses
from tests.support.fake_logs import jsonl
from tests.support.fake_scorer import FakeScorer, finds
from tests.support.openai_stub import stub
from tests.support.page_text import text_of_page
from tests.support.trees import measured

COLOURS = ("red", "green", "blue", "grey")
N = 24
OPENED = model_steps.open_scorer
"""What really opens a model."""
JUDGE = "judge: {model: big, base_url: 'http://127.0.0.1:9/v1'}"


def made_items() -> list[Item]:
    """Of the first half every key says so in its own text; two stems cannot be asked without choices."""
    stems = [f"What colour has box number {i}?" for i in range(N)]
    stems[5] = stems[17] = "Which of the following is a colour?"

    def option(i: int, j: int) -> str:
        return f"{COLOURS[j]} right" if i < N // 2 and j == i % 4 else COLOURS[j]

    own = [[option(i, j) for j in range(4)] for i in range(N)]
    return [Item(f"q{i:02d}", stem, tuple(own[i]), i % 4, "boxes") for i, stem in enumerate(stems)]


class Writing(FakeScorer):
    """A scorer that also writes: right on the first half, a colour of its own on others, and nothing certain on some."""

    asked_in_words = 0

    def write(self, prompts: Sequence[str], *, max_tokens: int) -> list[str]:
        Writing.asked_in_words += len(prompts)
        return [self._reply(prompt) for prompt in prompts]

    def _reply(self, prompt: str) -> str:
        i = next((n for n in reversed(range(N)) if f"number {n}?" in prompt), 5)
        if i % 8 == 7:
            return "It is hard to say from here."
        return f"{COLOURS[i % 4]}{' right' if i < N // 2 else ''}" if i < 16 else COLOURS[(i + 1) % 4]


@pytest.fixture(autouse=True, scope="module")
def models() -> Iterator[None]:
    @contextmanager
    def opened(model: Any, *_: object, **__: object) -> Iterator[FakeScorer]:
        kind = Writing if model.name == "one" else FakeScorer
        yield kind(finds("right"), name=model.name)

    def complete(self: HttpJudge, messages: Sequence[Message], call: Call) -> Completion:
        return Completion('{"verdict": "incorrect"}', usage={"total_tokens": 9})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_steps, "open_scorer", opened)
        patch.setattr(model_steps, "check_model", lambda *_: None)
        patch.setattr(HttpJudge, "complete", complete)
        yield


def run_of(folder: Path, free: str | None) -> Run:
    """A run of these items by two fake models of which one writes."""
    folder.mkdir(exist_ok=True)
    write_items(folder / "items.jsonl", made_items())
    block = "" if free is None else f"free: {{{free}}}\n"
    (folder / "boxes.yaml").write_text(
        "name: boxes\nsensitivity: public\ndata: items.jsonl\nmodels: [one, two]\n"
        f"limits: {{min_kept: 1}}\nscreen: {{criterion: unanimous}}\n{block}"
    )
    config = configs.load(folder / "boxes.yaml", wings().adapters)
    return steps.robustify(config, folder / "out", folder / "cache", wings())


@pytest.fixture(scope="module")
def rules_alone(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_of(tmp_path_factory.mktemp("rules"), "mode: auto")


def entry(run: Run, name: str = "free", model: str = "one") -> Any:
    return measured(run.summary, name, model)


def facts(run: Run) -> FreeFacts:
    found = run.summary.models["one"].free
    assert found is not None
    return found


def test_a_run_asks_grades_and_counts_what_it_leaves_open(rules_alone: Run) -> None:
    free, coverage, told = entry(rules_alone), entry(rules_alone, "free_coverage"), facts(rules_alone)
    bounds = [entry(rules_alone, name)["all"]["value"] for name in ("free_lower", "free_upper")]
    assert [coverage["all"]["n"], free["all"]["n"]] == [22, 19]
    assert [free["all"]["value"], *bounds] == pytest.approx([13 / 19, 13 / 22, 16 / 22])
    assert told.statuses == {"needs_judge": 3, "scored": 19}
    assert told.left_out == {"stem_refers_to_choices": 2}
    assert (told.judges, told.judge_status) == ((), None)
    for of in (free, coverage):
        assert of["flagged"]["n"] + of["kept"]["n"] == of["all"]["n"]
    assert rules_alone.summary.models["two"].free is None
    assert "free:" in rules_alone.manifest["signature"]
    assert "free.jsonl" in rules_alone.manifest["files"]
    first, *others = map(json.loads, (rules_alone.folder / "free.jsonl").read_text().splitlines())
    assert (first["question"], first["answer"]) == ("What colour has box number 0?", "red right")
    assert (len(others), first["template"]) == (21, "answer/short@2.0")


def test_the_forecast_counts_what_is_asked_in_words(rules_alone: Run, tmp_path: Path) -> None:
    told, source = {}, rules_alone.folder.parent
    for block in ("", "free: {models: [one], limit: 5}\n"):
        (source / "told.yaml").write_text((source / "boxes.yaml").read_text().partition("free:")[0] + block)
        config = configs.load(source / "told.yaml", wings().adapters)
        found = steps.foretold(config, tmp_path / "new", source / "cache", wings())
        told[block] = {need.model: need.requests for need in found.needs}
    before, after = told.values()
    assert {name: after[name] - before[name] for name in after} == {"one": 5, "two": 0}


def test_the_gap_is_paired_on_items_that_have_both_scores(rules_alone: Run) -> None:
    credit: dict[str, float] = {}
    for row in pq.read_table(rules_alone.folder / "answers.parquet").to_pylist():
        if (row["view"], row["model"]) == ("full", "one"):
            credit.setdefault(row["item"], row["correct"])
    both = [(credit[g.item_id], g.score) for g in rules_alone.free.rows if g.score is not None]
    gap = entry(rules_alone, "free_gap")["all"]
    assert gap["n"] == 19
    assert gap["value"] == pytest.approx(sum(a - b for a, b in both) / 19)


def test_free_response_changes_no_verdict_and_no_other_number(rules_alone: Run, tmp_path: Path) -> None:
    plain = run_of(tmp_path / "plain", None)
    before, after = files(plain.folder), files(rules_alone.folder)
    # The data of the tasks are named after the signature of the run.
    assert {name for name in {*after} - {*before} if not name.endswith(".parquet")} == {"free.jsonl"}
    for name in ("answers.parquet", "verdicts.csv", "kept.jsonl", "flagged.jsonl", "cloze.jsonl"):
        assert after[name] == before[name]
    one, two = plain.summary.tree(), rules_alone.summary.tree()
    for tree in (one, two):
        tree.pop("signature")
        for model in tree["models"].values():
            model["free"] = None
        scores = tree["measures"]["model"]
        tree["measures"]["model"] = {name: scores[name] for name in scores if "free" not in name}
    assert one == two
    without, text = (text_of_page((r.folder / "report.html").read_text()) for r in (plain, rules_alone))
    # The score, and its bounds if the unscored are wrong or right.
    shares = ("68.4", "59.1", "72.7")
    assert all(re.search(rf"Free response[^|]*\| one \[voter\] \| {share} %", text) for share in shares)
    assert "Free response" not in without
    assert "stem refers to choices 2" in text


def test_a_judge_decides_the_rest_and_is_asked_once(tmp_path: Path) -> None:
    run = run_of(tmp_path, JUDGE)
    told, by_judge = facts(run), entry(run, "free_by_judge")["all"]
    assert (entry(run)["all"]["n"], told.judges, told.judge_status) == (22, ("big",), "uncalibrated")
    assert by_judge["value"] == pytest.approx(3 / 22)
    assert "127.0.0.1" not in (run.folder / "run.json").read_text()
    kept = configs.with_models(configs.load(tmp_path / "boxes.yaml", wings().adapters), ["one"])
    assert kept.free.judge.base_url == "http://127.0.0.1:9/v1"
    asked = Writing.asked_in_words
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HttpJudge, "complete", None)
        again = run_of(tmp_path, JUDGE)
    # Everything comes from the cache, and the folder is the same to the byte.
    assert (Writing.asked_in_words, again.manifest["files"]) == (asked, run.manifest["files"])


def test_judging_and_printing_again_keep_the_grades_to_the_byte(rules_alone: Run, tmp_path: Path) -> None:
    before = files(rules_alone.folder)
    assert files(steps.rejudge(rules_alone, {}, rules_alone.folder).folder) == before
    opened = open_run(rules_alone.folder, GUARD)
    other = steps.rejudge(opened, {"screen.criterion": "majority"}, tmp_path / "other")
    assert entry(other)["all"] == entry(rules_alone)["all"]


def test_answers_of_another_model_have_their_own_row_and_people_calibrate(tmp_path: Path) -> None:
    rows = [{"id": f"q{i:02d}", "model": "three", "prediction": "red"} for i in range(N)]
    jsonl(tmp_path / "theirs.jsonl", rows)
    jsonl(tmp_path / "people.jsonl", [{"item_id": "q07", "model": "one", "annotator": "p", "score": 0}])
    run = run_of(tmp_path, f"models: [one], answers: [theirs.jsonl], people: people.jsonl, {JUDGE}")
    assert measured(run.summary, "full", "three") is measured(run.summary, "free_gap", "three") is None
    assert entry(run, "free_coverage", "three")["all"]["n"] == N
    assert run.manifest["free"]["calibration"]["verdicts"]["n"] == 1
    assert run.manifest["config"]["free"]["answers"] == ["theirs.jsonl"]
    jsonl(tmp_path / "theirs.jsonl", [{**rows[0], "id": "strange"}])
    with refuses("answer-to-unknown-item"):
        run_of(tmp_path, "answers: [theirs.jsonl]")


def test_nuggets_limits_and_options_are_settings_of_the_block(tmp_path: Path) -> None:
    jsonl(tmp_path / "facts.jsonl", [{"id": "q00", "nuggets": ["The box is red."]}])
    told = facts(run_of(tmp_path, "facts: facts.jsonl, limit: 5"))
    assert told.kinds == {"nuggets": 1, "short_text": 4}
    assert told.left_out == {"limit": 17, "stem_refers_to_choices": 2}
    assert facts(run_of(tmp_path, "options_shown: true")).left_out == {}


@pytest.mark.parametrize(("block", "code"), cases("free", "run_refused"))
def test_a_block_that_cannot_be_met_is_refused(tmp_path: Path, block: str, code: str) -> None:
    with refuses(code):
        run_of(tmp_path, block)
    assert not (tmp_path / "out" / "run.json").exists()


LINE = contents("free")["grade_line"]


@pytest.mark.parametrize(("field", "value"), [("score", 1.5), ("score", float("nan")), ("judge", {})])
def test_lines_that_are_not_grades_are_refused(field: str, value: object) -> None:
    assert [row.model for row in FreeGrades((LINE,), {}).rows] == ["one"]
    with refuses("invalid-grades"):
        _ = FreeGrades(({**LINE, field: value},), {}).rows


def test_a_served_model_answers_in_words_in_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_steps, "open_scorer", OPENED)
    write_items(tmp_path / "items.jsonl", made_items()[:6])
    with stub() as server:
        settings = {"name": "toy", "engine": "openai", "base_url": server.url, "model": "toy"}
        tree = {
            "name": "boxes", "sensitivity": "public", "data": str(tmp_path / "items.jsonl"), "models": [settings],
            "asking": {"views": ["choices_only", "full"], "orders": 1}, "free": {}, "limits": {"min_kept": 1},
        }  # fmt: skip
        run = steps.robustify(configs.parse(tree, "c.yaml"), tmp_path / "out", tmp_path / "cache", wings())
    assert entry(run, "free_coverage", "toy")["all"]["n"] == 5
    assert {line["answer"].split()[0] for line in run.free.lines} == {"echo"}


@pytest.mark.parametrize("lost", ["pint", "json_repair"])
def test_a_missing_package_is_named_before_a_model_is_asked(lost: str, monkeypatch: Any) -> None:
    name = "robustify.reading.reply_structures.find_spec"
    monkeypatch.setattr(name, lambda name: None if name == lost else name)
    require_packages.cache_clear()
    try:
        with refuses("missing-format-package") as error:
            require_free(FreeSettings(), [])
        assert lost in str(error.value)
    finally:
        require_packages.cache_clear()
