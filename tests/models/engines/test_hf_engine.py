"""The engine against plain scoring, one request at a time, with tiny random models; and what it must refuse."""

import functools
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from robustify.items.views import Request
from tests.support.cases import refuses
from tests.support.model_cache import REQUESTS as COMMON
from tests.support.model_cache import hf, tiny, tiny_llama

torch = pytest.importorskip("torch", reason="the engine needs torch: the hf extra is not installed")

from safetensors.torch import load_file, save_file  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

from robustify.models.engines.local import layout, tree  # noqa: E402
from robustify.models.engines.local import model as in_memory  # noqa: E402
from robustify.models.engines.local.engine import HF  # noqa: E402
from robustify.models.engines.plan import Speller, as_prompt, encode  # noqa: E402

REQUESTS = (*COMMON, Request("", "the cat"), Request("   ", "blue"))
LONG = tuple(Request("the cat " * 40 + "sat", " on the mat" * n) for n in (1, 20))


@pytest.fixture
def damaged(llama: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(llama, tmp_path / "model"))


@pytest.fixture
def engine(llama: Path) -> Iterator[HF]:
    with hf(llama) as opened:
        yield opened


@functools.cache
def one_by_one(folder: Path, requests: tuple[Request, ...]) -> list[float]:
    """The definition: log-softmax over the whole sequence, summed over the continuation's tokens."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    totals = []
    for pair in encode(Speller(tokenizer), requests):
        whole = torch.tensor([pair.context + pair.continuation])
        with torch.inference_mode():
            logprobs = torch.log_softmax(model(whole).logits[0].double(), dim=-1)
        n = len(pair.context)
        totals.append(sum(float(logprobs[n - 1 + i, t]) for i, t in enumerate(pair.continuation)))
    return totals


def totals(engine: HF, requests: Sequence[Request]) -> list[float]:
    return [scored.total for scored in engine.loglikelihoods(requests)]


# the numbers


@pytest.mark.slow
@pytest.mark.parametrize(("size", "section"), [(64, 1), (64, 2), (64, 64), (100, 64), (4096, 64)])
def test_the_size_of_batches_and_sections_changes_nothing(llama: Path, size: int, section: int) -> None:
    requests = (*REQUESTS, *LONG)
    with hf(llama, max_batch_tokens=size, section=section) as engine:
        assert totals(engine, requests) == pytest.approx(one_by_one(llama, requests), abs=1e-3)


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (tiny_llama, "trees"),
        (lambda folder: tiny("gemma", folder, sliding_window=8), "trees"),
        (lambda folder: tiny("gemma", folder, sliding_window=32), "trees"),
        (lambda folder: tiny("bloom", folder), "rows"),
        (lambda folder: tiny("mamba", folder), "rows"),
    ],
    ids=["llama", "a window of 8", "a window of 32", "no plain positions", "recurrent"],
)
def test_every_family_is_scored_by_the_fastest_path_that_is_exact(
    make: Callable[[Path], Path], path: str, tmp_path: Path
) -> None:
    folder = make(tmp_path)
    with hf(folder, max_batch_tokens=64) as engine:
        assert totals(engine, REQUESTS) == pytest.approx(one_by_one(folder, REQUESTS), abs=1e-4)
        assert engine.fingerprint()["path"] == path


def blind(made: Callable[..., layout.BlockGroup]) -> Callable[..., layout.BlockGroup]:
    """Every node sees the whole block, as in a model that makes its own mask."""

    def group(*given: Any) -> layout.BlockGroup:
        open_ = torch.zeros_like((one := made(*given)).mask)
        return layout.BlockGroup(one.blocks, one.keys, open_, open_)

    return group


@pytest.mark.parametrize("refuses", [False, True], ids=["wrong", "refused"])
def test_a_model_for_which_trees_do_not_work_is_found_out(
    llama: Path, monkeypatch: pytest.MonkeyPatch, refuses: bool
) -> None:
    def refusing(*_: Any) -> Any:
        raise ValueError("a mask of four dimensions is not supported")

    if refuses:
        monkeypatch.setattr(tree.Trees, "_pass", refusing)
    else:
        monkeypatch.setattr(layout, "_group", blind(layout._group))
    with hf(llama) as engine:
        assert totals(engine, REQUESTS) == pytest.approx(one_by_one(llama, REQUESTS), abs=1e-4)
        assert engine.path == "rows"


@pytest.mark.parametrize(("n", "path"), [(80, "trees"), (1, "rows")])
def test_what_may_be_off_grows_with_the_tokens_that_are_summed(
    llama: Path, monkeypatch: pytest.MonkeyPatch, n: int, path: str
) -> None:
    rows, off = in_memory.score_rows, 0.004 if path == "trees" else 0.002
    monkeypatch.setattr(in_memory, "score_rows", lambda *a: {r: t + off for r, t in rows(*a).items()})
    with hf(llama) as engine:
        totals(engine, [Request("the cat sat", " on the mat" * n)])
        assert engine.path == path


def test_the_head_in_tiles_is_the_whole_head(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    class Tiled(tree.Head):
        def _width(self, rows: int) -> int:
            return 37

    monkeypatch.setattr(tree, "Head", Tiled)
    with hf(llama) as engine:
        assert totals(engine, REQUESTS) == pytest.approx(one_by_one(llama, REQUESTS), abs=1e-4)


# what is computed


@pytest.mark.parametrize(
    "requests",
    [
        [Request("the cat", " sat")] * 50,
        [Request("Question: the cat\nAnswer:", f" {letter}") for letter in "ABC12"],
    ],
    ids=["equal", "letters"],
)
def test_equal_requests_and_letters_of_one_prompt_cost_one_position(
    requests: list[Request], engine: HF, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.loglikelihoods([Request("the", " mat")])
    seen: list[int] = []
    logprobs = tree.Head.logprobs

    def spy(self: tree.Head, hidden: Any, rows: Any, tokens: Any) -> Any:
        seen.append(len(hidden))
        return logprobs(self, hidden, rows, tokens)

    monkeypatch.setattr(tree.Head, "logprobs", spy)
    done: list[int] = []
    scored = engine.loglikelihoods(requests, done.append)
    assert len(set(scored)) == len(set(requests))
    assert (seen, sum(done)) == ([1], len(requests))


# memory that runs out


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:132] err == 0. DefaultCPUAllocator: can't allocate memory"
        ),
        MemoryError(),
    ],
)
def test_a_batch_that_does_not_fit_names_the_setting_that_mends_it(
    llama: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(tree.Trees, "_pass", full)
    with refuses("batch-out-of-memory") as caught, hf(llama, max_batch_tokens=256) as engine:
        engine.loglikelihoods(REQUESTS)
    assert "tokens: 128" in str(caught.value)


# tokens


def test_blanks_and_empty_contexts_are_encoded_as_lm_eval_does(llama: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(llama)
    pairs = [("", "the cat"), ("  ", "cat"), ("the ", "cat"), ("the", " cat")]
    empty, blank, moved, written = encode(Speller(tokenizer), [Request(*pair) for pair in pairs])
    assert empty.context == blank.context == (tokenizer.bos_token_id,)
    assert tokenizer.decode(blank.continuation) == "  cat"
    assert moved == written


def test_special_tokens_in_a_text_stay_text(tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_llama(tmp_path, adds_bos=True))
    (pair,) = encode(Speller(tokenizer), [Request("<bos>the<eos><|user|>", " <|assistant|>cat<eos>")])
    assert pair.context[0] == tokenizer.bos_token_id
    assert not set(pair.context[1:] + pair.continuation) & set(tokenizer.all_special_ids)
    assert (
        tokenizer.decode(pair.context[1:] + pair.continuation)
        == "<bos>the<eos><|user|> <|assistant|>cat<eos>"
    )


# refusals


def test_a_continuation_without_tokens_is_named_by_its_place(engine: HF) -> None:
    with refuses("empty-continuation") as caught:
        engine.loglikelihoods([REQUESTS[0], Request("the cat", "")])
    assert list(caught.value.faults) == [1]


def change(folder: Path, what: Callable[[dict[str, Any]], object]) -> None:
    """Change the tensors of a model's file."""
    tensors = load_file(folder / "model.safetensors")
    what(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(damaged: Path, value: float) -> None:
    change(damaged, lambda tensors: tensors["model.norm.weight"].__setitem__(3, value))
    with refuses("invalid-log-probability"), hf(damaged) as engine:
        engine.loglikelihoods(REQUESTS)


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (
            lambda f: change(f, lambda tensors: tensors.pop("model.layers.1.mlp.up_proj.weight")),
            "mismatched-weights",
        ),
        (lambda f: os.truncate(f / "model.safetensors", 1000), "unloadable-model"),
    ],
)
def test_a_damaged_folder_is_refused(damaged: Path, damage: Callable[[Path], object], code: str) -> None:
    damage(damaged)
    with refuses(code) as caught, hf(damaged) as engine:
        engine.loglikelihoods(REQUESTS)
    assert len(caught.value.lines) == 1


@pytest.mark.parametrize("device", ["nowhere", "cuda:99"])
def test_an_unknown_device_is_a_usage_error(llama: Path, device: str) -> None:
    with refuses("unknown-device"), hf(llama, device=device) as engine:
        engine.loglikelihoods(REQUESTS)


# fingerprint, memory, writing


def test_the_fingerprint_follows_what_the_numbers_depend_on(engine: HF, llama: Path, damaged: Path) -> None:
    engine.loglikelihoods(REQUESTS)
    first = engine.fingerprint()
    with hf(llama, name="other-name") as same:
        same.loglikelihoods(REQUESTS)
        assert first == same.fingerprint()
    change(damaged, lambda tensors: tensors["model.norm.weight"].add_(1))
    with hf(damaged, dtype="bfloat16", max_batch_tokens=512) as changed:
        changed.loglikelihoods(REQUESTS)
        other = changed.fingerprint()
    assert {k for k in first if first[k] != other[k]} == {"weights", "dtype", "max_batch_tokens"}
    assert len(first["weights"]) == len(first["tokenizer"]) == 64


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
    with hf(folder, name="chat") as engine:
        ids = as_prompt(tokenizer, "chat", "the <eos><|assistant|> cat")
        assert [i for i in ids if i in tokenizer.all_special_ids] == tokenizer.convert_tokens_to_ids(
            ["<|user|>", "<eos>", "<|assistant|>"]
        )
        assert tokenizer.decode(ids) == "<|user|>the <eos><|assistant|> cat<eos><|assistant|>"
        assert len(engine.write(["the cat", "the mat"], max_tokens=3)) == 2


@pytest.mark.parametrize("rows", [1, 5, 300])
@pytest.mark.parametrize("intel", [False, True])
def test_one_dnn_computes_the_same_product(rows: int, intel: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from robustify.models.engines.local import linear as layers_module
    from robustify.models.engines.local.linear import OneDnnLinear, linear, packed, quickened

    monkeypatch.setattr(layers_module, "is_intel", lambda: intel)
    draw = torch.Generator().manual_seed(0)
    given, weight, bias = (torch.randn(shape, generator=draw) for shape in ((2, rows, 48), (70, 48), (70,)))
    for added in (bias, None):
        expected = (given.double() @ weight.double().T + (0 if added is None else added.double())).float()
        for stored in (weight, packed(weight)):
            torch.testing.assert_close(linear(given, stored, added), expected, rtol=1e-4, atol=1e-4)
            active = linear(given, stored, added, activation="gelu")
            torch.testing.assert_close(active, torch.nn.functional.gelu(expected), rtol=1e-4, atol=1e-4)

    layers = torch.nn.Sequential(torch.nn.Linear(48, 70), torch.nn.Linear(70, 48, dtype=torch.bfloat16))
    before, half = layers[0](given), type(layers[1])
    with torch.inference_mode():
        torch.testing.assert_close(quickened(layers)[0](given), before.detach(), rtol=1e-4, atol=1e-4)
    assert type(layers[1]) is half
    served = torch.backends.cpu.get_cpu_capability().startswith("AVX512") and not intel
    assert (type(layers[0]) is OneDnnLinear) == served
    assert packed(weight).is_mkldnn == served


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can keep freed memory")
def test_freed_memory_is_kept_while_a_model_works_and_then_given_back() -> None:
    work = (
        "import resource, numpy as np\n"
        "from robustify.models.engines.local.freed_memory import give_back, keep_freed\n"
        "def faults():\n"
        "    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "    for _ in range(30): np.ones(6_000_000)\n"
        "    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before\n"
        "resident = lambda: int(open('/proc/self/statm').read().split()[1])\n"
        "usual = faults(); keep_freed(); faults(); kept, before = faults(), resident()\n"
        "give_back(); print(usual, kept, before, resident(), faults())"
    )
    usual, kept, before, after, later = map(
        int, subprocess.check_output([sys.executable, "-c", work]).split()
    )
    assert kept < usual / 10 < later
    assert after < before - 6_000_000 * 8 // 2 // 4096
