"""A task of lm-eval on some of its items, by their ids. No text of an item is here, and robustify is not needed.

The YAML beside this file names the upstream task, the file of ids and the field that holds an item's id. Everything else
(prompt, choices, metrics, few-shot examples) is the upstream task's own. An id that the upstream set lacks is an error: a
smaller set under the same name would be another benchmark.
"""
# mypy: ignore-errors

import functools
import json
from pathlib import Path

import lm_eval.tasks
from lm_eval.api.task import ConfigurableTask
from lm_eval.tasks._yaml_loader import load_yaml

HERE = Path(__file__).parent


@functools.cache
def upstream(name: str) -> Path:
    """The YAML of a task of lm-eval, or of one that stands in this folder."""
    known = lm_eval.tasks.TaskManager(include_path=str(HERE)).task_index
    if name not in known or known[name].yaml_path is None:
        raise ValueError(f"{name}: no task of this lm-eval; expected the one that these ids are of")
    return known[name].yaml_path


class RobustSubset(ConfigurableTask):
    """The upstream task, asked on the items of the file of ids alone."""

    def __init__(self, config: dict) -> None:
        own = dict(config)
        own.pop("class", None)
        self.subset = {part: own.pop(part) for part in ("upstream", "ids", "id_field")}
        whole = {
            k: v for k, v in load_yaml(upstream(self.subset["upstream"])).items() if k not in ("tag", "group")
        }
        if not isinstance(whole.get("task"), str):
            raise ValueError(f"{self.subset['upstream']}: is a group; expected a single task")
        super().__init__(config={**whole, **own})

    def download(self, dataset_kwargs: dict | None = None, **kwargs: object) -> None:
        """The upstream data set, its evaluated split cut to the ids."""
        super().download(dataset_kwargs, **kwargs)
        split = self.config.test_split or self.config.validation_split
        wanted = [str(one) for one in json.loads((HERE / self.subset["ids"]).read_text("utf-8"))["ids"]]
        field, rows = self.subset["id_field"], self.dataset[split]
        if field not in rows.column_names:
            raise ValueError(f"{self.config.task}: no field `{field}`; found {', '.join(rows.column_names)}")
        place = {str(one): at for at, one in enumerate(rows[field])}
        if len(place) < len(rows):
            raise ValueError(
                f"{self.config.task}: {len(rows) - len(place)} ids stand twice in `{field}`; expected each once"
            )
        missing = [one for one in wanted if one not in place]
        if missing:
            raise ValueError(
                f"{self.config.task}: the upstream set lacks {len(missing)} of {len(wanted)} ids; expected the version "
                "that was audited"
            )
        self.dataset[split] = rows.select(sorted(place[one] for one in wanted))
