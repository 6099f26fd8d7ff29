"""`validate --why` names the column, the rule, and the other candidates of each part, and never the text of an item."""

import json
from pathlib import Path

import pytest

from tests.support.command import invoked

ROWS = [
    {
        "question": f"Where is {n}?",
        "choices": ["Oslo", "Rome", "Lima"],
        "answer": "A",
        "gold": "A",
        "uid": n,
        "nr": n,
    }
    for n in range(6)
]


@pytest.fixture
def items(tmp_path: Path) -> Path:
    path = tmp_path / "items.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")
    return path


def test_each_part_has_a_rule_a_reason_and_candidates(items: Path) -> None:
    read = json.loads(invoked("validate", items, "--json").stdout)["read"][0]
    why = {one["part"]: one for one in read["decisions"]}
    assert {part: one["columns"] for part, one in why.items() if not part.startswith("form")} == {
        "choices": ["choices"],
        "key": ["gold"],
        "stem": ["question"],
        "id": ["uid"],
    }
    assert why["key"]["candidates"] == ["answer"]
    assert why["id"]["candidates"] == ["nr"]
    assert all(one["rule"] and one["reason"] for one in read["decisions"])


def test_only_a_reader_who_asks_sees_it(items: Path) -> None:
    asked = invoked("validate", items, "--map", "key=answer", "--why").output
    assert "why items.jsonl" in asked
    assert "mapped" in asked
    assert not any(word in asked for word in ("Oslo", "Where is"))
    assert "why items.jsonl" not in invoked("validate", items).output


def test_a_config_says_it_for_its_file(items: Path, tmp_path: Path) -> None:
    config = tmp_path / "audit.yaml"
    data = f"data: {{path: {items}, fields: {{key: answer}}}}\n"
    config.write_text(f"name: toys\nsensitivity: public\nmodels: []\n{data}", "utf-8")
    asked = invoked("validate", config, "--why").output
    assert "why items.jsonl is read so:" in asked
    assert '"answer" by mapped' in asked
    assert "Where is" not in asked
