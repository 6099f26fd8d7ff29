"""A tiny model and a file of items, which several tests of models share."""

from pathlib import Path

import pytest

from robustify.items.item import Item
from robustify.runs.run import write_items
from tests.support.model_cache import tiny_llama


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture
def items(tmp_path: Path, toys: list[Item]) -> Path:
    write_items(tmp_path / "items.jsonl", toys)
    return tmp_path / "items.jsonl"
