"""Canonical text and keyed ids: the same words give the same id anywhere, and no two parts can be confused."""

import base64
import hashlib
import hmac
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robustify.base.errors import DataError
from robustify.items.item import Item
from robustify.reading.loaders import Defect, Loaded
from robustify.restricted.ids import canonical, item_id, keyed
from tests.support.cases import each_case, refuses

KEY = hashlib.sha256(b"a subkey for tests").digest()
GOLDEN_ID = "rb1_syucv2y7ni3doarwxi3yqeew3u"


def by_hand(key: bytes, dataset: str, version: str, stem: str, choices: list[str]) -> str:
    """The formula of reference/safety.md, section 3.4, written out."""
    parts = ["item", dataset, version, stem, str(len(choices)), *sorted(choices)]
    message = b"".join(len(p.encode()).to_bytes(8, "big") + p.encode() for p in parts)
    digest = hmac.new(key, message, hashlib.sha256).digest()[:16]
    return "rb1_" + base64.b32encode(digest).decode("ascii").rstrip("=").lower()


@each_case("canonical_texts", "text", "form")
def test_the_canonical_form_of_golden_strings(text: str, form: str) -> None:
    assert canonical(text) == form


ASSIGNED = st.text(st.characters(exclude_categories=("Cs", "Cn"), exclude_characters="\0"), max_size=30)


@given(ASSIGNED)
def test_the_way_a_text_is_normalised_makes_no_difference(text: str) -> None:
    forms = {canonical(unicodedata.normalize(form, text)) for form in ("NFC", "NFD", "NFKC", "NFKD")}
    assert forms == {canonical(text)}


@pytest.mark.parametrize("text", ["a\ud800b", "a\0b", "a\u0378b", "\ufffe"])
def test_what_has_no_stable_form_is_refused_and_not_shown(text: str) -> None:
    with refuses("no-canonical-form", says=r"^(?!.*vodaki).*U\+[0-9A-F]{4}"):
        canonical(f"vodaki {text}")


def test_a_golden_id() -> None:
    parts = (KEY, "mock", "1", "which lamp?", ["one", "two"])
    assert item_id(*parts) == by_hand(*parts) == GOLDEN_ID


PARTS = st.lists(st.sampled_from(["", "1", "11", "0", "item"]), min_size=2, max_size=5)


@given(PARTS, PARTS)
def test_no_two_lists_of_parts_give_the_same_id(a: list[str], b: list[str]) -> None:
    first, second = (item_id(KEY, *parts[:2], "which?", parts[2:]) for parts in (a, b))
    assert (first == second) == (a[:2] == b[:2] and sorted(a[2:]) == sorted(b[2:]))


def test_everything_but_the_key_of_the_item_is_in_its_id() -> None:
    base = ("mock", "1", "which lamp?", ["one", "two"])
    others = [
        ("mock2", "1", "which lamp?", ["one", "two"]),
        ("mock", "2", "which lamp?", ["one", "two"]),
        ("mock", "1", "Which lamp?", ["one", "two"]),
        ("mock", "1", "which lamp?", ["one", "too"]),
        ("mock", "1", "which lamp?", ["one", "two", "two"]),
        ("moc", "k1", "which lamp?", ["one", "two"]),
    ]
    ids = {item_id(KEY, *parts) for parts in (base, *others)}
    assert len(ids) == len(others) + 1
    assert item_id(bytes(32), *base) not in ids


def bench(*items: Item) -> Loaded:
    n = len(items)
    defects = tuple(Defect("repeated_stem", 9, i.id, "f") for i in items[:1])
    return Loaded("b", "l", items, tuple(range(1, n + 1)), defects, (), "0" * 64, "f", ("f",) * n)


def lamps(*groups: str) -> list[Item]:
    return [
        Item(f"source-{i}", f"which lamp {i}?", ("one", "two"), 0, "t", group=g) for i, g in enumerate(groups)
    ]


def test_sealing_leaves_no_plain_id_anywhere() -> None:
    items = lamps(*(f"passage-{i}" for i in range(3)))
    done = keyed(bench(*items), KEY, "mock", "1")
    assert [i.id for i in done.items] == [item_id(KEY, "mock", "1", i.stem, i.choices) for i in items]
    assert [d.item for d in done.defects] == [done.items[0].id]
    assert [i.group for i in done.items] == ["p0001", "p0002", "p0003"]
    assert [(i.stem, i.choices, i.key, i.topic) for i in done.items] == [
        (i.stem, i.choices, i.key, i.topic) for i in items
    ]
    shared = keyed(bench(*lamps("", "shared", "shared")), KEY, "m", "1").items
    assert [i.group for i in shared] == ["", "p0001", "p0001"]


TWINS = (
    Item("a", "which lamp?", ("one", "two"), 0),
    Item("b", "which \u00a0lamp?", ("two", "one"), 1),
    Item("c", "which  lamp?", ("one", "two"), 1),
)


def test_two_items_with_one_id_are_refused_by_line_and_without_text() -> None:
    with pytest.raises(DataError) as told:
        keyed(bench(*TWINS), KEY, "m", "1")
    assert told.value.codes == ("repeated-item", "repeated-item")
    assert [re.findall(r"f:\d|the same key|another key", line) for line in told.value.lines] == [
        ["f:2", "f:1", "the same key"], ["f:3", "f:1", "another key"],
    ]  # fmt: skip
    assert "lamp" not in str(told.value)


def test_later_ones_of_them_can_be_set_aside() -> None:
    other = Item("d", "which kettle?", ("one", "two"), 0)
    done = keyed(bench(*TWINS, other), KEY, "m", "1", skip_bad=True)
    assert [i.stem for i in done.items] == ["which lamp?", "which kettle?"]
    assert done.lines == (1, 4)
    assert [(q.line, q.file) for q in done.quarantined] == [(2, "f"), (3, "f")]
    assert len(done.items) + len(done.quarantined) == 4


def test_text_without_a_canonical_form_refuses_the_file_by_line() -> None:
    with refuses("no-canonical-form", says="^f:2: "):
        keyed(bench(TWINS[0], Item("x", "which \u0378?", ("one", "two"), 0)), KEY, "m", "1")
