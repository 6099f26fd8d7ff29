"""Free response: the third, choice-free format, graded so that the grader can be trusted.

An item becomes a question without options, any `Writer` answers it, rules grade what they can and a judge the rest. A
judge that cannot be read is an error of the instrument: unscored, counted, and never a wrong answer. What loads
scikit-learn stays in its own modules: `agreement`, `human`, `audit`, `compare`, `report`.
"""

from robustify.freeform.convert import convert_item, excluded
from robustify.freeform.generate import Generation, generate
from robustify.freeform.grade.graders import grade_explanation, grade_mcq, grade_numeric
from robustify.freeform.grade.grading import Grading, grade_answers
from robustify.freeform.grade.quantities import Quantity, parse_quantities
from robustify.freeform.grade.reasoning import (
    ReasoningSplit,
    split_reasoning,
    strip_thinking_reasoning_blocks,
)
from robustify.freeform.judge.asking import Asked, ask_labels
from robustify.freeform.judge.http_judge import HttpJudge
from robustify.freeform.judge.judging import Judging
from robustify.freeform.judge.nuggets import draft_nuggets, grade_nuggets
from robustify.freeform.judge.prompting import Message, render
from robustify.freeform.judge.protocol import (
    Call,
    Completion,
    Judge,
    JudgeCallError,
    RecordedJudge,
    ScriptedJudge,
    recording,
    replaying,
)
from robustify.freeform.judge.store import TemplateStore, get_store
from robustify.freeform.judge.verdicts import (
    BINARY,
    FIVE,
    ScoreParse,
    majority_vote,
    parse_score,
    parse_verdict,
)
from robustify.freeform.judge.writer_judge import WriterJudge
from robustify.freeform.labels.label_parse import LabelParse, parse_labels_multi_format
from robustify.freeform.labels.sets import IMPORTANCE, SUPPORT2, SUPPORT3, VERDICT3, LabelSet
from robustify.freeform.metrics import Summary, aggregate, corrected_rate, score_nuggets
from robustify.freeform.schema import AnswerRow, FreeItem, GradeResult, Nugget

__all__ = [
    "BINARY",
    "FIVE",
    "IMPORTANCE",
    "SUPPORT2",
    "SUPPORT3",
    "VERDICT3",
    "AnswerRow",
    "Asked",
    "Call",
    "Completion",
    "FreeItem",
    "Generation",
    "GradeResult",
    "Grading",
    "HttpJudge",
    "Judge",
    "JudgeCallError",
    "Judging",
    "LabelParse",
    "LabelSet",
    "Message",
    "Nugget",
    "Quantity",
    "ReasoningSplit",
    "RecordedJudge",
    "ScoreParse",
    "ScriptedJudge",
    "Summary",
    "TemplateStore",
    "WriterJudge",
    "aggregate",
    "ask_labels",
    "convert_item",
    "corrected_rate",
    "draft_nuggets",
    "excluded",
    "generate",
    "get_store",
    "grade_answers",
    "grade_explanation",
    "grade_mcq",
    "grade_nuggets",
    "grade_numeric",
    "majority_vote",
    "parse_labels_multi_format",
    "parse_quantities",
    "parse_score",
    "parse_verdict",
    "recording",
    "render",
    "replaying",
    "score_nuggets",
    "split_reasoning",
    "strip_thinking_reasoning_blocks",
]
