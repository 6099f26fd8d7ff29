"""The sentence encoder gives the vectors of transformers' own BERT, for texts of any length in any company."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from robustify.base.errors import ModelError

torch = pytest.importorskip("torch")
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors  # noqa: E402
from transformers import BertConfig, BertModel  # noqa: E402

from robustify.models.engines.local.sentence_encoder import sentence_vectors  # noqa: E402

WORDS = (
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    *"abcdefghijklmnop",
    *(f"##{letter}" for letter in "abcdefghijklmnop"),
)
LONGEST = 256


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a BERT of two layers with random weights, whose words are single letters."""
    folder = tmp_path_factory.mktemp("bert")
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(WORDS), hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
                        intermediate_size=40, max_position_embeddings=LONGEST)  # fmt: skip
    model = BertModel(config)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    model.save_pretrained(folder)
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    # A folder may say how to pad and cut, which must not reach the vectors.
    tokenizer.enable_padding(length=300)
    tokenizer.enable_truncation(5)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def by_transformers(folder: Path, text: str) -> "np.ndarray[tuple[int], np.dtype[np.float32]]":
    """Return the vector of a text that is alone, so that nothing is padded."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LONGEST)
    with torch.inference_mode():
        states = (
            BertModel.from_pretrained(folder)
            .eval()(torch.tensor([tokenizer.encode(text).ids]))
            .last_hidden_state
        )
    vector = states[0].mean(dim=0)
    return np.asarray(vector / vector.norm())


def test_each_text_has_the_vector_that_it_has_alone_in_transformers(bert: Path) -> None:
    draw = np.random.default_rng(0)
    sizes = [0, 1, 2, 3, 3, 30, 100, 254, 255, 900, *draw.integers(1, 60, 150)]
    texts = ["".join(draw.choice(list("abcdefgh ÄÉ漢"), size)) for size in sizes]
    order = draw.permutation(len(texts)).tolist()
    shown: list[int] = []
    vectors = sentence_vectors(bert, [texts[at] for at in order] + texts[:1], shown.append)
    assert vectors.dtype == np.float32
    assert sum(shown) == len(set(texts))
    expected = np.array([by_transformers(bert, texts[at]) for at in [*order, 0]])
    np.testing.assert_allclose(vectors, expected, atol=2e-6)
    halved = sentence_vectors(bert, texts, dtype="bfloat16")
    assert (halved != sentence_vectors(bert, texts)).any()
    assert (halved * sentence_vectors(bert, texts)).sum(axis=1).min() > 0.99


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "model.safetensors").write_bytes(b"0" * 100),
        lambda folder: (folder / "tokenizer.json").write_text("{}"),
        lambda folder: (folder / "config.json").write_text("{"),
        lambda folder: (folder / "config.json").write_text(json.dumps({"model_type": "bert"})),
        lambda folder: (folder / "config.json").write_text(
            (folder / "config.json").read_text().replace('"gelu"', '"relu"')
        ),
    ],
)
def test_a_folder_that_is_no_such_encoder_is_refused(
    bert: Path, tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    for file in bert.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    damage(tmp_path)
    with pytest.raises(ModelError) as caught:
        sentence_vectors(tmp_path, ["a b"])
    assert caught.value.code == "unloadable-model"
    assert len(caught.value.lines) == 1


def test_the_encoder_does_without_the_large_library() -> None:
    code = "import sys, robustify.models.engines.local.sentence_encoder; print('transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.split() == [
        b"False"
    ]
