"""Fill the requests with made-up candidates, write filled.csv, and print what the first one asks for."""

import csv
import json

CLAUSES = (
    "which keeps it in place while the rest of it slowly moves on",
    "so that the parts that lie next to it can follow one after another",
    "and then hands it on to whatever comes next in the same row",
)
with open("demo.jsonl") as demo:
    items = {row["id"]: row for row in map(json.loads, demo)}
with open("first/requests.csv", newline="") as asked, open("filled.csv", "w", newline="") as filled:
    rows = csv.DictReader(asked)
    writer = csv.DictWriter(filled, rows.fieldnames)
    writer.writeheader()
    for number, row in enumerate(rows):
        text = [option for option in items[row["id"]]["choices"] if option != row["key"]][number % 3]
        while len(text) < len(row["key"]) or len(text.split()) <= len(row["key"].split()):
            text += f", {CLAUSES[number % 3]}"
        writer.writerow({**row, "candidate": text})
        if number == 0:
            print(f"{row['id']}: {row['form']}")
