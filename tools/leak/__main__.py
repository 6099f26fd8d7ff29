"""`make leak-test`: the full leak test, written to results/bench/leak.json; exit 1 unless it passed."""

import json
import sys
import tempfile
from pathlib import Path

from tools.leak.proof import passed, proof

PLACE = Path(__file__).parents[2] / "results" / "bench" / "leak.json"


def main() -> int:
    """Run it in a temporary folder, or in the one that is named; `-n N` takes fewer items."""
    words = sys.argv[1:]
    n = int(words[words.index("-n") + 1]) if "-n" in words else 200
    with tempfile.TemporaryDirectory(prefix="leak-") as folder:
        result = proof(Path(folder) / "world", n)
    text = json.dumps({**result, "passed": passed(result)}, indent=2) + "\n"
    if n == 200:
        PLACE.parent.mkdir(parents=True, exist_ok=True)
        PLACE.write_text(text, "utf-8")
    print(text, end="")
    return 0 if passed(result) else 1


if __name__ == "__main__":
    sys.exit(main())
