"""First screens of imported logs and of runs without a model: each has a score, or says which answers are missing."""

import csv
import json
import random
from pathlib import Path
from typing import Any

import pytest

from robustify.items.item import Item
from robustify.pipeline.from_logs import run_of_logs
from robustify.pipeline.steps import rejudge
from robustify.reading.logs import LogPath
from robustify.report.opening import closing, opening, report_tree
from robustify.report.printing import catalogue
from robustify.report.verdict import grounds
from robustify.runs.run import Run
from robustify.wings import GUARD
from tests.support.fake_logs import jsonl, lm_eval_row, sheet

N, N_UNFIT = 60, 12
WOODS = ("walnut", "cedar", "maple", "birch", "alder", "hazelwood", "rowan", "aspen")
FULL_TASK, CLOZE_TASK, BLIND_TASK = {}, {"texts": True}, {"hidden": True}


def gates(n: int = N) -> list[Item]:
    """Items without any cue. Some of them cannot be asked without their options."""
    draw = random.Random(63)
    made = [
        Item(
            f"g{i}", f"Which tree stands at gate {i}?", (*draw.sample(WOODS, 4),), draw.randrange(3), "trees"
        )
        for i in range(n)
    ]
    unfit = [item.with_choices((*item.choices[:3], "all of the above"), item.key) for item in made[:N_UNFIT]]
    return [*unfit, *made[N_UNFIT:]]


def rows(kind: dict[str, bool], seed: int = 1) -> list[dict[str, Any]]:
    """Rows of a model that is right in about half of the items. In cloze, lengths change some of its picks."""
    draw = random.Random(seed)
    scores = [[-draw.uniform(3, 9) + 2 * (j == item.key) for j in range(item.k)] for item in gates()]
    return [
        lm_eval_row(item, at, s, **kind) for at, (item, s) in enumerate(zip(gates(), scores, strict=True))
    ]


def imported(folder: Path, **kinds: dict[str, bool]) -> Run:
    logs = [
        LogPath(jsonl(folder / model / "samples_gates.jsonl", rows(kind, seed)))
        for seed, (model, kind) in enumerate(kinds.items())
    ]
    return run_of_logs(logs, folder / "run", GUARD)


@pytest.fixture(scope="module")
def cloze(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return imported(tmp_path_factory.mktemp("cloze"), tiny=CLOZE_TASK)


def test_a_cloze_log_shows_its_score_beside_those_that_the_log_states(
    robustify, cloze: Run, tmp_path: Path
) -> None:
    logged = rows(CLOZE_TASK, 0)
    (quote,) = opening(cloze.summary).quotes
    fit = [row["acc_norm"] for row in logged[N_UNFIT:]]
    assert (quote.view, quote.full.n, quote.full.value) == ("cloze", N - N_UNFIT, sum(fit) / len(fit))
    means = {metric: sum(row[metric] for row in logged) / N for metric in ("acc", "acc_norm")}
    assert means["acc"] != means["acc_norm"] != quote.full.value
    assert {metric: (q.value, q.n) for metric, q in quote.logged.items()} == {
        m: (x, N) for m, x in means.items()
    }
    shown = f"{100 * quote.full.value:.1f} % cloze (n = 48 of 60"
    terminal = " ".join(" ".join(closing(cloze.summary, "run")).split())
    for text in (terminal, (cloze.folder / "report.html").read_text()):
        assert shown in text
        assert all(f"{metric} {100 * x:.1f} %" in text for metric, x in means.items())
    assert "48" in (cloze.folder / "report.md").read_text()
    # Judging again keeps what the log states.
    again = rejudge(cloze, {"screen.fdr": 0.2}, tmp_path / "again")
    assert opening(again.summary).quotes[0].logged == quote.logged
    done = robustify("report", cloze.folder, "--format", "csv")
    cells = {row["column"]: row for row in csv.DictReader(done.out.splitlines())}
    assert float(cells["Score"]["value"]) == quote.full.value
    assert {m: float(cells[f"{m} of the log"]["value"]) for m in means} == means
    assert (done.code, done.err) == (0, "")
    (score,) = report_tree(cloze.summary)["scores"]
    assert (score["full"], score["cloze"]["n"], score["kind"]) == (None, 48, "cloze")


def test_a_log_that_states_no_accuracy_has_a_cloze_score_and_no_sentence_on_it(tmp_path: Path) -> None:
    bare = [
        {name: cell for name, cell in row.items() if name not in ("acc", "acc_norm", "metrics")}
        for row in rows(CLOZE_TASK)
    ]
    run = run_of_logs(
        [LogPath(jsonl(tmp_path / "tiny" / "samples_gates.jsonl", bare))], tmp_path / "run", GUARD
    )
    (quote,) = opening(run.summary).quotes
    assert (quote.view, quote.logged, quote.owed) == ("cloze", {}, "")
    assert quote.number is not None


@pytest.mark.parametrize("kind", [FULL_TASK, CLOZE_TASK])
def test_a_log_without_blind_answers_does_not_say_that_models_looked(
    tmp_path: Path, kind: dict[str, bool]
) -> None:
    run = imported(tmp_path, tiny=kind)
    assert grounds(run.summary).unlooked
    screen = opening(run.summary)
    tone, verdict = catalogue()["verdicts"]["unlooked"]
    assert (screen.tone, screen.verdict) == (tone, verdict)
    assert screen.todo[0].code == "import_blind"
    assert "choices_only:FILE" in screen.todo[0].action
    # Rules and the probe need no model, so the number of the reader is known.
    assert report_tree(run.summary)["reader"]["n"] == N
    assert "no flags" not in " ".join(run.manifest["config"]["notes"])


def test_the_blind_score_of_a_voter_stands_on_the_first_screen(tmp_path: Path) -> None:
    run = imported(tmp_path, tested=FULL_TASK, voter=BLIND_TASK)
    assert not grounds(run.summary).unlooked
    screen = opening(run.summary)
    assert [(one.model, one.view, one.missing) for one in screen.quotes] == [
        ("tested", "full", ""), ("voter", "blind", "blind"),
    ]  # fmt: skip
    voter = screen.quotes[1]
    assert voter.full.n == N
    shown = f"{100 * voter.full.value:.1f} % without the question (n = 60"
    assert shown in " ".join(" ".join(closing(run.summary, "run")).split())
    assert "import_blind" not in {one.code for one in screen.todo}


def test_the_csv_of_a_run_without_models_has_the_numbers_of_the_reader(robustify, tmp_path: Path) -> None:
    items = [
        {"question": item.stem, **dict(zip("ABCD", item.choices, strict=True)), "answer": "ABCD"[item.key]}
        for item in gates()
    ]
    assert robustify(sheet(tmp_path / "gates.csv", items), "--public", "-o", tmp_path / "run").code == 0
    done = robustify("report", tmp_path / "run", "--format", "csv")
    cells = {row["Number"]: row for row in csv.DictReader(done.out.splitlines())}
    tree = json.loads(robustify("report", tmp_path / "run", "--json").out)
    read = next(row for name, row in cells.items() if name.startswith("Reader"))
    assert [float(read["value"]), float(read["low"]), float(read["high"]), int(read["n"])] == [
        tree["reader"]["value"], *tree["reader"]["ci"], N,
    ]  # fmt: skip
    assert float(cells["Chance"]["value"]) == 0.25
    assert cells["State"]["value"] == tree["state"]
    assert "-m NAME" not in done.err
