"""Rules of `lint` by code. A new rule is one entry of `RULES`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from robustify.judging.lint import cues
from robustify.judging.lint.cues import Cue

POSITION = "R021"
_ALIKE = "write all options alike"
_EVENLY = "spread such words over all options"
_TRIM = "`robustify mend` takes it off"
_SPACED = "some options begin or end with white space"
_NUMBERED = "the key agrees with the question in number (singular or plural), unlike others"
_HIDDEN = "some options have invisible or look-alike characters"
_PLAIN = "write plain ones, as `robustify mend` does if they look the same"
_SHUFFLE = "shuffle the options, which `robustify mend` does"


@dataclass(frozen=True, slots=True)
class LintRule:
    """Rule of `lint` about a cue, a defect of the file, or the positions of keys.

    `fix` is what to do. `says` is the finding in a sentence, by default about the cue. `alone` is true if a single item
    deserves a note, even if keys of other items do not have the cue. `defect` is the kind of a `Defect`, which
    `details` describes for the options of an item.
    """

    name: str
    fix: str
    cue: Cue | None = None
    says: str = ""
    alone: bool = False
    defect: str = ""
    details: Callable[[Sequence[str]], str] | None = None

    @property
    def meaning(self) -> str:
        """Sentence without a full stop that says what the rule finds."""
        return self.says or (f"the key {self.cue.having}, unlike others" if self.cue else "")


RULES: dict[str, LintRule] = {
    "R001": LintRule("outer-space", _TRIM, cues.OUTER_SPACE, _SPACED, defect="outer_space"),
    "R002": LintRule("final-mark", "end all options alike", cues.FINAL_MARK, alone=True),
    "R003": LintRule("capital", "begin all options alike, except names", cues.CAPITAL, alone=True),
    "R004": LintRule("curly-quote", "use one kind of quotation mark", cues.CURLY, alone=True),
    "R005": LintRule("dash", _ALIKE, cues.DASH, alone=True),
    "R006": LintRule("number", "use numbers of one kind in all options", cues.NUMBER),
    "R007": LintRule("comma", _ALIKE, cues.COMMA),
    "R008": LintRule("bracket", _ALIKE, cues.BRACKET),
    "R009": LintRule("odd-character", _PLAIN, cues.ODD_CHARACTER, _HIDDEN, False, "odd_character", cues.characters_named),
    "R011": LintRule("shortest", "lengthen it, or shorten the others", cues.SHORTEST, alone=True),
    "R012": LintRule("longest", "shorten it, or lengthen the others", cues.LONGEST, alone=True),
    POSITION: LintRule("position", _SHUFFLE, says="keys are at one position too often"),
    "R031": LintRule("absolute", _EVENLY, cues.ABSOLUTE),
    "R032": LintRule("hedge", _EVENLY, cues.HEDGE),
    "R033": LintRule("negation", _EVENLY, cues.NEGATION),
    "R034": LintRule("typing-error", "correct the word", cues.TYPING_ERROR, alone=True),
    "R041": LintRule("other-options", "replace options about other options", cues.POINTER, alone=True),
    "R051": LintRule("article", "write “a/an”, or change the options", cues.AFTER_ARTICLE, alone=True),
    "R052": LintRule("plural", "use one number in all options", cues.IN_NUMBER, _NUMBERED, alone=True),
    "R053": LintRule("verb", "use one verb form in all options", cues.AS_VERB, alone=True),
    "R061": LintRule("equal-options", "replace one", says="two options are the same", defect="repeated_choice"),
    "R062": LintRule("equal-key", "replace it", says="another option has the key's text", defect="repeated_key_text"),
    "R063": LintRule("empty-option", "fill or remove it", says="an option is empty", defect="empty_choice"),
    "R064": LintRule("blank-question", "write it", says="the question is blank", defect="blank_stem"),
    "R065": LintRule("control-sign", "remove them", says="control characters in the text", defect="control_character"),
    "R066": LintRule("repeated-question", "remove one", says="an earlier item has this question", defect="repeated_stem"),
    "R067": LintRule("other-key", "correct one", says="the same item with a different key", defect="conflicting_key"),
}  # fmt: skip
"""Rules by code. The second digit is the group: form, length, position, words, other options, grammar, defects."""
DEFECTS = {rule.defect: code for code, rule in RULES.items() if rule.defect}
"""Codes by the kind of defect."""
DEFECT_WORDS = {kind: RULES[code].meaning for kind, code in DEFECTS.items()}
CUES = {code: rule.cue for code, rule in RULES.items() if rule.cue}
FIXES = {rule.cue: rule.fix for rule in RULES.values() if rule.cue}
"""What to do about each cue."""


def clearest_cue(
    choices: Sequence[str], question: str, pick: int, subject: str = "the key"
) -> tuple[Cue, str, str] | None:
    """Return the cue that best distinguishes an option, the description of the option, and the sentence of `lint`.
    Return None if no cue does.

    An option about others comes first, then what deserves a note on a single item, and then the length."""
    marked = [(rule, rule.cue, rule.cue.marks(choices, question)) for rule in RULES.values() if rule.cue]
    differ = [
        (cue is cues.POINTER, rule.alone and cue.stands_out(choices, pick, marks), bool(cue.ahead), cue, marks[pick], says)
        for rule, cue, marks in marked if (says := cue.unlike(subject, choices, pick, marks))
    ]  # fmt: skip
    if not differ:
        return None
    *_, cue, has, says = max(differ, key=lambda cue_shown: cue_shown[:3])
    return cue, cue.having if has else cue.lacking, says
