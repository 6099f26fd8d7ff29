"""Remove the explanations from the flagged items, and write mended.csv."""

import csv
import json
from pathlib import Path

flagged = {json.loads(line)["id"] for line in Path("audit/flagged.jsonl").read_text().splitlines()}
rows = list(csv.reader(Path("sums.csv").read_text().splitlines()))
for n, row in enumerate(rows[1:], start=1):
    if f"sums-{n:04}" in flagged:
        row[1:5] = [option.split(",")[0] for option in row[1:5]]
with Path("mended.csv").open("w", newline="") as file:
    csv.writer(file).writerows(rows)
