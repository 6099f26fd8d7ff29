"""All exporters of runs, by the name of their command."""

from robustify.export import dataset, inspect_tasks, instruct, lm_eval, sarif
from robustify.export.writing import Exporter

EXPORTERS: dict[str, Exporter] = {
    "lm-eval": lm_eval,
    "inspect": inspect_tasks,
    "dataset": dataset,
    "instruct": instruct,
    "sarif": sarif,
}
