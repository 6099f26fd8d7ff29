"""Item text as a value that gives nothing away: in a message, a log or a pickle it is `<text redacted>` or an error.

`Item` keeps its stem and choices in a `ItemText` and opens it in one place, the properties `Item.stem` and
`Item.choices`; a test holds that nobody else does. What is opened is plain `str`, on purpose. A `str` that redacts
itself would be half sealed (the C code of `json` and `re` reads it all the same) and dangerous where it works: a
template engine that calls `str()` on it would ask a model `<text redacted>`, and the score would look like one.
So a value at rest is sealed here, and `firewall.py` keeps what is opened out of messages.
"""

from typing import NoReturn

REDACTED = "<text redacted>"


class KeptHere:
    """The base of frozen values that hold text: they are not pickled, and a copy of one is itself.

    A dataclass of it with `repr=False` shows its name alone.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({REDACTED})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(f"{type(self).__name__} holds item text; it is never pickled")

    def __copy__(self) -> "KeptHere":
        return self

    def __deepcopy__(self, memo: object) -> "KeptHere":
        return self


class ItemText(KeptHere):
    """A stem and its choices. Equal texts are equal; that is all one may learn of it but by `open_text`."""

    __slots__ = ("__texts",)

    def __init__(self, stem: str, choices: tuple[str, ...]) -> None:
        self.__texts = (stem, choices)

    def __repr__(self) -> str:
        return REDACTED

    def __format__(self, spec: str) -> str:
        return REDACTED

    def __getstate__(self) -> NoReturn:
        raise TypeError("item text is never pickled")

    def __eq__(self, other: object) -> bool:
        return self.__texts == other.__texts if isinstance(other, ItemText) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.__texts)

    def open_text(self) -> tuple[str, tuple[str, ...]]:
        """The stem and the choices. `Item` alone may ask."""
        return self.__texts
