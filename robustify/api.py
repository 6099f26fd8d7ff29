"""Python API of robustify, for scripts and notebooks: `import robustify as rb`.

```python
run = rb.audit("items.jsonl", public=True, models=["smollm2-135m"])
run                                   # the first screen of the report
run.verdicts.query("verdict == 'flagged'")
rb.judge(run, criterion="majority").state
```

Tables are pandas DataFrames. A restricted run provides its summary, but no data on single items.
"""
# pandas has no type hints.
# mypy: disable-error-code="import-untyped"

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, cast

from typing_extensions import Unpack

from robustify.base.errors import AuthorisationError, DataError, RobustifyError, UsageError
from robustify.base.files import cache_folder
from robustify.base.redaction import UNMUTED
from robustify.base.settings_files import is_config, named_set, run_name, with_path
from robustify.in_memory import TABLE, Data, Table, in_python, written
from robustify.judging.summary.result import State
from robustify.models.engines.protocols import Progress
from robustify.pipeline import config as configs
from robustify.pipeline import from_logs, steps
from robustify.pipeline.run_input import unwatched
from robustify.pipeline.wing_protocols import SetPolicy
from robustify.reading.loaders import Loaded
from robustify.reading.logs import LogOptions, parse_log_path
from robustify.report import first_screen
from robustify.report.opening import closing, report_tree
from robustify.runs.run import EVIDENCE, VERDICTS, Run, open_run
from robustify.runs.stored import WORDS
from robustify.wings import GUARD, wings

if TYPE_CHECKING:
    import pandas as pd

    from robustify.items.views import View

__all__ = ["Audit", "RobustifyError", "audit", "heuristics", "import_logs", "judge", "open"]


@dataclass(frozen=True, slots=True)
class Audit:
    """A finished run. Notebooks display the first screen of its report. `folder` contains its files (docs/files.md), and is
    removed with this object if no `out` folder was given."""

    folder: Path
    run: Run = field(repr=False)
    _temporary: object = field(default=None, repr=False, compare=False)

    @property
    def state(self) -> State:
        """State of the run: `passed`, `failed`, or `not evaluated`."""
        return self.run.state

    @property
    def answers(self) -> "pd.DataFrame":
        """Answers, one per row. Columns are item, view, model, order, rotation, template, key, pick, correct
        (credit, 0 to 1), and scores in nats."""
        self._require_rows("answers.parquet")
        return cast("pd.DataFrame", self.run.answers.table.to_pandas())

    @property
    def verdicts(self) -> "pd.DataFrame":
        """Verdicts by item ID (flagged, kept, or undecided), with votes, reasons, and the pick without the question."""
        import pandas as pd

        self._require_rows(VERDICTS)
        frame = self.run.verdict_table.set_index("item")
        numbers = [name for name in frame if name not in WORDS]
        frame[numbers] = frame[numbers].apply(pd.to_numeric)
        return frame

    @property
    def evidence(self) -> "pd.DataFrame":
        """Evidence by item ID on why models pick an option without the question (`evidence.jsonl` in docs/files.md)."""
        import pandas as pd

        self._require_rows(EVIDENCE)
        return pd.DataFrame(self.run.evidence).set_index("item")

    @property
    def summary(self) -> "pd.DataFrame":
        """Values of `summary.json` by dotted name, or the numbers of a released page. Columns are value, n, low, and high
        (95 %)."""
        import pandas as pd

        if not self.run.restricted:
            return pd.DataFrame(_rows(self.run.summary.tree(), "")).set_index("field")
        page = _pages().read_released(self.run)
        mark = f"field (release level: {page.release_level})"
        rows = [{mark: r.name, "value": r.value, "n": r.n} for r in page.numbers if r.value is not None]
        return pd.DataFrame(rows, columns=[mark, "value", "n"]).set_index(mark)

    @property
    def scores(self) -> "pd.DataFrame":
        """Return the scores of each model: `full` (or `cloze`), `without_question`, `quote`, and `looks`, each with its
        ends (95 %), and the `kind` of the number to quote. Raise `AuthorisationError` for a restricted run."""
        import pandas as pd

        self._require_rows("summary.json")
        rows = []
        for score in report_tree(self.run.summary)["scores"]:
            row = {"model": score["model"], "kind": score["kind"]}
            for name in ("quote", "full", "cloze", "without_question", "looks"):
                cell = _flat(score[name] or {"value": None})
                row |= {name: cell["value"], f"{name}_low": cell["low"], f"{name}_high": cell["high"]}
            sources = ", ".join(score["looks_sources"])
            row |= {"looks_state": score["looks_state"], "looks_sources": sources}
            rows.append({**row, "reason": score["reason"]})
        return pd.DataFrame(rows, columns=None if rows else ["model"]).set_index("model")

    def _require_rows(self, name: str) -> None:
        if self.run.restricted:
            kept = "which keeps no data on single items. Use its `summary`, or open a public run."
            raise AuthorisationError(f"{self.folder} is a restricted run, {kept}", code="restricted-run")
        if name not in self.run.manifest["files"]:
            fault = f"{self.folder} does not contain {name}. See docs/files.md for the runs that do."
            raise DataError(fault, code="no-such-file-in-run")
        self.run.require_unchanged(name)
        self.run.require_ordinary()

    def __str__(self) -> str:
        run, folder = self.run, str(self.folder)
        if not run.restricted:
            return "\n".join(closing(run.summary, folder, run.manifest))
        return "\n".join(_pages().released_lines(_pages().read_released(run), folder))

    def _repr_html_(self) -> str:
        if self.run.restricted:
            return str(_pages().released_page(_pages().read_released(self.run), self.run.manifest))
        return first_screen(self.run.summary, self.run.manifest)


def _pages() -> Any:
    """Import the pages of restricted runs, which other runs do not need."""
    from robustify.restricted.disclosure import released_page

    return released_page


Fields: TypeAlias = Mapping[str, "str | Sequence[str] | None"]
"""Columns of the parts of an item (`fields` in docs/config.md)."""


class Rule(TypedDict, total=False):
    """Settings of a run, all optional. `criterion` is `fdr`, `unanimous`, `majority`, or `K-of-N`. `mode` asks for a
    `letter`, or scores each option's `text`. `limit` uses only the first items. `name` names the benchmark. `force`
    replaces a run of another benchmark in the folder `out`."""

    criterion: str
    mode: str
    limit: int
    name: str
    force: bool


class AuditRule(Rule, total=False):
    """Settings of a run with items. `split` is that of a folder, or of a set of the hub. `include_path` are folders
    with tasks of lm-eval, and `trust_task_code` runs the code of a task, if the set is given by its name. `fields` maps
    the parts of an item to columns that are not identified, such as `{"key": "answer", "choices": ["A", "B"]}`."""

    split: str
    fields: Fields
    include_path: Sequence[str]
    trust_task_code: bool


def audit(
    data: Data,
    *,
    public: bool = False,
    models: Sequence[str] = (),
    out: str | Path | None = None,
    device: str | None = None,
    progress: bool = False,
    **rule: Unpack[AuditRule],
) -> Audit:
    """Audit a benchmark, as `robustify CONFIG` does. Without models, rules and a probe audit the options.

    `data` is a config (a YAML file or the name of a shipped config), an items file, a name such as `lm-eval:TASK`, or
    items. Unless a config says so, `public` must be true, because item texts are shown. `models`, or a single name,
    replace those of the config and run on `device`, such as `cuda:0`. `out` is the folder of the run, by default a
    temporary one. `progress` is shown on stderr. `rule` are settings (`AuditRule`). Raise `RobustifyError` if a setting is
    invalid or missing, or a step fails.
    """
    source = {name: value for name, value in rule.items() if name in _OF_SOURCE}
    names = (models,) if isinstance(models, str) else tuple(models)
    overrides, force = _settings(cast("Rule", {name: v for name, v in rule.items() if name not in source}))
    if "mode" in rule:
        overrides["asking.mode"] = rule["mode"]
    with tempfile.TemporaryDirectory(prefix="robustify-") as place, in_python(data):
        path = written(data, Path(place))
        if not public and not is_config(path) and (named_set(path) or Path(path).exists()):
            name = with_path(path, lambda file: Path(file).name)
            fault = f"{name}: if reports may show the texts of the items, set public=True."
            raise UsageError(fault, code="not-public")
        plugged = wings()
        about: dict[str, Any] = {"public": public, "source_options": source}
        config = configs.config_for(path, plugged.adapters, names, overrides, **about)
        config = configs.with_models(config, names, device)
        if config.sensitivity != "public" and out is None:
            fault = f"{config.name} is a restricted set. Set out=FOLDER to its private folder."
            raise UsageError(fault, code="no-private-folder")
        watch = _bar if progress else unwatched
        return _in(out, lambda to: steps.robustify(config, to, cache_folder(), plugged, watch, force=force))


def open(run: str | Path) -> Audit:
    """Open the run in a folder. Raise `RobustifyError` if the folder has no run, or the run has another format."""
    opened = open_run(Path(run), GUARD)
    return Audit(opened.folder, opened)


def judge(run: Audit | str | Path, *, out: str | Path | None = None, **rule: Unpack[Rule]) -> Audit:
    """Judge the answers of a run again with a different `criterion` or `mode`. No model is asked. The run is unchanged, and
    the new one is in `out`, by default a temporary folder. Raise `RobustifyError` if `robustify judge` would refuse it."""
    with in_python():
        opened = run.run if isinstance(run, Audit) else open_run(Path(run), GUARD)
        overrides, force = _settings(rule)
        return _in(out, lambda to: steps.rejudge(opened, overrides, to, force=force))


def heuristics(data: Data, *, fields: Fields | None = None) -> "pd.DataFrame":
    """Score simple rules that see only the choices, and return a row for each. Columns are value, n, low and high (95 %),
    and ties. `attrs` has n, the accuracy by chance, and notes. `fields` are as in `audit`.

    Raise `RobustifyError` for a restricted set."""
    import pandas as pd

    from robustify.judging.baselines.heuristics import rule_table

    bench, policy = _loaded(data, fields)
    scores = rule_table(bench.items)
    rows = {name: _flat(row) for name, row in scores["heuristics"].items()}
    frame = pd.DataFrame.from_dict(rows, orient="index")
    chance = scores["chance_accuracy"]
    frame.attrs = {"n": scores["n"], "chance_accuracy": chance, "notes": policy.notes(bench)}
    return frame


def import_logs(
    *logs: Table,
    data: "Data | None" = None,
    view: "View | None" = None,
    columns: Mapping[str, str] | None = None,
    out: str | Path | None = None,
    **rule: Unpack[Rule],
) -> Audit:
    """Judge the answers in logs of other tools, or in a table of picks, as `robustify import` does.

    `logs` are tables of picks in memory, or files, each written as `[MODEL=][VIEW:]FILE`. `data` is the benchmark whose
    items they answer, as a file or in memory. `view` is the view in which the items were asked, and `columns` maps parts to
    columns of a table, if the logs do not show it. `rule` are the `name`, the `criterion`, and `force`. Raise
    `RobustifyError` if `robustify import` would refuse the logs.
    """
    overrides, force = _settings(rule)
    tables = next((log for log in logs if not isinstance(log, str | Path)), "")
    with (
        tempfile.TemporaryDirectory(prefix="robustify-") as place,
        in_python("" if data is None else data, mapping="columns", table=tables),
    ):
        paths = [
            parse_log_path(written(log, Path(place), TABLE.format(n))) for n, log in enumerate(logs, start=1)
        ]
        given: dict[str, Any] = {
            "data": [] if data is None else [Path(written(data, Path(place)))],
            "options": LogOptions(view=view, columns=columns or {}),
            "force": force,
        }
        return _in(out, lambda to: from_logs.run_of_logs(paths, to, GUARD, overrides=overrides, **given))


_OF_SOURCE = ("split", "fields", "include_path", "trust_task_code")


def _settings(rule: Rule) -> tuple[dict[str, object], bool]:
    """Return a rule's settings, keyed by dotted name, and whether to replace a run of another benchmark."""
    named = {"criterion": "screen.criterion", "mode": "screen.mode"}
    overrides = {named.get(name, name): value for name, value in rule.items() if name != "force"}
    if "name" in rule:
        overrides["name"] = run_name(rule["name"], "items")
    return overrides, rule.get("force", False)


def _in(out: str | Path | None, work: Callable[[Path], Run]) -> Audit:
    """Call `work` with the given folder or a temporary folder, and return the audit of the resulting run."""
    place = tempfile.TemporaryDirectory(prefix="robustify-") if out is None else None
    done = work(Path(place.name) / "run" if place else Path(out or ""))
    return Audit(done.folder, done, place)


@contextmanager
def _bar(label: str, total: int) -> Iterator[Progress]:
    from tqdm import tqdm

    with tqdm(
        desc=label, total=total or None, disable=not total, unit="req", file=UNMUTED, dynamic_ncols=True
    ) as bar:
        yield cast("Progress", bar.update)


def _loaded(data: Data, fields: Fields | None) -> tuple[Loaded, SetPolicy]:
    with tempfile.TemporaryDirectory(prefix="robustify-") as place, in_python(data):
        path = written(data, Path(place))
        plugged = wings()
        source = {"fields": fields} if fields else {}
        config = configs.config_for(path, plugged.adapters, public=not is_config(path), source_options=source)
        policy = steps.policy_for(config, plugged)
        policy.require_public()
        return steps.load_bench(policy), policy


def _rows(tree: object, name: str) -> Iterator[dict[str, Any]]:
    """Yield one row for each number, string, or Boolean of a summary."""
    match tree:
        case {"value": value, "n": n, "ci": ci, **more}:
            if value is not None:
                yield {"field": name, **_flat({"value": value, "n": n, "ci": ci})}
            yield from _rows(more, name)
        case dict() | list():
            for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
                yield from _rows(value, f"{name}.{key}".lstrip("."))
        case bool() | int() | float() | str():
            yield {"field": name, **_flat({"value": tree})}


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    low, high = row.get("ci") or (None, None)
    return {**{k: v for k, v in row.items() if k != "ci"}, "low": low, "high": high}
