"""Option vectors against the plain definition, with tiny random models; what is kept, and what never is."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from robustify.baselines.linear_probes import CONTROL, UNSCORED_BLOCK, LinearProbeSettings, both_fits
from robustify.engines.settings import HFModel
from robustify.errors import DataError, ModelError, ResourceError
from robustify.item import Item
from tests.support.model_cache import model_folder, tiny_bloom, tiny_gemma, tiny_llama, tiny_mamba

torch = pytest.importorskip("torch", reason="the engine needs torch: the hf extra is not installed")

from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer  # noqa: E402

from robustify.ask import linear_probe_answers  # noqa: E402
from robustify.engines.local import vectors  # noqa: E402
from robustify.engines.local.vectors import option_vectors  # noqa: E402

ROOT = Path(__file__).parents[2]
Floats = npt.NDArray[np.floating]
SETTINGS = LinearProbeSettings(models=("tiny",))


def items_of(n: int, choices: Callable[[int], tuple[str, ...]] | None = None) -> list[Item]:
    words = ("cat", "mat", "blue", "red", "green", "right", "the cat sat", "on the blue mat", "ünï ☃")
    told = choices or (lambda i: tuple(f"{words[(i + j) % 9]} {i * 7 + j}" for j in range(3 + i % 2)))
    return [Item(f"i{i:03d}", f"Which one is meant by {i}?", told(i), i % 3) for i in range(n)]


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("llama"))


def model_at(folder: Path, budget: int = 64) -> HFModel:
    return HFModel(name="tiny", model=str(folder), max_batch_tokens=budget)


def asked(folder: Path, items: list[Item], cache: Path, seed: int | None = None, budget: int = 64) -> Floats:
    return option_vectors(items, model_at(folder, budget), folder, cache, seed)


def one_by_one(folder: Path, items: list[Item], seed: int | None = None) -> Floats:
    """The definition: the last hidden layer's mean over the tokens that follow those of `Answer:`."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if seed is None:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    else:
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), dtype=torch.float32)
    n = len(tokenizer("Answer:")["input_ids"])
    rows = []
    for item in items:
        for choice in item.choices:
            ids = torch.tensor([tokenizer(f"Answer: {choice}")["input_ids"]])
            with torch.inference_mode():
                told = model.eval()(ids, output_hidden_states=True).hidden_states[-1]
            rows.append(told[0, n:].mean(dim=0).numpy())
    return np.stack(rows)


@pytest.mark.parametrize(
    ("make", "budget"),
    [
        (tiny_llama, 64), (tiny_llama, 4096), (lambda f: tiny_gemma(f, window=8), 100), (tiny_bloom, 100),
        (tiny_mamba, 100),
    ],
)  # fmt: skip
def test_a_vector_is_the_mean_of_the_option_s_own_last_hidden_layer(
    make: Callable[[Path], Path], budget: int, tmp_path: Path
) -> None:
    folder = make(tmp_path / "model")
    unlike = items_of(
        6, lambda i: ("the cat sat on the blue mat " * (1 + i % 3) + str(i), "red", f"{i} green")
    )
    items = [*items_of(12), *(replace(item, id=f"u{item.id}") for item in unlike)]
    found = asked(folder, items, tmp_path / "cache", budget=budget)
    assert found.dtype == np.float32
    assert found.shape == (sum(i.k for i in items), 32)
    assert found == pytest.approx(one_by_one(folder, items), abs=1e-4)


def test_no_stem_and_no_other_option_reaches_the_model(llama: Path, tmp_path: Path) -> None:
    items = items_of(8)
    found = asked(llama, items, tmp_path / "a")
    blind = [replace(i, id=f"x{i.id}", stem="?", topic="t", key=0) for i in items]
    asked(llama, blind, tmp_path / "a")
    assert len(list((tmp_path / "a" / "vectors").iterdir())) == 1, "the same tokens are the same file"
    first = [replace(i, choices=(i.choices[0], "red"), key=0) for i in items]
    places = np.cumsum([0, *(i.k for i in items[:-1])])
    assert asked(llama, first, tmp_path / "b")[::2] == pytest.approx(found[places], abs=1e-5)


# the control


def test_random_weights_are_seeded_and_leave_the_generator_as_it_was(llama: Path, tmp_path: Path) -> None:
    items = items_of(8)
    torch.manual_seed(123)
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    found = asked(llama, items, tmp_path, seed=5)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.get_num_threads() == threads
    assert torch.get_default_dtype() == torch.float32
    assert not torch.is_inference_mode_enabled()
    assert found == pytest.approx(one_by_one(llama, items, seed=5), abs=1e-5)
    own = asked(llama, items, tmp_path)
    assert not np.allclose(found, own, atol=1e-2)
    assert not np.allclose(found, asked(llama, items, tmp_path, seed=6), atol=1e-2)


@pytest.mark.slow
def test_head_and_control_stand_side_by_side(llama: Path, tmp_path: Path) -> None:
    items = items_of(60)
    done: list[int] = []
    rows = linear_probe_answers(items, model_at(llama), tmp_path, SETTINGS, done.append)
    assert [r.item for r in rows] == 4 * [i.id for i in items]
    assert [r.model for r in rows] == ["tiny"] * 120 + ["tiny" + CONTROL] * 120
    assert sum(done) == 2 * sum(i.k for i in items)
    assert rows[:120] == both_fits(items, asked(llama, items, tmp_path), "tiny", SETTINGS)
    assert rows[120:] == both_fits(items, asked(llama, items, tmp_path, seed=0), "tiny" + CONTROL, SETTINGS)
    assert [r.scores for r in rows[:120]] != [r.scores for r in rows[120:]]
    alone = linear_probe_answers(
        items, model_at(llama), tmp_path, SETTINGS.model_copy(update={"control": False})
    )
    assert alone == rows[:120]


# what is kept


@pytest.mark.slow
def test_a_repeated_run_is_the_same_to_the_bit_and_loads_no_torch(llama: Path, tmp_path: Path) -> None:
    code = (
        "import json, sys; from pathlib import Path\n"
        "from robustify.engines.settings import HFModel\n"
        "from robustify.baselines.linear_probes import LinearProbeSettings\n"
        "from robustify.ask import linear_probe_answers; from robustify.item import Item\n"
        "items = [Item(f'i{i}', '?', (f'cat {i}', f'mat {i * 3}', f'red {i * i}'), i % 3) for i in range(60)]\n"
        "model = HFModel(name='tiny', model=sys.argv[1], max_batch_tokens=64)\n"
        "rows = linear_probe_answers(items, model, Path(sys.argv[2]), LinearProbeSettings())\n"
        "print(json.dumps([[r.model, r.scores] for r in rows]) + '\\n' + str('torch' in sys.modules))"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", code, str(llama), str(tmp_path)],
            capture_output=True, text=True, cwd=ROOT, check=True,
        ).stdout.splitlines()
        for _ in range(2)
    ]  # fmt: skip
    assert told[0][0] == told[1][0]
    assert len(json.loads(told[0][0])) == 240
    assert (told[0][1], told[1][1]) == ("True", "False")


def test_what_is_kept_holds_no_text_no_id_and_is_its_owner_s_alone(llama: Path, tmp_path: Path) -> None:
    items = items_of(8)
    found = asked(llama, items, tmp_path)
    (file,) = (tmp_path / "vectors").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(file.stem) == 64
    assert (np.load(file, allow_pickle=False) == found).all(), "an ordinary .npy with a checksum behind it"
    raw = file.read_bytes()
    assert not any(part.encode() in raw for i in items for part in (i.id, *i.choices))


@pytest.mark.slow
def test_another_model_seed_or_option_is_another_file(llama: Path, tmp_path: Path) -> None:
    items = items_of(8)
    changed = [replace(items[0], choices=("another", *items[0].choices[1:])), *items[1:]]
    asked(llama, items, tmp_path)
    asked(llama, items, tmp_path, seed=0)
    asked(llama, items, tmp_path, seed=1)
    asked(llama, changed, tmp_path)
    asked(llama, items[::-1], tmp_path)
    asked(llama, items, tmp_path, budget=65)
    spoiled = tiny_llama(tmp_path / "other", length=128)
    asked(spoiled, items, tmp_path)
    assert len(list((tmp_path / "vectors").iterdir())) == 7


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage", [lambda raw: raw[:-1], lambda raw: raw[:200] + b"\0" + raw[201:], lambda _: b""]
)
def test_a_damaged_file_is_set_aside_with_one_warning(
    llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: Callable[[bytes], bytes]
) -> None:
    items = items_of(8)
    found = asked(llama, items, tmp_path)
    (file,) = (tmp_path / "vectors").iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    capsys.readouterr()
    assert (asked(llama, items, tmp_path) == found).all()
    assert (asked(llama, items, tmp_path) == found).all()
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert said[0].endswith(f"is damaged: set aside as {file.name}.corrupt-1, computed anew")
    assert file.read_bytes() == whole
    assert file.with_name(f"{file.name}.corrupt-1").read_bytes() == damage(whole)


def test_a_cache_that_cannot_be_written_costs_time_only(
    llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    items = items_of(8)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    found = asked(llama, items, tmp_path)
    assert found == pytest.approx(one_by_one(llama, items), abs=1e-5)
    assert "vectors are not kept (No space left on device)" in capsys.readouterr().err
    assert list((tmp_path / "vectors").iterdir()) == []


# what is refused


@pytest.mark.slow
def test_an_item_with_an_empty_choice_is_unanswered(llama: Path, tmp_path: Path) -> None:
    items = items_of(60)
    items[3] = replace(items[3], choices=("red", " ", "blue"), key=0)
    rows = linear_probe_answers(items, model_at(llama), tmp_path, SETTINGS)
    missing = [(r.item, r.error) for r in rows if r.pick is None and r.error != UNSCORED_BLOCK]
    assert missing == 4 * [("i003", "empty_choice")]
    nothing = [replace(i, choices=("", "red"), key=1) for i in items]
    assert {r.error for r in linear_probe_answers(nothing, model_at(llama), tmp_path, SETTINGS)} == {
        "empty_choice"
    }
    assert linear_probe_answers([], model_at(llama), tmp_path, SETTINGS) == []


def test_a_choice_that_does_not_fit_is_named_by_its_item_and_never_by_its_text(tmp_path: Path) -> None:
    folder = tiny_llama(tmp_path / "model", length=16)
    items = items_of(4, lambda i: ("red", "secret " * (8 if i == 2 else 1), "blue"))
    with pytest.raises(DataError) as caught:
        linear_probe_answers(items, model_at(folder), tmp_path / "cache", SETTINGS)
    assert [line.split(":")[0] for line in caught.value.lines] == ["item i002, head"]
    assert "secret" not in str(caught.value)
    assert "16 tokens" in str(caught.value)


def test_too_few_items_are_unanswered_with_the_reason(llama: Path, tmp_path: Path) -> None:
    rows = linear_probe_answers(items_of(9), model_at(llama), tmp_path, SETTINGS)
    assert {r.error for r in rows} == {"9 items; a head needs 50"}


def test_weights_that_give_no_numbers_are_refused(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = vectors._network

    def broken(*args: object) -> object:
        made = network(*args)
        with torch.no_grad():
            made.get_decoder().norm.weight.fill_(float("nan"))
        return made

    monkeypatch.setattr(vectors, "_network", broken)
    with pytest.raises(ModelError, match="NaN or infinite"):
        asked(llama, items_of(4), tmp_path)
    assert not (tmp_path / "vectors").exists()


def test_no_room_is_told_as_such_and_other_errors_are_not_hidden(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(error: Exception) -> Callable[..., object]:
        def forwarded(*_: object) -> object:
            raise error

        return forwarded

    monkeypatch.setattr(vectors, "_forwarded", fails(MemoryError()))
    with pytest.raises(ResourceError, match="tiny: its vectors do not fit into memory"):
        asked(llama, items_of(4), tmp_path)
    monkeypatch.setattr(vectors, "_forwarded", fails(RuntimeError("a shape is wrong")))
    with pytest.raises(RuntimeError, match="a shape is wrong"):
        asked(llama, items_of(4), tmp_path)


@pytest.mark.slow
@pytest.mark.model
def test_a_real_model_s_vectors_tell_words_apart(tmp_path: Path) -> None:
    """Near words are near: the weights are those of the model, and the control's are not."""
    folder = model_folder("smollm2-135m")
    item = Item("i", "?", ("a small dog", "a little dog", "the stock exchange"), 0)
    model = HFModel(name="smollm2-135m")

    def nearness(seed: int | None) -> Floats:
        found = option_vectors([item], model, folder, tmp_path, seed)
        unit = found / np.linalg.norm(found, axis=1, keepdims=True)
        return np.asarray(unit @ unit.T)

    told = nearness(None)
    assert told[0, 1] > told[0, 2] + 0.05
    assert told[0, 1] > told[1, 2] + 0.05
    assert not np.allclose(nearness(0), told, atol=0.05)
