"""`lint` of logs: each planted error of a harness is found at its lines, clean logs are silent, and no text is printed."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from bench.log_plants import PLANTS, SOME, Plant
from bench.planted_logs import (
    EXAMPLES,
    HouseItem,
    clean_logs,
    house_items,
    inspect_tree,
    letters_row,
    sample,
    shots,
    write_jsonl,
    written_row,
)
from robustify.judging.lint.findings import Finding, log_findings
from robustify.judging.lint.log_rules import LOG_RULES
from robustify.pipeline.linted_logs import as_log
from robustify.reading.logs import is_log
from robustify.wings import GUARD
from tests.support.cases import cases, contents

LOG = "samples_house.jsonl"
ALL_ROWS = {"L002", "L011", "L012", "L014", "L015", "L016", "L017", "L018", "L019", "L028"}
"""Rules whose plants are in all rows, or are about a model."""


def found_in(paths: list[Path]) -> list[Finding]:
    logs = [as_log(str(path), {}, GUARD, certain=False) for path in paths]
    return log_findings([log for log in logs if log], LOG_RULES)


def codes_of(paths: list[Path]) -> set[str]:
    return {finding.code for finding in found_in(paths)}


@pytest.fixture(scope="module")
def found_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Plant], tuple[Finding, ...]]:
    """Return the findings in the log of a plant, which is linted once for all tests."""

    @cache
    def found(plant: Plant) -> tuple[Finding, ...]:
        return tuple(found_in(plant.write(tmp_path_factory.mktemp("plant"))))

    return found


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: f"{plant.code} {plant.what}")
def test_a_planted_error_is_found_at_its_lines(plant: Plant, found_of) -> None:
    hits = [one for one in found_of(plant) if one.code == plant.code]
    assert hits
    lines = {one.line for one in hits if one.item}
    expected = {at + 1 for at in SOME}
    if plant.code == "L020":
        expected = {61, 62, 63, 64, 65}
    assert lines == (set() if plant.code in ALL_ROWS or len(hits) == 1 else expected)


def test_every_rule_has_a_plant_and_every_plant_a_rule() -> None:
    assert {plant.code for plant in PLANTS} == set(LOG_RULES)


@pytest.mark.parametrize("seed", [3, 4])
def test_clean_logs_of_four_harnesses_are_silent(seed: int, tmp_path: Path) -> None:
    for paths in clean_logs(tmp_path, seed).values():
        assert all(map(is_log, paths))
        assert found_in(paths) == []


def test_findings_have_no_text_of_items_or_replies(found_of) -> None:
    words = {
        word for item in house_items(60) for text in (item.question, *item.options) for word in text.split()
    }
    rare = {word for word in words if len(word) > 5} - {"number"}
    for plant in PLANTS:
        for one in found_of(plant):
            assert rare.isdisjoint(one.message.split())


def test_the_command_lints_items_and_log_and_as_settles_which(tmp_path: Path, robustify) -> None:
    log = PLANTS[0].write(tmp_path)[0]
    both = robustify("lint", str(log), "--format", "json")
    assert both.code == 7
    codes = {one["code"] for one in json.loads(both.out)["findings"]}
    assert "L001" in codes
    items = robustify("lint", str(log), "--as", "items", "--format", "json")
    assert not any(one["code"].startswith("L") for one in json.loads(items.out)["findings"])
    assert robustify("lint", str(log), "--ignore", "L001", "--select", "L").code == 0
    assert robustify("lint", str(log), "--select", "L", "--fail-on", "never").code == 0


def test_a_log_that_cannot_be_read_can_still_be_linted_as_items(tmp_path: Path, robustify) -> None:
    rows = [letters_row(item, item.key) for item in house_items(12)]
    rows[4]["resps"] = rows[4]["filtered_resps"] = [[["-1.0", "False"]]] * 3
    log = write_jsonl(tmp_path / LOG, rows)
    refused = robustify("lint", log)
    assert refused.code == 3
    assert "--as items" in refused.err
    assert robustify("lint", log, "--as", "items", "--fail-on", "never").code == 0
    assert robustify("lint", log, "--skip-bad", "--select", "L", "--fail-on", "never").code == 0


def test_a_finding_stands_at_its_line_in_sarif(tmp_path: Path, robustify) -> None:
    log = PLANTS[0].write(tmp_path)[0]
    run = json.loads(robustify("lint", str(log), "--select", "L001", "--format", "sarif").out)["runs"][0]
    places = [one["locations"][0]["physicalLocation"]["region"]["startLine"] for one in run["results"]]
    assert places == [at + 1 for at in SOME]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["L001"]


def test_a_table_of_items_is_no_log_unless_it_has_picks(tmp_path: Path) -> None:
    items = tmp_path / "quiz.jsonl"
    write_jsonl(
        items, [{"question": f"Which {n}?", "choices": ["a b", "c d"], "answer": 0} for n in range(9)]
    )
    assert not is_log(items)
    rows = [{"model": "m", "item": n, "key": "A", "pick": "AB"[n % 2], "k": 2} for n in range(20)]
    assert is_log(write_jsonl(tmp_path / "picks.jsonl", rows))


def test_a_score_that_contradicts_the_key_in_a_table_of_picks_is_a_finding(tmp_path: Path) -> None:
    rows = [
        {"model": "m", "item": n, "key": "A", "pick": "AB"[n % 2], "k": 2, "correct": n % 2 == 0}
        for n in range(20)
    ]
    rows[5]["correct"] = True
    path = write_jsonl(tmp_path / "picks.jsonl", rows)
    assert [(one.code, one.line) for one in found_in([path])] == [("L008", 6)]


ITEMS = house_items(60)


def turned(item: HouseItem) -> str:
    """Another item as an example with its options in another order."""
    other = ITEMS[(item.number + 5) % 60]
    turned = replace(other, options=other.options[1:] + other.options[:1], key=(other.key - 1) % 4)
    return f"{turned.prompt()} {'ABCD'[turned.key]}\n\n"


@pytest.mark.parametrize("prompt", (clean := contents("lint")["clean_prompts"]).values(), ids=clean)
def test_a_prompt_that_is_only_odd_is_clean(prompt: str, tmp_path: Path) -> None:
    rows = []
    for i in ITEMS:
        parts = {"prompt": i.prompt(), "listed": i.listed(), "turned": turned(i)}
        text = prompt.format(i=i, letter="AB"[i.number % 2], digit=i.number % 4, **parts)
        rows.append(letters_row(i, i.key, text))
    assert codes_of([write_jsonl(tmp_path / LOG, rows)]) == set()


def test_questions_that_nearly_all_begin_alike_are_not_cut(tmp_path: Path) -> None:
    items = [replace(i, question=f"Tell me: {i.question}") if i.number % 12 == 0 else i for i in ITEMS]
    rows = [letters_row(i, i.key, f"{i.question}\n{i.listed()}Answer:") for i in items]
    assert found_in([write_jsonl(tmp_path / LOG, rows)]) == []


def test_models_with_other_chat_templates_have_the_same_examples(tmp_path: Path) -> None:
    items, paths = house_items(30), []
    templates = (
        ("<|im_start|>system\nYou help.<|im_end|>\n<|im_start|>user\n", "<|im_end|>"),
        ("[INST] ", " [/INST]"),
    )
    for model, (head, tail) in enumerate(templates):
        rows = [letters_row(i, i.key, f"{head}{shots(EXAMPLES)}\n\n{i.prompt()}{tail}") for i in items]
        paths.append(write_jsonl(tmp_path / f"model{model}" / LOG, rows))
    assert found_in(paths) == []


def test_a_shuffled_pointer_needs_a_shuffle(tmp_path: Path) -> None:
    items = house_items(30)
    options = (*items[3].options[:3], "all of the above")
    samples = [sample(item, item.key) for item in items]
    samples[3] |= {"choices": list(options)}
    path = tmp_path / "log.json"
    path.write_text(json.dumps(inspect_tree(samples)))
    assert "L013" not in codes_of([path])


def test_a_reply_that_runs_on_with_the_same_answer_is_scored_rightly(tmp_path: Path) -> None:
    tail = "\n\nQuestion: Where is the clock?\nA. here\nB. there\nAnswer: B"
    rows = [written_row(i, f"{'ABCD'[i.key]}{tail}", "ABCD"[i.key]) for i in house_items(30)]
    assert codes_of([write_jsonl(tmp_path / LOG, rows)]) <= {"L014"}


def test_two_models_in_two_files_are_compared_only_within_a_task(tmp_path: Path) -> None:
    [plant] = [plant for plant in PLANTS if plant.code == "L016"]
    first, second = plant.write(tmp_path)
    other = second.with_name("samples_other.jsonl")
    second.rename(other)
    assert found_in([first, other]) == []


@pytest.mark.parametrize("same", [True, False])
def test_an_example_with_the_question_but_other_options_is_another_item(same: bool, tmp_path: Path) -> None:
    rows = []
    for item in house_items(1):
        example = item if same else replace(item, options=tuple(f"no {text}" for text in item.options))
        rows.append(letters_row(item, 0, f"{example.prompt()} {'ABCD'[item.key]}\n\n{item.prompt()}"))
    write_jsonl(tmp_path / LOG, rows)
    assert codes_of([tmp_path / LOG]) & {"L004", "L005"} == ({"L004"} if same else set())


@pytest.mark.parametrize(
    ("labels", "codes"), [("ABCD", set()), ("abcd", set()), ("1234", {"L023"}), ("EFGH", {"L023"})]
)
def test_labels_must_be_those_that_are_scored(labels: str, codes: set[str], tmp_path: Path) -> None:
    rows = []
    for item in house_items(30):
        lines = "".join(f"({label}) {text}\n" for label, text in zip(labels, item.options, strict=True))
        rows.append(letters_row(item, item.key, f"{item.question}\n{lines}Answer:"))
    assert codes_of([write_jsonl(tmp_path / LOG, rows)]) == codes


@pytest.mark.parametrize(("replies", "extracted", "is_misread"), cases("lint", "misread"))
def test_a_reply_is_misread_only_if_it_is_clear(
    replies: list[str], extracted: str, is_misread: bool, tmp_path: Path
) -> None:
    rows = [written_row(item, replies[0], extracted) | {"resps": [replies]} for item in house_items(8)]
    assert ("L021" in codes_of([write_jsonl(tmp_path / LOG, rows)])) == is_misread


def test_the_letter_of_a_shuffled_prompt_is_that_of_the_prompt_or_of_the_log(tmp_path: Path) -> None:
    samples = []
    for item in house_items(20):
        turned = replace(item, options=item.options[1:] + item.options[:1])
        row = sample(turned, 1) | {"choices": [*item.options], "target": "ABCD"[item.key]}
        answer = {"value": "C" if item.key == 2 else "I", "answer": "C"}
        samples.append(row | {"scores": {"choice": answer}})
    (tmp_path / "log.json").write_text(json.dumps(inspect_tree(samples)))
    assert "L021" not in codes_of([tmp_path / "log.json"])


def test_ranks_that_differ_by_chance_are_no_finding(tmp_path: Path) -> None:
    [plant] = [plant for plant in PLANTS if plant.code == "L019"]
    paths = plant.write(tmp_path)
    assert codes_of(paths) == {"L019"}
    first, second = (path.read_text().splitlines(keepends=True) for path in paths)
    # Five items that differ cannot be significant in a two-sided sign test.
    paths[1].write_text("".join([*second[:5], *first[5:]]))
    assert codes_of(paths) == set()


def test_a_log_of_hidden_questions_is_linted_as_such(tmp_path: Path, robustify) -> None:
    silent = write_jsonl(tmp_path / LOG, [letters_row(i, i.key, i.listed()) for i in house_items(30)])
    assert codes_of([silent]) == {"L006"}
    assert robustify("lint", f"choices_only:{silent}", "--select", "L").code == 0


def test_a_folder_of_logs_is_linted_without_its_other_files(tmp_path: Path, robustify) -> None:
    for at, plant in enumerate((PLANTS[0], PLANTS[5])):
        [log] = plant.write(tmp_path / "logs" / str(at))
        log.with_name("results_x.json").write_text("{}")
    (tmp_path / "logs" / "notes.json").write_text("[]")
    ended = robustify("lint", tmp_path / "logs", "--select", "L", "--format", "json")
    assert ended.code == 7
    assert {finding["code"] for finding in json.loads(ended.out)["findings"]} == {"L001", "L005", "L016"}
    (tmp_path / "empty").mkdir()
    assert robustify("lint", tmp_path / "empty").code == 2


def test_a_table_of_picks_is_not_called_clean(robustify, tmp_path: Path) -> None:
    (tmp_path / "picks.csv").write_text(
        "model,view,item,key,pick\n" + "".join(f"m,full,i{i},{'ABCD'[i % 4]},D\n" for i in range(8))
    )
    ended = robustify("lint", "picks.csv", "--json")
    assert (ended.code, json.loads(ended.out)["error"]["codes"]) == (3, ["log-of-picks"])
