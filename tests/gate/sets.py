"""Keys and registered sets for the gate's tests: fixed, so that a failure repeats."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from robustify.gate.fingerprints.build import build_index
from robustify.gate.fingerprints.index_file import Tables
from robustify.gate.fingerprints.matching import Fingerprints
from robustify.gate.key_file import Key
from tests.gate.corpus import Made, made

SEED = 2026


def key(name: str) -> Key:
    secret = hashlib.sha256(f"a test key, {name}".encode()).digest()
    return Key.of(secret)


KEY = key("one")


def key_text(held: Key) -> str:
    return f"rbk1:{held.id}:{base64.urlsafe_b64encode(held.secret).decode().rstrip('=')}\n"


def key_file(folder: Path, held: Key = KEY, mode: int = 0o600) -> Path:
    place = folder / f"{held.id}.key"
    place.write_text(key_text(held))
    place.chmod(mode)
    return place


def opened(sets: Mapping[str, Sequence[Sequence[str]]], held: Key) -> Fingerprints:
    return Fingerprints(build_index(sets, held, library=False).tables, held)


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
