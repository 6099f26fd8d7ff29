"""Mapping of table columns to the parts of a row, based on the user's options and then on common names.

If two columns could be the same part, the table is refused. The message names the columns and the option to use.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from robustify.errors import DataError, UsageError
from robustify.loaders.columns import choice_columns, usual_names
from robustify.loaders.loaded import said_columns
from robustify.loaders.rows import SourceTable
from robustify.logs.checked_names import NOTHING, Name, columns_of, headings, listed
from robustify.logs.log import LogOptions

# Names in one tuple are equivalent. A later tuple is used only if no name of an earlier one exists.
USUAL: dict[str, tuple[tuple[str, ...], ...]] = {
    "model": (("model", "model_name"), ("scorer", "system")),
    "id": (("item", "item_id", "id"), ("question_id", "qid", "uid", "pair_id", "doc_id")),
    "view": (("view", "condition"),),
    "key": (
        ("key", "gold", "answer_key", "answerkey", "gold_index", "correct_answer"),
        ("answer",),
        ("label", "target"),
    ),
    "pick": (("pick", "picked"), ("prediction", "predicted", "pred", "model_answer")),
    "k": (("k", "n_choices", "n_options"),),
    "scores": (("scores", "logprobs", "log_probs", "loglikelihoods"),),
    "correct": (
        ("correct", "is_correct"),
        ("acc", "accuracy"),
        ("exact_match", "em"),
        ("score", "right", "is_right"),
    ),
    "stem": (("stem", "question"), ("query", "prompt")),
    "choices": (("choices", "options"),),
    "topic": (("topic",), ("subject",), ("category", "bank")),
}
PARTS = (*USUAL, "first", "key_is", "passage")
_OF_A_MODEL = "*_picked,*_pick,*_predicted,*_prediction,*_pred"


@dataclass(frozen=True, slots=True)
class PickColumns:
    """Columns of a table of picks: of the picks by model ("" if all models share a column), of all other parts, and of the
    choices. A column is `=value` if the value is constant, and may contain `*` for the name of a model."""

    picks: Mapping[Name, str]
    parts: Mapping[str, str]
    choices: str | tuple[str, ...] | None

    def of(self, model: Name) -> Iterator[tuple[str, str]]:
        """Yield (part, column) pairs for one model, replacing each `*` with its name."""
        yield "pick", self.picks[model]
        for part, column in self.parts.items():
            yield part, column.replace("*", model) if model else column


def mapping(pairs: Iterable[str]) -> dict[str, str]:
    """Return the column of each part from `PART=COLUMN` options."""
    return said_columns(pairs, PARTS)


def pick_columns(file: str, table: SourceTable, options: LogOptions) -> PickColumns:
    """Return the columns of a table of picks. Raise `DataError` if there are no picks, or two columns could be the same
    part, and `UsageError` if a mapped column does not exist."""
    names = list(table.rows[0].cells) if table.rows else []
    if table.layout or not names:
        raise DataError(
            f"{file} contains items without picks; expected logs, or a table with model, key, and pick"
        )
    said = dict(options.columns)
    if "key_is" in said:
        raise UsageError(
            f"{file}: `key_is` is for logs. For a table of picks, use --map first==0 or --map first==1."
        )
    taken = {column for part in said.values() for _, column in _expanded(part, names)}
    free = [name for name in names if name not in taken]
    _require(file, said, names)
    choices = _choices(said.get("choices"), free)
    chosen = (choices,) if isinstance(choices, str) else choices or ()
    free = [name for name in free if name not in chosen]
    others = [part for part in USUAL if part not in ("choices", "pick")]
    parts = {part: column for part in others if (column := said.get(part) or _usual(file, part, free))}
    parts |= {"first": said["first"]} if "first" in said else {}
    free = [n for n in free if n not in parts.values()]
    picks = _picks(file, names, said.get("pick") or _usual(file, "pick", free) or _OF_A_MODEL)
    if not picks:
        raise DataError(
            f"{file}: no column contains picks; {_shown(names)}; expected a log of lm-eval, Inspect, or lighteval, or a "
            "table of picks. Map its columns with --map model=NAME --map key=NAME --map pick=NAME, or with "
            "--map pick=NAME,NAME for one column per model."
        )
    if NOTHING not in picks and options.model is not None:
        raise UsageError(f"{file}: the table has a column of picks for each model. Remove {options.model}=.")
    named = NOTHING not in picks or "model" in parts or options.model is not None
    for part in [*(["model"] * (not named)), *(["key"] * ("key" not in parts and not options.keyed))]:
        raise DataError(
            f"{file}: there is no column for the {part}; {_shown(names)}. Use --map {part}=NAME, or --map {part}==VALUE "
            "for a constant value"
            + (", or pass the items with their keys (--data ITEMS)" if part == "key" else "")
        )
    return PickColumns(picks, parts, choices)


def _expanded(said: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return (name, column) pairs for the columns that match a mapping.
    The name is the text matched by `*`, or the column itself."""
    if said.startswith("="):
        return []
    patterns = [re.escape(one).replace(r"\*", "(.+)") for one in said.split(",")]
    matched = ((name, [m for one in patterns if (m := re.fullmatch(one, name))]) for name in names)
    return [(next((m[1] for m in found if m.groups()), name), name) for name, found in matched if found]


def _require(file: str, said: Mapping[str, str], names: Sequence[str]) -> None:
    for part, column in said.items():
        for one in [] if column.startswith("=") else column.split(","):
            if not _expanded(one, names):
                fault = f"--map {part} names a column {one!r} that does not exist"
                raise UsageError(f"{file}: {fault}; {_shown(names)}")


def _choices(said: str | None, names: Sequence[str]) -> str | tuple[str, ...] | None:
    if said is not None:
        return tuple(said.split(",")) if "," in said else said
    series = choice_columns(names)
    return next(iter(usual_names(names, USUAL["choices"])), series[0] if len(series) == 1 else None)


def _usual(file: str, part: str, names: Sequence[str]) -> str | None:
    usual = usual_names(names, USUAL[part])
    if len(usual) > 1:
        both = " and ".join(f"`{name}`" for name in usual)
        raise DataError(
            f"{file}: {both} could each be the {part}. Select one, as in --map {part}={usual[0]}."
        )
    return usual[0] if usual else None


def _picks(file: str, names: Sequence[str], said: str) -> dict[Name, str]:
    """Return a mapping from model name to its column of picks, or from "" if all models share a column."""
    if not {"*", ","} & set(said):
        return {NOTHING: said}
    if (models := columns_of(_expanded(said, names), names)) is not None:
        return models
    raise DataError(
        f"{file}: some columns of picks are not named after a model; {_shown(names)}. Name each column after its "
        "model, in one word."
    )


def _shown(names: Sequence[str]) -> str:
    if known := headings(names):
        return f"found the columns {listed(names, known, 12)}"
    return f"found {len(names)} columns (names not shown, because they may be item text)"
