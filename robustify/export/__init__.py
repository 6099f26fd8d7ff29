"""Exports of a run to other tools, with the same prompts as the run."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from robustify.export.writing import Exporter


def exporters() -> "dict[str, Exporter[..., Any]]":
    """Return all exporters of runs by the name of their command. They are imported only here."""
    from robustify.export import dataset, sarif, tasks

    data = (dataset.export_dataset, dataset.export_instruct, dataset.export_responses)
    every: tuple[Exporter[..., Any], ...] = (
        tasks.export_lm_eval, tasks.export_inspect, *data, sarif.export_sarif,
    )  # fmt: skip
    return {exporter.name: exporter for exporter in every}
