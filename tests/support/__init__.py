"""What tests and benches share."""

import os
from pathlib import Path


def shared_data() -> Path | None:
    """The folder of real benchmark files, or None where it is absent."""
    for place in (os.environ.get("ROBUSTIFY_DATA"), Path(__file__).parents[3] / "shared" / "data"):
        if place and Path(place).is_dir():
            return Path(place)
    return None


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by its path."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
