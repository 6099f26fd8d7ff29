"""Exit code of every command that judges: `run`, `judge`, `import`, `mend`, and `check` exit alike."""

from robustify.base.errors import GuardrailError
from robustify.judging.summary.result import State


def exit_code(state: State, *, strict: bool = False) -> int:
    """Return 7 for a failed run and 0 for others. If `strict`, return 7 also for a run that was not evaluated."""
    failing = ("failed", "not evaluated") if strict else ("failed",)
    return GuardrailError.exit_code if state in failing else 0
