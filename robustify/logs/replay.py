"""A model whose answers are in logs: it is not asked, its rows are taken over.

It is no `Scorer`: what a log holds was asked in the log's own words, and may be picks without any score, so it
gives answer rows and says under which template. What the logs do not hold is unanswered, never asked elsewhere.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from robustify.answers import Answer, Answers, unanswered
from robustify.engines.settings import NAME_PATTERN
from robustify.errors import DataError, UsageError
from robustify.item import Item, no_collector
from robustify.loaders import Loaded
from robustify.logs import Log, LogOptions, LogPath, fingerprint, gather, mapping, read_logs
from robustify.logs.checked_names import listed, said_name
from robustify.logs.prompts import BLIND
from robustify.orders import own
from robustify.settings_files import Settings
from robustify.views import View


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


class ReplayModel(Settings):
    """A model whose answers are replayed from logs of lm-eval, Inspect, lighteval or from tables of picks.

    `logs`: their files. `model`: what they call it, where they hold several. `view`, `filter`, `columns`: as
    `--view`, `--filter` and `--map` of `robustify import`. `role`: whether it votes in the screen.
    """

    name: str = Field(pattern=NAME_PATTERN)
    engine: Literal["replay"]
    logs: Annotated[tuple[str, ...], BeforeValidator(_listed), Field(min_length=1)]
    model: str = ""
    role: Literal["voter", "under_test"] = "voter"
    view: View | None = None
    filter: str | None = None
    columns: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    skip_bad: bool = False

    @property
    def reference(self) -> str:
        """What distinguishes it from another model of the same config."""
        # Of a log that holds several the name says which; whether two names are one model, the logs say.
        return "|".join(["replay", self.model or self.name, *self.logs])


@dataclass(frozen=True, slots=True)
class Replayed:
    """A model's rows, what they depend on, and sha256 of the templates of ours that were recognised."""

    answers: Answers
    fingerprint: dict[str, str]
    templates: dict[str, str]


@no_collector()
def check_logs(model: ReplayModel, templates: Collection[str]) -> dict[str, str]:
    """Make sure that the logs can be read and serve; `templates`: those under which other voters are asked.

    What the logs say of the model, by which two names for one model are found.

    Raises:
        UsageError: a file that is not there, a mapping that cannot be, or a voter whose logs cannot vote.
        DataError: as the logs' readers say.
    """
    logs = _read(model)
    replies = [reply for log in logs for reply in log.replies]
    blind = {reply.template for reply in replies if reply.view in BLIND}
    said = fingerprint(logs, model.name)
    if model.role != "voter":
        return said
    if not blind:
        views = ", ".join(dict.fromkeys(reply.view for reply in replies))
        raise UsageError(
            f"{model.name}: votes, but its logs hold {views}; expected answers without the question, or "
            "`role: under_test`"
        )
    if templates and not blind & set(templates):
        raise UsageError(
            f"{model.name}: was asked in other words ({', '.join(sorted(blind))}) than the other voters "
            f"({', '.join(sorted(templates))}); expected `role: under_test`, or replayed voters alone"
        )
    return said


def refuse_one_as_two(said: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse two names for one model of one log. `said`: by name what `check_logs` gives.

    Raises:
        UsageError: both names.
    """
    first: dict[tuple[str, str], str] = {}
    for name, facts in said.items():
        other = first.setdefault((facts["model"], facts["log"]), name)
        if other != name:
            raise UsageError(
                f"models: {other} and {name} are one model of one log, {facts['model']}; expected `model: NAME` with "
                "what the log calls each, or one of the two"
            )


@no_collector()
def replayed(model: ReplayModel, bench: Loaded) -> Replayed:
    """The model's answers to the items of `bench`: one row at least for each item and view that it was asked.

    Raises:
        UsageError, DataError: as the logs' readers say, or the logs hold several models and none of this name.
    """
    logs = _read(model)
    gathered = gather(logs, bench, skip_bad=model.skip_bad)
    missing = list(_missing(model.name, gathered.answers, bench.items))
    notes = [*dict.fromkeys(note for log in logs for note in log.notes), *gathered.notes]
    facts = {
        **fingerprint(logs, model.name),
        "items_not_in_the_log": str(len(bench.items) - len(gathered.topics)),
        "rows_of_no_item": str(len(gathered.set_aside)),
        "assumed": "; ".join(notes),
    }
    templates = {name: digest for log in logs for name, digest in log.templates.items()}
    return Replayed(Answers.concat([gathered.answers, Answers.of(missing)]), facts, templates)


def _read(model: ReplayModel) -> list[Log]:
    options = LogOptions(
        view=model.view,
        filter=model.filter,
        columns=mapping(model.columns),
        keyed=True,
        skip_bad=model.skip_bad,
    )
    return [_of_one(log, model) for log in read_logs([LogPath(Path(log)) for log in model.logs], options)]


def _of_one(log: Log, model: ReplayModel) -> Log:
    """The log with the replies of this model alone, under the config's name for it; its own is a fact."""
    names = list(dict.fromkeys(reply.model for reply in log.replies))
    wanted = said_name(model.model) if model.model else names[0] if len(names) == 1 else said_name(model.name)
    if names and wanted not in names:
        shown = listed(names, {name: name for name in names})
        raise DataError(
            f"{log.file}: holds no model {wanted!r}; expected one of {shown} (models: model: NAME)"
        )
    own_name = said_name(model.name)
    replies = tuple(reply for reply in log.replies if reply.model == wanted)
    if own_name != wanted:
        replies = tuple(replace(reply, model=own_name) for reply in replies)
    return replace(log, replies=replies, facts={**log.facts, "model": wanted})


def _missing(name: str, answers: Answers, items: Sequence[Item]) -> Iterator[Answer]:
    for view, model, template in answers.askings():
        block = answers.block(view, model, template)
        answered = {answers.items[at] for at in set(block.item.tolist())}
        for item in items:
            if item.id not in answered:
                yield unanswered(item.id, view, name, own(item.k), template, item.key, "not in the log")
