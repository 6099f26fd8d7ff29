"""Rules of `lint` about logs, by code. A new rule is one entry of `LOG_RULES`."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from robustify.judging.lint import few_shots, prompt_rules, reply_rules, stated_answers, uneven_prompts
from robustify.judging.lint.log_evidence import Find, LintedLog, LogHit, of_rows


@dataclass(frozen=True, slots=True)
class LogRule:
    """Rule about the requests, replies, and scores of a harness. `meaning` is the finding without a full stop, `fix`
    is the advice, and `find` returns the hits in the logs of one comparison."""

    name: str
    meaning: str
    fix: str
    find: Find


_SHOW = "correct the prompt template"
_CUT = "raise the context length, or use fewer examples"
_READ = "correct the extraction of answers"
LOG_RULES: dict[str, LogRule] = {
    "L001": LogRule("option-missing", "the prompt lacks options", _SHOW,
                    of_rows(prompt_rules.option_missing)),
    "L002": LogRule("label-missing", "some options have no label", _SHOW,
                    of_rows(prompt_rules.labels_missing)),
    "L003": LogRule("stated-range", "the stated letters are not those of the options", _SHOW,
                    of_rows(stated_answers.stated_range)),
    "L004": LogRule("item-as-example", "the item is among its own examples", "draw examples from another split",
                    few_shots.item_among_examples),
    "L005": LogRule("wrong-example", "an example has a wrong answer", "correct the example",
                    few_shots.wrong_example),
    "L006": LogRule("question-missing", "the prompt lacks the question", _SHOW,
                    prompt_rules.question_missing),
    "L007": LogRule("cut-prompt", "the prompt is cut", _CUT,
                    prompt_rules.cut_prompt),
    "L008": LogRule("score-and-key", "score and key contradict each other", "correct the key or the scorer",
                    of_rows(reply_rules.key_contradicted)),
    "L009": LogRule("unread-credited", "a reply without an answer is scored as right", _READ,
                    of_rows(reply_rules.unread_but_credited)),
    "L010": LogRule("next-question", "the answer to a made-up question is scored", "stop at the next question",
                    of_rows(reply_rules.next_question_scored)),
    "L011": LogRule("unread", "many replies of a model name no option", _READ,
                    reply_rules.many_unread),
    "L012": LogRule("unread-long", "long replies are unreadable more often", "raise the limit of tokens",
                    reply_rules.unread_by_length),
    "L013": LogRule("shuffled-pointer", "options were shuffled, but one refers to others", "do not shuffle such items",
                    prompt_rules.shuffled_pointer),
    "L014": LogRule("same-replies", "all items have the same reply", "check the prompts and the server",
                    reply_rules.same_replies),
    "L015": LogRule("same-epochs", "items have the same reply in all epochs", "sample, or use one epoch",
                    reply_rules.same_epochs),
    "L016": LogRule("other-examples", "examples differ between models", "fix the seed of examples",
                    few_shots.other_examples),
    "L017": LogRule("doubled-template", "a chat template is inside another", "apply it once",
                    of_rows(prompt_rules.doubled_template)),
    "L018": LogRule("trailing-space", "the prompt ends in a space", "move it into the answers",
                    prompt_rules.trailing_space),
    "L019": LogRule("norm-ranks", "acc and acc_norm rank models differently", "name the metric in advance",
                    reply_rules.norm_changes_ranks),
    "L020": LogRule("repeated-document", "a document is in the log twice", "remove one",
                    reply_rules.repeated_document),
    "L021": LogRule("misread-reply", "the scored option is not the one that the reply names", _READ,
                    of_rows(reply_rules.misread_reply)),
    "L022": LogRule("key-in-prompt", "the prompt prints the key", "remove it from the prompt",
                    stated_answers.key_in_prompt),
    "L023": LogRule("other-labels", "the options and the answers have different labels", _SHOW,
                    of_rows(stated_answers.other_labels)),
    "L024": LogRule("other-order", "the key counts options in a different order", _SHOW,
                    uneven_prompts.other_order),
    "L025": LogRule("unequal-requests", "requests for options differ in form", "correct the requests",
                    of_rows(uneven_prompts.unequal_requests)),
    "L026": LogRule("uneven-prompts", "prompts differ in their examples", _CUT,
                    uneven_prompts.uneven_prompts),
    "L027": LogRule("broken-example", "an example is incomplete", "correct the example",
                    of_rows(uneven_prompts.broken_examples)),
    "L028": LogRule("copied-replies", "two models reply the same", "check which model replied",
                    uneven_prompts.copied_replies),
    "L029": LogRule("garbled", "the prompt garbles letters", "read and write all files as UTF-8",
                    of_rows(prompt_rules.garbled)),
}  # fmt: skip
"""Rules by code. The first seven, L017, L018, L022 to L027, and L029 are about prompts, the others about replies, scores,
and comparisons."""


def log_hits(logs: Sequence[LintedLog], codes: Collection[str]) -> list[tuple[str, LogHit]]:
    """Return the hits of these rules, by file in the order of the logs, and by code."""
    hits = [(code, hit) for code, rule in LOG_RULES.items() if code in codes for hit in rule.find(logs)]
    order = {log.path: number for number, log in enumerate(logs)}
    return sorted(hits, key=lambda pair: (order[pair[1].path], bool(pair[1].item)))
