"""Attacks on a restricted set, one a row: each ends in a refusal, shows no text and leaves nothing that git takes up."""

import errno
import json
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

import robustify as rb
from robustify.base.errors import RobustifyError
from robustify.base.key_file import evaluator_key
from robustify.gate.refused_content import private_states
from robustify.pipeline import model_steps
from robustify.restricted import restricted_folder
from robustify.restricted.ids import item_id
from tests.restricted.world import MODELS, RECORDS, N, World, leaks, rows_as_json
from tests.support import restricted_set
from tests.support.restricted_run import while_asked

Attack = Callable[[World], list[object]]
ADAPTER = restricted_set.ADAPTER
RUN = ["run", "mock.yaml", "-o", "RUN"]
INSIDE = ["run", "mock.yaml", "-o", "runs/x"]
PARTS = (
    "id", "model", "view", "topic", "key", "pick", "k", "scores", "correct", "choices", "stem", "group", "template",
)  # fmt: skip


def plain(*args: object, before: Callable[[World], object] = lambda _: None, **files: str) -> Attack:
    """These arguments, with these files in the work tree, after something was done."""

    def act(world: World) -> list[object]:
        before(world)
        for name, text in files.items():
            world.write(name.replace("_", "."), text)
        return list(args)

    return act


def link(name: str, to: str) -> Callable[[World], None]:
    return lambda world: (world.base / name).symlink_to(world.base / to)


def other_system(name: str) -> Callable[[World], None]:
    return lambda world: (world.base / "tree" / name).mkdir(parents=True)


def linked_inside(name: str) -> Callable[[World], object]:
    def done(world: World) -> None:
        world.audited()
        shutil.rmtree(world.run / name)
        (world.repo / "elsewhere").mkdir()
        (world.run / name).symlink_to(world.repo / "elsewhere")

    return done


def begin_git(world: World) -> None:
    subprocess.run(["git", "init", "-q", str(world.out)], check=True)


def git_begins_late(world: World) -> None:
    real = restricted_folder.seal
    late = lambda *args, **named: (begin_git(world), real(*args, **named))[1]  # noqa: E731
    world.patch.setattr(restricted_folder, "seal", late)


def another_repository(world: World) -> None:
    """A variable of git's names a repository that ignores everything."""
    subprocess.run(["git", "init", "-q", str(world.base / "other")], check=True)
    (world.base / "other" / ".git" / "info" / "exclude").write_text("*\n")
    world.patch.setenv("GIT_DIR", str(world.base / "other" / ".git"))


def while_it_runs(change: Callable[[World], object]) -> Attack:
    """Something changes while the models are asked."""

    def act(world: World) -> list[object]:
        while_asked(world.patch, lambda _: change(world))
        return list(RUN)

    return act


def relabelled(world: World) -> None:
    world.manifest.write_text(world.manifest.read_text().replace('"restricted"', '"public"'))


def raising(error: BaseException) -> Attack:
    """An engine that dies of an error with a prompt in it."""

    def die(_: World) -> None:
        raise error

    return while_it_runs(die)


def copied(*args: object, **files: str) -> Attack:
    """A copy of the items under another name, with these files in the work tree."""
    return plain(*args, before=copy, **files)


def copy(world: World) -> None:
    shutil.copy(world.items, world.base / "copy.jsonl")


def elsewhere(world: World) -> None:
    world.patch.setattr(model_steps, "check_model", lambda *_: pytest.fail("a server was asked"))


def of_a_log(part: str, column: str, n: int) -> Attack:
    """A table of picks in which a column is taken for something that it is not."""

    def act(world: World) -> list[object]:
        form = {"gold": "A", "answer": "B", "of": 4}
        texts = ((" ".join(r["question"].split()[3:6]), r["choices"][1]) for r in RECORDS[1 : n + 1])
        rows = [{"q": words, "option": option, **form} for words, option in texts]
        log = world.base / "data" / "log.jsonl"
        log.write_text(rows_as_json(rows), encoding="utf-8")
        said = {"key": "gold", "pick": "answer", "k": "of", "model": "=m"} | {part: column}
        maps = (f"--map={p}={c}" for p, c in said.items())
        return ["import", log, "-o", world.base / "data" / "done", *maps]

    return act


# Releases.

EMIT = ("restricted", "split", "emit", "RUN", "--split", "kept", "-o")
OPEN = ("restricted", "split", "open", "LIST", "--data", ADAPTER)


def released_then(
    change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]], **manifest: object
) -> Attack:
    """The page was published; then the set, its name or its version change, and the criterion does."""

    def act(world: World) -> list[object]:
        world.audited()
        assert world.call("export", "published", "RUN", "-o", world.out / "public") == 0
        rows = change(restricted_set.items(N))
        world.patch.setattr(restricted_set, "items", lambda *_: rows)
        for name in ("data", "adapters"):
            shutil.rmtree(world.base / name)
        name = str(manifest.get("id", ADAPTER))
        restricted_set.write_set(world.base, N, **manifest)
        (world.base / "adapters" / ADAPTER).rename(world.base / "adapters" / name)
        restricted_set.accept(world.base, name)
        models = MODELS.replace("unanimous", "1-of-2")
        world.write("mock.yaml", f"name: mock\nadapter: {name}\n{models}")
        assert world.call("run", "mock.yaml", "-o", world.out / "other") in (0, 7)
        return ["export", "published", world.out / "other", "--only", "screen", "-o", world.out / "more"]

    return act


def same(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return rows


def stems_edited(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "question": f"Now, {row['question']}"} for row in rows]


def choices_edited(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "choices": [f"{choice.title()}." for choice in row["choices"]]} for row in rows]


def others(_: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return restricted_set.items(N, seed=7)


def without_a_record(world: World) -> None:
    world.audited()
    (world.base / "secret" / "ids.key.releases").unlink()


def listed(world: World) -> None:
    """The set was audited, and a list of its split written."""
    world.audited()
    assert world.call(*EMIT, "LIST") == 0


def answered_by(field: str) -> Attack:
    """Answers of others in the run, whose models are called like texts of items."""

    def act(world: World) -> list[object]:
        key, some = evaluator_key().derived("ids"), RECORDS[:3]
        ids = [item_id(key, ADAPTER, "1", r["question"], r["choices"]) for r in some]
        rows = [{"id": i, "prediction": "8", "model": r[field]} for i, r in zip(ids, some, strict=True)]
        (world.base / "data" / "answers.jsonl").write_text(rows_as_json(rows), encoding="utf-8")
        free = "free: {answers: [../data/answers.jsonl]}\n"
        world.write("b.yaml", f"name: q\nadapter: {ADAPTER}\n{MODELS}{free}")
        return [*RUN[:1], "b.yaml", *RUN[2:]]

    return act


def unlisted(world: World) -> None:
    """The set was registered, its terms are accepted, and $ROBUSTIFY_ADAPTERS is not set."""
    digest = json.loads(world.manifest.read_text())["licence"]["sha256"]
    accept = ("restricted", "license", "accept", ADAPTER, "--name", "a test", "--license-sha256", digest)
    assert world.call(*accept) == 0
    world.patch.delenv("ROBUSTIFY_ADAPTERS")
    copy(world)


PUBLIC = "sensitivity: public\n"
CHAIN = {"a_yaml": f"adapter: {ADAPTER}\n", "b_yaml": f"extends: a.yaml\n{PUBLIC}"}
TEXT = RECORDS[0]["question"]
ELSEWHERE = f"adapter: {ADAPTER}\nmodels: [{{name: a, engine: openai, base_url: 'https://llm.example/v1'}}]\n"
ATTACKS: dict[str, tuple[Attack, tuple[int, ...]]] = {
    # Where results go.
    "the default folder is in a work tree": (plain("run", "mock.yaml"), (4,)),
    "a way back into the work tree": (plain("run", "mock.yaml", "-o", "../out/../repo/x"), (4,)),
    "a link into the work tree": (plain(*RUN[:-1], "BASE/out/link/x", before=link("out/link", "repo")), (4,)),
    "a folder that git ignores but for figures": (plain(*INSIDE, _gitignore="runs/x/*\n!*.svg\n"), (4,)),
    "a folder that git ignores but for tasks": (plain(*INSIDE, _gitignore="runs/x/*\n!runs/x/*_tasks\n"), (4,)),
    "a repository that ignores everything is named": (plain(*INSIDE, before=another_repository), (4,)),
    "a work tree of Mercurial": (plain(*RUN[:-1], "BASE/tree/x", before=other_system(".hg")), (4,)),
    "a work tree of Subversion": (plain(*RUN[:-1], "BASE/tree/x", before=other_system(".svn")), (4,)),
    "a run with its splits in the work tree": (plain(*RUN, before=linked_inside("splits")), (4,)),
    "a run with its tasks in the work tree": (plain(*RUN, before=linked_inside("lm_eval_tasks")), (4,)),
    "git begins while models are asked": (while_it_runs(begin_git), (4,)),
    "git begins while files are moved": (plain(*RUN, before=git_begins_late), (4,)),
    "temporary files in the work tree": (plain(*RUN, before=lambda world: world.patch.setenv("TMPDIR", ".")), (0, 7)),
    "a verdict under other rules": (plain("judge", "RUN", "-o", "x", "--criterion", "majority", before=listed), (4,)),
    "a page of two runs": (plain("compare", "RUN", "RUN", "--html", "x.html", before=listed), (4,)),
    "a page of all runs": (plain("dashboard", "OUT", "-o", "x.html", before=listed), (2,)),
    "a split in the work tree": (plain(*EMIT, "s.json", before=World.audited), (4,)),
    "the items of a split": (plain(*OPEN, "-o", "x", before=listed), (4,)),
    # What it is called. Of copies, `test_known_items.py` tries every command.
    "a config that says public": (plain("run", "b.yaml", b_yaml=f"adapter: {ADAPTER}\n{PUBLIC}"), (4,)),
    "a config of a config that says public": (plain("run", "b.yaml", **CHAIN), (4,)),
    "a manifest that says public": (plain(*RUN, before=relabelled), (4,)),
    "a copy of the data": (copied("DATA", "--public", "-o", "x"), (4,)),
    "a link to the data": (plain("DATA", "--public", "-o", "x", before=link("copy.jsonl", "data/mock/items.jsonl")), (4,)),
    "a copy of the data, in a config": (copied("run", "b.yaml", b_yaml=f"name: q\n{PUBLIC}data: ../copy.jsonl\n"), (4,)),
    "a copy of the data, without its adapter": (plain("heuristics", "DATA", before=unlisted), (4,)),
    "a model elsewhere, never asked": (plain("run", "b.yaml", "-o", "RUN", before=elsewhere, b_yaml=ELSEWHERE), (4,)),
    # What is said.
    "an interruption with a text": (raising(KeyboardInterrupt(TEXT)), (130,)),
    "an exit with a text": (raising(SystemExit(TEXT)), (1,)),
    "a full disk with a text": (raising(OSError(errno.ENOSPC, TEXT, TEXT)), (6,)),
    "an error of the data with a text, and a traceback": (raising(UnicodeDecodeError("x", b"y", 0, 1, TEXT)), (1,)),
    **{
        f"{part} is {column} in a log of {n} rows": (of_a_log(part, column, n), (0, 2, 3, 4, 7))
        for part in PARTS for column in ("q", "option") for n in (1, 3)
    },
    **{f"a model that is called like a {field}": (answered_by(field), (0, 2, 3, 4, 7)) for field in ("question", "id")},
    # What is released.
    "no record": (plain(*EMIT, "BASE/out/s.json", before=without_a_record), (4,)),
    "another split of another version": (released_then(same, version="2"), (4,)),
    "all stems edited under another name": (released_then(stems_edited, id="quiz"), (4,)),
    "all choices edited under another name": (released_then(choices_edited, id="quiz"), (4,)),
    "other items in the same version": (released_then(others), (4,)),
}  # fmt: skip


@pytest.mark.parametrize(("attack", "codes"), ATTACKS.values(), ids=ATTACKS)
def test_no_attack_gets_through(world: World, attack: Attack, codes: tuple[int, ...]) -> None:
    world.patch.setenv("ROBUSTIFY_TRACEBACK", "1")
    args = attack(world)
    before = world.visible()
    assert world.call(*args) in codes, world.said
    assert world.visible() == before
    assert all(path.stat().st_mode & 0o077 == 0 for path in world.out.rglob("*") if not path.is_symlink())


FROM_PYTHON: dict[str, Callable[[World], object]] = {
    "answers": lambda world: rb.open(world.run).answers,
    "verdicts": lambda world: rb.open(world.run).verdicts,
    "evidence": lambda world: rb.open(world.run).evidence,
    "other rules": lambda world: rb.judge(world.run, criterion="majority"),
    "a temporary folder": lambda world: rb.audit("mock.yaml"),
    "the work tree": lambda world: rb.audit("mock.yaml", out="x"),
}


@pytest.mark.parametrize("attack", FROM_PYTHON.values(), ids=FROM_PYTHON)
def test_no_attack_from_python_gets_through(world: World, attack: Callable[[World], object]) -> None:
    world.audited()
    before = world.visible()
    with pytest.raises(RobustifyError) as refused:
        attack(world)
    assert refused.value.exit_code == (2 if attack is FROM_PYTHON["a temporary folder"] else 4)
    assert not leaks(str(refused.value).encode())
    assert world.visible() == before


def test_what_is_said_of_a_run_carries_the_mark_that_the_gate_refuses(world: World) -> None:
    said = {}
    for command in (["run", "mock.yaml", "-o", "RUN"], ["check", "RUN"]):
        for form in ([], ["--json"]):
            assert world.call(*command, *form) in (0, 7)
            said[" ".join([*command, *form])] = world.said
    done = rb.open(world.run)
    html = json.dumps({"html": done._repr_html_()})
    said |= {"str": str(done), "a table": done.summary.to_csv(), "a notebook": html}
    found = {name: {rule for rule, *_ in private_states(text)} for name, text in said.items()}
    assert [name for name, rules in found.items() if "RBG403" not in rules] == []
