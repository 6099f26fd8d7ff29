"""Write `docs/messages.csv`: every error and note of the package, with its code, exit code, module, and words.

`python -m tools.messages` writes the table, and `--missing [ROOM]` prints the places whose message has no code.
"""

import argparse
import ast
import csv
import io
import re
import sys
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from robustify.base import errors
from tools import house

TABLE = house.ROOT / "docs" / "messages.csv"
CODE = r"[a-z0-9]+(-[a-z0-9]+)+"
"""Form of a code: lower-case words joined by hyphens."""
N_WORDS = 3
"""Number of successive words that a test must not repeat from a message."""
HERE = "base.errors"
"""The module that defines the errors, which passes codes on."""


class Words(NamedTuple):
    """One message of the package. `code` is empty if it has none, and `words` shows values as `{}`."""

    code: str
    kind: str
    exit_code: int
    module: str
    line: int
    words: str


@cache
def exit_codes() -> dict[str, int]:
    """Return the exit code of each class of errors, by its name, with the subclasses that other modules define."""
    codes = {
        name: kind.exit_code
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.RobustifyError)
    }
    classes = [
        n
        for p in house.modules(house.ROOT).values()
        for n in ast.walk(house.parsed(p))
        if isinstance(n, ast.ClassDef)
    ]
    for node in classes * 2:
        for base in node.bases:
            if isinstance(base, ast.Name) and base.id in codes:
                codes.setdefault(node.name, codes[base.id])
    return codes


def messages() -> Iterator[Words]:
    """Yield every call in the package that makes an error or a `Notice`."""
    for name, path in house.modules(house.ROOT).items():
        module = name.partition(".")[2]
        for node in ast.walk(house.parsed(path)):
            if isinstance(node, ast.Call) and module != HERE and (kind := _kind(node.func)):
                code = next((k.value for k in node.keywords if k.arg == "code"), None)
                # Lines that are messages bring their codes, and a code that is no literal is passed on by its caller.
                texts = [_template(argument) for argument in node.args]
                passed = kind.endswith((".gather", ".of")) or not any(
                    isinstance(argument, ast.Constant | ast.JoinedStr | ast.BinOp) for argument in node.args
                )
                if isinstance(code, ast.Constant) or (code is None and not passed):
                    literal = str(code.value) if isinstance(code, ast.Constant) else ""
                    yield Words(
                        literal,
                        kind,
                        exit_codes().get(kind.split(".")[0], 0),
                        module,
                        node.lineno,
                        " ".join(texts),
                    )


def _kind(called: ast.expr) -> str:
    match called:
        case ast.Name(id=name) if name == "Notice" or name in exit_codes():
            return name
        case ast.Attribute(attr="fault"):
            # A client of a server builds these errors, which begin with the name of its model.
            return "ModelError"
        case ast.Attribute(value=ast.Name(id=name), attr="gather" | "of" as method) if name in exit_codes():
            return f"{name}.{method}"
        case _:
            return ""


def _template(argument: ast.expr) -> str:
    match argument:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in parts)
        case _:
            return "{}"


def table() -> str:
    """Return the contents of `docs/messages.csv`: one row for each code and its words, in the order of the codes."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["code", "error", "exit_code", "module", "words"])
    rows = {(w.code, w.kind, w.exit_code, w.module, " ".join(w.words.split())) for w in messages() if w.code}
    writer.writerows(sorted(rows))
    return out.getvalue()


def repeating_tests() -> Iterator[str]:
    """Yield each test that asserts `N_WORDS` successive words of a message or of a template of the report."""
    texts = [words.words for words in messages()]
    texts += [p.read_text(encoding="utf-8") for p in (house.ROOT / "robustify/report").glob("*.yaml")]
    texts += [p.read_text(encoding="utf-8") for p in (house.ROOT / "robustify/report").glob("*.j2")]
    ours = {run for text in texts for run in _runs(_MARKUP.sub(" . ", text))}
    for path in sorted((house.ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(house.parsed(path)):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
                asserted = [n for n in ast.walk(node) if isinstance(n, ast.Assert)]
                asserted += [
                    n.value for n in ast.walk(node) if isinstance(n, ast.keyword) and n.arg == "match"
                ]
                strings = [
                    s.value for part in asserted for s in ast.walk(part) if isinstance(s, ast.Constant)
                ]
                if any(run in ours for s in strings if isinstance(s, str) for run in _runs(s)):
                    yield f"{path.relative_to(house.ROOT)}:{node.lineno}: {node.name}"


_MARKUP = re.compile(r"<[^>]*>|\{%.*?%\}|\{\{.*?\}\}", re.S)
"""Tags and expressions of a template, which are no words."""


def _runs(text: str) -> Iterator[tuple[str, ...]]:
    """Yield every run of `N_WORDS` words without a number, a mark, or an expression between them."""
    for part in re.split(r"[^a-z' ]+", text.lower().replace("\n", " ")):
        words = part.split()
        yield from (tuple(words[i : i + N_WORDS]) for i in range(len(words) - N_WORDS + 1))


def main() -> int:
    """Write the table, or print the messages without a code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--missing", nargs="?", const="", metavar="ROOM")
    parser.add_argument(
        "--repeated", action="store_true", help="print the tests that repeat words of messages"
    )
    given = parser.parse_args()
    if given.repeated:
        print(*repeating_tests(), sep="\n")
        return 0
    room = given.missing
    if room is None:
        TABLE.write_text(table(), encoding="utf-8")
        return 0
    bare = [w for w in messages() if not w.code and w.module.startswith(room)]
    for words in bare:
        print(f"{words.module}:{words.line}: {words.kind}: {words.words[:90]}")
    return int(bool(bare))


if __name__ == "__main__":
    sys.exit(main())
