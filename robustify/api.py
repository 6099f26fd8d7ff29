"""robustify from Python and in a notebook: `import robustify as rb`.

```python
run = rb.audit("items.jsonl", public=True, models=["smollm2-135m"])
run                                   # the first screen of the report
run.verdicts.query("verdict == 'shortcut'")
rb.judge(run, criterion="majority").verdict
rb.adjusted("items.jsonl", {"my model": hits})
```

Tables are pandas DataFrames. A restricted run gives its summary, and no row of a single item.
"""
# pandas brings no types of its own.
# mypy: disable-error-code="import-untyped"

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, cast

from typing_extensions import Unpack

from robustify import config as configs
from robustify import pipeline
from robustify.cli.data import loaded, names_config
from robustify.cli.options import watcher
from robustify.cli.start import config_of
from robustify.errors import AuthorisationError, DataError, RobustifyError, UsageError
from robustify.files import write_text
from robustify.item import Item
from robustify.loaders import notes
from robustify.logs import LogOptions, parse_log_path
from robustify.models import cache_folder
from robustify.policy import from_logs
from robustify.policy.weighing import weighed
from robustify.report import first_screen
from robustify.report.opening import closing
from robustify.report.released import released_lines, released_page
from robustify.run import EVIDENCE, VERDICTS, Run, json_values, open_run, write_items

if TYPE_CHECKING:
    import pandas as pd

    from robustify.summary.adjusted import Adjust
    from robustify.views import View

__all__ = ["Audit", "RobustifyError", "adjusted", "audit", "heuristics", "import_logs", "judge", "open"]

Data: TypeAlias = "str | Path | Sequence[Item] | Sequence[Mapping[str, Any]] | pd.DataFrame"
"""A config, a file of items, or items: made ones, or rows in any layout that a file of items may have."""
NUMBERS = (
    "votes", "of", "pick", "weight", "chance", "posterior", "p_shortcut", "p_key", "adjusted_weight",
    "difficulty", "discrimination",
)  # fmt: skip
"""The columns of `verdicts.csv` that hold numbers."""


@dataclass(frozen=True, slots=True)
class Audit:
    """A finished run. In a notebook it shows the report's first screen.

    `folder` holds its files (docs/files.md). Without a folder of its own a run is in a temporary one, which is removed
    with this object.
    """

    folder: Path
    run: Run = field(repr=False)
    _temporary: object = field(default=None, repr=False, compare=False)

    @property
    def verdict(self) -> str:
        """The certificate's verdict: `certified`, `not certified`, `inconclusive`, `not judged` or `trial`."""
        if self.run.restricted:
            return "trial" if self.run.released.trial else self.run.released.verdict
        summary = self.run.summary
        return "trial" if summary.trial or summary.certificate is None else summary.certificate.verdict

    @property
    def passed(self) -> bool:
        """Whether every guardrail passes, as in `robustify check`."""
        if self.run.restricted:
            return self.run.released.trial or not self.run.released.failed
        summary = self.run.summary
        return summary.trial or all(g.passed for g in summary.guardrails)

    @property
    def answers(self) -> "pd.DataFrame":
        """One row per asking: item, view, model, order, template, key, pick, correct (credit, 0 to 1), scores (nats)."""
        self._require_rows("answers.parquet")
        return cast("pd.DataFrame", self.run.answers.table.to_pandas())

    @property
    def verdicts(self) -> "pd.DataFrame":
        """One row per item, by its id: verdict (shortcut, robust or undecided), votes, reason, pick without question."""
        import pandas as pd

        self._require_rows(VERDICTS)
        frame = self.run.verdict_table().set_index("item")
        numbers = [name for name in NUMBERS if name in frame]
        frame[numbers] = frame[numbers].apply(pd.to_numeric)
        return frame

    @property
    def evidence(self) -> "pd.DataFrame":
        """One row per item, by its id: what carried the pick without the question (docs/files.md, `evidence.jsonl`)."""
        import pandas as pd

        self._require_rows(EVIDENCE)
        return pd.DataFrame(json_values(self.folder / EVIDENCE)).set_index("item")

    @property
    def summary(self) -> "pd.DataFrame":
        """One row per value of `summary.json`, by its dotted name: value, n, low and high (95 % interval).

        A restricted run has the numbers of its released page, by their names.
        """
        import pandas as pd

        if self.run.restricted:
            rows = [number for number in self.run.released.numbers if number.value is not None]
            frame = pd.DataFrame({"value": [r.value for r in rows], "n": [r.n for r in rows]})
            mark = f"field (release level: {self.run.released.release_level})"
            return frame.set_index(pd.Index([r.name for r in rows], name=mark))
        return pd.DataFrame(_rows(self.run.summary.tree(), "")).set_index("field")

    def _require_rows(self, name: str) -> None:
        if self.run.restricted:
            raise AuthorisationError(
                f"{self.folder}: is a restricted run, which holds no row of a single item; expected a public one, or "
                "its `summary`"
            )
        if name not in self.run.manifest["files"]:
            raise DataError(f"{self.folder}: holds no {name}; expected a run that has it (docs/files.md)")
        self.run.require_unchanged(name)

    def __str__(self) -> str:
        if self.run.restricted:
            return "\n".join(released_lines(self.run.released, str(self.folder)))
        return "\n".join(closing(self.run.summary, str(self.folder)))

    def _repr_html_(self) -> str:
        if self.run.restricted:
            return released_page(self.run.released, self.run.manifest)
        return first_screen(self.run.summary, self.run.manifest)


class Rule(TypedDict, total=False):
    """`criterion` (`fdr`, `unanimous`, `majority`, `K-of-N`), `mode` (answers by `letter`, or by the options' own `text`:
    for small models), `rotation` (a voter's pick over the orders: `averaged`, `every`, `most`), `limit` (only the first
    so many items), `name` (of the benchmark), `adjust` (what the weights of the adjusted score balance: `form`, or
    `form+meaning`)."""

    criterion: str
    mode: str
    rotation: str
    limit: int
    name: str
    adjust: str


def audit(
    data: Data,
    *,
    public: bool = False,
    models: Sequence[str] = (),
    out: str | Path | None = None,
    device: str | None = None,
    progress: bool = False,
    **rule: Unpack[Rule],
) -> Audit:
    """Audit a benchmark: `robustify CONFIG` from Python.

    Args:
        data: a config (a YAML file, or the name of one that ships with the package), a file of items, or items.
        public: that the text of items may be shown, like `--public`. A config says it itself.
        models: names of models, instead of the config's own. Without any, rules and a probe audit the options.
        out: the run's folder; without one, a temporary folder that is removed with the result.
        device: where the models run, e.g. `cuda:0`.
        progress: whether progress is shown on stderr.
        rule: as in `Rule`.

    Raises:
        RobustifyError: a wrong setting, items without `public`, a restricted set without `out`, or as each step says.
    """
    overrides = _overrides(rule)
    if "mode" in rule:
        overrides["asking.mode"] = rule["mode"]
    with tempfile.TemporaryDirectory(prefix="robustify-") as place:
        path = _path(data, Path(place))
        if not public and not names_config(path):
            raise UsageError(
                f"{Path(path).name}: is not a config; if the text of its items may be shown say public=True"
            )
        config = config_of(path, models, overrides, public=public, columns=())
        config = configs.with_models(config, tuple(models), device)
        if config.sensitivity != "public" and out is None:
            raise UsageError(f"{config.name}: is a restricted set; expected its private folder: out=FOLDER")
        return _in(out, lambda to: pipeline.robustify(config, to, cache_folder(None), watcher(progress)))


def open(run: str | Path) -> Audit:
    """Open the finished run in this folder.

    Raises:
        RobustifyError: there is no run, or one of another format.
    """
    found = open_run(Path(run))
    return Audit(found.folder, found)


def judge(run: Audit | str | Path, *, out: str | Path | None = None, **rule: Unpack[Rule]) -> Audit:
    """Judge a run's answers under another `criterion`, `mode` or `rotation`; seconds, no model.

    The run itself stays as it is. Without `out` the new one is in a temporary folder that is removed with the result.

    Raises:
        RobustifyError: a restricted run, which keeps no answers of single items, or as `robustify judge`.
    """
    found = run.run if isinstance(run, Audit) else open_run(Path(run))
    return _in(out, lambda to: pipeline.rejudge(found, _overrides(rule), to))


def heuristics(data: Data) -> "pd.DataFrame":
    """Score simple rules on the choices alone, one row per rule: value, n, low and high (95 %), ties; no model.

    `attrs` has the number of items and the accuracy by chance. A restricted set shows whole percents, and no ties.
    """
    import pandas as pd

    from robustify.baselines.heuristics import table

    with tempfile.TemporaryDirectory(prefix="robustify-") as place:
        bench, policy = loaded(_path(data, Path(place)), skip_bad=False)
    scores = policy.features(table(bench.items))
    rows = {name: _flat(row) for name, row in scores["heuristics"].items()}
    frame = pd.DataFrame.from_dict(rows, orient="index")
    frame.attrs = {"n": scores["n"], "chance_accuracy": scores["chance_accuracy"]}
    if policy.access is None:
        frame.attrs["notes"] = notes(bench)
    return frame


def adjusted(data: Data, hits: Mapping[str, Sequence[float]], *, adjust: "Adjust" = "form") -> "pd.DataFrame":
    """Score models under weights that make the cues in the options worthless (docs/filter.md), one row per model.

    Args:
        data: the items, as in `heuristics`; a public set.
        hits: by model 1 or 0 for each item, or a share of one; NaN if it was not answered.
        adjust: `form`, or `form+meaning` if the sentence encoder was pulled.

    Returns:
        `value`, `n`, `low` and `high` (95 %) of the adjusted score, and the mean of all hits, `raw`. `attrs` has what the
        weights are worth and what auditors still find, as `adjustment` of a run's summary.

    Raises:
        RobustifyError: a restricted set, other numbers of hits than items, too few items, or no encoder.
    """
    import numpy as np
    import pandas as pd

    with tempfile.TemporaryDirectory(prefix="robustify-") as place:
        bench, policy = loaded(_path(data, Path(place)), skip_bad=False)
    if policy.access is not None:
        raise AuthorisationError(f"{bench.name}: is a restricted set; expected a public one")
    credit = {name: np.asarray(won, dtype=np.float64) for name, won in hits.items()}
    if odd := [name for name, won in credit.items() if won.shape != (len(bench.items),)]:
        raise UsageError(f"hits of {odd[0]}: {len(credit[odd[0]])} numbers; expected {len(bench.items)}")
    found = weighed(bench, adjust, cache_folder(None))
    if found is None:
        raise DataError(f"{bench.name}: {len(bench.items)} items, too few to be weighed")
    rates = {name: (found.rate(won), np.nanmean(won)) for name, won in credit.items()}
    rows = {
        name: {**_flat({} if rate is None else rate.tree()), "raw": raw}
        for name, (rate, raw) in rates.items()
    }
    frame = pd.DataFrame.from_dict(rows, orient="index")
    frame.attrs = found.part.tree()
    return frame


def import_logs(
    *logs: str | Path,
    data: str | Path | None = None,
    view: "View | None" = None,
    columns: Mapping[str, str] | None = None,
    out: str | Path | None = None,
    **rule: Unpack[Rule],
) -> Audit:
    """Judge the answers in logs of lm-eval, Inspect, lighteval, or in a table of picks: `robustify import`.

    Args:
        logs: files, each written `[MODEL=][VIEW:]FILE`.
        data: the benchmark's own file, to match the logs with.
        view: how the items were asked, if the logs do not show it.
        columns: which column holds what, if a table does not say it.
        out: as in `audit`.
        rule: `name` and `criterion`, as in `audit`.

    Raises:
        RobustifyError: as `robustify import`.
    """
    paths = [parse_log_path(str(log)) for log in logs]
    items = [] if data is None else [Path(data)]
    options = LogOptions(view=view, columns=columns or {})
    name = rule.pop("name", None)
    overrides = _overrides(rule)

    def work(to: Path) -> Run:
        return from_logs.import_logs(paths, to, data=items, options=options, name=name, overrides=overrides)

    return _in(out, work)


def _overrides(rule: Rule) -> dict[str, object]:
    of_screen = ("criterion", "mode", "rotation")
    return {f"screen.{name}" if name in of_screen else name: value for name, value in rule.items()}


def _in(out: str | Path | None, work: Callable[[Path], Run]) -> Audit:
    """Return what `work` writes into this folder, or into a temporary one."""
    if out is not None:
        done = work(Path(out))
        return Audit(done.folder, done)
    place = tempfile.TemporaryDirectory(prefix="robustify-")
    done = work(Path(place.name) / "run")
    return Audit(done.folder, done, place)


def _path(data: Data, place: Path) -> str:
    """Return the file or config that was given, or a file in `place` with the items that were."""
    if isinstance(data, str | Path):
        return str(data)
    path = place / "items.jsonl"
    rows: Any = data.to_dict("records") if hasattr(data, "to_dict") else data
    if not isinstance(rows, Sequence):
        raise UsageError(f"items: {type(rows).__name__}; expected a list of items, a DataFrame or a file")
    kind = Item if isinstance(next(iter(rows), None), Item) else Mapping
    if odd := [n for n, row in enumerate(rows) if not isinstance(row, kind)]:
        found = type(rows[odd[0]]).__name__
        raise UsageError(
            f"items: {len(odd)} of {len(rows)} are no {kind.__name__}; the first is number {odd[0]}: {found}"
        )
    if kind is Item:
        write_items(path, rows)
        return str(path)
    try:
        there = [{str(k): v for k, v in row.items() if not _missing(v)} for row in rows]
        write_text(path, "".join(json.dumps(row, default=_plain, ensure_ascii=False) + "\n" for row in there))
    except (AttributeError, TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"items: a row cannot be written as JSON ({type(error).__name__}); expected texts, numbers and lists of them"
        ) from None
    return str(path)


def _missing(value: object) -> bool:
    """Whether pandas would call a cell empty."""
    return (
        value is None
        or type(value).__name__ in ("NAType", "NaTType")
        or (isinstance(value, float) and value != value)
    )


def _plain(value: Any) -> Any:
    """Return a number or a list of numpy as JSON has it."""
    if not hasattr(value, "tolist"):
        raise UsageError(
            f"items: a cell is a {type(value).__name__}; expected texts, numbers and lists of them"
        )
    return value.tolist()


def _rows(tree: object, name: str) -> Iterator[dict[str, Any]]:
    """Yield a row for each number, word or truth value of a summary."""
    match tree:
        case {"value": value, "n": n, "ci": ci, **more}:
            if value is not None:
                yield {"field": name, **_flat({"value": value, "n": n, "ci": ci})}
            yield from _rows(more, name)
        case dict():
            for key, one in tree.items():
                yield from _rows(one, f"{name}.{key}".lstrip("."))
        case list():
            for at, one in enumerate(tree):
                yield from _rows(one, f"{name}.{at}")
        case None:
            return
        case _:
            yield {"field": name, **_flat({"value": tree})}


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    low, high = row.get("ci") or (None, None)
    return {**{k: v for k, v in row.items() if k != "ci"}, "low": low, "high": high}
