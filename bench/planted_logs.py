"""Clean made-up logs in the forms of several harnesses, to which `log_plants` adds errors. The items are harmless."""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Row = dict[str, Any]
LETTERS = "ABCDEFGHIJ"
_THINGS = (
    "kettle", "ladder", "blanket", "lantern", "saucer", "pillow", "bucket", "hammer", "basket", "candle", "mirror",
)  # fmt: skip
_PLACES = (
    "the attic", "the cellar", "the garden", "the kitchen", "the hallway", "the workshop", "the pantry", "the garage",
    "the porch", "the study",
)  # fmt: skip
_WHO = ("the baker", "the tailor", "the gardener", "the painter", "the miller", "the sailor", "the weaver")
_HEAD = "The following are questions about a house, each with one right answer."


@dataclass(frozen=True, slots=True)
class HouseItem:
    """Made-up question with its options and key."""

    number: int
    question: str
    options: tuple[str, ...]
    key: int

    def listed(self, n: int | None = None) -> str:
        """Return the options in lines, each with its letter."""
        return "".join(f"{LETTERS[j]}. {text}\n" for j, text in enumerate(self.options[:n]))

    def prompt(self, answer: str = "", n: int | None = None) -> str:
        """Return the question with its first `n` options, and an answer if it is an example."""
        return f"Question: {self.question}\n{self.listed(n)}Answer:{answer}"


def house_items(n: int, k: int = 4, seed: int = 7) -> list[HouseItem]:
    """Return `n` different items with `k` options, with keys at all positions."""
    rng = random.Random(seed)
    items = []
    for number in range(n):
        thing, who = _THINGS[number % len(_THINGS)], _WHO[number // len(_THINGS) % len(_WHO)]
        question = f"In which room did {who} leave the old {thing} with the number {number} on it?"
        items.append(HouseItem(number, question, tuple(rng.sample(_PLACES, k)), rng.randrange(k)))
    return items


def shots(items: Sequence[HouseItem]) -> str:
    """Return a head and three examples that are no items of a log."""
    return "\n\n".join([_HEAD, *(item.prompt(f" {LETTERS[item.key]}") for item in items)])


EXAMPLES = [
    HouseItem(
        900 + key,
        f"Where does one keep the {thing} of the family in summer?",
        ("a box", "a drawer", "a shelf", "a trunk"),
        key,
    )
    for key, thing in enumerate(("skates", "sledge", "scarf"))
]


def letters_row(item: HouseItem, pick: int, context: str | None = None) -> Row:
    """Return a row of lm-eval in which letters were scored."""
    scores = [-1.0 if j == pick else -2.0 - j / 8 for j in range(len(item.options))]
    context = f"{shots(EXAMPLES)}\n\n{item.prompt()}" if context is None else context
    return _row(
        item,
        [(context, f" {LETTERS[j]}") for j in range(len(item.options))],
        scores,
        {"acc": float(pick == item.key)},
    )


def texts_row(item: HouseItem, scores: Sequence[float]) -> Row:
    """Return a row of lm-eval in which the texts of the options were scored."""
    norms = [score / len(text) for score, text in zip(scores, item.options, strict=True)]
    metrics = {
        "acc": float(scores.index(max(scores)) == item.key),
        "acc_norm": float(norms.index(max(norms)) == item.key),
    }
    return _row(
        item,
        [(f"Question: {item.question}\nAnswer:", f" {text}") for text in item.options],
        list(scores),
        metrics,
    )


def _row(
    item: HouseItem, pairs: Sequence[tuple[str, str]], scores: Sequence[float], metrics: Mapping[str, float]
) -> Row:
    answered = [[[str(score), "False"]] for score in scores]
    return {
        "doc_id": item.number,
        "doc": {"question": item.question, "choices": list(item.options), "answer": item.key},
        "target": str(item.key),
        "arguments": {f"gen_args_{j}": {"arg_0": a, "arg_1": b} for j, (a, b) in enumerate(pairs)},
        "resps": answered,
        "filtered_resps": [score[0] for score in answered],
        "filter": "none",
        "metrics": list(metrics),
        **metrics,
    }


def written_row(item: HouseItem, reply: str, extracted: str | None = None, context: str | None = None) -> Row:
    """Return a row of lm-eval in which the model wrote a reply."""
    extracted = reply if extracted is None else extracted
    right = extracted.strip().rstrip(".")[-1:] == LETTERS[item.key]
    return {
        "doc_id": item.number,
        "doc": {"question": item.question, "choices": list(item.options), "answer": item.key},
        "target": LETTERS[item.key],
        "arguments": {"gen_args_0": {"arg_0": context or item.prompt(), "arg_1": {"until": ["\n\n"]}}},
        "resps": [[reply]],
        "filtered_resps": [extracted],
        "filter": "strict-match",
        "metrics": ["exact_match"],
        "exact_match": float(right),
    }


def inspect_tree(samples: Sequence[Row], epochs: int = 1) -> Row:
    """Return an Inspect log."""
    ids = list(dict.fromkeys(sample["id"] for sample in samples))
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "task": "house",
            "task_version": 1,
            "model": "mockllm/model",
            "config": {"epochs": epochs},
            "dataset": {"name": "house", "samples": len(ids), "sample_ids": ids},
            "packages": {"inspect_ai": "0.3.285"},
        },
        "plan": {"steps": [{"solver": "multiple_choice"}]},
        "results": {"total_samples": len(samples), "completed_samples": len(samples)},
        "samples": list(samples),
    }


def sample(
    item: HouseItem, pick: int, order: Sequence[int] | None = None, epoch: int = 1, reply: str = ""
) -> Row:
    """Return a sample of an Inspect log. Its prompt shows the options in `order`."""
    texts = [item.options[j] for j in order or range(len(item.options))]
    lines = "".join(f"{LETTERS[j]}) {text}\n" for j, text in enumerate(texts))
    letters = ",".join(LETTERS[: len(texts)])
    question = f"Answer the following question. The letter is one of {letters}.\n\n{item.question}\n\n{lines}"
    content = reply or f"ANSWER: {LETTERS[pick]}"
    right = pick == item.key
    return {
        "id": f"h{item.number}",
        "epoch": epoch,
        "input": item.question,
        "choices": list(item.options),
        "target": LETTERS[item.key],
        "messages": [{"role": "user", "content": question}, {"role": "assistant", "content": content}],
        "output": {"choices": [{"message": {"role": "assistant", "content": content}}]},
        "scores": {"choice": {"value": "C" if right else "I", "answer": LETTERS[pick]}},
    }


def opencompass_rows(items: Sequence[HouseItem], picks: Sequence[int]) -> Row:
    """Return the predictions of OpenCompass."""
    return {
        str(number): {
            "origin_prompt": [{"role": "HUMAN", "prompt": item.prompt()}],
            "prediction": f"The answer is {LETTERS[pick]}.",
            "gold": LETTERS[item.key],
        }
        for number, (item, pick) in enumerate(zip(items, picks, strict=True))
    }


def lighteval_rows(items: Sequence[HouseItem], picks: Sequence[int]) -> list[Row]:
    """Return the details of lighteval."""
    rows = []
    for item, pick in zip(items, picks, strict=True):
        k = len(item.options)
        scores = [-1.0 if j == pick else -2.0 - j / 8 for j in range(k)]
        rows.append(
            {
                "doc": {
                    "query": item.prompt(),
                    "choices": [f" {LETTERS[j]}" for j in range(k)],
                    "gold_index": item.key,
                    "id": str(item.number),
                    "task_name": "house|0",
                    "specific": None,
                },
                "metric": {"acc": float(pick == item.key)},
                "model_response": {
                    "logprobs": scores,
                    "argmax_logits_eq_gold": [False] * k,
                    "unconditioned_logprobs": None,
                    "text": [],
                },
            }
        )
    return rows


def picks_for(items: Sequence[HouseItem], seed: int, accuracy: float = 0.6) -> list[int]:
    """Return made-up picks that are right with this probability."""
    rng = random.Random(seed)
    return [item.key if rng.random() < accuracy else rng.randrange(len(item.options)) for item in items]


def write_jsonl(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write rows as JSON Lines and return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


N = 60


def clean_logs(folder: Path, seed: int = 1) -> dict[str, list[Path]]:
    """Write clean logs in the forms of four harnesses, of one or two models, and return their paths by form."""
    items, rng = house_items(N, seed=seed), random.Random(seed)
    first, second = (picks_for(items, 10 * seed + model) for model in (1, 2))
    dressed = ("{}", "The answer is {}.", "({})", "**{}**", "{}. It is there.")
    makers: dict[str, Callable[[HouseItem, int], Row]] = {
        "lm-eval letters": letters_row,
        "lm-eval replies": lambda item, pick: written_row(
            item, rng.choice(dressed).format(LETTERS[pick]), LETTERS[pick]
        ),
        "lm-eval texts": lambda item, pick: texts_row(
            item, [-4.0 - rng.random() + 2 * (j == pick) for j in range(4)]
        ),
    }
    paths = {
        form: [
            write_jsonl(
                folder / form / f"model{n}" / "samples_house.jsonl",
                [make(item, pick) for item, pick in zip(items, picks, strict=True)],
            )
            for n, picks in enumerate((first, second)[: 1 if form == "lm-eval texts" else 2])
        ]
        for form, make in makers.items()
    }
    samples = [
        sample(item, pick, rng.sample(range(4), 4), epoch, f"It is {word}. ANSWER: {LETTERS[pick]}")
        for epoch, word in ((1, "so"), (2, "true"))
        for item, pick in zip(items, first, strict=True)
    ]
    paths["Inspect"] = [folder / "inspect.json"]
    paths["Inspect"][0].write_text(json.dumps(inspect_tree(samples, 2)), encoding="utf-8")
    paths["OpenCompass"] = [folder / "opencompass" / f"model{n}" / "house.json" for n in (1, 2)]
    for path, picks in zip(paths["OpenCompass"], (first, second), strict=True):
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(opencompass_rows(items, picks)), encoding="utf-8")
    paths["lighteval"] = [folder / "details_house.parquet"]
    pq.write_table(pa.Table.from_pylist(lighteval_rows(items, first)), paths["lighteval"][0])
    return paths
