"""YAML from somebody else: plain values only. Aliases, tags, keys written twice and deep nesting are refused.

A file is opened without following a link or waiting for a pipe, and its text is never shown.
"""

import os
import stat
from pathlib import Path
from typing import Any

import yaml

from robustify.errors import UsageError

MOST_BYTES = 1 << 20
MOST_DEEP = 20


def read_regular(path: Path, what: str, most: int = MOST_BYTES) -> bytes:
    """The bytes of a regular file; `what` says in an error what was expected.

    Raises:
        UsageError: a link, a pipe or device, more than `most` bytes, or a file that cannot be read.
    """
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        why = "is a symbolic link" if path.is_symlink() else f"cannot be opened ({error.strerror})"
        raise UsageError(f"{str(path)!a}: {why}; expected {what}") from None
    with os.fdopen(opened, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise UsageError(f"{str(path)!a}: no regular file (a pipe or device); expected {what}")
        if found.st_size > most:
            raise UsageError(f"{str(path)!a}: {found.st_size:,} bytes; expected {what}, at most {most:,}")
        return file.read(most + 1)


def parsed(raw: bytes, name: str, what: str) -> Any:
    """What these bytes of a YAML file say; `name` is the file's and `what` was expected.

    Raises:
        UsageError: no plain YAML, by its line.
    """
    try:
        return yaml.load(raw, _Plain)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        why = getattr(error, "problem", None) if isinstance(error, _Refused) else "syntax"
        raise UsageError(
            f"{name}{f':{mark.line + 1}' if mark else ''}: no plain YAML ({why}); expected {what}"
        ) from None
    except (UnicodeDecodeError, RecursionError) as error:
        raise UsageError(
            f"{name}: no plain YAML ({type(error).__name__}); expected {what} in UTF-8"
        ) from None


class _Refused(yaml.constructor.ConstructorError):
    """What this loader itself refuses; its words hold nothing of the file."""


class _Plain(yaml.SafeLoader):
    """A safe loader without aliases, own tags, repeated keys, or nesting beyond what a manifest needs."""

    deep = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise _Refused(None, None, "an alias", self._here())
        if self.deep >= MOST_DEEP:
            raise _Refused(None, None, f"more than {MOST_DEEP} levels", self._here())
        self.deep += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.deep -= 1

    def _here(self) -> yaml.Mark:
        mark: yaml.Mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        return mark

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [k.value for k, _ in node.value if isinstance(k, yaml.ScalarNode)]
        if len(set(keys)) < len(node.value):
            raise _Refused(None, None, "a key written twice, or one that is no plain word", node.start_mark)
        return super().construct_mapping(node, deep)


def _own_tag(_loader: yaml.SafeLoader, node: yaml.Node) -> Any:
    raise _Refused(None, None, "a tag", node.start_mark)


_Plain.add_constructor(None, _own_tag)
