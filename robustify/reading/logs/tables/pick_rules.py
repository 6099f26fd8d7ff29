"""Rules that decide which columns of a table of picks contain which part, and the cells of these columns.

If several columns could be one part, nothing is guessed: the table is refused with the `--map` that settles it. To add a
name, add it to `vocabulary.txt`. To add a way to find a part, add an entry to `RULES`. To
say what to do with a file of another tool, add an entry to `FOREIGN`.
"""

import fnmatch
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from robustify.base.errors import DataError, UsageError
from robustify.base.redaction import HoldsText
from robustify.reading.columns import ColumnError, PartRule, choice_columns, decide_part, usual_names
from robustify.reading.loaders import rows
from robustify.reading.loaders.listed_options import read_choices
from robustify.reading.logs import log
from robustify.reading.marks.reply_parts import parsed_object

_IN_ORDER = ("model", "id", "view", "key", "k", "scores", "correct", "stem", "topic")
"""Parts, in the order in which they take columns. The options come before them, and the picks after them."""
PARTS = (*_IN_ORDER, "choices", "pick", "first", "key_is", "passage", "group")
CALLED = {"item": "id"}
"""Other names of parts, by which the docs call their columns."""
_OF_A_MODEL = "*_picked,*_pick,*_predicted,*_prediction,*_pred"
_PROFILED = 10_000
BEST_SCORE = "="
"""Column of picks if there are only scores. It is a constant without a value, so that the best score is the pick."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Columns of a table, and its first records, in which nested members are found."""

    file: str
    columns: tuple[str, ...]
    sample: tuple[rows.Cells, ...]

    @classmethod
    def from_table(cls, file: str, table: rows.SourceTable) -> "Profile":
        """Return the profile of a table."""
        sample = tuple(row.cells for row in table.rows[:_PROFILED])
        return cls(file, tuple(dict.fromkeys(column for cells in sample for column in cells)), sample)

    @property
    def listed(self) -> str:
        """Text that lists the columns, for an error message."""
        if names := log.headings(self.columns):
            return f"found the columns {log.listed(self.columns, names, 12)}"
        return f"found {len(self.columns)} columns (names not shown, because they may be item text)"

    def matching(self, mapped: str) -> list[tuple[str, str]]:
        """Return a (label, column) pair for each column that a mapping names. A column may be a member
        (`score.pick`). The label is the text of `*`, or the column."""
        patterns = [re.escape(column).replace(r"\*", "(.+)") for column in mapped.split(",")]
        columns = [*self.columns, *(column for column in mapped.split(",") if self._is_nested(column))]
        matched = (
            (name, [m for pattern in patterns if (m := re.fullmatch(pattern, name))]) for name in columns
        )
        return [
            (next((m[1] for m in matches if m.groups()), name), name) for name, matches in matched if matches
        ]

    def _is_nested(self, column: str) -> bool:
        return column not in self.columns and any(rows.has(cells, column) for cells in self.sample)


@dataclass(slots=True)
class Decisions:
    """Parts decided so far, the rules that decided them, and the columns that the user mapped."""

    profile: Profile
    mapped: Mapping[str, str]
    parts: dict[str, str] = field(default_factory=dict)
    because: dict[str, str] = field(default_factory=dict)

    def free(self) -> list[str]:
        """Return the columns that contain no part yet, and no member that is a part."""
        columns = self.profile.columns
        taken = {
            name if name in columns else name.partition(".")[0]
            for column in (*self.mapped.values(), *self.parts.values())
            for _, name in self.profile.matching(column)
        }
        return [name for name in columns if name not in taken]


def _mapped(part: str) -> Callable[[Decisions], list[str]]:
    return lambda decided: [decided.mapped[part]] if part in decided.mapped else []


def _usual(part: str) -> Callable[[Decisions], list[str]]:
    return lambda decided: usual_names(decided.free(), f"picks.{part}")


def _series(decided: Decisions) -> list[str]:
    series = choice_columns(decided.free())
    return [",".join(series[0])] if len(series) == 1 else []


def _per_model(decided: Decisions) -> list[str]:
    return [_OF_A_MODEL] if decided.profile.matching(_OF_A_MODEL) else []


def _best_score(decided: Decisions) -> list[str]:
    return [BEST_SCORE] if "scores" in decided.parts else []


RULES: tuple[PartRule[Decisions], ...] = (
    PartRule("choices", "mapped", "the user named the columns", _mapped("choices")),
    PartRule("choices", "usual name", "a column has a usual name for all options", _usual("choices")),
    PartRule("choices", "one column each", "the only columns labeled A, B, C or 1, 2, 3", _series),
    *(
        rule
        for part in _IN_ORDER
        for rule in (
            PartRule(part, "mapped", "the user named the column", _mapped(part)),
            PartRule(part, "usual name", "one column has a usual name", _usual(part), alone=True),
        )
    ),
    PartRule("pick", "mapped", "the user named the column", _mapped("pick")),
    PartRule("pick", "usual name", "one column has a usual name", _usual("pick"), alone=True),
    PartRule("pick", "per model", "columns are named after models, such as alpha_pick", _per_model),
    PartRule(
        "pick", "best score", "there are scores but no picks, so the best score is the pick", _best_score
    ),
)
"""In order. Without columns for the model, the key, and the pick, a table is refused."""


class Foreign(NamedTuple):
    """Files of another tool that robustify cannot read. `members` are patterns of their columns, and `mend` is advice."""

    tool: str
    members: frozenset[str]
    mend: str


FOREIGN = (
    Foreign(
        "EvalScope (predictions)",
        frozenset({"index", "model_output", "messages"}),
        "It has no keys. Use the file in `reviews`.",
    ),
    Foreign(
        "HELM (display_predictions.json)",
        frozenset({"instance_id", "predicted_text", "stats"}),
        "It has no keys. Use the scenario_state.json of the same run.",
    ),
    Foreign(
        "HELM (per_instance_stats.json)",
        frozenset({"instance_id", "train_trial_index", "stats"}),
        "It has no answers. Use the scenario_state.json of the same run.",
    ),
    Foreign(
        "OpenCompass (results)",
        frozenset({"accuracy", "details"}),
        "It has no items of its own. Use the file of the same name in `predictions`.",
    ),
    Foreign(
        "lm-eval 0.3 (write_out_info)",
        frozenset({"doc_id", "prompt_0", "logit_0", "truth"}),
        "Use --map id=doc_id --map key=truth --map model==NAME --map scores=logit_0,logit_1 with all columns of scores.",
    ),
    Foreign(
        "OLMES (predictions)",
        frozenset({"native_id", "model_output", "label"}),
        "Use --map id=native_id --map key=label --map model==NAME --map scores=model_output.",
    ),
    Foreign(
        "OpenAI (batch output)",
        frozenset({"custom_id", "response"}),
        "It has no keys. Use --data ITEMS --map id=custom_id --map model=response.body.model "
        "--map pick=response.body.choices.",
    ),
    Foreign(
        "Anthropic (batch results)",
        frozenset({"custom_id", "result"}),
        "It has no keys. Use --data ITEMS --map id=custom_id --map model=result.message.model "
        "--map pick=result.message.content.",
    ),
    Foreign(
        "Gemini (batch results)",
        frozenset({"key", "response"}),
        "It has no keys. Use --data ITEMS --map id=key --map model=response.modelVersion "
        "--map pick=response.candidates.",
    ),
    Foreign(
        "promptfoo (table)",
        frozenset({"[[]*:*] *"}),
        "Its picks are mixed with their grades. Write the results as JSON (`promptfoo eval -o results.json`).",
    ),
    Foreign(
        "FastChat (judgments)",
        frozenset({"question_id", "model", "judge", "judgment"}),
        "It has marks for free texts, but no options. To grade such texts, see `robustify free`.",
    ),
)


def decide(profile: Profile, mapped: Mapping[str, str]) -> Decisions:
    """Find each part of a table of picks by the rules. Raise `UsageError` if a mapped column does not exist, and
    `DataError` if several columns could be one part."""
    for part, columns in mapped.items():
        for column in [] if columns.startswith("=") else columns.split(","):
            if not profile.matching(column):
                fault = f"--map {part} names a column {column!r} that does not exist"
                raise UsageError(f"{profile.file}: {fault}; {profile.listed}", code="no-such-field")
    decided = Decisions(profile, mapped)
    for part in dict.fromkeys(rule.part for rule in RULES):
        try:
            decision = decide_part(RULES, part, decided)
        except ColumnError as error:
            raise DataError(
                f"{profile.file}: {error}. Select one, as in --map {part}=NAME.",
                code="several-columns-for-part",
            ) from None
        if decision:
            decided.parts[part], decided.because[part] = str(decision[0]), decision[1].rule
    return decided


def require_parts(decided: Decisions, *, has_models: bool, keyed: bool) -> None:
    """Raise `DataError` with the `--map` option that is missing, if exactly one is. Models may be named elsewhere
    (`has_models`), and keys of `keyed` tables are in another file."""
    profile, parts = decided.profile, decided.parts
    lacking = [
        part
        for part, present in (("model", has_models), ("key", keyed), ("pick", False))
        if not (present or part in parts)
    ]
    if not lacking:
        return
    for foreign in FOREIGN:
        if all(fnmatch.filter(profile.columns, member) for member in foreign.members) and not decided.mapped:
            raise DataError(
                f"{profile.file}: robustify cannot read files of {foreign.tool}. {foreign.mend}",
                code="unsupported-file",
            )
    if "pick" in lacking and not decided.mapped and _only_numbers(profile):
        raise DataError(
            f"{profile.file} has only aggregated results; expected the answers to each item. Use the file in which the "
            "tool logged them.",
            code="results-without-answers",
        )
    if "pick" in lacking:
        maps = " ".join(f"--map {part}=NAME" for part in lacking)
        raise DataError(
            f"{profile.file}: no column contains picks; {profile.listed}; expected {log.READABLE}. Map its "
            f"columns with {maps}. If each model has its own column, use --map pick=NAME,NAME. If each option has its own "
            "column, use --map scores=NAME,NAME.",
            code="no-pick-column",
        )
    part = lacking[0]
    raise DataError(
        f"{profile.file}: there is no column for the {part}; {profile.listed}. Use --map {part}=NAME, or --map "
        f"{part}==VALUE for a constant value"
        + (", or pass the items with their keys (--data ITEMS)" if part == "key" else ""),
        code="no-key-column" if part == "key" else "no-model-column",
    )


def _only_numbers(profile: Profile) -> bool:
    """Return whether a table is one row of numbers."""
    return len(profile.sample) == 1 and all(
        isinstance(cell, int | float) for cell in profile.sample[0].values()
    )


def model_columns(profile: Profile, picks: str) -> dict[log.Name, str]:
    """Map each model name to its column of picks. If all models share one column, the only name is "". Raise
    `DataError` if columns are not named after models."""
    if not {"*", ","} & set(picks):
        return {log.NOTHING: picks}
    models = log.columns_by_model(profile.matching(picks), profile.columns)
    if not models:
        raise DataError(
            f"{profile.file}: some columns of picks are not named after a model; {profile.listed}. Name each column after "
            "its model, in one word.",
            code="not-model-names",
        )
    return models


def option_columns(decided: Decisions) -> str | tuple[str, ...] | None:
    """Return the column of all options, or the columns of one option each. Return None if the table has no options."""
    columns: Sequence[str] = decided.parts["choices"].split(",") if "choices" in decided.parts else ()
    return None if not columns else columns[0] if len(columns) == 1 else tuple(columns)


@dataclass(frozen=True, slots=True)
class PickColumns:
    """Columns of a table that contain each model's picks, the other parts, and the choices. The model is "" if all models
    share a column. A column is `=value` if the value is constant, and may contain `*` for the name of a model."""

    picks: Mapping[log.Name, str]
    parts: Mapping[str, str]
    choices: str | tuple[str, ...] | None


@dataclass(frozen=True, slots=True, repr=False)
class PickCells(HoldsText):
    """Cells of a row that describe one model's pick. `model` is "" if the row names the model."""

    model: log.Name
    choices: tuple[str, ...]
    parts: Mapping[str, object]

    def text(self, part: str) -> str:
        """Return a part as text, or "" if the part is neither text nor a whole number."""
        cell = self.parts.get(part)
        number = rows.as_integer(cell)
        return str(cell if number is None else number).strip() if isinstance(cell, str | int | float) else ""

    @property
    def scores(self) -> list[float]:
        """Scores of the choices, with NaN for an unreadable score. Lists may be written as text."""
        cells: object = self.parts.get("scores")
        while isinstance(cells, list) and len(cells) == 1:
            cells = cells[0]
        if isinstance(cells, str):
            cells = [text for text in re.split(r"[\s,;]+", cells.strip(" []()")) if text]
        elif isinstance(cells, dict) and len(cells) > 1:
            cells = [cells[label] for label in sorted(cells, key=lambda label: (len(label), label))]
        values = [_number_of(cell) for cell in cells] if isinstance(cells, list) else []
        return [] if all(value is None for value in values) else [*map(log.number_or_nan, values)]


def _number_of(cell: object) -> object:
    """Return the score in an object such as `{"sum_logits": -3.1, "num_tokens": 2}`. Return any other cell unchanged."""
    members = rows.as_object(cell)
    return next((members[name] for name in ("sum_logits", "logprob", "score") if name in members), cell)


_UNSPOKEN = ("thinking", "redacted_thinking", "reasoning")
"""Types of the parts of a reply that a model does not show."""


def _reply_of(cell: object) -> object:
    """Return the text of a chat message, of the first choice or candidate in a server response without its reasoning, or of
    an object with one member, such as `{"output": "B"}`, which may be written as text. Return any other cell unchanged."""
    match cell:
        case str() if cell.lstrip().startswith("{"):
            written = parsed_object(cell)
            return _reply_of(written) if isinstance(written, dict) and len(written) == 1 else cell
        case [dict(), *_]:
            parts = (rows.as_object(part) for part in cell)
            spoken = (part for part in parts if part.get("type") not in _UNSPOKEN and not part.get("thought"))
            first = next(spoken, None)
            return cell if first is None else _reply_of(first)
        case (
            {"message": dict() as inner}
            | {"content": dict() | [dict(), *_] as inner}
            | {"parts": [dict(), *_] as inner}
        ):
            return _reply_of(inner)
        case {"content": str() as text} | {"text": str() as text}:
            return text
        case dict() if len(cell) == 1 and isinstance(only := next(iter(cell.values())), str | dict):
            return only if isinstance(only, str) else _reply_of(only)
        case _:
            return cell


def pick_cells(row: rows.SourceRow, columns: PickColumns) -> list[PickCells]:
    """Return one pick for each model of a row."""
    choices = () if columns.choices is None else read_choices(row.cells, columns.choices).texts

    def cell(part: str, column: str) -> object:
        if column.startswith("="):
            return column[1:]
        if part != "scores":
            value = rows.cell_or_none(row.cells, column)
            return _reply_of(value) if part in ("key", "pick") else value
        return [rows.cell_or_none(row.cells, name) for name in column.split(",")]

    return [
        PickCells(
            model,
            choices,
            {part: cell(part, c.replace("*", model or "*")) for part, c in columns.parts.items()}
            | {"pick": cell("pick", pick)},
        )
        for model, pick in columns.picks.items()
    ]
