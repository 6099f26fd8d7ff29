"""robustify from Python and in a notebook: `import robustify as rb`.

```python
run = rb.audit("items.jsonl", public=True, models=["smollm2-135m"])
run                                   # the first screen of the report
run.verdicts.query("verdict == 'shortcut'")
rb.judge(run, criterion="majority").verdict
```

Tables are pandas DataFrames; pandas is imported when the first one is asked for. A restricted run gives what its release
level shows: its summary, and no row of a single item.
"""
# pandas brings no types of its own.
# mypy: disable-error-code="import-untyped"

import json
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from robustify import config as configs
from robustify import pipeline
from robustify.cli.data import loaded, names_config
from robustify.cli.options import given_options, watcher
from robustify.cli.start import config_of
from robustify.errors import AuthorisationError, DataError, RobustifyError, UsageError
from robustify.export.writing import optional_package
from robustify.files import write_text
from robustify.item import Item
from robustify.logs import LogOptions, parse_log_path
from robustify.models import cache_folder
from robustify.report import first_screen
from robustify.report.opening import closing
from robustify.run import EVIDENCE, VERDICTS, Run, json_values, open_run, write_items
from robustify.summary.quantity import tabulated
from robustify.summary.result import Certificate
from robustify.writers import from_logs

if TYPE_CHECKING:
    import pandas as pd

    from robustify.views import View

__all__ = ["Audit", "RobustifyError", "audit", "heuristics", "import_logs", "judge", "open"]

Data: TypeAlias = "str | Path | Sequence[Item] | Sequence[Mapping[str, Any]] | pd.DataFrame"
"""A config, a file of items, or items: made ones, or rows in any layout that a file of items may have."""
NUMBERS = ("votes", "of", "pick", "weight", "chance", "posterior", "p_shortcut")
"""The columns of `verdicts.csv` that hold numbers."""


@dataclass(frozen=True, slots=True)
class Audit:
    """A finished run. In a notebook it shows the report's first screen.

    `folder` holds its files (docs/files.md). A run that was given no folder lies in a temporary one, which goes with
    this object.
    """

    folder: Path
    run: Run = field(repr=False)
    _temporary: object = field(default=None, repr=False, compare=False)

    @property
    def verdict(self) -> str:
        """What the certificate says: `certified`, `not certified`, `inconclusive`, `not judged` or `trial`."""
        summary = self.run.summary
        return "trial" if summary.trial else str((summary.certificate or Certificate()).verdict)

    @property
    def passed(self) -> bool:
        """Whether no guardrail says no, as `robustify check` has it."""
        summary = self.run.summary
        return summary.trial or all(g.passed for g in summary.guardrails)

    @property
    def answers(self) -> "pd.DataFrame":
        """One row an asking: item, view, model, order, template, key, pick, correct (credit, 0 to 1), scores (nats).

        Raises:
            AuthorisationError: a restricted run.
        """
        self._require_rows("answers.parquet")
        return cast("pd.DataFrame", self.run.answers.table.to_pandas())

    @property
    def verdicts(self) -> "pd.DataFrame":
        """One row an item, by its id: verdict (shortcut, robust or undecided), votes, reason, pick without question.

        Raises:
            AuthorisationError: a restricted run.
        """
        pd = optional_package("pandas")
        self._require_rows(VERDICTS)
        frame = pd.DataFrame(list(self.run.verdict_rows())).set_index("item")
        numbers = [name for name in NUMBERS if name in frame]
        frame[numbers] = frame[numbers].apply(pd.to_numeric)
        return frame

    @property
    def evidence(self) -> "pd.DataFrame":
        """One row an item, by its id: what carried the pick without the question (docs/files.md, `evidence.jsonl`).

        Raises:
            AuthorisationError: a restricted run.
            DataError: a run without evidence: no scorer ranked its items.
        """
        pd = optional_package("pandas")
        self._require_rows(EVIDENCE)
        return pd.DataFrame(json_values(self.folder / EVIDENCE)).set_index("item")

    @property
    def summary(self) -> "pd.DataFrame":
        """One row a number of `summary.json`, by its dotted name: value, n, low and high (95 % interval), unit, kind.

        What was not measured, and what a release level withholds, has no row.
        """
        pd = optional_package("pandas")
        return pd.DataFrame(tabulated(self.run.summary)).set_index("field")

    def _require_rows(self, name: str) -> None:
        if self.run.restricted:
            raise AuthorisationError(
                f"{self.folder}: is a restricted run, which holds no row of a single item; expected a public one, or "
                "its `summary`, which has what its release level shows"
            )
        if name not in self.run.manifest["files"]:
            raise DataError(f"{self.folder}: holds no {name}; expected a run that has it (docs/files.md)")
        self.run.require_unchanged(name)

    def __str__(self) -> str:
        return "\n".join(closing(self.run.summary, str(self.folder)))

    def _repr_html_(self) -> str:
        return first_screen(self.run.summary, self.run.manifest)


def audit(
    data: Data,
    *,
    public: bool = False,
    models: Sequence[str] = (),
    mode: str | None = None,
    criterion: str | None = None,
    limit: int | None = None,
    name: str | None = None,
    out: str | Path | None = None,
    device: str | None = None,
    progress: bool = False,
) -> Audit:
    """Audit a benchmark: `robustify CONFIG` from Python.

    Args:
        data: a config (a YAML file, or the name of one that ships with the package), a file of items, or items.
        public: what `--public` says of items and of a file of items: that their text may be shown. A config says it itself.
        models: names of models, instead of the config's own. Without any the rules and the probe are what is left.
        mode: how models answer, `letter` or `text` (by the choices' own text: for small models).
        criterion: `fdr`, `unanimous`, `majority` or `K-of-N`.
        limit: only the first so many items.
        name: the benchmark's name.
        out: the run's folder; without one a temporary folder that goes with the result.
        device: where the models run, e.g. `cuda:0`.
        progress: whether progress is shown on stderr.

    Raises:
        UsageError: a wrong config or setting, items without `public`, a restricted set without a private folder (`out`).
        RobustifyError: as each step says.
    """
    rule = given_options(
        screen__criterion=criterion, screen__mode=mode, asking__mode=mode, limit=limit, name=name
    )
    with tempfile.TemporaryDirectory(prefix="robustify-") as place:
        path = _path(data, Path(place))
        if not public and not names_config(path):
            raise UsageError(
                f"{Path(path).name}: is no config; if the text of its items may be shown say public=True"
            )
        settings = config_of(path, models, rule, public=public, columns=())
        settings = configs.with_models(settings, tuple(models), device)
        if settings.sensitivity != "public" and out is None:
            raise UsageError(f"{settings.name}: is a restricted set; expected its private folder: out=FOLDER")
        return _in(out, lambda to: pipeline.robustify(settings, to, cache_folder(None), watcher(progress)))


def open(run: str | Path) -> Audit:
    """The finished run in this folder.

    Raises:
        UsageError: no run there.
        DataError: one of another format.
    """
    found = open_run(Path(run))
    return Audit(found.folder, found)


def judge(
    run: Audit | str | Path,
    *,
    criterion: str | None = None,
    mode: str | None = None,
    rotation: str | None = None,
    out: str | Path | None = None,
) -> Audit:
    """Judge a run's answers under other rules; seconds, no model. The run itself stays as it is.

    Args:
        run: a run, or its folder.
        criterion: `fdr`, `unanimous`, `majority` or `K-of-N`.
        mode: votes by `letter` or by `text`.
        rotation: a voter's pick over the orders, `averaged`, `every` or `most`.
        out: where the new run is written; without it a temporary folder that goes with the result.

    Raises:
        AuthorisationError: a restricted run, which keeps no answers of single items.
        UsageError, DataError: as `robustify judge`.
    """
    found = run.run if isinstance(run, Audit) else open_run(Path(run))
    rule = given_options(screen__criterion=criterion, screen__mode=mode, screen__rotation=rotation)
    return _in(out, lambda to: pipeline.rejudge(found, rule, to))


def heuristics(data: Data) -> "pd.DataFrame":
    """What simple rules score on the choices alone, one row a rule: value, n, low and high (95 %), ties; no model.

    `attrs` has the number of items and the accuracy by chance. Of a restricted set only classes of rules are shown, in
    whole percents.
    """
    pd = optional_package("pandas")
    from robustify.baselines.heuristics import table

    with tempfile.TemporaryDirectory(prefix="robustify-") as place:
        bench, writer = loaded(_path(data, Path(place)), skip_bad=False)
    scores = writer.features(table(bench.items))
    rows: Mapping[str, Any] = scores.get("heuristics", scores.get("cues", {}))
    frame = pd.DataFrame.from_dict({name: _flat(row) for name, row in rows.items()}, orient="index")
    frame.attrs = {"n": scores["n"], "chance_accuracy": scores["chance_accuracy"]}
    return frame


def import_logs(
    *logs: str | Path,
    data: str | Path | None = None,
    view: "View | None" = None,
    columns: Mapping[str, str] | None = None,
    name: str | None = None,
    criterion: str | None = None,
    out: str | Path | None = None,
) -> Audit:
    """Judge the answers in logs of lm-eval, Inspect, lighteval, or in a table of picks: `robustify import`.

    Args:
        logs: files, each written `[MODEL=][VIEW:]FILE`.
        data: the benchmark's own file, to match the logs with.
        view: how the items were asked, where the logs do not show it.
        columns: which column holds what, where a table does not say it.
        name: the benchmark's name.
        criterion: as in `audit`.
        out: as in `audit`.

    Raises:
        UsageError, DataError: as `robustify import`.
    """
    paths = [parse_log_path(str(log)) for log in logs]
    options = LogOptions(view=view, columns=columns or {})
    rule, items = given_options(screen__criterion=criterion), [] if data is None else [Path(data)]
    return _in(
        out,
        lambda to: from_logs.import_logs(paths, to, data=items, options=options, name=name, overrides=rule),
    )


def _in(out: str | Path | None, work: Callable[[Path], Run]) -> Audit:
    """What `work` writes into this folder, or into a temporary one."""
    if out is not None:
        done = work(Path(out))
        return Audit(done.folder, done)
    place = tempfile.TemporaryDirectory(prefix="robustify-")
    done = work(Path(place.name) / "run")
    return Audit(done.folder, done, place)


def _path(data: Data, place: Path) -> str:
    """The file or config that was given, or a file in `place` with the items that were."""
    return str(data if isinstance(data, str | Path) else _written(data, place))


def _written(items: "Sequence[Item] | Sequence[Mapping[str, Any]] | pd.DataFrame", place: Path) -> Path:
    """The items as a file in a folder that is the process's own and goes when it has been read."""
    path = place / "items.jsonl"
    rows = items.to_dict("records") if hasattr(items, "to_dict") else list(items)
    made = [item for item in rows if isinstance(item, Item)]
    if made:
        write_items(path, made)
    else:
        there = ({str(k): v for k, v in row.items() if not _missing(v)} for row in rows)
        write_text(path, "".join(json.dumps(row, default=_plain, ensure_ascii=False) + "\n" for row in there))
    return path


def _missing(value: object) -> bool:
    """Whether a cell of a DataFrame is empty."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def _plain(value: Any) -> Any:
    """A number or a list of numpy as JSON has it."""
    if not hasattr(value, "tolist"):
        raise UsageError(
            f"items: a cell is a {type(value).__name__}; expected texts, numbers and lists of them"
        )
    return value.tolist()


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    low, high = row.get("ci") or (None, None)
    return {**{k: v for k, v in row.items() if k != "ci"}, "low": low, "high": high}
