"""The mock restricted set: made-up harmless items in nonsense words, with a canary in every stem and choice.

`prepared` sets up everything that a restricted run needs (adapter, licence acceptance, key, data root, private
output folder, config) without using the code under test, so that a mistake there cannot hide here.
"""

import hashlib
import json
import random
from pathlib import Path
from typing import Any

from robustify.base.key_file import Key
from tests.support.cases import shape

ADAPTER = "mock-restricted"
VERSION = "1"
TOPICS = {
    "lamps": 0.30, "kettles": 0.22, "ladders": 0.16, "ribbons": 0.12, "buckets": 0.085, "pebbles": 0.065,
    "thimbles": 0.03, "whistles": 0.02,
}  # fmt: skip
"""Shares of the items; at 200 items the last two topics are smaller than a cell of ten."""
SECRET = hashlib.sha256(b"the key of the mock restricted set").digest()
LICENCE = "Terms of the mock set: the items are made up and harmless, and are treated as if they were not.\n"
_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"
_FOREIGN = ("é", "ß", "λ", "Ж", "水", "🜁", '"', "%s", "{}", "<b>", "&amp;", "'")


def items(n: int = 200, seed: int = 2026) -> list[dict[str, Any]]:
    """`n` records (id, question, choices, answer, topic). In every third the key is by far the longest choice."""
    rng = random.Random(seed)
    topics = [topic for topic, k in _counts(n).items() for _ in range(k)]
    rng.shuffle(topics)
    return [_item(rng, i, topic) for i, topic in enumerate(topics)]


def canaries(records: list[dict[str, Any]]) -> list[str]:
    """The 12-letter canaries of these records: one in each id, stem and choice."""
    texts = [t for r in records for t in (r["id"], r["question"], *r["choices"])]
    return [word for text in texts for word in text.replace("-", " ").split() if _is_canary(word)]


def write_set(folder: Path, n: int = 200, seed: int = 2026, **changes: object) -> dict[str, Path]:
    """The data and the adapter; `changes` replace or add top-level keys of the manifest (None removes one)."""
    paths = {
        "root": folder / "data",
        "items": folder / "data" / "mock" / "items.jsonl",
        "adapter": folder / "adapters" / ADAPTER,
        "manifest": folder / "adapters" / ADAPTER / "manifest.yaml",
        "licence": folder / "adapters" / ADAPTER / "licence.txt",
    }
    paths["items"].parent.mkdir(parents=True)
    paths["adapter"].mkdir(parents=True)
    rows = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in items(n, seed))
    paths["items"].write_text(rows, encoding="utf-8")
    paths["licence"].write_text(LICENCE, encoding="utf-8")
    manifest = shape(
        "mock_manifest", adapter=ADAPTER, version=VERSION, licence=_digest(LICENCE), rows=_digest(rows), n=n,
        topics=list(TOPICS),
    ) | changes  # fmt: skip
    # JSON is YAML: what is written here owes nothing to our own writer.
    told = {name: value for name, value in manifest.items() if value is not None}
    paths["manifest"].write_text(json.dumps(told, indent=1), encoding="utf-8")
    return paths


def prepared(folder: Path, n: int = 200, seed: int = 2026, **changes: object) -> dict[str, str]:
    """Everything a restricted run needs, in `folder`; the environment variables that point to it.

    The config is `folder/mock.yaml`, a private parent for runs is `folder/out`.
    """
    write_set(folder, n, seed, **changes)
    (folder / "secret").mkdir(mode=0o700)
    key_file(folder / "secret")
    accepted = folder / "config" / "robustify" / "licences.json"
    accepted.parent.mkdir(parents=True, mode=0o700)
    accept(folder)
    accepted.chmod(0o600)
    (folder / "out").mkdir(mode=0o700)
    (folder / "mock.yaml").write_text(f"name: mock\nadapter: {ADAPTER}\n", encoding="utf-8")
    return environment(folder)


def environment(folder: Path) -> dict[str, str]:
    """The variables of a prepared folder."""
    return {
        "ROBUSTIFY_KEY_FILE": str(folder / "secret" / "ids.key"),
        "ROBUSTIFY_DATA": str(folder / "data"),
        "ROBUSTIFY_ADAPTERS": str(folder / "adapters"),
        "XDG_CONFIG_HOME": str(folder / "config"),
    }


def accept(folder: Path, name: str = ADAPTER) -> None:
    """Record the terms as accepted under the manifest as it is now."""
    manifest = (folder / "adapters" / name / "manifest.yaml").read_bytes()
    record = folder / "config" / "robustify" / "licences.json"
    pins = {
        file["path"]: {"sha256": file["sha256"], "records": file["records"]}
        for file in json.loads(manifest)["data"]["files"]
    }
    digest = hashlib.sha256(manifest).hexdigest()
    tree = shape("mock_acceptance", adapter=name, licence=_digest(LICENCE), manifest=digest, pins=pins)
    record.write_text(json.dumps(tree), encoding="utf-8")


def key_text(secret: bytes) -> str:
    """A key file's line, as `robustify key new` writes it."""
    return Key.of(secret).as_text()


def key_file(folder: Path, secret: bytes = SECRET) -> Path:
    """A key file of mode 0600 in this folder."""
    file = folder / "ids.key"
    file.write_text(key_text(secret), encoding="ascii")
    file.chmod(0o600)
    return file


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _counts(n: int) -> dict[str, int]:
    counts = {topic: max(1, round(n * share)) for topic, share in TOPICS.items()}
    counts["lamps"] += n - sum(counts.values())
    if counts["lamps"] < 1:
        raise ValueError(f"{n} items; expected at least {len(TOPICS)}")
    return counts


def _item(rng: random.Random, i: int, topic: str) -> dict[str, Any]:
    foreign = _FOREIGN[i % len(_FOREIGN)]
    stem = (
        f"the {_word(rng)} {topic[:-1]} of {_canary(rng)} {foreign} is {_word(rng)} by which {_word(rng)} "
        f"when the {_word(rng)} {_word(rng)} of {_word(rng)} {rng.randrange(10, 99)} is {_word(rng)}?"
    )
    key = rng.randrange(4)
    long = i % 3 == 0
    choices = [
        " ".join(
            [_word(rng) for _ in range(8 if long and j == key else rng.randrange(1, 4))] + [_canary(rng)]
        )
        for j in range(4)
    ]
    return {"id": f"mock-{_canary(rng)}", "question": stem, "choices": choices, "answer": key, "topic": topic}


def _word(rng: random.Random) -> str:
    syllables = [
        rng.choice(_CONSONANTS) + rng.choice(_VOWELS) + rng.choice(_CONSONANTS)
        for _ in range(rng.randrange(1, 3))
    ]
    return "".join(syllables)


def _canary(rng: random.Random) -> str:
    """Twelve letters that no word of `_word` can be: it begins with q and x."""
    return "qx" + "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(10))


def _is_canary(word: str) -> bool:
    return len(word) == 12 and word.startswith("qx") and word.isalpha()
