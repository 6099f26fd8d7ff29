"""Inspect's logs (`.json` and `.eval`) -> replies.

Inspect may have shuffled the choices, so a letter means nothing by itself: it names a choice of the logged
sample, and that choice's text is what is matched. What Inspect scores as wrong because it could not be read is
unanswered here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from robustify.errors import DataError, UsageError
from robustify.loaders.cells import name_like
from robustify.loaders.json_text import decode
from robustify.loaders.logs import unwrapped
from robustify.loaders.rows import Cells, Fault, Row, Table
from robustify.logs.letters import place_named
from robustify.logs.log import Log, Reply, Shown, Wanted
from robustify.logs.prompts import assumed
from robustify.logs.results_beside import plain_model
from robustify.logs.rows import shown_items
from robustify.logs.zipped import Zipped

KIND = "inspect"
_ATTACHED = "attachment://"


def read_eval_zip(path: Path) -> dict[str, Any]:
    """A zipped log as one tree, as its JSON form would be.

    Raises:
        DataError: cut off, damaged, without samples, or of a run that did not end.
    """
    with Zipped(path) as archive:
        if "header.json" not in archive.members:
            raise DataError(
                f"{path.name}: has no header.json (a run that did not end?); expected a whole log"
            )
        names = [n for n in archive.members if n.startswith("samples/") and n.endswith(".json")]
        header = _tree(path.name, archive.read("header.json"))
        return {**header, "samples": [_tree(path.name, archive.read(name)) for name in names]}


def is_inspect(tree: object) -> bool:
    """Whether a JSON document is an Inspect log."""
    return isinstance(tree, Mapping) and isinstance(tree.get("eval"), Mapping) and "samples" in tree


def read_inspect(path: Path, tree: Mapping[str, Any], sha256: str, wanted: Wanted) -> Log:
    """The replies of one log; of several epochs the first.

    Raises:
        UsageError: no such scorer, or several and none named.
        DataError: no multiple-choice task.
    """
    spec = tree["eval"]
    task = str(spec.get("task") or path.stem).rsplit("/", 1)[-1]
    samples = _in_order(tree, spec)
    rows = tuple(Row(at, at, sample) for at, sample in enumerate(samples, start=1))
    items = unwrapped(path.name, Table(rows, outer="inspect_log"))
    called = {row.line: str(row.cells.get("id")) for row in rows}
    shown, faults = shown_items(path.name, items, wanted, task, called)
    scorer = _scorer(path.name, samples, wanted.filter)
    bare = Reply(0, wanted.model or plain_model(str(spec.get("model") or "model")), "full", KIND, Shown(0))
    found = [_reply(row, shown[row.line], scorer, bare, wanted) for row in rows if row.line in shown]
    faults += _unfinished(tree, len(samples)) + [one for one in found if isinstance(one, Fault)]
    replies = tuple(one for one in found if isinstance(one, Reply))
    return Log(
        file=path.name,
        kind=KIND,
        sha256=sha256,
        task=task,
        replies=replies,
        faults=tuple(faults),
        facts=_facts(tree, spec),
        notes=tuple(_notes(wanted, replies, len(rows) - len(items.rows))),
    )


def _in_order(tree: Mapping[str, Any], spec: Mapping[str, Any]) -> list[Cells]:
    """The samples in the order of their data set, not in that in which they were finished."""
    dataset = spec.get("dataset")
    ids = dataset.get("sample_ids") if isinstance(dataset, Mapping) else None
    place = {str(name): at for at, name in enumerate(ids or [])}
    held = [_resolved(sample) for sample in tree["samples"] or [] if isinstance(sample, Mapping)]
    return sorted(held, key=lambda s: (place.get(str(s.get("id")), len(place)), _epoch(s)))


def _epoch(sample: Cells) -> int:
    found = sample.get("epoch")
    return found if isinstance(found, int) else 1


def _resolved(sample: Mapping[str, Any]) -> dict[str, Any]:
    """The sample with the long texts that Inspect keeps apart put back where the item needs them."""
    apart = sample.get("attachments")
    if not isinstance(apart, Mapping):
        return dict(sample)
    return {
        **sample,
        **{name: _put_back(sample[name], apart) for name in ("input", "choices") if name in sample},
    }


def _put_back(value: object, apart: Mapping[str, Any]) -> object:
    match value:
        case str() if value.startswith(_ATTACHED):
            return apart.get(value.removeprefix(_ATTACHED), value)
        case list():
            return [_put_back(member, apart) for member in value]
        case Mapping():
            return {name: _put_back(member, apart) for name, member in value.items()}
        case _:
            return value


def _unfinished(tree: Mapping[str, Any], n: int) -> list[Fault]:
    results = tree.get("results")
    total = results.get("total_samples") if isinstance(results, Mapping) else None
    status = str(tree.get("status", "success"))
    found = [] if status == "success" else [f"its run has the status {status}; expected success"]
    if isinstance(total, int) and total != n:
        found.append(f"{n} samples are logged of the {total} that its results count; expected them all")
    return [Fault(1, reason) for reason in found]


def _scorer(file: str, samples: Sequence[Cells], wanted: str | None) -> str | None:
    names = list(
        dict.fromkeys(n for s in samples if isinstance(found := s.get("scores"), Mapping) for n in found)
    )
    if wanted is not None and wanted not in names:
        raise UsageError(f"{file}: no scorer {wanted!r}; expected one of {', '.join(names) or 'none'}")
    if wanted is None and len(names) > 1 and "choice" not in names:
        raise UsageError(
            f"{file}: is scored by {', '.join(names)}; expected to be told by which: --filter NAME"
        )
    return wanted or ("choice" if "choice" in names else next(iter(names), None))


def _reply(row: Row, item: Shown, scorer: str | None, bare: Reply, wanted: Wanted) -> Reply | Fault:
    scores = row.cells.get("scores")
    score = scores.get(scorer) if isinstance(scores, Mapping) else None
    said = score if isinstance(score, Mapping) else {}
    pick = place_named(said.get("answer"), item.k, item.choices)
    reply = replace(bare, line=row.line, shown=item, pick=pick, view=wanted.view or "full")
    if row.cells.get("error") is not None:
        return replace(reply, pick=None, why="the run failed on it")
    if not said:
        return replace(reply, pick=None, why="no score is logged")
    if pick is not None and said.get("value") in ("C", "I") and (said["value"] == "C") != (pick == item.key):
        return Fault(
            row.line,
            f"is scored {said['value']}, but its answer and target say otherwise; expected letters of the logged "
            "choices",
        )
    return replace(reply, why="names no choice, or several")


def _notes(wanted: Wanted, replies: Sequence[Reply], dropped: int) -> list[str]:
    found = []
    if dropped:
        found.append(f"samples of later epochs left out: {dropped}; the first one of an item counts")
    if wanted.view is None:
        same = len(replies) > 1 and len({reply.shown.stem for reply in replies}) == 1
        doubt = "; all items have one stem: if the question was not shown, say choices_only" if same else ""
        found.append(assumed("full") + doubt)
    return found


def _facts(tree: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, str]:
    packages, config, plan = spec.get("packages"), spec.get("config"), tree.get("plan")
    steps = plan.get("steps") if isinstance(plan, Mapping) else None
    solvers = [str(s.get("solver")) for s in steps or [] if isinstance(s, Mapping)]
    found = {
        "inspect_ai": packages.get("inspect_ai") if isinstance(packages, Mapping) else None,
        "task_version": spec.get("task_version"),
        "epochs": config.get("epochs") if isinstance(config, Mapping) else None,
        "solver": "+".join(solvers) or None,
    }
    return {name: str(value) for name, value in found.items() if value is not None and name_like(str(value))}


def _tree(file: str, data: bytes) -> Any:
    try:
        return decode(data.decode("utf-8"))[0]
    except (ValueError, RecursionError):
        raise DataError(f"{file}: holds a member that is no JSON; expected a whole .eval file") from None
