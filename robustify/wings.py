"""The only place that connects the wings (`restricted`, `freeform`, and others) with the pipeline, for commands and the
Python API.

Every command checks for restricted sets, so this check is always imported. Other modules of a wing are imported only if a
config needs them.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from robustify.reading.guard import Guard
from robustify.restricted import adapters, recognition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robustify.export.writing import FreeRows
    from robustify.items.item import Item
    from robustify.pipeline.config import Config
    from robustify.pipeline.wing_protocols import FreeStep, SetPolicy, Wings

GUARD: Guard = recognition
"""Guard of every loader, import, and opening of a run."""


def wings() -> "Wings":
    """Return the parts that the wings add to the pipeline."""
    from robustify.pipeline.wing_protocols import Wings

    return Wings(GUARD, adapters, restricted_policy, free_step)


def restricted_policy(config: "Config", folder: Path | None, guard: Guard) -> "SetPolicy | None":
    """Return the policy of a restricted set, or None for a public set. Raises the same errors as `policy_of`."""
    if config.adapter is None and config.sensitivity == "public":
        return None
    from robustify.restricted.restricted_folder import policy_of

    return policy_of(config, folder, guard)


def free_step() -> "FreeStep":
    """Import the step of free response."""
    from robustify.freeform import free_run

    return free_run


def free_rows(items: "Sequence[Item]") -> "FreeRows":
    """Convert items to rows of open-ended questions, for exports."""
    from robustify.freeform import free_grading

    return free_grading.convert_items(items)
