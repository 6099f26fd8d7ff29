"""Models for tests: the two real ones from the cache, and tiny random ones that need no download."""

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from robustify.base.errors import ModelError
from robustify.base.files import cache_folder
from robustify.items.views import Request
from robustify.models.downloads import locate, pull_model
from robustify.models.model_settings import HFModel
from tests.support.cases import shape

if TYPE_CHECKING:
    from robustify.models.engines.cache import Cache
    from robustify.models.engines.local.engine import HF

WORDS = "the cat sat on mat blue red green Answer Question right 1 2 A B C".split()  # noqa: SIM905
CHAT = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<eos>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)

_CAT = "Question: the cat sat on the right mat\n"
REQUESTS = [
    *(Request(f"{_CAT}Answer:", f" {text}") for text in ("blue", "blue mat", "red", "green and on", "the cat sat")),
    *(Request(f"{_CAT}A. blue\nB. red\nC. green\nAnswer:", f" {letter}") for letter in "ABC"),
    *(Request("Answer:", f" {text}") for text in ("blue", "red", "12 21")),
    Request("the cat  ", "sat"),
    Request("the", "cat"),
    Request("Question: ünï ☃ 漢", " ☃☃"),
]  # fmt: skip
"""What every engine is asked: texts and letters, with blanks and odd characters."""


@functools.cache
def model_folder(name: str) -> Path:
    """The folder of an embedded model, pulled if it is not in the cache; the test is skipped without network."""
    try:
        return locate(name, cache_folder())
    except ModelError:
        try:
            return pull_model(name, cache_folder(), lambda _: None)
        except ModelError as e:
            pytest.skip(f"{name} is not in the cache and cannot be pulled: {e.lines[0]}")


def hf(folder: Path, cache: "Cache | None" = None, *, name: str = "tiny", **settings: Any) -> "HF":
    """The engine hf on a folder, with these settings of a config."""
    from robustify.models.engines.local.engine import HF

    return HF(HFModel(name=name, **settings), folder, cache)


def vocabulary() -> list[str]:
    """Special tokens, every byte, and a few whole words with and without a blank before them."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    pieces = list(bytes_to_unicode().values())
    grown = [blank + word[: n + 1] for word in WORDS for blank in ("", "Ġ") for n in range(len(word))]
    return list(dict.fromkeys(["<bos>", "<eos>", "<|user|>", "<|assistant|>", *pieces, *grown]))


def merges() -> list[tuple[str, str]]:
    """The merges that make the words of the vocabulary, letter by letter."""
    pairs = [
        (blank + word[:n], word[n])
        for word in WORDS
        for blank in ("Ġ", "")
        for n in range(0 if blank else 1, len(word))
    ]
    return list(dict.fromkeys(pairs))


def save_tokenizer(folder: Path, *, chat: bool = False, adds_bos: bool = False) -> None:
    """A byte-level BPE tokenizer with four special tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocab = {piece: i for i, piece in enumerate(vocabulary())}
    backend = Tokenizer(models.BPE(vocab=vocab, merges=merges()))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    if adds_bos:
        backend.post_processor = processors.TemplateProcessing(
            single="<bos> $A", pair="<bos> $A $B", special_tokens=[("<bos>", 0)]
        )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<bos>",
        eos_token="<eos>",
        additional_special_tokens=["<|user|>", "<|assistant|>"],
    )
    if chat:
        fast.chat_template = CHAT
    fast.save_pretrained(folder)


def tiny(kind: str, folder: Path, *, chat: bool = False, adds_bos: bool = False, **settings: Any) -> Path:
    """A model of `tiny_models` with a tokenizer. Its weights are large, so that wrong attention shows in its numbers."""
    import torch
    import transformers

    torch.manual_seed(7)
    model, config, usual = shape("tiny_models")[kind]
    sizes = {"vocab_size": len(vocabulary()), "hidden_size": 32, "bos_token_id": 0, "eos_token_id": 1}
    model = getattr(transformers, model)(getattr(transformers, config)(**sizes, **usual | settings))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1:
                weight.normal_(0, 0.3 if "embed" not in name else 1.0)
    model.save_pretrained(folder)
    save_tokenizer(folder, chat=chat, adds_bos=adds_bos)
    return folder


tiny_llama = functools.partial(tiny, "llama")


def tiny_gguf(path: Path) -> Path:
    """A random Llama of one layer as a GGUF file, its tokenizer inside."""
    import gguf
    import numpy as np

    words = vocabulary()
    rng = np.random.default_rng(7)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    for name, size in shape("gguf_sizes", n_words=len(words)).items():
        getattr(writer, f"add_{name}")(size)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(words)
    writer.add_token_types([3] * 4 + [1] * (len(words) - 4))
    writer.add_token_merges([" ".join(pair) for pair in merges()])
    for name, sizes in shape("gguf_tensors", n_words=len(words)).items():
        writer.add_tensor(f"{name}.weight", rng.normal(0, 0.1, sizes).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def spoil_config(folder: Path, **changes: object) -> None:
    """Change settings in a model's config.json."""
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
