"""Plain tables of picks: which column is what, how choices are named, and what is refused rather than guessed."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from robustify.base.errors import DataError, UsageError
from robustify.reading.guard import UNGUARDED
from robustify.reading.loaders import Loaded, Source, load
from robustify.reading.logs import Log, LogOptions, gather, mapping, read_log
from robustify.reading.logs.gathered import rotation_groups
from robustify.reading.logs.pick_rules import RULES, Profile, decide
from robustify.reading.vocabulary import NAMES
from robustify.runs.run import write_items
from tests.support.fake_logs import boxes, jsonl, sheet

LONG = [
    {"model": model, "item": f"i{at}", "key": key, "pick": pick, "condition": "choices_only"}
    for model, picks in (("one", "ABCA"), ("two", "BBCD"))
    for at, (key, pick) in enumerate(zip("ABAD", picks, strict=True))
]


def log_of(path: Path, rows: Sequence[Mapping[str, object]], *said: str, **wanted: object) -> Log:
    written = sheet(path, rows) if path.suffix == ".csv" else jsonl(path, rows)
    return read_log(written, LogOptions(columns=mapping(said), **wanted))


def numbered(first: int) -> list[dict[str, object]]:
    return [
        {**r, "key": "ABCD".index(r["key"]) + first, "pick": "ABCD".index(r["pick"]) + first} for r in LONG
    ]


def rows_of(log: Log) -> list[tuple[object, ...]]:
    rows = gather([log], None).answers.table.to_pylist()
    return [(r["model"], r["item"], r["key"], r["pick"], r["correct"]) for r in rows]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.json"])
def test_a_long_table_names_model_item_key_and_pick(tmp_path: Path, name: str) -> None:
    log = log_of(tmp_path / "x.csv", LONG) if name == "a.csv" else log_of(tmp_path / name, LONG)
    if name == "a.json":
        (tmp_path / name).write_text(json.dumps(LONG))
        log = read_log(tmp_path / name, LogOptions())
    assert rows_of(log) == [
        ("one", "i0", 0, 0, 1.0), ("one", "i1", 1, 1, 1.0), ("one", "i2", 0, 2, 0.0), ("one", "i3", 3, 0, 0.0),
        ("two", "i0", 0, 1, 0.0), ("two", "i1", 1, 1, 1.0), ("two", "i2", 0, 2, 0.0), ("two", "i3", 3, 3, 1.0),
    ]  # fmt: skip
    assert {reply.view for reply in log.replies} == {"choices_only"}
    assert any("4 choices" in note for note in log.notes)


def test_a_null_pick_or_a_word_is_unanswered_and_never_wrong(tmp_path: Path) -> None:
    rows = [dict(row) for row in LONG]
    rows[0]["pick"], rows[1]["pick"], rows[2]["pick"] = None, "", "To"
    assert [r[3:] for r in rows_of(log_of(tmp_path / "a.jsonl", rows))[:4]] == [(None, None)] * 3 + [(0, 0.0)]


DRESSED = {
    "bold": "**{mark}**", "dollars": "${mark}$", "boxed": r"\boxed{{{mark}}}", "with its text": "{mark}) {text}",
    "of two lines": "{mark}\nAnswer text: {text}", "announced": "The answer is ({mark}).", "its text": "{text}",
}  # fmt: skip


@pytest.mark.parametrize("dress", DRESSED)
@pytest.mark.parametrize("marks", ["ABCD", "abcd", "أبجد", "АБВГ", "ابتث", ["i", "ii", "iii", "iv"]])
def test_an_answer_counts_in_whatever_words_it_names_one_choice(
    tmp_path: Path, dress: str, marks: Sequence[str]
) -> None:
    rows: list[dict[str, object]] = []
    for at, item in enumerate(boxes(8)):
        pick = (at + at % 3) % 4
        said = DRESSED[dress].format(mark=marks[pick], text=item.choices[pick])
        rows.append({"model": "m", "question": item.stem, "options": json.dumps(item.choices), "key": marks[item.key],
                     "pick": said if at % 2 else marks[pick]})  # fmt: skip
    found = rows_of(log_of(tmp_path / "a.csv", rows, view="full"))
    assert [r[2:4] for r in found] == [(i.key, (at + at % 3) % 4) for at, i in enumerate(boxes(8))]


def test_an_answer_that_names_two_choices_or_none_is_unanswered_and_says_why(tmp_path: Path) -> None:
    said = {
        "A or B": "several options",
        "B) red 1": "mark and text differ",
        "E": "beyond the options",
        "A red one": "no mark",
    }
    rows = [
        {"model": "m", "question": i.stem, "options": json.dumps(i.choices), "key": "A", "pick": pick}
        for i, pick in zip(boxes(4), said, strict=True)
    ]
    table = gather([log_of(tmp_path / "a.jsonl", rows, view="full")], None).answers.table
    assert dict(zip(said, table["error"].to_pylist(), strict=True)) == said


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([{n: c for n, c in row.items() if n != "item"} for row in LONG],
         r"a\.csv:2: the row has neither an item ID nor text; .*--map id=NAME"),
        ([*LONG, LONG[1]], r"a\.csv:10: the row repeats a\.csv:3 \(model one"),
        ([*LONG[:6], {**LONG[6], "key": "B"}], r"a\.csv:8: the key, topic, or number of choices differs"),
    ],
)  # fmt: skip
def test_rows_that_name_no_item_or_contradict_one_another_are_refused_by_line(
    tmp_path: Path, rows: list[dict[str, object]], told: str
) -> None:
    with pytest.raises(DataError, match=told):
        gather([log_of(tmp_path / "a.csv", rows)], None)


@pytest.mark.parametrize(("first", "shift"), [("first==1", 1), ("", 0)])
def test_numbers_count_from_what_is_said_or_from_a_0_that_is_there(
    tmp_path: Path, first: str, shift: int
) -> None:
    said = [first] if first else []
    assert [r[2:4] for r in rows_of(log_of(tmp_path / "a.jsonl", numbered(shift), *said))] == [
        r[2:4] for r in rows_of(log_of(tmp_path / "b.csv", LONG))
    ]


def test_a_column_with_gaps_holds_whole_numbers_all_the_same(tmp_path: Path) -> None:
    rows = [{**row, "pick": float(str(row["pick"]))} for row in numbered(0)]
    rows[2]["pick"] = ""
    for path in (tmp_path / "a.jsonl", tmp_path / "a.csv"):
        assert [r[3] for r in rows_of(log_of(path, rows))] == [0, 1, None, 0, 1, 1, 2, 3]


def test_numbers_that_may_count_from_1_are_refused_with_the_mapping_to_write(tmp_path: Path) -> None:
    for path in (tmp_path / "a.jsonl", tmp_path / "a.csv"):
        with pytest.raises(DataError, match="--map first==0 or --map first==1"):
            log_of(path, numbered(1))
        with pytest.raises(
            DataError, match="keys count from 0, but picks may count from 1, because none is 0"
        ):
            log_of(
                path,
                [{**row, "pick": one["pick"]} for row, one in zip(numbered(0), numbered(1), strict=True)],
            )


WIDE = [
    {"question": i.stem, "options": json.dumps(i.choices), "gold": i.choices[i.key], "m1": "A", "m-2": p}
    for i, p in zip(boxes(4), ("A", " B", "To", ""), strict=True)
]


def test_a_wide_table_has_a_column_of_picks_for_each_model(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"no column contains picks; found the columns .*--map pick=NAME,NAME"
    ):
        log_of(tmp_path / "a.csv", WIDE)
    log = log_of(tmp_path / "a.csv", WIDE, "pick=m1,m-2", view="full")
    found = gather([log], None)
    assert [i.choices for i in found.items or ()] == [i.choices for i in boxes(4)]
    assert found.answers.block("full", "m1").pick.tolist() == [0, 0, 0, 0]
    assert found.answers.block("full", "m-2").pick.tolist() == [0, 1, -1, -1]
    with pytest.raises(UsageError, match="the columns of picks already name the models"):
        log_of(tmp_path / "a.csv", WIDE, "pick=m1,m-2", model="m3")


MIXED = [*boxes(3, 2), *(replace(i, id=f"c{i.id}", stem=f"Or {i.stem}") for i in boxes(3, 5))]


def by_id(path: Path, **changed: object) -> Log:
    rows = [{"model": "m", "id": i.id, "pick": "ABCDE"[i.key], **changed} for i in MIXED]
    return log_of(path, rows, view="full", keyed=True)


def bench(tmp_path: Path) -> Loaded:
    write_items(tmp_path / "items.jsonl", MIXED)
    return load(Source(path=str(tmp_path / "items.jsonl")), UNGUARDED)


def test_rows_with_ids_need_no_number_of_choices_where_the_items_are_given(tmp_path: Path) -> None:
    found = gather([by_id(tmp_path / "a.csv")], bench(tmp_path))
    assert found.answers.block("full", "m").correct.tolist() == [1.0] * 6
    assert not found.set_aside
    # A letter beyond an item's own choices names none of them.
    found = gather([by_id(tmp_path / "b.csv", pick="C")], bench(tmp_path))
    assert found.answers.block("full", "m").pick.tolist() == [-1] * 3 + [2] * 3


def test_a_key_that_contradicts_the_item_of_its_id_is_refused_by_line(tmp_path: Path) -> None:
    log = by_id(tmp_path / "a.csv", key="A")
    with pytest.raises(DataError) as error:
        gather([log], bench(tmp_path))
    wrong = [n for n, i in enumerate(MIXED, start=2) if i.key]
    assert [line.split(": ")[0] for line in error.value.lines] == [f"a.csv:{n}" for n in wrong]
    assert all("the key differs from that of the item with this ID" in line for line in error.value.lines)
    found = gather([log], bench(tmp_path), skip_bad=True)
    assert [row.line for row in found.set_aside] == wrong


def test_a_key_that_names_identical_choices_or_none_is_told_by_line(tmp_path: Path) -> None:
    rows = [{"model": "m", "stem": "Which?", "choices": ["red", "red", "blue"], "key": "red", "pick": "blue"}]
    (fault,) = log_of(tmp_path / "a.jsonl", rows).faults
    assert fault.reason == "the key is text that names 2 identical choices"
    (fault,) = log_of(tmp_path / "a.csv", [{**LONG[0], "key": "Q", "item": "bad"}, *LONG], "k==4").faults
    assert (fault.line, fault.reason) == (2, "the key is text that names none of 4 choices")


def test_a_letter_is_a_letter_even_where_a_choice_is_one(tmp_path: Path) -> None:
    row = {"stem": "Which?", "choices": json.dumps(["B", "A", "C"]), "key": "C"}
    rows = [{"id": f"i{n}", "model": "m", **row, "pick": pick} for n, pick in enumerate("ABC")]
    assert [r[3] for r in rows_of(log_of(tmp_path / "a.csv", rows))] == [0, 1, 2]


SIDED = [
    {"pair": n, "q": i.stem, "a_side": i.choices[0], "b_side": i.choices[1], "x_pA": 0.9, "x_pB": 0.1,
     "x_picked": "A", "x_right": 1, "y_pA": 0.0, "y_pB": 1.0, "y_picked": "B", "y_right": 0}
    for n, i in enumerate(boxes(4))
]  # fmt: skip
SAID = ("stem=q", "choices=a_side,b_side", "key==A", "pick=*_picked", "correct=*_right")


def test_what_a_table_does_not_say_can_be_said_for_every_row(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"there is no column for the key; found the columns pair, q, .*--map key==VALUE"
    ):
        log_of(tmp_path / "a.csv", SIDED)
    rows = rows_of(log_of(tmp_path / "a.csv", SIDED, *SAID, view="choices_only"))
    assert [r[0] for r in rows] == ["x"] * 4 + ["y"] * 4
    assert {r[2:] for r in rows} == {(0, 0, 1.0), (0, 1, 0.0)}


def test_probabilities_become_logarithms_and_must_agree_with_the_picks(tmp_path: Path) -> None:
    found = gather([log_of(tmp_path / "a.csv", SIDED, *SAID, "scores=*_pA,*_pB")], None)
    assert found.answers.block("full", "x").scores[0].tolist() == pytest.approx(
        [-0.10536, -2.302585], abs=1e-5
    )
    assert found.answers.block("full", "y").scores[0].tolist() == pytest.approx([-27.631, 0.0], abs=1e-3)
    wrong = [{**row, "x_picked": "B", "x_right": 0} for row in SIDED]
    faults = log_of(tmp_path / "b.csv", wrong, *SAID, "scores=*_pA,*_pB").faults
    assert [f.line for f in faults] == [2, 3, 4, 5]


def test_a_column_that_contradicts_key_and_pick_is_told_by_line(tmp_path: Path) -> None:
    rows = [{**row, "x_right": int(row["pair"] != 2)} for row in SIDED]
    faults = log_of(tmp_path / "a.csv", rows, *SAID).faults
    assert [(f.line, f.reason) for f in faults] == [
        (4, "the `correct` column says wrong, but key and pick imply the opposite. Check the columns.")
    ]


def test_two_columns_that_could_each_be_the_key_are_refused(tmp_path: Path) -> None:
    rows = [{**row, "gold": "A"} for row in LONG]
    with pytest.raises(
        DataError, match=r"`key` and `gold` could each be the key\. Select one, as in --map key=NAME"
    ):
        log_of(tmp_path / "a.csv", rows)
    assert [r[2] for r in rows_of(log_of(tmp_path / "a.csv", rows, "key=gold", "k==4"))] == [0] * 8


def test_a_condition_that_is_not_known_is_refused_and_counted(tmp_path: Path) -> None:
    rows = [{**row, "condition": "warm"} for row in LONG]
    with pytest.raises(DataError, match="the view column contains 1 unknown values; expected choices_only"):
        log_of(tmp_path / "a.csv", rows)
    assert {r.view for r in log_of(tmp_path / "a.csv", rows, view="full").replies} == {"full"}
    with pytest.raises(UsageError, match="that contradicts the view given for this log"):
        log_of(tmp_path / "a.csv", LONG, view="full")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("key", "expected PART=COLUMN"),
        ("kee=gold", "unknown part 'kee'"),
        ("key=nowhere", "a column 'nowhere' that does not exist"),
        ("first==2", "expected --map first==0 or --map first==1"),
        ("key_is=word", "expected one of auto, index"),
        ("key_is=index", "`key_is` is for logs"),
    ],
)
def test_a_wrong_mapping_is_refused(tmp_path: Path, said: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        log_of(tmp_path / "a.csv", LONG, said)
    with pytest.raises(UsageError, match="given twice"):
        mapping(["key=a", "key=b"])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("A question,x,y,A\nAnother question,x,y,B\nA third one,x,y,A\n", "items without picks"),
        ("a,b\n1,2\n", "no column contains picks; found the columns a, b"),
        ('"What is SECRET?","the SECRET thing"\n1,2\n', "names not shown"),
        ("model,key,pick\nm,A,C\nm,B,A\n", "The keys go up to 2, and the picks to 3.*--map k==N"),
    ],
)
def test_a_file_that_is_no_table_of_picks_is_refused(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DataError, match=told) as error:
        read_log(tmp_path / "a.csv", LogOptions())
    assert "SECRET" not in str(error.value)


SCORED = [
    {"model": "m", "view": "full", "item": f"i{at}", "key": "ABCD"[at % 4], "scores": row}
    for at, row in enumerate(
        [[-1.0 if j == pick else -2.0 - j for j in range(4)] for pick in (0, 1, 3, 3, 2, 1)]
    )
]
BEST = [0, 1, 3, 3, 2, 1]


def _apart(row: Mapping[str, object]) -> dict[str, object]:
    values = row["scores"]
    assert isinstance(values, list)
    return {
        **{k: v for k, v in row.items() if k != "scores"},
        **dict(zip(("sa", "sb", "sc", "sd"), values, strict=True)),
    }


@pytest.mark.parametrize(
    ("form", "mapped"),
    [
        (lambda row: row, ()),
        (lambda row: {**row, "scores": [row["scores"]]}, ()),
        (lambda row: {**row, "scores": [str(score) for score in row["scores"]]}, ()),
        (lambda row: {**row, "scores": str(row["scores"])}, ()),
        (lambda row: {**row, "scores": str(row["scores"]).replace(",", "")}, ()),
        (lambda row: {**row, "scores": dict(zip("ABCD", row["scores"], strict=True))}, ()),
        (lambda row: {**row, "logprobs": row["scores"], "scores": None}, ("scores=logprobs",)),
        (lambda row: {**row, "out": {"lm": row["scores"]}, "scores": None}, ("scores=out.lm",)),
        (_apart, ("scores=sa,sb,sc,sd",)),
    ],
)  # fmt: skip
def test_without_picks_the_best_score_is_the_pick(
    tmp_path: Path, form: Callable[[Mapping[str, object]], Mapping[str, object]], mapped: tuple[str, ...]
) -> None:
    log = log_of(tmp_path / "a.jsonl", [form(row) for row in SCORED], *mapped)
    assert [row[3] for row in rows_of(log)] == BEST
    assert any("best score is the pick" in note for note in log.notes)


@pytest.mark.parametrize(
    "bad", [[-1.0, -2.0, -3.0], [-1.0, -2.0, -3.0, -4.0, -5.0], [-1.0, None, -3.0, -4.0]]
)
def test_a_row_of_scores_that_are_not_one_per_choice_is_refused(tmp_path: Path, bad: list[float]) -> None:
    rows = [{**row, "k": 4} for row in SCORED]
    rows[2] = {**rows[2], "scores": bad}
    assert [fault.line for fault in log_of(tmp_path / "a.jsonl", rows).faults] == [3]


def test_members_and_docs_words_can_be_mapped(tmp_path: Path) -> None:
    rows = [{"index": r["item"], "target": r["key"], "score": {"out": {"pick": r["pick"]}}} for r in LONG[:4]]
    mapped = ("item=index", "key=target", "pick=score.out.pick", "model==one", "k==4")
    log = log_of(tmp_path / "a.jsonl", rows, *mapped, view="full")
    assert [row[:4] for row in rows_of(log)] == [
        row[:4] for row in rows_of(log_of(tmp_path / "b.jsonl", LONG[:4]))
    ]
    with pytest.raises(UsageError, match=r"column 'score.out.picks' that does not exist"):
        log_of(tmp_path / "a.jsonl", rows, *mapped[:2], "pick=score.out.picks")


@pytest.mark.parametrize(
    ("form", "picks"),
    [
        (lambda pick: [pick], [0, 1, 2, 0]),
        (lambda pick: f"['{pick}']", [0, 1, 2, 0]),
        (lambda pick: [pick, pick], [0, 1, 2, 0]),
        (lambda pick: [pick, "D"], [None] * 4),
        (lambda pick: f"['{pick}', 'D']", [None] * 4),
    ],
)  # fmt: skip
def test_a_list_of_one_pick_is_the_pick(
    tmp_path: Path, form: Callable[[object], object], picks: list[int | None]
) -> None:
    rows = [{**row, "pick": form(row["pick"])} for row in LONG[:4]]
    assert [row[3] for row in rows_of(log_of(tmp_path / "a.jsonl", rows, "k==4"))] == picks


@pytest.mark.parametrize(
    ("rows", "mapped", "word", "absent"),
    [
        ([{"index": 0, "model_output": {}, "messages": []}], (), "EvalScope.*reviews", "--map pick=NAME"),
        ([{"instance": {}, "request": {}, "result": {}}], (), "HELM.*Every Eval Ever", "--map"),
        (
            [{"a": "m", "b": "A", "c": 1}],
            ("model=a", "key=b"),
            "OpenCompass, or OpenEval.*--map pick=NAME,",
            "--map key",
        ),
        ([{"model": "m", "key": "A", "c": "x"}], (), "--map pick=NAME,", "--map model"),
    ],
)
def test_a_refusal_names_only_what_is_left_to_do(
    tmp_path: Path, rows: list[dict[str, object]], mapped: tuple[str, ...], word: str, absent: str
) -> None:
    with pytest.raises(DataError, match=word) as error:
        log_of(tmp_path / "a.jsonl", rows, *mapped)
    assert absent not in str(error.value)


def test_every_rule_of_a_table_has_a_name_and_a_reason_and_can_decide() -> None:
    assert {rule.part for rule in RULES} == {part[6:] for part in NAMES if part.startswith("picks.")}
    assert len({(rule.part, rule.name) for rule in RULES}) == len(RULES)
    assert all(rule.reason for rule in RULES)
    profile = Profile("a", ("alpha_pick", "beta_pick", "key", "A", "B", "who"), ({"who": {"id": 1}},))
    decided = decide(profile, {"id": "who.id"})
    assert decided.because == {
        "choices": "one column each",
        "id": "mapped",
        "key": "usual name",
        "pick": "per model",
    }


@pytest.mark.parametrize(
    ("names", "bases"),
    [
        (
            ["0", "1", "1000000", "1000001", "2000000"],
            {"0": "0", "1000000": "0", "2000000": "0", "1": "1", "1000001": "1"},
        ),
        (["q1_rot0", "q1_rot1", "q2_rot0"], {"q1_rot0": "q1", "q1_rot1": "q1"}),
        (["a-perm1", "a-perm2"], {"a-perm1": "a", "a-perm2": "a"}),
        (["q1-01", "q1-02", "order-1", "border1"], {}),
        (["5", "1000007", "2000009"], {}),
    ],
)
def test_ids_of_rotated_copies_are_one_group(tmp_path: Path, names: list[str], bases: dict[str, str]) -> None:
    assert rotation_groups(names) == bases
    rows = [
        {"model": "m", "view": "full", "item": name, "key": "AB"[at % 2], "pick": "A"}
        for at, name in enumerate(names)
    ]
    assert gather([log_of(tmp_path / "a.csv", rows)], None).groups == bases
