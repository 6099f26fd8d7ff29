"""Find retired words in names and prose, which must use the terms of docs/glossary.md.

`python -m tools.words [PATH ...]` prints the location of each retired word and its replacement, and exits with code 1 if it
finds one. Names are split at underscores and capitals. Code, docstrings, comments, messages and pages are all checked.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.prose import ROOT, report

READ = ("robustify", "bench", "tools", "docs", "README.md", "configs", "adapters/README.md")
SUFFIXES = {".py", ".md", ".j2", ".yaml", ".txt", ".typ"}
# The changelog quotes old names; this file and the glossary list the words.
EXEMPT = {"tools/words.py", "docs/changelog.md", "docs/glossary.md"}
RETIRED = {
    "roll": "ItemIndex",
    "ballot": "Votes",
    "ballots": "Votes",
    "luck": "chance; expected under the null",
    "lucky": "by chance",
    "wishes": "preferences",
    "kin": "near-duplicates",
    "eldest": "first of its near-duplicate group",
    "crew": "thread pool",
    "wire": "client",
    "handshake": "capability probe",
    "told": "say what it is: known, given, printed, significant",
    "whoever": "anyone who; the user; the caller",
    "worlds": "simulation parameters",
    "odds": "probability",
    "acquits": "is no evidence of absence",
    "held": "name the thing",
}
_WORD = re.compile(r"[A-Za-z]+")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def found_in(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line number of each retired word in a file, with the word and its replacement."""
    if path.suffix in SUFFIXES and str(path.relative_to(ROOT)) not in EXEMPT:
        for n, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            for part in (part.lower() for word in _WORD.findall(line) for part in _PARTS.findall(word)):
                if part in RETIRED:
                    yield n, f"{part}: {RETIRED[part]}"


if __name__ == "__main__":
    sys.exit(report(found_in, READ))
