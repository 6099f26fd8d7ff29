"""Review sheets: verdicts as people and spreadsheets write them, two raters, and what is left unreviewed."""

import csv
from pathlib import Path

import pytest

from robustify.composing.candidate_checks import Votes, apply_votes, candidate_code, read_votes, review_sheet
from robustify.composing.composed_folder import write_review_sheet
from robustify.composing.pool import VERDICTS, Candidate, Pool, make_pools
from robustify.gate.shapes import shapes_of
from robustify.items.item import Item
from robustify.report.explorer import page
from tests.support.cases import refuses
from tests.support.fake_logs import jsonl, sheet


def pools(n: int = 3) -> tuple[Pool, ...]:
    texts = [(f"Which of these is number {at}?", (f"right {at}", f"own {at}")) for at in range(n)]
    items = [Item(f"i{at}", *both, 0) for at, both in enumerate(texts)]
    offered = [[Candidate(f"=new {at}", "gpt"), Candidate(f"last {at}", "gpt")] for at in range(n)]
    return make_pools(items, offered)


def new(n: int) -> list[tuple[Candidate, ...]]:
    return [pool.candidates[1:] for pool in pools(n)]


def verdicts(n: int, votes: Votes) -> list[tuple[str, ...]]:
    return [tuple(one.verdict for one in pool.candidates) for pool in apply_votes(pools(n), votes)[0]]


def sheet_at(path: Path, n: int = 3) -> list[dict[str, str]]:
    write_review_sheet(path, review_sheet(pools(n), new(n), "s"))
    return list(csv.DictReader(path.open(encoding="utf-8", newline="")))


def filled(path: Path, said: list[str], rater: str = "") -> Path:
    rows = sheet_at(path, len(said) // 2)
    return sheet(path, [{**row, "verdict": one, "rater": rater} for row, one in zip(rows, said, strict=True)])


def test_a_sheet_has_a_row_for_each_candidate_and_runs_no_formula(tmp_path: Path) -> None:
    rows = sheet_at(tmp_path / "review.csv")
    assert [row["candidate"] for row in rows[:2]] == ["'=new 0", "last 0"]
    assert {row["verdict"] for row in rows} == {""}
    assert "gpt" not in (tmp_path / "review.csv").read_text()
    assert len({row["code"] for row in rows}) == 6


@pytest.mark.parametrize("name", ["review.csv", "review.html"])
def test_the_gate_knows_a_sheet_by_its_shape(tmp_path: Path, name: str) -> None:
    write_review_sheet(tmp_path / "review.csv", sheet := review_sheet(pools(), new(3), "s"))
    (tmp_path / "review.html").write_text(page(sheet, "review"), "utf-8")
    assert shapes_of((tmp_path / name).read_text("utf-8"))


SPELLED = {
    "1": "wrong", "1.0": "wrong", " Wrong ": "wrong", "2": "right too", "RIGHT_TOO": "right too", "3": "unclear", "": "",
}  # fmt: skip


@pytest.mark.parametrize(("written", "read"), SPELLED.items())
def test_verdicts_are_read_as_people_write_them(tmp_path: Path, written: str, read: str) -> None:
    votes = read_votes([filled(tmp_path / "anna.csv", [written, "1"])])
    assert verdicts(1, votes) == [("", read, "wrong")]
    assert apply_votes(pools(1), votes)[1].raters == ("anna",)


def test_an_unknown_verdict_is_named_by_its_line_and_not_by_its_text(tmp_path: Path) -> None:
    with refuses("unknown-verdict", hidden="right 0") as error:
        read_votes([filled(tmp_path / "anna.csv", ["right 0?", "1"])])
    assert str(error.value).startswith("anna.csv:2: ")
    (tmp_path / "b.csv").write_text("item,verdict\ni0,1\n")
    with refuses("no-candidate-code"):
        read_votes([tmp_path / "b.csv"])


@pytest.mark.parametrize(
    ("said", "settled", "reason"),
    [("11", "wrong", ""), ("22", "right too", "right_too"), ("12", "unclear", "unclear")],
)
def test_two_raters_must_agree(tmp_path: Path, said: str, settled: str, reason: str) -> None:
    files = [filled(tmp_path / f"{who}.csv", [one, "1"]) for who, one in zip("ab", said, strict=True)]
    ((pool,), found) = apply_votes(pools(1), read_votes(files))
    assert [one.verdict for one in pool.candidates] == ["", settled, "wrong"]
    assert [one.doubt for one in pool.candidates] == ["", reason, ""]
    assert sum(found.verdicts.values()) == 2


def test_a_third_rater_decides_and_each_pair_has_its_kappa(tmp_path: Path) -> None:
    said = {"a": ["1", "2"] * 6, "b": ["1", "1"] * 6, "c": ["1", "2"] * 5 + ["", ""]}
    votes = read_votes([filled(tmp_path / f"{who}.csv", some) for who, some in said.items()])
    found = apply_votes(pools(6), votes)[1]
    assert verdicts(6, votes)[::5] == [("", "wrong", "right too"), ("", "wrong", "unclear")]
    kappas = {pair: (one.n, one.kappa.value) for pair, one in found.agreements.items()}
    assert (len(kappas), kappas["b", "c"][0]) == (3, 10)
    assert (kappas["a", "b"], kappas["a", "c"]) == ((12, 0.0), (10, 1.0))
    assert found.agreements["a", "c"].labels == VERDICTS


def test_verdicts_of_the_page_fit_a_pool_that_has_grown_and_was_retyped(tmp_path: Path) -> None:
    codes = {"i0": candidate_code(pools(1)[0].item, " =new  0"), "gone": "c0"}
    rows = [{"item": name, "code": code, "verdict": "wrong", "rater": "anna"} for name, code in codes.items()]
    votes = read_votes([jsonl(tmp_path / "votes.jsonl", rows)])
    found = apply_votes(pools(3), votes)[1]
    assert (verdicts(3, votes)[0][1], found.raters, found.unmatched) == ("wrong", ("anna",), 1)


def test_the_page_holds_its_texts_as_data_and_names_no_writer() -> None:
    item = Item("i", "Is <b>this</b> </script> a question?", ("a", "b"), 0)
    some = make_pools([item], [[Candidate("<img src=x>", "gpt")]])
    written = page(review_sheet(some, [some[0].candidates[1:]], "a & b"), "review")
    assert "a &amp; b: review" in written
    assert written.count("</script>") == 2
    assert "<img" not in written
    assert "gpt" not in written
    assert "http" not in written.replace("http-equiv", "")
