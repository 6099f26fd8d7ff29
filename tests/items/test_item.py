import ast
import copy
import dataclasses
import json
import pickle
import pprint
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robustify.base.errors import ItemError
from robustify.base.redaction import REDACTED
from robustify.freeform.schema import AnswerRow, FreeItem
from robustify.items.item import Item, kept_for_last
from robustify.items.orders import own
from robustify.items.views import Request, template
from robustify.models.engines.plan import Encoded
from robustify.reading.loaders.loaded import Loaded
from robustify.reading.loaders.rows import RawItem, SourceRow
from tests.support.cases import cases, refuses


@st.composite
def items_and_orders(draw: st.DrawFn) -> tuple[Item, list[int]]:
    k = draw(st.integers(2, 26))
    choices = draw(st.lists(st.text(), min_size=k, max_size=k))
    item = Item("i", "stem", tuple(choices), draw(st.integers(0, k - 1)))
    return item, draw(st.permutations(range(k)))


@given(items_and_orders())
def test_permuting_never_moves_the_key_off_its_choice(drawn: tuple[Item, list[int]]) -> None:
    item, order = drawn
    moved = item.permuted(order)
    assert moved.choices[moved.key] == item.choices[item.key]
    assert sorted(moved.choices) == sorted(item.choices)
    back = sorted(range(item.k), key=order.__getitem__)
    assert moved.permuted(back) == item


@pytest.mark.parametrize(("choices", "key", "code"), cases("items", "no_items"))
def test_what_cannot_be_an_item_is_refused_at_birth(choices: str, key: int, code: str) -> None:
    with refuses(code):
        Item("i", "stem", tuple(choices), key)


SEALED = Item("i7", "secret stem", ("secret one", "secret two"), 0)
WORDS = template("full").requests(SEALED, own(2))
HOLDERS: dict[str, object] = {
    "an item": SEALED,
    "a list of items": [SEALED],
    "its text": SEALED.sealed,
    "a request": WORDS[0],
    "what was loaded": Loaded("b", "l", (SEALED,), (1,), (), (), "", ""),
    "a row": SourceRow(1, 1, {"stem": "secret stem"}),
    "a raw item": RawItem("secret stem", ("secret one",), "secret one"),
    "a free item": FreeItem("f", "secret stem", "short_text", "secret one"),
    "an answer": AnswerRow("f", "m", "secret one"),
}


@pytest.mark.parametrize("held", HOLDERS.values(), ids=HOLDERS)
def test_what_holds_text_shows_none_and_is_neither_pickled_nor_json(held: object) -> None:
    for written in (repr, str, "{}".format, "{!s:>40}".format, "%s".__mod__, pprint.pformat, ascii):
        assert "secret" not in written((held,) if written == "%s".__mod__ else held)
    assert "secret" not in json.dumps(held, default=repr)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="cannot be pickled") as error:
            pickle.dumps(held, protocol)
        assert "secret" not in str(error.value)
    with pytest.raises(TypeError) as error:
        json.dumps(held)
    assert "secret" not in str(error.value)


def test_an_item_taken_apart_gives_its_text_sealed() -> None:
    apart = dataclasses.asdict(SEALED)
    assert apart == {"id": "i7", "key": 0, "topic": "", "group": "", "sealed": SEALED.sealed}
    assert "secret" not in repr((apart, dataclasses.astuple(SEALED), SEALED.__getstate__()))
    assert f"{SEALED.sealed}" == f"{SEALED.sealed:>99}" == str(SEALED.sealed) == REDACTED
    for broken in (
        lambda: vars(SEALED.sealed),
        lambda: list(SEALED.sealed),
        lambda: SEALED.sealed + "",
        lambda: SEALED.sealed[0],
    ):
        with pytest.raises(TypeError) as error:
            broken()
        assert "secret" not in str(error.value)


def test_a_copy_is_the_item_itself_and_replacing_keeps_the_rest() -> None:
    assert copy.copy(SEALED) is SEALED
    assert copy.deepcopy([SEALED])[0] is SEALED
    moved = dataclasses.replace(SEALED, choices=("a", "b", "c"), key=2)
    assert (moved.id, moved.stem, moved.choices, moved.key) == ("i7", "secret stem", ("a", "b", "c"), 2)
    assert dataclasses.replace(SEALED, id="x").choices == SEALED.choices
    assert dataclasses.replace(SEALED, stem="s").stem == "s"
    assert dataclasses.replace(SEALED) == SEALED
    with pytest.raises(ItemError):
        dataclasses.replace(SEALED, choices=("a",))


def test_tokens_are_counted_and_not_shown() -> None:
    assert repr(SEALED) == "Item(id='i7', 2 choices)"
    assert repr(Encoded((1, 22), (333,))) == "Encoded(2 + 1 tokens)"
    assert repr(Request("abc", " d")) == "Request(3 + 2 characters)"


TELLING = {"stem", "choices", "question", "options", "aliases", "continuation", "contexts", "continuations",
           "prompt", "prompts", "passage", "cells", "reference", "extracted", "stems"}  # fmt: skip
"""Names of fields that hold the text of items or answers, wherever they stand."""


def generated_reprs() -> Iterator[tuple[str, set[str]]]:
    """Every dataclass of the package whose repr shows all fields, and the names of those that are strings."""
    root = Path(__file__).parents[2] / "robustify"
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ClassDef):
                continue
            marks = [ast.unparse(d) for d in node.decorator_list if "dataclass" in ast.unparse(d)]
            own = any(isinstance(s, ast.FunctionDef) and s.name == "__repr__" for s in node.body)
            if marks and "repr=False" not in marks[0] and not own:
                fields = {
                    s.target.id
                    for s in node.body
                    if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)
                    and {"str", "object", "Any"} & set(ast.unparse(s.annotation).replace("[", " ").replace("]", " ")
                                                        .replace(",", " ").split())
                    and "repr=False" not in ast.unparse(s)
                }  # fmt: skip
                yield f"{path.relative_to(root)}:{node.name}", fields


def test_a_dataclass_with_text_has_a_repr_of_its_own() -> None:
    found = dict(generated_reprs())
    assert len(found) > 80
    # Names of columns and of a command's options, given on the command line.
    known = {"reading/logs/tables/pick_rules.py:PickColumns", "export/writing.py:Exporter"}
    assert {name for name, fields in found.items() if fields & TELLING} <= known


def test_an_order_that_is_no_permutation_is_refused() -> None:
    with pytest.raises(ItemError) as error:
        Item("i", "s", ("a", "b"), 0).permuted((0, 0))
    assert error.value.code == "invalid-order"


def test_a_sample_that_is_read_in_between_does_not_discard_what_is_kept_of_the_set() -> None:
    items, worked = [Item(f"i{n}", "stem", ("a", "b"), 0) for n in range(4)], []

    @kept_for_last
    def work(of: Sequence[Item]) -> int:
        worked.append(len(of))
        return len(of)

    assert [work(items), work(items[:2]), work(tuple(items))] == [4, 2, 4]
    assert worked == [4, 2]
