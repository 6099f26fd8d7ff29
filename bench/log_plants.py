"""Errors of a harness, planted in made-up logs: the code that `lint` should give to each, and the lines that have it."""

import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from bench.planted_logs import (
    EXAMPLES,
    LETTERS,
    HouseItem,
    N,
    Row,
    house_items,
    inspect_tree,
    letters_row,
    picks_for,
    sample,
    shots,
    texts_row,
    write_jsonl,
    written_row,
)

SOME = (7, 20, 33, 41, 58)
"""Rows, from 0, that have the planted error."""
Change = Callable[[Row, HouseItem], Row]


class Plant(NamedTuple):
    """Planted error. `write` writes its logs and returns their paths."""

    code: str
    what: str
    write: Callable[[Path], list[Path]]


def _context(row: Row, context: str) -> Row:
    return row | {"arguments": {name: pair | {"arg_0": context} for name, pair in row["arguments"].items()}}


def _lettered(change: Change, changed: Sequence[int] = SOME, k: int = 4) -> Callable[[Path], list[Path]]:
    def write(folder: Path) -> list[Path]:
        items = house_items(N, k)
        rows = [letters_row(item, pick) for item, pick in zip(items, picks_for(items, 3), strict=True)]
        for n in changed:
            rows[n] = change(rows[n], items[n])
        return [write_jsonl(folder / "samples_house.jsonl", rows)]

    return write


def _replied(reply: Callable[[HouseItem, int, int], Row]) -> Callable[[Path], list[Path]]:
    def write(folder: Path) -> list[Path]:
        items = house_items(N)
        rows = [
            reply(item, pick, n)
            for n, (item, pick) in enumerate(zip(items, picks_for(items, 3), strict=True))
        ]
        return [write_jsonl(folder / "samples_house.jsonl", rows)]

    return write


def _prefixed(change: Callable[[HouseItem], str]) -> Change:
    return lambda row, item: _context(row, f"{shots(EXAMPLES)}\n\n{change(item)}")


def _no_question(item: HouseItem) -> str:
    return f"{item.listed()}Answer:"


def _four_labels(item: HouseItem) -> str:
    others = "".join(f"{text}\n" for text in item.options[4:])
    return f"Question: {item.question}\n{item.listed(4)}{others}Answer:"


def _own_example(row: Row, item: HouseItem) -> Row:
    return _context(row, f"{shots([*EXAMPLES[:2], item])}\n\n{item.prompt()}")


def _wrong_example(row: Row, item: HouseItem) -> Row:
    other = house_items(N)[(item.number + 11) % N]
    return _context(
        row, f"{shots(EXAMPLES[:2])}\n\n{other.prompt(f' {LETTERS[(other.key + 1) % 4]}')}\n\n{item.prompt()}"
    )


def _contradicting_example(row: Row, item: HouseItem) -> Row:
    wrong = EXAMPLES[2].prompt(f" {LETTERS[(EXAMPLES[2].key + 1) % 4]}")
    return _context(row, f"{shots(EXAMPLES[:2])}\n\n{wrong}\n\n{item.prompt()}")


def _cut_question(row: Row, item: HouseItem) -> Row:
    words = item.question.split()
    return _context(row, f"{shots(EXAMPLES)}\n\nQuestion: {' '.join(words[: 2 * len(words) // 3])}")


def _cut_start(row: Row, _: HouseItem) -> Row:
    context = row["arguments"]["gen_args_0"]["arg_0"]
    return _context(row, context[len(context) // 3 :])


def _garbled(shown: str) -> Change:
    def change(row: Row, item: HouseItem) -> Row:
        context = row["arguments"]["gen_args_0"]["arg_0"].replace("room did", f"{shown} did")
        asked = {"question": item.question.replace("room did", "dépôt did")}
        return _context(row | {"doc": row["doc"] | asked}, context)

    return change


def _range(last: str) -> Change:
    return lambda row, item: _context(
        row, f"Reply with one of {LETTERS[: LETTERS.index(last) + 1]}.\n\n{item.prompt()}"
    )


def _scored_wrongly(row: Row, _: HouseItem) -> Row:
    return row | {"acc": 1.0 - row["acc"]}


def _unread(item: HouseItem, pick: int, n: int) -> Row:
    return (
        written_row(item, "I would rather not choose here.")
        if n % 6 == 0
        else written_row(item, f"It is {LETTERS[pick]}.", LETTERS[pick])
    )


def _unread_long(item: HouseItem, pick: int, n: int) -> Row:
    thoughts = "The room is large, and one may look for it in many corners of the house. " * (n // 5)
    return written_row(item, thoughts + ("" if n >= 46 else f"\nThe answer is {LETTERS[pick]}."))


def _credited(item: HouseItem, pick: int, n: int) -> Row:
    row = written_row(item, "I would rather not choose here." if n in SOME else f"It is {LETTERS[pick]}.")
    return row | {"exact_match": 1.0 if n in SOME else float(pick == item.key)}


def _next_question(item: HouseItem, pick: int, n: int) -> Row:
    if n not in SOME:
        return written_row(item, f"{LETTERS[pick]}")
    wrong, right = LETTERS[(item.key + 1) % 4], LETTERS[item.key]
    return written_row(
        item, f"{wrong}\n\nQuestion: Where is the old clock?\nA. here\nB. there\nAnswer: {right}", right
    )


def _same(item: HouseItem, _: int, __: int) -> Row:
    return written_row(item, "The answer is A.", "A")


def _pointing(text: str, position: int) -> Callable[[Path], list[Path]]:
    def write(folder: Path) -> list[Path]:
        items = house_items(N)
        for n in SOME:
            options = [*items[n].options[:3]]
            options.insert(position, text)
            items[n] = replace(items[n], options=tuple(options))
        rng = random.Random(5)
        rows = [
            sample(item, pick, rng.sample(range(4), 4))
            for item, pick in zip(items, picks_for(items, 3), strict=True)
        ]
        path = folder / "inspect.json"
        path.write_text(json.dumps(inspect_tree(rows)))
        return [path]

    return write


def _epochs(folder: Path) -> list[Path]:
    items = house_items(N)
    rows = [
        sample(item, pick, epoch=epoch)
        for epoch in (1, 2, 3)
        for item, pick in zip(items, picks_for(items, 3), strict=True)
    ]
    path = folder / "inspect.json"
    path.write_text(json.dumps(inspect_tree(rows, 3)))
    return [path]


def _other_examples(folder: Path) -> list[Path]:
    items = house_items(N)
    contexts = [
        lambda item: f"{shots(EXAMPLES)}\n\n{item.prompt()}",
        lambda item: f"{shots(EXAMPLES[::-1])}\n\n{item.prompt()}",
    ]
    return [
        write_jsonl(
            folder / f"model{n}" / "samples_house.jsonl",
            [letters_row(i, p, context(i)) for i, p in zip(items, picks_for(items, n), strict=True)],
        )
        for n, context in enumerate(contexts)
    ]


def _norm_ranks(folder: Path) -> list[Path]:
    """Write two models: the first is right by score, the second by score per character."""
    tail = ", as far as one can see"
    items = [
        replace(item, options=tuple(o + tail * (j != item.key) for j, o in enumerate(item.options)))
        for item in house_items(N)
    ]
    first = [texts_row(item, [-8.0 if j == item.key else -10.0 - j / 8 for j in range(4)]) for item in items]
    second = [
        texts_row(
            item,
            [-6.0 if j == item.key and n % 3 else -5.9 - j / 8 if n % 2 else -40.0 - j for j in range(4)],
        )
        for n, item in enumerate(items)
    ]
    return [
        write_jsonl(folder / f"model{n}" / "samples_house.jsonl", rows)
        for n, rows in enumerate((first, second))
    ]


def _repeated(folder: Path) -> list[Path]:
    items = house_items(N)
    rows = [letters_row(item, pick) for item, pick in zip(items, picks_for(items, 3), strict=True)]
    return [
        write_jsonl(folder / "samples_house.jsonl", [*rows, *(rows[n] | {"doc_id": 500 + n} for n in SOME)])
    ]


def _chat(row: Row, item: HouseItem) -> Row:
    inner = f"<|im_start|>user\n{item.prompt()}<|im_end|>\n<|im_start|>assistant\n"
    return _context(row, f"<|im_start|>user\n{inner}<|im_end|>\n<|im_start|>assistant\n")


def _spaced(row: Row, _: HouseItem) -> Row:
    return _context(row, row["arguments"]["gen_args_0"]["arg_0"] + " ")


def _misread(item: HouseItem, pick: int, n: int) -> Row:
    scored = LETTERS[(pick + 1) % 4] if n in SOME else LETTERS[pick]
    return written_row(item, f"The answer is {LETTERS[pick]}.", scored)


def _misread_samples(folder: Path) -> list[Path]:
    items = house_items(N)
    rows = [
        sample(item, (pick + 1) % 4 if n in SOME else pick, reply=f"I think so. ANSWER: {LETTERS[pick]}")
        for n, (item, pick) in enumerate(zip(items, picks_for(items, 3), strict=True))
    ]
    path = folder / "inspect.json"
    path.write_text(json.dumps(inspect_tree(rows)))
    return [path]


def _with_key(item: HouseItem) -> str:
    return f"ID: {item.number}, correct answer: {LETTERS[item.key]}\n{item.prompt()}"


def _with_record(item: HouseItem) -> str:
    return f"{{'id': {item.number}, 'label': {item.key}}}\n{item.prompt()}"


def _signed(item: HouseItem) -> str:
    return item.prompt().replace(item.options[item.key], f"{item.options[item.key]} (correct)")


def _next_labels(row: Row, item: HouseItem) -> Row:
    lines = "".join(f"{LETTERS[j + 1]}. {text}\n" for j, text in enumerate(item.options))
    return _context(row, f"Question: {item.question}\n{lines}Answer:")


def _numbers_but_letters(item: HouseItem, pick: int, n: int) -> Row:
    lines = "".join(f"{j + 1}) {text}\n" for j, text in enumerate(item.options))
    context = f"Reply with one of ABCD.\n\n{item.question}\n{lines}"
    return written_row(item, f"{LETTERS[pick]}", context=context if n in SOME else None)


def _turned(row: Row, item: HouseItem) -> Row:
    lines = "".join(f"{LETTERS[j]}. {text}\n" for j, text in enumerate(item.options[::-1]))
    return _context(row, f"{shots(EXAMPLES)}\n\nQuestion: {item.question}\n{lines}Answer:")


def _scored_again(row: Row, _: HouseItem) -> Row:
    first = row["arguments"]["gen_args_0"]
    return row | {"arguments": row["arguments"] | {"gen_args_2": first}}


def _without_score(row: Row, _: HouseItem) -> Row:
    filtered = [["nan", "False"], *row["filtered_resps"][1:]]
    return row | {"filtered_resps": filtered, "resps": [[pair] for pair in filtered]}


def _one_unspaced(row: Row, _: HouseItem) -> Row:
    third = row["arguments"]["gen_args_2"]
    return row | {"arguments": row["arguments"] | {"gen_args_2": third | {"arg_1": third["arg_1"].strip()}}}


def _examples_changed(change: Callable[[str], str]) -> Change:
    return lambda row, item: _context(row, f"{change(shots(EXAMPLES))}\n\n{item.prompt()}")


def _numbered(text: str) -> str:
    for number, letter in enumerate("ABCD", start=1):
        text = text.replace(f"\n{letter}. ", f"\n{number}. ").replace(
            f"Answer: {letter}", f"Answer: {number}"
        )
    return text


def _unanswered(text: str) -> str:
    return re.sub(r"Answer: \w", "Answer:", text) + "\n"


def _key_apart(item: HouseItem) -> str:
    return item.prompt().replace(f"{LETTERS[item.key]}. ", f"{LETTERS[item.key]}.  ")


def _hinted(item: HouseItem) -> str:
    return f"Mind that option {LETTERS[item.key]} is preferred.\n\n{item.prompt()}"


def _repeated_prompt(item: HouseItem, pick: int, n: int) -> Row:
    return written_row(item, item.prompt()[:-8], "A") if n in SOME else written_row(item, LETTERS[pick])


def _two_answers(item: HouseItem, pick: int, n: int) -> Row:
    key, other = LETTERS[item.key], LETTERS[(item.key + 1) % 4]
    return written_row(item, f"{key} or {other}", key) if n in SOME else written_row(item, LETTERS[pick])


def _copied(folder: Path) -> list[Path]:
    items = house_items(N)
    rows = [letters_row(item, pick) for item, pick in zip(items, picks_for(items, 3), strict=True)]
    for n, row in enumerate(rows):
        row["resps"] = row["filtered_resps"] = [[[str(-1.5 - j - n / 8), "False"]] for j in range(4)]
        row["acc"] = float(items[n].key == 0)
    return [write_jsonl(folder / f"model{n}" / "samples_house.jsonl", rows) for n in (1, 2)]


PLANTS: tuple[Plant, ...] = (
    Plant("L001", "an option is not in the prompt", _lettered(_prefixed(lambda item: item.prompt(n=3)))),
    Plant("L002", "eight options, of which four have letters", _lettered(_prefixed(_four_labels), range(N), 8)),
    Plant("L003", "the prompt says one of ABCDE", _lettered(_range("E"))),
    Plant("L003", "the prompt says one of ABC", _lettered(_range("C"), range(N))),
    Plant("L004", "the item is its own example", _lettered(_own_example)),
    Plant("L005", "an example has a wrong key", _lettered(_wrong_example)),
    Plant("L005", "an example has two answers", _lettered(_contradicting_example)),
    Plant("L006", "the question is missing in some prompts", _lettered(_prefixed(_no_question))),
    Plant("L006", "the question is missing in all prompts", _lettered(_prefixed(_no_question), range(N))),
    Plant("L007", "the question is cut", _lettered(_cut_question)),
    Plant("L007", "the start of the prompt is cut", _lettered(_cut_start)),
    Plant("L008", "the score contradicts the key", _lettered(_scored_wrongly)),
    Plant("L009", "an unread reply is credited", _replied(_credited)),
    Plant("L010", "a made-up question is scored", _replied(_next_question)),
    Plant("L011", "every sixth reply is unread", _replied(_unread)),
    Plant("L012", "long replies are unread", _replied(_unread_long)),
    Plant("L013", "all of the above, shuffled", _pointing("all of the above", 1)),
    Plant("L013", "both A and B, shuffled", _pointing("both A and B", 3)),
    Plant("L013", "options 1 and 3, shuffled", _pointing("options 1 and 3", 3)),
    Plant("L014", "one reply to all items", _replied(_same)),
    Plant("L015", "one reply in all epochs", _epochs),
    Plant("L016", "other examples for a second model", _other_examples),
    Plant("L017", "a chat template in a chat template", _lettered(_chat, range(N))),
    Plant("L018", "a space before the answer", _lettered(_spaced, range(N))),
    Plant("L019", "acc and acc_norm rank models differently", _norm_ranks),
    Plant("L020", "five documents are repeated", _repeated),
    Plant("L021", "the answer is B, but C is scored", _replied(_misread)),
    Plant("L021", "an answer of Inspect is misread", _misread_samples),
    Plant("L022", "the key is printed before the question", _lettered(_prefixed(_with_key))),
    Plant("L022", "the key is a number of a printed record", _lettered(_prefixed(_with_record), range(N))),
    Plant("L022", "the right option has a sign", _lettered(_prefixed(_signed))),
    Plant("L023", "labels B to E, and A to D are scored", _lettered(_next_labels)),
    Plant("L023", "numbers as labels, and one of ABCD is asked", _replied(_numbers_but_letters)),
    Plant("L009", "a reply with two options is credited", _replied(_two_answers)),
    Plant("L021", "a repeated prompt is scored", _replied(_repeated_prompt)),
    Plant("L022", "the label of the key has another space", _lettered(_prefixed(_key_apart), range(N))),
    Plant("L022", "a hint names the key", _lettered(_prefixed(_hinted), range(N))),
    Plant("L024", "the prompt turns the options", _lettered(_turned)),
    Plant("L025", "one option is scored twice", _lettered(_scored_again)),
    Plant("L025", "a score is not a number", _lettered(_without_score)),
    Plant("L025", "one answer has no space", _lettered(_one_unspaced)),
    Plant("L026", "the instruction is missing", _lettered(lambda row, item: _context(row, item.prompt()))),
    Plant("L026", "an example is missing", _lettered(lambda row, item: _context(
        row, f"{shots(EXAMPLES[1:])}\n\n{item.prompt()}"))),
    Plant("L027", "examples have numbers", _lettered(_examples_changed(_numbered))),
    Plant("L027", "examples lack answers", _lettered(_examples_changed(_unanswered))),
    Plant("L027", "examples run together", _lettered(_examples_changed(lambda text: re.sub(
        r"(Answer: \w)\n\n", r"\1", text)))),
    Plant("L028", "two models have the same scores", _copied),
    Plant("L029", "UTF-8 is read as Latin-1", _lettered(_garbled("dÃ©pÃ´t"))),
    Plant("L029", "accents are lost", _lettered(_garbled("d?p?t"), range(N))),
)  # fmt: skip
"""Planted errors. Each rule has one or more."""
