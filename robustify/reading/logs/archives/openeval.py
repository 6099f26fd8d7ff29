"""Reader of OpenEval's item records (`item_schema.json`, v0.1.0): an item with the responses of several models.

Only the first response of each model to an item is read. The references of HELM's items are their options.
"""

from collections.abc import Iterator

from robustify.reading.loaders.rows import Cells, as_object
from robustify.reading.logs.archives.archived import Archived, archived_log, texts_of
from robustify.reading.logs.checked_names import path_name
from robustify.reading.logs.log import Log, LogFile, LogOptions, ShownBefore
from robustify.reading.logs.own_scores import scores_of_row

KIND = "openeval"


def recognizes(file: LogFile) -> bool:
    """Return whether the rows are item records."""
    return bool(file.table.rows) and {"item_content", "responses"} <= set(file.table.rows[0].cells)


def read(file: LogFile, options: LogOptions, _: ShownBefore) -> Log:
    """Read the replies. The task is the benchmark of the first item."""
    source = as_object(file.table.rows[0].cells.get("item_metadata")).get("source")
    task = str(as_object(source).get("benchmark_name") or source or file.path.stem)
    return archived_log(KIND, path_name(task), file, _replies, options)


def _replies(cells: Cells) -> Iterator[Archived]:
    responses = cells.get("responses")
    every = list(map(as_object, responses if isinstance(responses, list) else ()))
    by_model = {str(as_object(one.get("model")).get("name")): one for one in reversed(every)}
    for model, response in reversed(by_model.items()):
        metrics = [(as_object(one.get("metric")), one.get("value")) for one in response.get("scores") or ()]
        references = as_object(cells.get("item_content")).get("references") or next(
            (metric["references"] for metric, _ in metrics if metric.get("references")), ()
        )
        tagged = [one for one in references if "correct" in (as_object(one).get("tags") or ())]
        asked = as_object(response.get("item_adaptation"))
        yield Archived(
            model=model,
            sample=str(cells.get("item_id")),
            prompt="".join(texts_of(asked.get("request_input") or asked.get("input_content"))[-1:]),
            reply="".join(texts_of(response.get("response_content"))[:1]),
            keys=texts_of(tagged or references),
            right=any(scores_of_row({str(metric.get("name")): value for metric, value in metrics}).values()),
            choices=texts_of(references) if tagged else (),
        )
