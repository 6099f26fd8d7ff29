"""What free response refuses, and the names of what can go wrong with a reply.

Only misuse raises. A reply, however hostile or broken, never does: its fault is one of the `ErrorType` names and
stands in its row. Messages name templates, fields and places, never the text of a question, answer or nugget.
"""

from typing import Literal

from robustify.errors import RobustifyError

ErrorType = Literal[
    "empty",
    "unterminated_reasoning",
    "format_error",
    "truncation",
    "ambiguous",
    "duplicate_index",
    "missing_index",
    "count_mismatch",
    "unknown_label",
    "off_scale",
    "unsafe_input",
    "tie",
    "no_majority",
    "api_error",
    "timeout",
    "rate_limited",
    "auth_error",
    "content_filter",
]
"""Why a reply gave no verdict, the same names for every parser and for the calls of a judge."""


class FreeformError(RobustifyError, ValueError):
    """Misuse of free response: a wrong argument, option or setting."""

    exit_code = 2


class UnknownTemplateError(FreeformError):
    """No template of this name."""


class TemplateVariableError(FreeformError):
    """A variable that a template needs is missing, or one that it does not have was given."""


class TemplateIntegrityError(FreeformError):
    """A released template whose bytes are not those of its manifest."""

    exit_code = 3


class FewShotLeakError(FreeformError):
    """A few-shot example that is one of the questions under evaluation, or gives its answer away."""

    exit_code = 3


class FreeDataError(FreeformError):
    """A file of items, answers, grades or labels that does not hold what it should."""

    exit_code = 3


class RestrictedDataError(FreeformError):
    """Refused: text of a restricted set would leave this machine or reach a file."""

    exit_code = 4


class JudgeConfigError(FreeformError):
    """A judge that cannot be asked: no key, no address, refused credentials, nothing recorded to replay."""

    exit_code = 5
