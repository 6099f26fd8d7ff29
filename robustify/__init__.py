"""robustify finds items whose key can be found without the question, and estimates how much these items raise scores.

`import robustify as rb` provides `audit`, `open`, `judge`, `heuristics`, `import_logs`, their result `Audit`,
and their exception `RobustifyError`. All are documented in `robustify.api` and imported on first use.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING

# Arrow's own pools keep the memory that they free, which arrays then cannot use. Arrow reads this when it is imported.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

if TYPE_CHECKING:
    from robustify.api import Audit, RobustifyError, audit, heuristics, import_logs, judge, open

__version__ = "0.3.0"
__all__ = [
    "Audit", "RobustifyError", "__version__", "audit", "heuristics", "import_logs", "judge", "open",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """Import a public name on first use, so that importing the package stays fast."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.api"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
