"""YAML from somebody else: plain values only. Aliases, tags, keys written twice and deep nesting are refused, and the text
of the file is never shown.
"""

from typing import Any

import yaml

from robustify.errors import UsageError

MOST_BYTES = 1 << 20
MOST_DEEP = 20


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
