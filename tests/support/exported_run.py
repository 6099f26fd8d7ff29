"""A run made without any model: made-up items with 2 to 5 choices, two voters whose picks stand in a table."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from robustify.base.files import sha256
from robustify.items.item import Item
from robustify.pipeline.from_logs import run_of_logs
from robustify.reading.logs import LogPath
from robustify.runs.run import Run, open_run, write_items
from robustify.wings import GUARD
from tests.support.fake_logs import jsonl

TOPICS = ("boxes", "Cups & jars", "=cmd|' /C x'!A0", "<b>bold</b> | pipe")
N_ITEMS = 60
Picks = Callable[[int, Item], dict[str, int | None]]
"""What is picked of the item at a place, by view."""
SMALL = "two of a kind"
"""A topic of two items: it shares a task with other small ones."""


def made_up(n: int = N_ITEMS) -> list[Item]:
    """Items in which every stem and every choice is another; one in six asks for a number."""
    return [_item(at) for at in range(n)]


def _item(at: int) -> Item:
    k = 2 + at % 4
    topic = SMALL if at in (7, 8) else TOPICS[at % 4]
    if at % 6 == 1:
        choices = tuple(str(100 * at + 7 * j) for j in range(k))
        return Item(f"i{at}", f"How many marbles lie in jar {at}?", choices, at % k, topic)
    colours = ("red", "green", "blue", "grey", "pink")
    choices = tuple(f"the {colours[j]} one of {at}" for j in range(k))
    return Item(f"i{at}", f"Which ball lies in box {at}, {{{{ {at} }}}}?", choices, at % k, topic)


def voted(at: int, item: Item) -> int | None:
    """What both voters pick: every fifth item gives itself away, item 11 has no readable answer."""
    if at == 11:
        return None
    return item.key if at % 5 == 0 else (item.key + 1) % item.k


_MADE: dict[tuple[bool, str], "TemporaryDirectory[str]"] = {}
"""The folders of runs of the usual items, each made once for all tests, by `text` and `view`."""


def made_run(
    folder: Path,
    items: Sequence[Item] | None = None,
    *,
    text: bool = True,
    view: str = "choices_only",
    overrides: Mapping[str, object] | None = None,
) -> Run:
    """The run, in `folder/run`; `folder` also holds what it was imported from, which may lack the `text` of items."""

    def picks(at: int, item: Item) -> dict[str, int | None]:
        return {view: voted(at, item)}

    if items is not None or overrides is not None:
        held = made_up() if items is None else items
        return imported_run(folder, held, picks, "one", "two", text=text, overrides=overrides)
    if (text, view) not in _MADE:
        _MADE[text, view] = TemporaryDirectory()
        imported_run(Path(_MADE[text, view].name), made_up(), picks, "one", "two", text=text)
    shutil.copytree(_MADE[text, view].name, folder, dirs_exist_ok=True)
    return open_run(folder / "run", GUARD)


def imported_run(
    folder: Path,
    items: Sequence[Item],
    picks: Picks,
    *models: str,
    text: bool = True,
    overrides: Mapping[str, object] | None = None,
) -> Run:
    """The run of these models, which all pick the same."""
    folder.mkdir(parents=True, exist_ok=True)
    write_items(folder / "items.jsonl", items)
    rows = [
        {"model": model, "view": view, "item": item.id,
         **({"question": item.stem, "choices": list(item.choices)} if text else {"n_choices": item.k}),
         "key": "ABCDE"[item.key], "pick": None if pick is None else "ABCDE"[pick]}
        for model in models for at, item in enumerate(items) for view, pick in picks(at, item).items()
    ]  # fmt: skip
    jsonl(folder / "picks.jsonl", rows)
    log, data = [LogPath(folder / "picks.jsonl")], [folder / "items.jsonl"] if text else []
    rules = {"name": "made-up", "screen.criterion": "unanimous", **(overrides or {})}
    return run_of_logs(log, folder / "run", GUARD, data=data, overrides=rules)


def renewed(folder: Path, *names: str) -> Run:
    """The run in a folder in which these files were edited, with their new digests in its manifest."""
    tree = json.loads((folder / "run.json").read_text())
    tree["files"] |= {name: sha256(folder / name) for name in names}
    (folder / "run.json").write_text(json.dumps(tree))
    return open_run(folder, GUARD)


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
