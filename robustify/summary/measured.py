"""Numbers of the measures in `judging/measures.py`: by scope, by name, and by model or rule."""

from robustify.summary.quantity import P, Part, Quantity, Share


class Score(Quantity):
    """Value of a measure on some items.

    `chance` is mean(1/k), and `expected` the chance accuracy of a rule after selection. If a value is not `significant`,
    `mde` is the change detectable with 80 % power. `p` is one-sided, and `ties` counts the ties of a rule. `withheld` is
    the reason for a missing value.
    """

    chance: Share | None = None
    expected: Share | None = None
    significant: bool | None = None
    mde: Share | None = None
    p: P | None = None
    p_holm: P | None = None
    ties: int | None = None
    withheld: str | None = None


class Measured(Part):
    """One measure on all items, on the kept ones, on the flagged ones, and a rule also on those fit for cloze."""

    all: Score | None = None
    kept: Score | None = None
    flagged: Score | None = None
    cloze: Score | None = None


class Measures(Part):
    """Computed measures of the set, and by model and by rule. A measure without a value is absent."""

    set: dict[str, Measured]
    model: dict[str, dict[str, Measured]]
    rule: dict[str, dict[str, Measured]]
