"""The rule that most tests of the screen judge by."""

from typing import Any

from robustify.screen.screen_rules import ScreenRules


def unanimous(**settings: Any) -> ScreenRules:
    """All voters right, with these settings beside."""
    return ScreenRules(criterion="unanimous", **settings)
