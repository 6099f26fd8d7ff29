"""robustify: how much of a multiple-choice score is knowledge, and how much is test-taking.

`import robustify as rb` gives `audit`, `open`, `judge`, `heuristics`, `adjusted`, `import_logs`, what they return (`Audit`)
and what they raise (`RobustifyError`); they are described in `robustify.api` and loaded when first used.
"""

import importlib

__version__ = "0.1.0"
__all__ = [
    "Audit", "RobustifyError", "__version__", "adjusted", "audit", "heuristics", "import_logs", "judge", "open",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """A public name on its first use, so that importing the package costs nothing; `__init__.pyi` has the types."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_api(), name)


def __dir__() -> list[str]:
    return sorted(__all__)


def _api() -> object:
    return importlib.import_module(f"{__name__}.api")
