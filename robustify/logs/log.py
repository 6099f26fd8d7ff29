"""What passes between the readers of logs and the matching: one reply a row, in the log's own terms.

Places here are places as the log shows the choices, not yet those of an item; matching turns them. Reprs show
no text.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from robustify.loaders.rows import Fault
from robustify.loaders.source import FieldMap
from robustify.redaction.text import KeptHere
from robustify.views import View


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a user says about a log. What is left out is read from the log, and what was assumed is told.

    `view`: how the items were asked. `model`: whose replies these are. `filter`: which of lm-eval's filters or
    of Inspect's scorers. `columns`: for each part of a row the column (or columns) that holds it, with `=`
    before a value that is the same in every row. `keyed`: keys come from the benchmark's own file. `skip_bad`: set
    unreadable rows aside.
    """

    view: View | None = None
    model: str | None = None
    filter: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    keyed: bool = False
    skip_bad: bool = False

    @property
    def fields(self) -> FieldMap | None:
        """The same columns as the loaders take them, where any of them is part of an item."""
        said = {k: v for k, v in self.columns.items() if k in FieldMap.model_fields}
        if not said:
            return None
        choices = tuple(said["choices"].split(",")) if "choices" in said else None
        choice = choices[0] if choices and len(choices) == 1 else choices
        return FieldMap.model_validate({**said, "choices": choice})


@dataclass(frozen=True, slots=True, repr=False)
class Shown(KeptHere):
    """An item as a log shows it: its text, where the log has any, and its key, where the log says so.

    `k` choices; `choices` are empty where there is no text. `name` is what the log calls the item, `id` the
    item's own id, "" for none. `topic` and `group` as in `Item`.
    """

    k: int
    stem: str = ""
    choices: tuple[str, ...] = ()
    key: int | None = None
    name: str = ""
    id: str = ""
    topic: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Reply(KeptHere):
    """One answer of one model. `pick` and `scores` are by place as shown; `scores` are log-probabilities.

    `by_text`: what was scored is the text of each choice, of `n_chars` characters, and length counts; else the
    scores are compared as they are. `alone`: log-probabilities of the same texts without any context. `why`
    says why there is no pick.
    """

    line: int
    model: str
    view: View
    template: str
    shown: Shown
    pick: int | None = None
    scores: tuple[float, ...] = ()
    by_text: bool = False
    n_chars: tuple[int, ...] = ()
    alone: tuple[float, ...] = ()
    why: str = "no readable answer"


@dataclass(frozen=True, slots=True, repr=False)
class Log(KeptHere):
    """One file: its replies, the rows that could not be read, and what it says of its own making.

    `facts` (a task's name, versions, dtype) describe every model of the log. `templates`: sha256 by
    "view/name" of the templates of ours that its prompts were found to be. `notes` say what was assumed, without
    the file's name.
    """

    file: str
    kind: str
    sha256: str
    task: str
    replies: tuple[Reply, ...]
    faults: tuple[Fault, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    templates: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
