"""The engine against plain scoring, one request at a time, with tiny random models; and what it must refuse."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from robustify.engines.base import Request, Scorer, Writer
from robustify.errors import DataError, ModelError, UsageError
from tests.model_cache import model_folder, spoil_config, tiny_bloom, tiny_gemma, tiny_llama

torch = pytest.importorskip("torch", reason="the engine needs torch: the hf extra is not installed")

from safetensors.torch import load_file, save_file  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

from robustify.engines import tree  # noqa: E402
from robustify.engines.hf import HF  # noqa: E402
from robustify.engines.tokens import encode  # noqa: E402

HEADER = "Question: the cat sat on the right mat\n"
REQUESTS = [
    *(
        Request(f"{HEADER}Answer:", f" {text}")
        for text in ("blue", "blue mat", "red", "green and on", "the cat sat")
    ),
    *(Request(f"{HEADER}A. blue\nB. red\nC. green\nAnswer:", f" {letter}") for letter in "ABC"),
    *(Request("Answer:", f" {text}") for text in ("blue", "red", "12 21")),
    Request("", "the cat"),
    Request("   ", "blue"),
    Request("the cat  ", "sat"),
    Request("the", "cat"),
    Request("Question: ünï ☃ 漢", " ☃☃"),
]


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture
def damaged(llama: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    for path in llama.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


@pytest.fixture
def engine(llama: Path) -> Iterator[HF]:
    with HF("tiny", llama) as opened:
        yield opened


def one_by_one(folder: Path, requests: list[Request]) -> list[float]:
    """The definition: log-softmax over the whole sequence, summed over the continuation's tokens."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    totals = []
    for pair in encode(tokenizer, requests):
        whole = torch.tensor([pair.context + pair.continuation])
        with torch.inference_mode():
            logprobs = torch.log_softmax(model(whole).logits[0].double(), dim=-1)
        n = len(pair.context)
        totals.append(sum(float(logprobs[n - 1 + i, t]) for i, t in enumerate(pair.continuation)))
    return totals


def totals(engine: HF, requests: list[Request]) -> list[float]:
    return [scored.total for scored in engine.loglikelihoods(requests)]


def forwards(engine: HF, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The shapes of the model's inputs from here on."""
    shapes: list[tuple[int, int]] = []
    decoder = engine._model.get_decoder()
    forward = decoder.forward

    def spy(*args: Any, **named: Any) -> Any:
        shapes.append(tuple(named["input_ids"].shape))
        return forward(*args, **named)

    monkeypatch.setattr(decoder, "forward", spy)
    return shapes


# the numbers


def test_it_is_a_scorer_and_a_writer(engine: HF) -> None:
    assert isinstance(engine, Scorer)
    assert isinstance(engine, Writer)


def test_trees_give_what_plain_scoring_gives(engine: HF, llama: Path) -> None:
    assert totals(engine, REQUESTS) == pytest.approx(one_by_one(llama, REQUESTS), abs=1e-4)
    assert engine.fingerprint()["path"] == "trees"


def test_the_number_of_tokens_is_that_of_the_continuation(engine: HF, llama: Path) -> None:
    pairs = encode(AutoTokenizer.from_pretrained(llama), REQUESTS)
    assert [s.n_tokens for s in engine.loglikelihoods(REQUESTS)] == [len(p.continuation) for p in pairs]


@pytest.mark.parametrize("size", [64, 100, 4096])
def test_the_size_of_a_batch_changes_nothing(llama: Path, size: int) -> None:
    with HF("tiny", llama, max_batch_tokens=size) as engine:
        assert totals(engine, REQUESTS) == pytest.approx(one_by_one(llama, REQUESTS), abs=1e-4)


def test_long_rows_and_many_places_are_right_too(engine: HF, llama: Path) -> None:
    requests = [Request("the cat " * 40 + "sat", " on the mat" * n) for n in (1, 8, 20)]
    assert totals(engine, requests) == pytest.approx(one_by_one(llama, requests), abs=1e-3)


@pytest.mark.parametrize("window", [8, 32])
def test_a_sliding_window_and_a_soft_cap_are_kept(tmp_path: Path, window: int) -> None:
    folder = tiny_gemma(tmp_path, window=window)
    with HF("gemma", folder) as engine:
        assert totals(engine, REQUESTS) == pytest.approx(one_by_one(folder, REQUESTS), abs=1e-4)


def test_a_model_without_plain_positions_is_scored_row_by_row(tmp_path: Path) -> None:
    folder = tiny_bloom(tmp_path)
    with HF("bloom", folder) as engine:
        assert totals(engine, REQUESTS) == pytest.approx(one_by_one(folder, REQUESTS), abs=1e-4)
        assert engine.fingerprint()["path"] == "rows"


def test_a_model_for_which_trees_are_wrong_is_found_out(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Every node sees the whole segment, as in a model that makes its own mask.
    made = tree.laid_out
    monkeypatch.setattr(tree, "laid_out", lambda *a: replace(p := made(*a), mask=torch.zeros_like(p.mask)))
    with HF("tiny", llama) as engine:
        assert totals(engine, REQUESTS) == pytest.approx(one_by_one(llama, REQUESTS), abs=1e-4)
        assert engine.fingerprint()["path"] == "rows"


def test_half_precision_stays_near(llama: Path) -> None:
    with HF("tiny", llama, dtype="bfloat16") as engine:
        near = totals(engine, REQUESTS)
    assert near == pytest.approx(one_by_one(llama, REQUESTS), rel=0.05, abs=0.5)
    assert near != pytest.approx(one_by_one(llama, REQUESTS), abs=1e-5)


@pytest.mark.model
def test_a_real_model_gives_what_vllm_gave() -> None:
    # vLLM 0.32.0 on a CPU in float32, from the same weights, token by token.
    words = (-11.5393, -0.3376, -2.4387, -0.4509, -0.2581)
    with HF("smollm2-135m", model_folder("smollm2-135m")) as engine:
        last, all_ = totals(
            engine,
            [Request("The capital of France is", " Paris"), Request("The", " capital of France is Paris")],
        )
    assert last == pytest.approx(words[-1], abs=1e-3)
    assert all_ == pytest.approx(sum(words), abs=1e-3)


# what is computed


def test_equal_requests_are_computed_once(engine: HF, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.loglikelihoods([Request("the", " mat")])
    shapes = forwards(engine, monkeypatch)
    done: list[int] = []
    scored = engine.loglikelihoods([Request("the cat", " sat")] * 50, done.append)
    assert len(set(scored)) == 1
    assert shapes == [(1, 2)]
    assert sum(done) == 50


def test_letters_cost_one_position(engine: HF, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.loglikelihoods([Request("the", " mat")])
    seen: list[int] = []
    head = engine._model.get_output_embeddings()
    handle = head.register_forward_hook(lambda module, args, out: seen.append(out.shape[0]))
    engine.loglikelihoods([Request("Question: the cat\nAnswer:", f" {letter}") for letter in "ABC12"])
    handle.remove()
    assert seen == [1]


def test_progress_counts_every_request(engine: HF) -> None:
    done: list[int] = []
    engine.loglikelihoods(REQUESTS * 3, done.append)
    assert sum(done) == 3 * len(REQUESTS)


def test_nothing_asked_is_nothing_answered(engine: HF) -> None:
    assert engine.loglikelihoods([]) == []


# tokens


def test_an_empty_context_becomes_the_begin_token(llama: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(llama)
    empty, blank = encode(tokenizer, [Request("", "the cat"), Request("  ", "cat")])
    assert empty.context == blank.context == (tokenizer.bos_token_id,)
    assert tokenizer.decode(blank.continuation) == "  cat"


def test_trailing_blanks_move_to_the_continuation(llama: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(llama)
    moved, written = encode(tokenizer, [Request("the ", "cat"), Request("the", " cat")])
    assert moved == written


def test_special_tokens_in_a_text_stay_text(tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_llama(tmp_path, adds_bos=True))
    (pair,) = encode(tokenizer, [Request("<bos>the<eos><|user|>", " <|assistant|>cat<eos>")])
    assert pair.context[0] == tokenizer.bos_token_id
    assert not set(pair.context[1:] + pair.continuation) & set(tokenizer.all_special_ids)
    assert (
        tokenizer.decode(pair.context[1:] + pair.continuation)
        == "<bos>the<eos><|user|> <|assistant|>cat<eos>"
    )


def test_each_text_is_tokenised_once(llama: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(llama)
    seen: list[tuple[str, bool]] = []

    class Spy:
        bos_token_id, eos_token_id = tokenizer.bos_token_id, tokenizer.eos_token_id

        def __call__(self, texts: list[str], **named: Any) -> Any:
            seen.extend((text, named["add_special_tokens"]) for text in texts)
            return tokenizer(texts, **named)

    encode(Spy(), REQUESTS * 2)
    assert len(seen) == len(set(seen))


# refusals


def test_what_does_not_fit_is_named_by_its_place_and_never_cut(engine: HF) -> None:
    long = Request("secret " * 300, " cat")
    with pytest.raises(DataError) as caught:
        engine.loglikelihoods([REQUESTS[0], long, REQUESTS[1], Request("the", " mat" * 300)])
    assert [line.split(":")[0] for line in caught.value.lines] == ["request 1", "request 3"]
    assert "takes 257 together" in caught.value.lines[0]
    assert "secret" not in str(caught.value)


def test_what_just_fits_is_scored(tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path, length=8)
    with HF("short", folder) as engine:
        assert engine.max_length == 8
        fits = Request("A B C A B C", " A B C")
        assert totals(engine, [fits]) == pytest.approx(one_by_one(folder, [fits]), abs=1e-4)
        with pytest.raises(DataError, match="request 0: 6 tokens of context and 4 of continuation"):
            engine.loglikelihoods([Request("A B C A B C", " A B C A")])


def test_a_continuation_without_tokens_is_refused(engine: HF) -> None:
    with pytest.raises(DataError, match="request 1: its continuation"):
        engine.loglikelihoods([REQUESTS[0], Request("the cat", "")])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(damaged: Path, value: float) -> None:
    tensors = load_file(damaged / "model.safetensors")
    tensors["model.norm.weight"][3] = value
    save_file(tensors, damaged / "model.safetensors", metadata={"format": "pt"})
    with (
        pytest.raises(ModelError, match="tiny: gave a log-probability that is NaN"),
        HF("tiny", damaged) as engine,
    ):
        engine.loglikelihoods(REQUESTS)


def test_a_missing_tensor_is_not_made_up(damaged: Path) -> None:
    tensors = load_file(damaged / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, damaged / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match="1 tensors are missing"):
        HF("tiny", damaged)


def test_a_truncated_file_is_refused(damaged: Path) -> None:
    weights = damaged / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ModelError, match="cannot load this model") as caught:
        HF("tiny", damaged)
    assert len(caught.value.lines) == 1


def test_pickled_weights_are_refused(damaged: Path) -> None:
    torch.save(load_file(damaged / "model.safetensors"), damaged / "pytorch_model.bin")
    (damaged / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="pickled weights are never loaded"):
        HF("tiny", damaged)


def test_custom_code_is_refused(damaged: Path) -> None:
    spoil_config(damaged, auto_map={"AutoModelForCausalLM": "modeling.Evil"})
    with pytest.raises(ModelError, match="custom code"):
        HF("tiny", damaged)


@pytest.mark.parametrize(
    ("device", "dtype"), [("nowhere", "float32"), ("cuda:99", "float32"), ("cpu", "int4")]
)
def test_an_unknown_device_or_dtype_is_a_usage_error(llama: Path, device: str, dtype: str) -> None:
    with pytest.raises(UsageError, match="expected"):
        HF("tiny", llama, device=device, dtype=dtype)


# fingerprint, memory, writing


def test_the_fingerprint_follows_what_the_numbers_depend_on(engine: HF, llama: Path, damaged: Path) -> None:
    engine.loglikelihoods(REQUESTS)
    first = engine.fingerprint()
    with HF("other name", llama) as same:
        same.loglikelihoods(REQUESTS)
        assert first == same.fingerprint()
    tensors = load_file(damaged / "model.safetensors")
    tensors["model.norm.weight"] += 1
    save_file(tensors, damaged / "model.safetensors", metadata={"format": "pt"})
    with HF("tiny", damaged, dtype="bfloat16", max_batch_tokens=512) as changed:
        changed.loglikelihoods(REQUESTS)
        other = changed.fingerprint()
    assert {k for k in first if first[k] != other[k]} == {"weights", "dtype", "max_batch_tokens"}
    assert len(first["weights"]) == len(first["tokenizer"]) == 64


def test_closing_gives_the_model_back(llama: Path) -> None:
    import weakref

    engine = HF("tiny", llama)
    engine.loglikelihoods(REQUESTS)
    alive = weakref.ref(engine._model)
    engine.close()
    engine.close()
    assert alive() is None


def test_a_repr_shows_no_text(engine: HF) -> None:
    assert repr(engine) == "HF('tiny', cpu, float32)"


def test_writing_is_greedy(engine: HF, llama: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(llama)
    model = AutoModelForCausalLM.from_pretrained(llama).eval()
    ids = list(tokenizer("the cat")["input_ids"])
    wrote: list[int] = []
    while len(wrote) < 6 and tokenizer.eos_token_id not in wrote:
        with torch.inference_mode():
            wrote.append(int(model(torch.tensor([ids + wrote])).logits[0, -1].argmax()))
    assert engine.write(["the cat"], max_tokens=6) == [tokenizer.decode(wrote, skip_special_tokens=True)]


def test_a_chat_template_speaks_and_the_text_cannot(tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path, chat=True)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with HF("chat", folder) as engine:
        ids = engine._as_prompt("the <eos><|assistant|> cat")
        assert [i for i in ids if i in tokenizer.all_special_ids] == tokenizer.convert_tokens_to_ids(
            ["<|user|>", "<eos>", "<|assistant|>"]
        )
        assert tokenizer.decode(ids) == "<|user|>the <eos><|assistant|> cat<eos><|assistant|>"
        assert len(engine.write(["the cat", "the mat"], max_tokens=3)) == 2


def test_a_prompt_without_room_for_a_reply_is_refused(engine: HF) -> None:
    with pytest.raises(DataError, match=r"prompt 1: .* 251 for the reply"):
        engine.write(["the", "the cat sat on the mat"], max_tokens=251)
