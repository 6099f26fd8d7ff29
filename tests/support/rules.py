"""The rule that most tests of the screen judge by."""

from collections.abc import Sequence
from typing import Any

from robustify.items.answers import Answers
from robustify.judging.screen.item_index import item_index
from robustify.judging.screen.screen_rules import ScreenRules
from robustify.judging.screen.votes import Votes, cast_votes


def unanimous(**settings: Any) -> ScreenRules:
    """All voters right, with these settings beside."""
    return ScreenRules(criterion="unanimous", **settings)


def collect_votes(answers: Answers, rules: ScreenRules, items: Sequence[str]) -> Votes:
    """The votes on these items."""
    return cast_votes(answers, rules, item_index(answers, items))
