"""Models: what they are called, how they are fetched, and where they lie. Numbers are made in `engines`."""

from robustify.models.folder import cache_folder, info, listing
from robustify.models.names import KNOWN
from robustify.models.pull import locate, pull

__all__ = ["KNOWN", "cache_folder", "info", "listing", "locate", "pull"]
