"""The words of each view, written out whole: a change here moves numbers and needs a new version name."""

import pytest

from robustify.base.errors import UsageError
from robustify.base.redaction import ItemText
from robustify.items.item import Item
from robustify.items.views import VIEWS, names, template
from tests.support.cases import cases

ITEM = Item("i", " Which one? ", ("red", "green", "blue"), 1)
ABOUT = "Three boxes stand here."
WITH_PASSAGE = Item("i", key=1, sealed=ItemText(f"{ABOUT}  Which one? ", ITEM.choices, len(ABOUT)))
HEADER = "The following are multiple choice questions (with answers).\n\n"
GOLDEN = cases("items", "words_of_views")


@pytest.mark.parametrize(("view", "name", "context", "continuations"), GOLDEN)
def test_the_words_are_these(view, name, context, continuations) -> None:
    words = template(view, name)
    asked = words.requests(WITH_PASSAGE if words.hides_passage else ITEM, (2, 0, 1))
    assert {r.context for r in asked} == {context.replace("$header", HEADER)}
    assert [r.continuation for r in asked] == continuations


def test_every_template_has_its_golden_words() -> None:
    assert {(view, name) for view, name, *_ in GOLDEN} == {
        (view, name) for view in VIEWS for name in names(view)
    }


def test_the_choices_only_views_never_show_what_is_hidden() -> None:
    for view in ("choices_only", "choices_only_text"):
        for name in names(view):
            words = template(view, name)
            shown = "".join(r.context + r.continuation for r in words.requests(WITH_PASSAGE, (0, 1, 2)))
            assert ABOUT not in shown
            assert ("Which" in shown) is words.hides_passage is not words.can_ask(ITEM)


def test_shots_are_answered_with_their_key_and_separated_by_an_empty_line() -> None:
    shot = Item("s", "How many?", ("one", "two"), 1)
    asked = template("full", "mmlu-v1").requests(ITEM, (0, 1, 2), [shot])
    assert (
        asked[0].context
        == HEADER + "How many?\nA. one\nB. two\nAnswer: B\n\nWhich one?\nA. red\nB. green\nC. blue\nAnswer:"
    )


def test_item_text_is_never_read_as_a_template() -> None:
    item = Item("i", "{{ 7 * 7 }}", ("{% raw %}", "{{ stem }}"), 0)
    assert template("cloze").requests(item, (0, 1))[1].continuation == " {{ stem }}"
    assert "49" not in template("cloze").requests(item, (0, 1))[0].context


def test_an_unknown_template_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="balepur-v1, d4-like-v1"):
        template("choices_only", "nope")


def test_a_digest_tells_two_templates_apart() -> None:
    digests = [template(view, name).digest for view in VIEWS for name in names(view)]
    assert len(set(digests)) == len(digests)
