"""The rules and their findings: what each means, whether it refuses, and whether an allow-list entry can lift it.

The table is the only place with a rule's number, name and words. A finding is a path, a line, a rule and counts: never
an excerpt, a key name, a digest of the text or the number of an item in its set, because messages end up in logs.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `lifted_by_demo`: SAFE_DEMO lifts it on listed paths; `allowable`: a bound entry can."""

    id: str
    name: str
    layer: str
    says: str
    mend: str
    refuses: bool = True
    allowable: bool = True

    @property
    def lifted_by_demo(self) -> bool:
        """Only what a shape or a word says can be lifted for a demo; what matches a registered set cannot."""
        return self.layer in ("structure", "lexicon")


_MOVE = "Take the items out of what is committed"
_OR_ALLOW = (
    "if they are harmless, bind them to an allow-list entry: robustify gate allow PATH --reason WHY --by WHO"
)

RULES: tuple[Rule, ...] = (
    Rule("RBG101", "mcq-record", "structure", "records shaped like multiple-choice items (a stem, choices, mostly a key)",
         f"{_MOVE}; {_OR_ALLOW}"),
    Rule("RBG102", "mcq-table", "structure", "table rows shaped like multiple-choice items",
         f"{_MOVE}; {_OR_ALLOW}"),
    Rule("RBG103", "mcq-block", "structure", "text blocks shaped like multiple-choice items (a stem, then options)",
         f"{_MOVE}; {_OR_ALLOW}"),
    Rule("RBG104", "mcq-near", "structure", "one or two shapes of an item without a key: a warning",
         "Look whether it is an item of a sensitive set", refuses=False),
    Rule("RBG201", "category-words", "lexicon", "the shape of an item in a file that names control regimes or categories",
         f"{_MOVE}; {_OR_ALLOW}"),
    Rule("RBG301", "fingerprint", "fingerprints", "text of a registered set",
         "Remove it, from the history too (it stays in every earlier commit); no allow-list entry lifts this rule",
         allowable=False),
    Rule("RBG302", "fingerprint-weak", "fingerprints", "a few words in the order of a registered set: a warning",
         "Look whether it is an item of the set, edited", refuses=False),
    Rule("RBG401", "canary", "state", "the canary line of a benchmark that must not be republished",
         "Remove the benchmark data that it came with; if it is only talked about: robustify gate allow PATH ..."),
    Rule("RBG402", "key-material", "state", "a robustify key",
         "Make a new key and treat everything that this one protected as public; no entry lifts this rule",
         allowable=False),
    Rule("RBG403", "restricted-run", "state", "the record of a run on a restricted set",
         "Publish the hashed split or the published release level instead; no entry lifts this rule",
         allowable=False),
    Rule("RBG404", "own-state", "state",
         "state of robustify's own: a score cache, a record of registered sets or of accepted terms",
         "Leave it where robustify keeps it, outside the repository; no entry lifts this rule",
         allowable=False),
    Rule("RBG405", "keyed-ids", "state", "keyed ids of items outside a hashed split, or a split that says more than ids",
         "Publish the hashed split as robustify writes it (robustify split emit); if the ids are an example: "
         "robustify gate allow PATH --reason WHY --by WHO"),
    Rule("RBG501", "binary", "inspection", "binary content that the gate cannot read",
         "Commit a text form, or bind it to an allow-list entry: robustify gate allow PATH --reason WHY --by WHO"),
    Rule("RBG502", "encrypted", "inspection", "encrypted content that the gate cannot read",
         "Commit it in the clear, or bind it to an allow-list entry: robustify gate allow PATH --reason WHY --by WHO"),
    Rule("RBG503", "too-large", "inspection", "more than the gate reads: size, depth of packing or ratio of compression",
         "Split or unpack it; a packed file may be allowed: robustify gate allow PATH --reason WHY --by WHO"),
    Rule("RBG504", "damaged", "inspection", "an archive or encoding that does not open",
         "Make it again, or bind it to an allow-list entry: robustify gate allow PATH --reason WHY --by WHO"),
    Rule("RBG505", "elsewhere", "inspection", "a pointer to content that lies outside the repository",
         "Scan the content itself (robustify gate FILE), then bind the pointer to an allow-list entry"),
)  # fmt: skip

BY_ID: dict[str, Rule] = {rule.id: rule for rule in RULES}
BY_NAME: dict[str, Rule] = {rule.name: rule for rule in RULES}


def explained(rule: Rule) -> list[str]:
    """What a rule means and how its finding is mended, for `--explain`."""
    lifts = ["SAFE_DEMO=true on listed paths"] if rule.lifted_by_demo else []
    lifts += ["an allow-list entry bound to path, rule and content"] if rule.allowable else []
    return [
        f"{rule.id} {rule.name} (layer: {rule.layer})",
        f"finds: {rule.says}",
        f"effect: {'refuses, exit 4' if rule.refuses else 'warns, exit 0'}",
        f"mend: {rule.mend}",
        f"lifted by: {' or '.join(lifts) if lifts else 'nothing'}",
    ]


@dataclass(frozen=True, slots=True)
class GateFinding:
    """One rule that matched in one place. `line` counts from 1; `says` is counts and fixed words; `path` may come later."""

    rule: Rule
    line: int
    says: str
    path: str = ""

    def as_line(self) -> str:
        """The one line that a person reads."""
        return f"{shown(self.path)}:{self.line}: {self.rule.id} {self.rule.name} {self.says}"

    def as_json(self) -> dict[str, object]:
        """The same for a program."""
        return {
            "path": shown(self.path),
            "line": self.line,
            "rule": self.rule.id,
            "name": self.rule.name,
            "layer": self.rule.layer,
            "refuses": self.rule.refuses,
            "says": self.says,
        }


def shown(text: str) -> str:
    """Text without what could steer a terminal or fake a line: everything unprintable is escaped."""
    return "".join(
        c if c.isprintable() and not "\ud800" <= c <= "\udfff" else c.encode("unicode_escape").decode()
        for c in text
    )
