"""Table of all exporters. Each exporter is one entry here, from which `robustify export` builds a command."""

from collections.abc import Mapping
from typing import Any

from robustify.export import dataset, sarif, tasks
from robustify.export.writing import Exporter

EXPORTERS: Mapping[str, Exporter[..., Any]] = {
    exporter.name: exporter
    for exporter in (
        tasks.export_lm_eval,
        tasks.export_inspect,
        dataset.export_dataset,
        dataset.export_instruct,
        dataset.export_responses,
        sarif.export_sarif,
    )
}
"""Exporters of runs by the name of their command."""
