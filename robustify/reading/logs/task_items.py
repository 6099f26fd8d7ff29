"""Items of a task in the rows of its logs, with the task's own choices and keys. The names of columns do not matter."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from robustify.base.errors import Notice
from robustify.base.redaction import HoldsText
from robustify.items.item import Item
from robustify.reading.loaders.loaded import TaskDocument
from robustify.reading.loaders.rows import Fault, SourceRow
from robustify.reading.logs import log

_OTHER = Notice("the document is not an item of the task that --data names", code="document-not-in-task")


@dataclass(frozen=True, slots=True, repr=False)
class TaskItems(HoldsText):
    """Items of a task by the digest of their document, and by its number and target. An item is None if the document
    is not an item. A number and target that several documents share have no entry."""

    by_content: Mapping[str, Item | None]
    by_place: Mapping[tuple[str, str], Item | None]

    @classmethod
    def of(cls, documents: Sequence[tuple[TaskDocument, Item | None]]) -> "TaskItems":
        """Return an index of these documents and their items. An item is None if the document is not an item."""
        places = Counter(document.place for document, _ in documents)
        return cls(
            {document.digest: item for document, item in documents},
            {document.place: item for document, item in documents if places[document.place] == 1},
        )

    def in_rows(self, rows: Sequence[SourceRow], names: Mapping[int, log.Name]) -> log.ItemsOfLog | None:
        """Return the items of the rows by line, and a fault for each row whose document is not an item. Return None if the
        rows are not from this task.

        Numbers and targets count only if no document is recognized by its content, and all rows agree."""
        logged = {row.line: TaskDocument.from_row(row.line, row.cells) for row in rows}
        recognized = {line: self.by_content.get(document.digest) for line, document in logged.items()}
        if not any(document.digest in self.by_content for document in logged.values()):
            if not {document.place for document in logged.values()} <= self.by_place.keys():
                return None
            recognized = {line: self.by_place[document.place] for line, document in logged.items()}
        items = {line: _logged(item, names[line]) for line, item in recognized.items() if item}
        return items, [Fault(line, _OTHER) for line, item in recognized.items() if not item], []


def _logged(item: Item, name: log.Name) -> log.LoggedItem:
    return log.LoggedItem(
        item.k, item.stem, item.choices, item.key, name, log.as_label(item.id), log.as_label(item.topic), item.group,
        item.sealed.question_at,
    )  # fmt: skip
