"""Every loader, import, and opening of a run requires a guard, so that no door can forget recognition."""

import ast
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from robustify.base.errors import AuthorisationError
from robustify.composing.candidates import read_candidates
from robustify.freeform import questions
from robustify.items.item import Item
from robustify.pipeline import compared_logs, from_logs, linted_logs, public
from robustify.reading import loaders
from robustify.reading.guard import UNGUARDED
from robustify.report.compare import compared
from robustify.report.dashboard import dashboard_html
from robustify.runs import run, stored
from tests.support.fake_logs import jsonl
from tools import house

ROOT = Path(__file__).parent.parent
DOORS: tuple[Callable[..., Any], ...] = (
    loaders.load, loaders.load_many, run.Run, run.open_run, run.refuse_other, stored.split_items,
    from_logs.import_logs, compared_logs.runs_of_logs, linted_logs.as_log, public.PublicPolicy, public.judged_run,
    compared, dashboard_html, questions.read_items, questions.read_rows, questions.read_nugget_rows, read_candidates,
)  # fmt: skip
UNGUARDED_USERS = {
    "robustify.reading.guard": "defines it",
    "robustify.restricted.access": "requirements of a restricted set are met, or the signs of a set are listed",
    "robustify.export.mending": "a file that was just written is read back",
}


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__qualname__)
def test_a_door_requires_its_guard(door: Callable[..., Any]) -> None:
    assert inspect.signature(door).parameters["guard"].default is inspect.Parameter.empty


def test_only_listed_modules_use_the_guard_that_accepts_every_file() -> None:
    users = {
        name
        for name, path in house.modules(ROOT).items()
        for node in ast.walk(house.parsed(path))
        if isinstance(node, ast.Name | ast.Attribute | ast.alias)
        and "UNGUARDED" in (getattr(node, "id", ""), getattr(node, "attr", ""), getattr(node, "name", ""))
    }
    assert users == UNGUARDED_USERS.keys()


def test_no_function_of_the_house_has_a_guard_with_a_default() -> None:
    defaults = [
        f"{path.name}:{node.lineno}"
        for path in house.modules(ROOT).values()
        for node in ast.walk(house.parsed(path))
        if isinstance(node, ast.FunctionDef)
        for argument, default in _defaults(node.args)
        if argument == "guard" and default is not None
    ]
    assert not defaults


def _defaults(arguments: ast.arguments) -> list[tuple[str, ast.expr | None]]:
    positional = [*arguments.posonlyargs, *arguments.args]
    missing: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    pairs = zip(
        [*positional, *arguments.kwonlyargs],
        [*missing, *arguments.defaults, *arguments.kw_defaults],
        strict=True,
    )
    return [(argument.arg, default) for argument, default in pairs]


class _Refusing:
    """Guard that refuses everything."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        def refuse(*_: object, **__: object) -> None:
            raise AuthorisationError(name, code="refused-by-test")

        return refuse


ROWS = [
    {"id": f"i{n}", "question": f"Which box is number {n}?", "answer": "one", "type": "mcq", "options": ["one", "two"],
     "query": f"Which box is number {n}?", "passage": "The first.", "nuggets": ["It is the first."]}
    for n in range(4)
]  # fmt: skip
ITEMS = [
    {"id": f"i{n}", "stem": f"Box {n}?", "choices": ["one", "two"], "key": 0, "topic": ""} for n in range(4)
]
READERS: dict[str, tuple[list[dict[str, Any]], Callable[[Path, Any], object]]] = {
    "a file of items": (ITEMS, lambda path, guard: loaders.load(loaders.Source(path=str(path)), guard)),
    "a split of a run": (ITEMS, lambda path, guard: list(stored.split_items(path, guard))),
    "free-response rows": (ROWS, lambda path, guard: questions.read_rows([path], None, guard)),
    "nuggets": (ROWS, questions.read_nugget_rows),
    "candidates": (ITEMS, lambda path, guard: read_candidates(
        [Item("i0", "Box 0?", ("one", "two"), 0)], [loaders.Source(path=str(path))], guard)),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "read"), READERS.values(), ids=READERS)
def test_what_the_guard_refuses_is_not_read(
    rows: list[dict[str, Any]], read: Callable[[Path, Any], object], tmp_path: Path
) -> None:
    path = jsonl(
        tmp_path / "rows.jsonl", [{**row, "prediction": "one"} if "query" in row else row for row in rows]
    )
    read(path, UNGUARDED)
    with pytest.raises(AuthorisationError) as refused:
        read(path, _Refusing())
    assert refused.value.code == "refused-by-test"
