"""The first screen: the verdict and five numbers. Nothing here is said that a later section does not show."""

from collections.abc import Mapping

from robustify.report.blocks import Banner, Tile
from robustify.report.reading import Quantity, at, deciding, number, quantity, texts, whole
from robustify.report.words import between, count, counted, missing, percent, plain, rate, rests_on, verdict

Summary = Mapping[str, object]


def banner(summary: Summary) -> Banner:
    """The certificate as it is read first."""
    word, tone, sentence = verdict(summary)
    reasons = (plain(r, 600) for r in texts(at(summary, "certificate", "reasons")))
    return Banner(word, tone, sentence, tuple(r for r in reasons if r not in sentence))


def tiles(summary: Summary) -> tuple[Tile, ...]:
    """Asked, removed, luck, kept, left: the headline numbers in the order of the argument."""
    return (_asked(summary), _removed(summary), _luck(summary), _kept(summary), _left(summary))


def _asked(summary: Summary) -> Tile:
    asked = whole(at(summary, "screen", "asked"))
    asked = whole(at(summary, "splits", "all")) if asked is None else asked
    unanswered = whole(at(summary, "screen", "unanswered"))
    small = "left open by missing answers: " + (missing() if unanswered is None else count(unanswered))
    return Tile("Items asked", missing() if asked is None else count(asked), (small,))


def _removed(summary: Summary) -> Tile:
    flagged = quantity(at(summary, "screen", "flagged"))
    if flagged.value is None:
        return Tile("Removed as shortcuts", missing(), _why(summary, "no screen in this run"))
    n = whole(at(summary, "splits", "shortcut"))
    items = () if n is None else (counted(n, "item"),)
    return Tile("Removed as shortcuts", percent(flagged.value), (*items, rests_on(flagged)))


def _luck(summary: Summary) -> Tile:
    luck, share = quantity(deciding(at(summary, "screen"), "expected_false_flags")), luck_share(summary)
    if luck.value is None:
        return Tile("Luck alone would flag", missing(), _why(summary, "no expectation in this run"))
    ends = () if luck.lo is None or luck.hi is None else (between(luck.lo, luck.hi, 1.0),)
    estimate = () if share is None else (f"estimate: {rate(share)} of those removed are luck",)
    unit = "item" if luck.value == 1 else "items"
    small = (*ends, *estimate) or ("interval not shown",)
    return Tile("Luck alone would flag", f"{count(luck.value)} {unit}", small)


def luck_share(summary: Summary) -> Quantity | None:
    """The estimated share of luck among the flagged: what the latent shortcuts leave of them.

    Not expected over flagged: that expectation is of a benchmark without a single shortcut, and an item with
    one is no false flag. Its interval is that of the latent rate, for the number removed as it is. None where
    nothing was flagged or no latent rate is known.
    """
    flagged = quantity(at(summary, "screen", "flagged"))
    latent = quantity(deciding(at(summary, "screen"), "latent_shortcut_rate"))
    if not flagged.value or latent.value is None:
        return None
    removed = flagged.value
    low, value, high = (
        None if x is None else min(1.0, max(0.0, (removed - x) / removed))
        for x in (latent.hi, latent.value, latent.lo)
    )
    return Quantity(value, None, low, high)


def _why(summary: Summary, otherwise: str) -> tuple[str]:
    return ("see what is withheld",) if at(summary, "release") is not None else (otherwise,)


def _kept(summary: Summary) -> Tile:
    robust, undecided = (whole(at(summary, "splits", name)) for name in ("robust", "undecided"))
    small = "undecided: " + (missing() if undecided is None else count(undecided))
    return Tile("Kept as robust", missing() if robust is None else count(robust), (small,))


def _left(summary: Summary) -> Tile:
    probe = quantity(at(summary, "residual", "probe"))
    voted = at(summary, "residual", "probe_voted") is True
    label = "A probe still gets" if voted else "An outside probe still gets"
    if probe.value is None:
        return Tile(label, missing(), _why(summary, "no probe on the items kept"))
    chance = number(at(summary, "residual", "chance"))
    beside = () if chance is None else (f"chance {percent(chance)}",)
    warning = ("it voted, so it is no outside check",) if voted else ()
    return Tile(label, percent(probe.value), ("of the items kept", rests_on(probe), *beside, *warning))
