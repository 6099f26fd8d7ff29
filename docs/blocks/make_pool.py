"""Write questions of the demo as demo.jsonl, made-up candidates for their distractors as pool.jsonl,
and print one row of the pool."""

import json
import re

from robustify.base.settings_files import shipped

SOFTER = {"All": "Most", "None": "Few", "No": "Hardly any", "Only": "Mainly", "always": "often", "never": "rarely",
          "every": "nearly every", "any": "many", "only": "mostly", "very": "rather"}  # fmt: skip
lines = (shipped() / "data" / "benign_demo.jsonl").read_text().splitlines(keepends=True)[:150]
with open("demo.jsonl", "w") as demo, open("pool.jsonl", "w") as pool:
    demo.writelines(lines)
    for row in map(json.loads, lines):
        wrong = [option for at, option in enumerate(row["choices"]) if at != row["key"]]
        softer = [re.sub(r"\w+", lambda word: SOFTER.get(word[0], word[0]), option) for option in wrong]
        print(json.dumps({"id": row["id"], "candidates": softer}), file=pool)
        if row["id"] == "everyday-science-02":
            print(json.dumps({"id": row["id"], "candidates": softer}))
