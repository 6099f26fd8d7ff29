"""Keys and registered sets for the gate's tests: fixed, so that a failure repeats."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from robustify.gate.build import build_index
from robustify.gate.check import scan
from robustify.gate.fingerprints import Fingerprints, Tables
from robustify.gate.key_file import Key
from tests.gate.corpus import Made, made

SEED = 2026


def key(name: str) -> Key:
    secret = hashlib.sha256(f"a test key, {name}".encode()).digest()
    return Key.of(secret)


KEY = key("one")


def key_file(folder: Path, key: Key = KEY) -> Path:
    place = folder / f"{key.id}.key"
    place.write_text(key.as_text())
    place.chmod(0o600)
    return place


def opened(sets: Mapping[str, Sequence[Sequence[str]]], key: Key = KEY) -> Fingerprints:
    return Fingerprints(build_index(sets, key, library=False).tables, key)


@cache
def mock_items(n: int = 200) -> list[Made]:
    """The mock restricted set: made up, harmless."""
    return made(n, SEED)


@cache
def mock_tables(n: int = 200) -> Tables:
    return build_index({"mock": [item.texts for item in mock_items(n)]}, KEY, library=False).tables


@cache
def mock_prints(n: int = 200) -> Fingerprints:
    return Fingerprints(mock_tables(n), KEY)


def rules_of(content: str | bytes, prints: Fingerprints | None = None) -> set[str]:
    """The rules that a content breaks."""
    data = content.encode() if isinstance(content, str) else content
    return {finding.rule.id for finding in scan(data, prints)}
