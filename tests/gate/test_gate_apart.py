"""Records of tokens, tables without fingerprints, arrays of token ids: what evaluation tools leave beside their results."""

import json
import sys
import zlib

import numpy as np
import pyarrow as pa
import pytest

from robustify.gate.reading.apart import joined, token_ids
from tests.gate.artefacts import LOG_PROBABILITIES, TABLES, ends, pieces, scored, word_piece
from tests.gate.corpus import CARRIERS, Made, made, whole
from tests.gate.layouts import STRUCTURE
from tests.gate.sets import mock_items, mock_prints, rules_of, written


@pytest.mark.parametrize("form", LOG_PROBABILITIES)
def test_a_registered_item_in_a_record_of_tokens_is_refused_by_its_words(form: str) -> None:
    for item in mock_items()[:8]:
        for text in (item.stem, " ".join(item.texts)):
            assert "RBG301" in rules_of(LOG_PROBABILITIES[form](text), mock_prints())


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize(
    "form", ["openai_content", "vllm_prompt_logprobs", "python_pairs", "bpe_list", "tsv"]
)
def test_a_record_of_tokens_is_found_within_another_file(form: str, carrier: str) -> None:
    text = CARRIERS[carrier](LOG_PROBABILITIES[form](whole(mock_items()[9])))
    assert "RBG301" in rules_of(text, mock_prints())


def test_a_prompt_in_a_record_of_tokens_has_the_shape_of_an_item_without_fingerprints() -> None:
    item = made(1, 41)[0]
    options = "".join(
        f"Ċ{letter}.{' '.join(pieces(' ' + c, 'Ġ'))}" for letter, c in zip("ABCD", item.choices, strict=True)
    )
    tokens = [*pieces(item.stem, "Ġ"), *options.split(), "Ċ", "Answer", ":", "ĠB"]
    assert rules_of(json.dumps({"tokens": tokens})) & STRUCTURE


@pytest.mark.parametrize(
    "tokens",
    [pieces("an iron kettle", "Ġ"), pieces("an iron kettle", "▁"), pieces("an iron kettle"), word_piece("an iron kettle"),
     ends("an iron kettle"), list("an iron kettle"), ["an", "iron", "kettle"]],
)  # fmt: skip
def test_tokens_of_every_family_are_joined_at_their_own_blanks(tokens: list[str]) -> None:
    assert joined(tokens).strip() == "an iron kettle"


# One item in rows without names, or in columns, says too little.
_NEED_COMPANY = {"json_values", "json_values_listed", "transposed_csv", "transposed_html"}


@pytest.mark.parametrize("n", [60, 5, 1])
@pytest.mark.parametrize("form", TABLES)
def test_a_table_of_keyed_items_is_refused_without_fingerprints(form: str, n: int) -> None:
    if n > 1 or form not in _NEED_COMPANY:
        assert rules_of(TABLES[form](made(n, 77))) & STRUCTURE


def test_a_printed_table_of_anything_else_is_left_alone() -> None:
    import pandas as pd

    plain = pd.DataFrame(
        {"model": ["a b c d", "e f g h"] * 5, "question": [3, 4] * 5, "accuracy": [0.5, 0.25] * 5}
    )
    for text in (
        plain.to_string(), plain.to_html(), plain.to_latex(), plain.to_json(orient="split"), plain.T.to_html(),
    ):  # fmt: skip
        assert rules_of(text) == set()


# Arrays of token ids.


def ids_of(item: Made) -> list[int]:
    """Numbers as a tokenizer of 49,000 words gives them: the same for the same piece."""
    return [zlib.crc32(piece.encode()) % 49_000 for piece in pieces(" ".join(item.texts))]


@pytest.mark.parametrize("name", ["input_ids", "token_ids", "prompt_token_ids", "tokens"])
def test_a_named_array_of_the_token_ids_of_one_item_is_refused(name: str) -> None:
    for item in made(20, 51):
        assert "RBG506" in rules_of(json.dumps({name: ids_of(item)}))
        assert "RBG506" in rules_of(f"{name} = tensor([[{', '.join(map(str, ids_of(item)))}]])")


def test_a_long_array_of_token_ids_is_refused_whatever_its_name() -> None:
    for seed in range(20):
        ids = [number for item in made(4, seed) for number in ids_of(item)]
        for text in (
            json.dumps([ids]), str(np.array(ids)), ",".join(map(str, ids)), json.dumps({"x": ids}, indent=1),
        ):  # fmt: skip
            assert "RBG506" in rules_of(text), seed


def test_a_parquet_column_of_token_ids_is_refused() -> None:
    ids = [ids_of(item) for item in made(20, 52)]
    assert rules_of(written(pa.table({"input_ids": ids}))) == {"RBG506"}
    assert rules_of(written(pa.table({"x": ids}))) == {"RBG506"}
    assert rules_of(written(pa.table({"counts": [[1, 2, 3]] * 20, "n": list(range(1000, 1020))}))) == set()


@pytest.mark.parametrize(
    "numbers",
    [range(0, 60_000, 600), [7, 8] * 60, [i * 7919 % 900_000 for i in range(80)],
     list(b"a text of bytes " * 8), [i * i % 251 for i in range(100)],
     np.random.default_rng(1).permutation(100).tolist(), [2**i % 100_003 for i in range(8)]],
    ids=["rising", "few", "large", "bytes", "small", "a permutation", "short"],
)  # fmt: skip
def test_other_arrays_of_numbers_are_left_alone(numbers: list[int]) -> None:
    assert token_ids(json.dumps({"offsets": list(numbers)})) is None


def test_the_finding_names_the_line_where_the_record_begins() -> None:
    item = mock_items()[3]
    text = "A note.\n\n" + "\n".join(json.dumps({"token": p, "logprob": n}) for p, n in scored(item.stem))
    assert "RBG301" in rules_of(text, mock_prints())


def test_a_record_longer_than_is_grouped_at_a_time_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[token_ids.__module__], "_BLOCK", 40)
    text = LOG_PROBABILITIES["python_pairs"](" ".join(whole(item) for item in mock_items()[:4]))
    assert len(text.splitlines()) == 1
    assert "RBG301" in rules_of(text, mock_prints())


def test_all_records_of_one_line_are_read_however_far_apart() -> None:
    pairs = [LOG_PROBABILITIES["python_pairs"](whole(item)).strip() for item in mock_items()[7:9]]
    harmless = [f"x{i} = {i}.5" for i in range(8)]
    gap = "; step()" * 8000
    text = f"note {'; '.join(harmless)}{gap}; {pairs[0]}{gap}; {pairs[1]}\n"
    assert "RBG301" in rules_of(text, mock_prints())


def test_lists_of_bytes_are_read_beside_lists_of_larger_numbers() -> None:
    words = mock_items()[9].stem.split()
    lists = [f"[{', '.join(map(str, (word + ' ').encode()))}]" for word in words]
    text = "\n".join(f"bytes={one} size=[300, 20, {i}]" for i, one in enumerate(lists))
    assert "RBG301" in rules_of(text, mock_prints())


@pytest.mark.parametrize("numbers_first", [False, True])
def test_names_of_tokens_and_their_numbers_may_lie_apart_amid_code(numbers_first: bool) -> None:
    """Only the text around numbers that stand close together is read, and it is read far enough."""
    words = whole(mock_items()[9]).split()
    tokens = "tokens = [\n" + "".join(f"    {word!r},\n" for word in words) + "]\n"
    numbers = "numbers = [\n" + "    -0.25,\n" * len(words) + "]\n"
    code = "def run(self, step):\n    return self.steps[step]\n" * 1500
    between = "x = step\n" * 1000
    parts = [numbers, between, tokens] if numbers_first else [tokens, between, numbers]
    assert "RBG301" in rules_of(code + "".join(parts) + code, mock_prints())
