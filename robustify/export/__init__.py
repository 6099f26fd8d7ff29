"""Exports of a run to other tools, with the same prompts as the run."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from robustify.export.writing import Exporter


def exporters() -> "dict[str, Exporter]":
    """Return all exporters of runs by the name of their command. They are imported only here."""
    from robustify.export import dataset, sarif, tasks

    found = (
        tasks.LM_EVAL,
        tasks.INSPECT,
        dataset.DATASET,
        dataset.INSTRUCT,
        dataset.RESPONSES,
        sarif.SARIF,
    )
    return {exporter.name: exporter for exporter in found}
