"""Reader of Every Eval Ever's instance-level records (`*_samples.jsonl`), into which its converters turn the logs of HELM
and of other harnesses (`instance_level_eval.schema.json`, 0.2)."""

from collections.abc import Iterator

from robustify.reading.loaders.rows import Cells, as_object
from robustify.reading.logs.archives.archived import Archived, archived_log, texts_of
from robustify.reading.logs.checked_names import path_name
from robustify.reading.logs.log import Log, LogFile, LogOptions, ShownBefore

KIND = "every-eval-ever"


def recognizes(file: LogFile) -> bool:
    """Return whether the rows are instance-level records."""
    wanted = {"evaluation_id", "model_id", "sample_id", "input", "evaluation"}
    return bool(file.table.rows) and wanted <= set(file.table.rows[0].cells)


def read(file: LogFile, options: LogOptions, _: ShownBefore) -> Log:
    """Read the replies. If there are several evaluations, each is a topic."""
    names = list(dict.fromkeys(str(row.cells.get("evaluation_name")) for row in file.table.rows))

    def replies(cells: Cells) -> Iterator[Archived]:
        shown = as_object(cells.get("input"))
        attributed = cells.get("answer_attribution")
        said = map(as_object, attributed if isinstance(attributed, list) else ())
        final = [one.get("extracted_value") for one in said if one.get("is_terminal")]
        yield Archived(
            model=str(cells.get("model_id")),
            sample=str(cells.get("sample_id")),
            prompt=str(shown.get("raw")),
            reply="".join(texts_of(final[-1:] or as_object(cells.get("output")).get("raw"))[:1]),
            keys=texts_of(shown.get("reference")),
            right=as_object(cells.get("evaluation")).get("is_correct") is True,
            choices=texts_of(shown.get("choices")),
            topic=str(cells.get("evaluation_name")) if len(names) > 1 else "",
        )

    return archived_log(
        KIND, path_name(names[0] if len(names) == 1 else file.path.stem), file, replies, options
    )
