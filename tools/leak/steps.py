"""The command lines of the leak test: every command, whole and broken, on the restricted set and on a public one."""

from collections.abc import Sequence
from pathlib import Path

from tests.support.restricted_set import ADAPTER
from tools.leak.world import Step, World

RUN = frozenset({0, 7})
NO = frozenset({2, 3, 4})
ENGINES = {
    "raises": frozenset({1}), "chained": frozenset({1}), "memory": frozenset({6}), "interrupt": frozenset({130}),
    "exits": frozenset({1}), "nan": frozenset({5}), "worker": frozenset({1}), "prints": RUN,
}  # fmt: skip


def step(name: str, *argv: str, codes: "frozenset[int] | int" = 0, **more: object) -> Step:
    """A step; one code may be given as a number."""
    allowed = frozenset({codes}) if isinstance(codes, int) else codes
    return Step(name, tuple(argv), allowed, **more)


def restricted(world: World, *, short: bool) -> list[Step]:
    """The set from its entrance to what may be published."""
    mock = str(world.planted.inputs / "mock.yaml")
    run = "out/run"
    found = [
        step("adapter list", "adapter", "list", "--json"),
        step("adapter check", "adapter", "check", ADAPTER, "--json"),
        step("licence show", "licence", "show", ADAPTER),
        step("licence list", "licence", "list", "--json"),
        step("key check", "key", "check"),
        step("key id", "key", "id", "--json"),
        step("validate", "validate", mock),
        step("validate json", "validate", mock, "--json"),
        step("validate explain", "validate", mock, "--explain", codes=4),
        step("heuristics", "heuristics", mock),
        step("heuristics json", "heuristics", mock, "--json"),
        step("heuristics items", "heuristics", mock, "--items", codes=4),
        step("dry run", "run", mock, "-o", run, "--dry-run"),
        step("run", "run", mock, "-o", run, "--progress", codes=RUN),
        step("run warm, json", "run", mock, "-o", run, "--json", codes=RUN),
        step("check", "check", run, "--json", codes=RUN),
        step("report", "report", run),
        step("judge", "judge", run, codes=4),
        step("explain", "explain", run, "mock-1", codes=4),
        step("agree", "agree", run, f"{run}/run.json", codes=4),
        *(step(f"export {name}", "export", name, run, "-o", f"out/{name}", codes=frozenset({0, 4, 7}))
          for name in ("lm-eval", "inspect", "hf", "instruct", "every-eval-ever")),
        step("export ids", "export", "lm-eval", run, "-o", "out/ids", "--upstream", "mock", codes=4),
        step("export sarif", "export", "sarif", run, "--data", mock, "-o", "out/x.sarif", codes=4),
        *(step(f"export {name}", "export", name, run, codes=4) for name in ("mlflow", "wandb")),
        step("published without a ledger", "export", "published", run, "-o", "out/public", codes=4),
        step("key ledger begin", "key", "ledger", "--begin"),
        step("export published", "export", "published", run, "-o", "out/public"),
        step("key ledger", "key", "ledger", "--json"),
        step("split emit", "split", "emit", run, "--split", "robust", "-o", "out/robust.json"),
        step("split verify", "split", "verify", "out/robust.json", "--data", ADAPTER, "--json"),
        step("split apply", "split", "apply", "out/robust.json", "--data", ADAPTER, "-o", "private/robust.jsonl"),
        step("key new", "key", "new", "-o", "private/new.key"),
        step("split rekey", "split", "rekey", "out/robust.json", "--data", ADAPTER, "-o", "out/rekeyed.json",
             "--new-key-file", "private/new.key"),
        step("cache info", "cache", "info", "--json"),
        step("cache verify", "cache", "verify", codes=frozenset({0, 3})),
        step("models list", "models", "list"),
        step("free prepare", "free", "prepare", mock, "-o", "private/free.jsonl", "--explanations"),
        step("free generate", "free", "generate", "private/free.jsonl", "-m", str(world.planted.model), "--limit", "2",
             "--max-tokens", "4", "-o", "private/answers.jsonl"),
        step("free grade", "free", "grade", "private/answers.jsonl", "--items", "private/free.jsonl",
             "-o", "out/grades.jsonl", codes=RUN),
        step("free report", "free", "report", "out/grades.jsonl", "--items", "private/free.jsonl", "-o", "out/free-report",
             codes=RUN),
        step("run safe-demo", "run", mock, "-o", "out/demo", "--safe-demo", codes=4),
        *_refused(world),
    ]  # fmt: skip
    dies = step("engine aborts", "run", mock, "-o", "out/dead", "--cache-dir", "../cache/dead",
                codes=-6, fault="engine:aborts")  # fmt: skip
    return [*found, *_engines(mock, short=short), *_sites(mock, short=short), dies]


def _refused(world: World) -> list[Step]:
    """Doors that must stay shut, and what they say while they do."""
    inputs = world.planted.inputs
    data = inputs / "data" / "mock" / "items.jsonl"
    stem = world.planted.secrets[0]
    mock = str(inputs / "mock.yaml")
    keys = {
        name: {"ROBUSTIFY_KEY_FILE": str(inputs / f"{name}.key")} for name in ("other", "open", "short", "no")
    }
    return [
        step("undeclared file", "validate", str(data), codes=frozenset({0, 4})),
        step("undeclared file, begun", "init", str(data), "-o", "out/begun.yaml", codes=frozenset({0, 4})),
        step("undeclared run", "run", str(inputs / "undeclared.yaml"), "-o", "out/undeclared", codes=frozenset({4, *RUN})),
        step("ranked run", "run", mock, "--criterion", "fdr", "-o", "out/ranked", codes=RUN),
        step("gate", "gate", str(data), codes=4),
        step("gate json", "gate", "--json", str(data), codes=4),
        step("apply, other key", "split", "apply", "out/robust.json", "--data", ADAPTER, "-o", "private/no.jsonl",
             codes=4, environment=keys["other"]),
        *(step(f"run, {name} key", "run", mock, "-o", "out/none", codes=4, environment=key)
          for name, key in keys.items() if name != "other"),
        *(step(f"text as argument {i}", *argv, codes=frozenset({1, 2, 3, 4}) if argv[0] == "gate" else NO)
          for i, argv in enumerate(_with_text(stem))),
        *(step(p.stem, "run", str(p), "-o", "out/none", codes=NO) for p in sorted(inputs.glob("text-as-*.yaml"))),
        step("broken config", "run", str(inputs / "broken.yaml"), codes=2),
    ]  # fmt: skip


def _with_text(stem: str) -> Sequence[tuple[str, ...]]:
    return [
        (stem,), ("run", stem), ("validate", stem), ("heuristics", stem), ("check", stem), ("report", stem),
        ("judge", stem), ("explain", stem, stem), ("models", "info", stem), ("import", stem, "-o", "out/none"),
        ("cache", stem), ("init", stem), ("validate", "x.csv", "--map", stem), ("run", "x.csv", "--map", f"stem={stem}"),
        ("adapter", "check", stem), ("licence", "show", stem), ("key", "check", stem), ("gate", stem),
        ("gate", f"--{stem}"), ("gate", "--explain", stem), ("split", "verify", stem, "--data", stem),
        ("export", stem), ("free", "templates", "show", stem),
        ("free", "prepare", stem, "-o", "out/none"), (f"--{stem}",), ("run", "x.yaml", f"--criterion={stem}"),
    ]  # fmt: skip


def _engines(config: str, *, short: bool) -> list[Step]:
    kinds = [k for k in ENGINES if not short or k in ("chained", "interrupt", "nan", "prints", "worker")]
    return [
        step(f"engine {kind}", "run", config, "-o", "out/broken", "--cache-dir", f"../cache/{kind}",
             codes=ENGINES[kind], fault=f"engine:{kind}")
        for kind in kinds
    ] + [
        step("disk full at a move", "run", config, "-o", "out/full", codes=6, fault="move:ENOSPC"),
        step("bad disk at a move", "run", config, "-o", "out/bad", codes=frozenset({1, 6}), fault="move:EIO"),
    ]  # fmt: skip


def _sites(config: str, *, short: bool) -> list[Step]:
    from tools.leak.faults import sites

    chosen = sites()[::7] if short else sites()
    return [
        step(
            f"bug at {site}", "run", config, "-o", "out/bug", codes=frozenset({1, *RUN}), fault=f"site:{site}"
        )
        for site in chosen
    ]


def public(world: World, *, short: bool) -> list[Step]:
    """A public set: its text may stand in the split files of its runs, in what is exported, and nowhere else."""
    inputs = world.planted.inputs
    config, data = str(inputs / "public.yaml"), str(inputs / "public.jsonl")
    logs = sorted(inputs.glob("samples_*.jsonl"))
    run = "public/run"
    found = [
        step("public validate", "validate", data, "--json"),
        step("public explain", "validate", config, "--explain", stdout=str(world.root / "allowed" / "explain.txt")),
        step("public heuristics", "heuristics", data),
        step("public run", "run", config, "-o", run, "--progress", codes=RUN),
        step("public run, json", "run", config, "-o", run, "--json", codes=RUN),
        step("public explain item", "explain", run, "p1", stdout=str(world.root / "allowed" / "item.txt")),
        step("public judge", "judge", run, "-o", "public/judged", "--criterion", "majority", "--json", codes=RUN),
        step("public judge, fdr", "judge", run, "-o", "public/ranked", "--criterion", "fdr", codes=RUN),
        step("public check", "check", run, codes=RUN),
        step("public report", "report", run),
        *(step(f"public export {name}", "export", name, run, "-o", f"public/{name}", "--force")
          for name in ("lm-eval", "inspect", "hf", "instruct")),
        *(step(f"import {i}, {len(more)}", "import", str(log), *more, "-o", f"public/{i}-{len(more)}",
               codes=frozenset({0, 3, 7}))
          for i, log in enumerate(logs) for more in ((), ("--data", data))),
        *_free(world, data),
        *_defective(inputs / "defects", short=short),
    ]  # fmt: skip
    return found


def _free(world: World, data: str) -> list[Step]:
    model = str(world.planted.model)
    items, answers, grades = (f"public/free/{name}.jsonl" for name in ("items", "answers", "grades"))
    return [
        step("free prepare", "free", "prepare", data, "-o", items, "--explanations"),
        step("free generate", "free", "generate", items, "-m", model, "--limit", "4", "--max-tokens", "4", "-o", answers),
        step("free grade", "free", "grade", answers, "--items", items, "-o", grades, codes=RUN),
        step("free grade by a model", "free", "grade", answers, "--items", items, "-o", "public/free/judged.jsonl",
             "--mode", "judge", "--judge", model, "--retries", "0", codes=frozenset({0, 3, 5, 7})),
        step("free report", "free", "report", grades, "--items", items, "-o", "public/free/report", codes=RUN),
        step("free agree", "free", "agree", grades, "--human", data, codes=NO),
        step("free templates", "free", "templates", "list"),
    ]  # fmt: skip


def _defective(folder: Path, *, short: bool) -> list[Step]:
    files = sorted(folder.glob("*.jsonl"))
    found = [step(f"defect {p.stem}", "validate", str(p), codes=frozenset({0, 3})) for p in files]
    more = files[::9] if short else files
    return found + [
        step(f"defect {p.stem} {words[0]}", *words, str(p), codes=frozenset({0, 3}))
        for p in more
        for words in (("heuristics",), ("validate", "--skip-bad", "--json"))
    ]
