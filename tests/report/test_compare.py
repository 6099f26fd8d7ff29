"""Runs beside one another: items are compared where they are the same items or versions of them, and nowhere else; and many
runs on one page, in order of date."""

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from robustify.base.errors import ResourceError, UsageError
from robustify.items.item import Item
from robustify.judging import measures
from robustify.judging.baselines.near_duplicates import numbered_groups
from robustify.judging.stats.tests import detectable, independent_difference, paired_difference
from robustify.pipeline.steps import rejudge
from robustify.report.compare import compared, comparison_html, comparison_lines
from robustify.report.compare.change import FROM_CUT
from robustify.report.dashboard import dashboard_html
from robustify.report.printing import label
from robustify.runs.run import Run, open_run, write_items
from robustify.wings import GUARD
from tests.export.test_dataset import WORDS
from tests.support.command import invoked
from tests.support.exported_run import imported_run, made_run, made_up, renewed, voted
from tests.support.page_text import text_of_page
from tests.support.trees import measured


def answered(folder: Path, model: str, right: Callable[[int], bool], first: int = 0) -> Run:
    """The run of one model on the sixty items from `first` on, of which those that are `right` by their place."""

    def picks(at: int, item: Item) -> dict[str, int | None]:
        full = item.key if right(at + first) else (item.key + 1) % item.k
        return {"choices_only": voted(at + first, item), "full": full}

    return imported_run(folder, made_up(first + 60)[first:], picks, model)


def test_a_run_is_as_itself_which_is_no_test(run: Run) -> None:
    found = compared([run.folder, run.folder], GUARD)
    (pair,) = found.tree()["pairs"]
    n = run.summary.tree()["splits"]["flagged"]
    assert n > 0
    assert (pair["n_common"], pair["removed"], pair["moved"], pair["edited"]) == (60, [n, n], {}, 0)
    assert (pair["jaccard"]["value"], pair["jaccard"]["n"]) == (1.0, n)
    same = [c for c in found.changes if c.paired]
    assert same
    assert all(c.same and c.p_holm is None and c.changed is None for c in same)
    assert {c.difference.ci for c in same} == {None}, "an interval of a difference that is 0 on every item"


def test_items_that_one_run_did_not_answer_are_counted_beside_the_result(tmp_path: Path) -> None:
    """A model that gives no answer where it is wrong seems better on the items that both answered."""
    first = answered(tmp_path / "first", "m", lambda at: at % 2 == 0)

    def picks(at: int, item: Item) -> dict[str, int | None]:
        return {"choices_only": voted(at, item), "full": item.key if at % 4 < 3 else None}

    second = imported_run(tmp_path / "second", made_up(60), picks, "m")
    found = compared([first.folder, second.folder], GUARD)
    (change,) = (c for c in found.changes if (c.number, c.part) == ("full", "all"))
    assert (change.paired, change.difference.n, change.left_out) == (True, 45, 15)
    assert re.findall(r"\d+", change.noise) == ["15"]


def test_what_moved_is_counted_and_named_with_both_verdicts(run: Run, tmp_path: Path) -> None:
    other = made_run(tmp_path, None)
    path = other.folder / "verdicts.csv"
    path.write_text(path.read_text().replace(",kept,", ",flagged,", 3))
    found = compared([run.folder, renewed(other.folder, "verdicts.csv").folder], GUARD)
    (pair,) = found.tree()["pairs"]
    n = run.summary.tree()["splits"]["flagged"]
    assert pair["moved"] == {"kept -> flagged": 3}
    assert pair["removed"] == [n, n + 3]
    assert pair["jaccard"]["value"] == pytest.approx(n / (n + 3))
    words = text_of_page(comparison_html(found))
    assert all(f"| {one['item']} | same text | kept | flagged |" in words for one in pair["moved_items"])


MORE = 20
"""Made-up items before those that gave their key away."""


def clue(at: int) -> bool:
    return at >= MORE and at % 2 == 0


@pytest.fixture(scope="module")
def unmended(tmp_path_factory: pytest.TempPathFactory) -> Run:
    def picks(at: int, item: Item) -> dict[str, int | None]:
        return {"choices_only": item.key if clue(at) else (item.key + 1) % item.k}

    return imported_run(tmp_path_factory.mktemp("before") / "a", made_up(60 + MORE), picks, "one", "two")


@pytest.mark.parametrize(
    ("mend", "name"),
    [("options", "new-{at:04d}"), ("stem", "new-{at:04d}"), ("whole", "{id}"), ("dropped", "new-{at:04d}")],
)
def test_mended_items_are_matched_and_whole_sets_are_tested(
    unmended: Run, tmp_path: Path, mend: str, name: str
) -> None:
    def mended(at: int, item: Item) -> Item:
        stem = f"Anew {at}: {item.stem}" if mend in ("stem", "whole") and clue(at) else item.stem
        anew = mend in ("options", "whole") and clue(at)
        choices = tuple(f"anew {c}" for c in item.choices) if anew else item.choices
        return Item(name.format(id=item.id, at=at), stem, choices, item.key)

    before = enumerate(made_up(60 + MORE))
    after = [mended(at, item) for at, item in before if mend != "dropped" or not clue(at)]
    now = imported_run(tmp_path / "b", after, lambda _, i: {"choices_only": (i.key + 1) % i.k}, "one", "two")
    (pair,) = compared([unmended.folder, now.folder], GUARD).pairs
    assert len(pair.items) == len(after)
    if mend != "dropped":
        assert re.findall(r"\d+", pair.says("mended")) == ["30", "30", "0"]
    removed = next(c for c in pair.changes if c.number == "flagged")
    assert (removed.paired, removed.first.n, removed.second.n) == (True, len(after), len(after))
    if mend == "dropped":
        assert removed.same
        assert re.findall(r"\d+", pair.says("only")) == ["30", "30"]
        assert (pair.tree()["n_only"], pair.tree()["flagged_only"]) == ([30, 0], [30, 0])
    else:
        assert removed.changed
        assert removed.difference.value == pytest.approx(-30 / 80)


def test_edits_are_judged_by_a_reader_and_by_a_run_that_could_flag(tmp_path: Path) -> None:
    """The page led with "57 of 57 flagged items mended" where no cut met 10 % and a reader got as many keys."""
    draw = np.random.default_rng(0)
    sums = draw.permuted(np.tile(np.arange(100, 140), (120, 1)), axis=1)[:, :4].tolist()
    for name, clue in (("before", ", because it adds up"), ("after", "")):
        options = [
            tuple(f"{x}{clue * (j == at % 4 and at % 2)}" for j, x in enumerate(given))
            for at, given in enumerate(sums)
        ]
        items = [Item(f"i{at}", f"Sum {at}?", texts, at % 4) for at, texts in enumerate(options)]
        write_items(tmp_path / f"{name}.jsonl", items)
        invoked("run", tmp_path / f"{name}.jsonl", "--public", "-o", tmp_path / name)
    found = compared([tmp_path / "before", tmp_path / "after"], GUARD)
    (pair,) = found.pairs
    assert pair.reader.paired
    assert (pair.reader.number, pair.reader.first.n, pair.reader.changed) == ("reader", 120, True)
    assert pair.reader.difference.value < -0.2
    effect, mended, unseen = pair.effect
    assert re.fullmatch(r".* %, .* % \(.* 25.0 %\), .* \(n = 120, .*\): \w+\.", effect)
    read = [measures.READER.read(side.summary)[""].all.value for side in (pair.first, pair.second)]
    assert [pair.reader.first.value, pair.reader.second.value] == pytest.approx(read)
    assert pair.second.summary.screen.cut.threshold is None
    assert "second" in mended
    assert not re.search(r"\d", unseen)
    page = text_of_page(comparison_html(found))
    assert page.index(effect) < page.index(mended)


def test_items_that_are_added_are_compared_and_every_edit_is_named(tmp_path: Path) -> None:
    """An alert was silent if all new items gave their keys away, and if every key was moved to another option."""
    draw = np.random.default_rng(0)
    sums = draw.permuted(np.tile(np.arange(100, 140), (160, 1)), axis=1)[:, :4].tolist()

    def audited(name: str, n: int, why: str = "", moved: int = 0) -> Path:
        items = [
            Item(f"i{at}", f"Sum {at}?", tuple(f"{x}{why * (at >= 120 and j == at % 4)}" for j, x in enumerate(given)),
                 (at + (at < moved)) % 4)
            for at, given in enumerate(sums[:n])
        ]  # fmt: skip
        write_items(tmp_path / f"{name}.jsonl", items)
        invoked("run", tmp_path / f"{name}.jsonl", "--public", "-o", tmp_path / name)
        return tmp_path / name

    before, worse, more = audited("before", 120), audited("worse", 160, ", it adds up"), audited("more", 160)
    found = compared([before, worse], GUARD)
    (added,) = (c for c in found.changes if c.part == "added")
    assert (added.number, added.first.n, added.second.n, added.paired) == ("reader", 120, 40, False)
    assert added.degraded
    assert added.difference.value > 0.4
    assert invoked("compare", before, worse, "--alert").exception.exit_code == 7
    assert invoked("compare", before, more, "--alert").exception is None
    assert not any(c.part == "added" for c in compared([worse, before], GUARD).changes)
    assert not any(c.part == "added" for c in compared([before, audited("few", 124, ", so")], GUARD).changes)
    (pair,) = compared([before, audited("moved", 120, moved=7)], GUARD).pairs
    assert (pair.edits, len(pair.edited)) == ({"key": 7}, 7)
    assert pair.tree()["edited_items"][0]["edited"] == ["key"]
    assert "7" in pair.says("edits")


def test_a_terminal_shows_only_the_numbers_that_differ(run: Run, tmp_path: Path) -> None:
    """If two runs keep the same items and have the same answers, no interval suggests that they might differ."""
    (alike,) = compared([run.folder, run.folder], GUARD).pairs
    scores = [c for c in alike.changes if c.models and c.part == "kept"]
    assert scores
    assert all(c.same and c.p is None for c in scores)
    assert (alike.printed, alike.n_equal) == ([], len(alike.changes))
    other = made_run(tmp_path, overrides={"screen.criterion": "fdr", "screen.fdr": 0.3})
    found = compared([run.folder, other.folder], GUARD)
    (pair,) = found.pairs
    assert pair.printed
    assert all(c.difference.value for c in pair.printed)
    assert len(pair.printed) + pair.n_equal == len(pair.changes)
    lines = comparison_lines(found)
    labels = tuple(f"{c.label}:" for c in pair.changes)
    assert sum(line.strip().startswith(labels) for line in lines) == len(pair.printed)


def test_verdicts_that_share_one_cut_are_not_tested(run: Run, tmp_path: Path) -> None:
    """Item by item, runs of exchangeable voters differed with p <= 0.05 in 10 to 32 of 60 pairs."""
    other = made_run(tmp_path, overrides={"screen.criterion": "fdr", "screen.fdr": 0.3})
    found = compared([run.folder, other.folder], GUARD)
    by_cut = [c for c in found.changes if c.number in FROM_CUT]
    assert by_cut
    assert all(c.difference.ci is None and c.p is None and c.p_holm is None for c in by_cut)
    (noise,) = {c.noise for c in by_cut}
    assert noise in text_of_page(comparison_html(found))


def test_runs_that_hid_different_parts_are_marked(run: Run, tmp_path: Path) -> None:
    folders = [run.folder, made_run(tmp_path, overrides={"hidden": "passage"}).folder]
    assert compared([run.folder, run.folder], GUARD).pairs[0].says("warning") == ""
    found = compared(folders, GUARD)
    warning = found.pairs[0].says("warning")
    assert "question and passage" in warning
    assert warning in invoked("compare", *folders).output
    assert warning in text_of_page(comparison_html(found))


def test_items_of_one_name_and_another_text_are_not_compared(run: Run, tmp_path: Path) -> None:
    items = [Item(item.id, f"{at} {item.stem}", item.choices[::-1], 0) for at, item in enumerate(made_up())]
    (pair,) = compared([run.folder, made_run(tmp_path, items).folder], GUARD).tree()["pairs"]
    assert pair["why_not"]


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """Two runs of one model each on the same items: of its base and its tuned form."""
    base = answered(tmp_path_factory.mktemp("base") / "run", "base", lambda at: at % 3 == 0)
    place = tmp_path_factory.mktemp("tuned") / "run"
    return base, answered(place, "<b>tuned</b>", lambda at: at % 3 == 0 or at % 2 == 0)


def test_a_base_and_its_tuned_form_are_paired_by_item(forms: tuple[Run, Run]) -> None:
    base, tuned = forms
    found = compared([base.folder, tuned.folder], GUARD)
    (change,) = (c for c in found.changes if (c.number, c.part) == ("full", "all"))
    one, two = (np.array([at % 3 == 0 or at % m == 0 for at in range(60)]) * 1.0 for m in (99, 2))
    expected = paired_difference(two, one, numbered_groups(base.items or ()))
    assert change.models == ("base", "<b>tuned</b>")
    assert (change.paired, change.changed) == (True, True)
    assert change.difference.value == pytest.approx(20 / 60)
    assert change.difference.ci == pytest.approx(expected.ci)
    assert change.p == pytest.approx(2 * 0.5**20)
    assert change.p_holm >= change.p
    for side, run in ((change.first, base), (change.second, tuned)):
        (model,) = run.summary.models
        assert side.value == measured(run.summary, "full", model)["all"]["value"]


def test_a_noticeable_difference_has_the_level_of_all_tests(forms: tuple[Run, Run], tmp_path: Path) -> None:
    near = answered(tmp_path / "near", "near", lambda at: at % 3 == 0 or at < 5)
    found = compared([forms[0].folder, forms[1].folder, near.folder], GUARD)
    tested = [c for c in found.changes if c.p_holm is not None]
    unsure = [c for c in tested if not c.changed]
    assert unsure
    assert len(tested) > len(unsure)
    for change in unsure:
        assert change.mde == pytest.approx(detectable(change.error or 0.0, 1 - 0.05 / len(tested)))


def looking(folder: Path, items: list[Item], name: str, knows: float, follows: float, seed: int) -> Run:
    """The run of a model that knows some items, and otherwise picks the longest option with probability `follows`."""
    draw = np.random.default_rng(seed)

    def pick(item: Item, knows: float) -> int:
        longest = int(np.argmax([len(text) for text in item.choices]))
        luck = longest if draw.random() < follows else int(draw.integers(item.k))
        return item.key if draw.random() < knows else luck

    return imported_run(
        folder, items, lambda _, item: {"full": pick(item, knows), "choices_only": pick(item, 0.0)}, name
    )


def test_looks_are_compared_item_by_item_also_of_a_model_named_item(tmp_path: Path) -> None:
    draw, items = np.random.default_rng(0), list[Item]()
    for at in range(400):
        texts = tuple(
            " ".join(draw.choice(WORDS, size)) + f" {at}{size}" for size in draw.permutation([2, 3, 4, 7])
        )
        longest = int(np.argmax([len(text) for text in texts]))
        items.append(
            Item(f"i{at}", f"Which? {at}", texts, longest if draw.random() < 0.5 else int(draw.integers(4)))
        )
    even = looking(tmp_path / "even", items, "item", 0.4, 0.0, 1)
    led = looking(tmp_path / "led", items, "item", 0.4, 0.9, 2)
    found = compared([even.folder, led.folder], GUARD)
    (change,) = (c for c in found.changes if c.number == "looks")
    assert change.paired
    assert change.label == f"item, {label('looks')}, all"
    owed = [run.summary.models["item"].looks.value for run in (even, led)]
    assert [change.first.value, change.second.value] == pytest.approx(owed, abs=1e-4)
    assert change.difference.value == pytest.approx(owed[1] - owed[0], abs=1e-4)
    assert (change.changed, change.degraded) == (True, True)
    assert "points" in "\n".join(comparison_lines(found))
    # On other items, the summaries alone are compared, and a run on a part of the items is compared on that part.
    few = looking(tmp_path / "few", items[:200], "item", 0.4, 0.9, 2)
    (part,) = (c for c in compared([led.folder, few.folder], GUARD).changes if c.number == "looks")
    assert (part.paired, part.difference.n) == (True, 200)
    others = [Item(f"x{i.id}", f"New {i.stem}", tuple(f"{c}!" for c in i.choices), i.key) for i in items]
    alone = looking(tmp_path / "alone", others, "item", 0.4, 0.9, 2)
    (apart,) = (c for c in compared([even.folder, alone.folder], GUARD).changes if c.number == "looks")
    assert not apart.paired


def test_other_items_are_compared_by_their_summaries_alone(forms: tuple[Run, Run], tmp_path: Path) -> None:
    one, two = forms[0], answered(tmp_path / "b", "base", lambda at: at % 3 != 0, first=60)
    found = compared([one.folder, two.folder], GUARD)
    assert found.pairs[0].why_not
    (change,) = (c for c in found.changes if (c.number, c.part) == ("full", "all"))
    newcombe = independent_difference(40, 60, 20, 60)
    assert not change.paired
    assert change.difference.value == pytest.approx(1 / 3)
    # Some of these items depend on each other, so the interval is a little wider.
    assert change.difference.ci == pytest.approx(newcombe.ci, abs=0.02)
    assert change.difference.ci[0] < newcombe.ci[0] < newcombe.ci[1] < change.difference.ci[1]
    assert change.changed


def test_the_page_is_silent_escaped_and_the_same_twice(forms: tuple[Run, Run]) -> None:
    base, tuned = forms
    comparison = compared([base.folder, tuned.folder, base.folder], GUARD)
    page = comparison_html(comparison)
    with_interval = [change for change in comparison.changes if change.difference.ci]
    assert page.count('<circle class="difference"') == len(with_interval) > 0
    assert page.count("<figcaption>") == 1
    assert not re.search(r"<script|https?://(?!www.w3.org)|<b>", page)
    assert "&lt;b&gt;tuned&lt;/b&gt;" in page
    assert all(f'id="{anchor}"' in page for anchor in re.findall(r'href="#([^"]+)"', page))
    assert max(len(line.split()) for line in re.findall(r'<p class="verdict[^>]*>(.*?)</p>', page)) <= 20
    assert page == comparison_html(compared([base.folder, tuned.folder, base.folder], GUARD))


def test_the_command_prints_lines_or_one_object_and_writes_the_page(run: Run, tmp_path: Path) -> None:
    both = ("compare", run.folder, run.folder)
    assert invoked(*both, "--html", tmp_path / "c.html").stdout.startswith("[1] ")
    assert (tmp_path / "c.html").read_text().startswith("<!doctype html>")
    assert isinstance(invoked(*both, "--html", tmp_path / "none" / "c.html").exception, ResourceError)
    assert isinstance(invoked(*both[:2]).exception, UsageError)
    (tmp_path / "items.csv").write_text("Question,A,B,Answer")
    assert isinstance(invoked(*both, "--html", tmp_path / "items.csv").exception, UsageError)
    assert (tmp_path / "items.csv").read_text() == "Question,A,B,Answer"
    assert invoked(*both, "--html", tmp_path / "c.html").return_value == 0
    assert json.loads(invoked(*both, "--json").stdout)["pairs"][0]["n_common"] == 60


def test_an_alert_tells_what_is_worse_in_the_last_run(tmp_path: Path) -> None:
    def state(run: Run, name: str) -> Run:
        tree = json.loads((run.folder / "summary.json").read_text())
        (run.folder / "summary.json").write_text(json.dumps({**tree, "state": name}))
        return renewed(run.folder, "summary.json")

    many, few = (
        answered(tmp_path / n, "m", lambda at, of=of: at % 6 < of) for n, of in (("many", 5), ("few", 1))
    )
    assert invoked("compare", many.folder, few.folder).exception is None
    assert invoked("compare", few.folder, many.folder, "--alert").exception is None
    (worse,) = compared([many.folder, few.folder], GUARD).degraded
    assert worse.startswith("m, full question, all: ")
    assert invoked("compare", many.folder, few.folder, "--alert").exception.exit_code == 7
    # With three runs, the last is compared with the first.
    assert compared([many.folder, few.folder, many.folder], GUARD).degraded == []
    state(many, "passed")
    again = state(open_run(shutil.copytree(many.folder, tmp_path / "again"), GUARD), "failed")
    (worse,) = compared([many.folder, again.folder], GUARD).degraded
    assert re.fullmatch(".* passed.* failed", worse)
    assert compared([again.folder, many.folder], GUARD).degraded == []


def test_other_orders_of_the_options_are_no_edits(run: Run, tmp_path: Path) -> None:
    turned = [replace(item, choices=item.choices[::-1], key=item.k - 1 - item.key) for item in made_up()]
    (pair,) = compared([run.folder, made_run(tmp_path, turned).folder], GUARD).pairs
    assert (len(pair.items), pair.edited) == (60, [])


def lab(folder: Path, run: Run) -> Path:
    """Return the folder with four runs of one benchmark, two of them by one rule."""
    for date in ("2026-01-02", "2026-03-04"):
        shutil.copytree(run.folder, folder / f"{date}-run")
    rejudge(run, {"screen.criterion": "majority"}, folder / "2026-02-03" / "<b>majority</b>")
    rejudge(run, {"screen.criterion": "1-of-2"}, folder / "undated")
    os.utime(folder / "undated" / "run.json", (0, 1_800_000_000))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("dashboard")
    return lab(base / "lab", made_run(base))


def rows_of_table(page: str, caption: str) -> list[list[str]]:
    """The rows_of_table of a table as a reader sees them."""
    after = text_of_page(page).partition(f"**{caption}")[2].splitlines()
    table = [line.strip("| ").split(" | ") for line in after if line.startswith("| ")]
    return table[
        1 : 1 + re.findall(rf"<caption>{caption}</caption>.*?</table>", page, re.S)[0].count("<tr") - 1
    ]


def test_every_run_is_a_row_the_latest_first_and_leads_to_its_report(folder: Path) -> None:
    page = dashboard_html(folder, folder / "dashboard.html", GUARD)
    dates = ["2027-01-15", "2026-03-04", "2026-02-03", "2026-01-02"]
    assert [row[3] for row in rows_of_table(page, "All runs")][::2] == dates
    rules = [row[5] for row in rows_of_table(page, "All runs")][::2]
    assert rules == ["1-of-2", "unanimous", "majority", "unanimous"]
    links = set(re.findall(r'<th scope="row"[^>]*><span[^>]*><a href="([^"]+)"', page))
    assert len(links) == 4
    assert "left out" not in text_of_page(page)
    assert all((folder / link.replace("%3C", "<").replace("%3E", ">")).is_file() for link in links)
    assert not re.search(r"<script|https?://(?!www.w3.org)|<b>", page)
    assert page == dashboard_html(folder, folder / "dashboard.html", GUARD)
    elsewhere = dashboard_html(folder, folder.parent / "page" / "d.html", GUARD)
    assert 'href="../lab/2026-01-02-run/report.html"' in elsewhere


def test_verdicts_are_whole_and_the_reader_is_drawn_for_each_run(folder: Path) -> None:
    page = dashboard_html(folder, folder / "dashboard.html", GUARD)
    assert not [row[4] for row in rows_of_table(page, "All runs") if "\u2026" in row[4] or len(row[4]) < 20]
    trend = page.partition("Reader without questions, by run")[2]
    assert trend.count('<rect class="bar"') == 4
    assert re.findall(r"<text class=\"label\"[^>]*>([-\d]+)<", trend) == sorted(
        re.findall(r"<text class=\"label\"[^>]*>([-\d]+)<", trend)
    )


def test_what_cannot_be_read_is_counted_and_named(folder: Path) -> None:
    odd = folder.parent / "odd"
    shutil.copytree(folder / "2026-01-02-run", odd / "whole")
    shutil.copytree(folder / "2026-01-02-run", odd / "changed")
    with (odd / "changed" / "summary.json").open("a") as file:
        file.write(" ")
    (odd / "not-ours").mkdir()
    (odd / "not-ours" / "summary.json").write_text(json.dumps({"models": 3}))
    page = dashboard_html(odd, odd / "dashboard.html", GUARD)
    assert sorted(row[0] for row in rows_of_table(page, "Left out")) == ["changed"]
    assert {row[0] for row in rows_of_table(page, "All runs")} == {"whole"}


def test_the_command_writes_the_page_and_refuses_what_holds_no_run(folder: Path, tmp_path: Path) -> None:
    done = invoked("dashboard", folder, "-o", tmp_path / "d.html")
    assert done.stdout.strip() == str(tmp_path / "d.html")
    assert (tmp_path / "d.html").read_text().startswith("<!doctype html>")
    for wrong in (tmp_path, tmp_path / "none"):
        assert isinstance(invoked("dashboard", wrong).exception, UsageError)
    nowhere = tmp_path / "no" / "d.html"
    assert isinstance(invoked("dashboard", folder, "-o", nowhere).exception, ResourceError)
