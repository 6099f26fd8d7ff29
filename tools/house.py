"""Print the size of the code base: files, lines, words, import cycles, repeated names, long functions.

`--root DIR` measures another checkout.
"""

import argparse
import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "robustify"
# Names that every package or every engine uses on purpose.
ROLES = {"__init__", "__main__", "settings", "engine"}
Graph = dict[str, set[str]]
SENTENCE_END = re.compile(r"(?<=\.)\s(?=(?:[^`]*`[^`]*`)*[^`]*$)")
"""The blank after a period that is not inside backquotes."""


@cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def modules(root: Path) -> dict[str, Path]:
    """Return the path of every module of the package, by dotted name."""
    out = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        out[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return out


def map_of_modules(root: Path = ROOT) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return each folder below the package with its modules, and the first sentence of each module's docstring."""
    folders: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for path in modules(root).values():
        docstring = " ".join((ast.get_docstring(parsed(path)) or "").split())
        folder = str(path.parent.relative_to(root)).replace("\\", "/")
        folders[folder].append((path.name, SENTENCE_END.split(docstring, maxsplit=1)[0]))
    return sorted(folders.items())


def imported(path: Path, known: Mapping[str, Path]) -> Iterator[tuple[str, bool]]:
    """Yield every module that a file imports, and whether the import is at the top level."""
    tree = parsed(path)
    top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                for alias in node.names:
                    yield alias.name, id(node) in top
            case ast.ImportFrom(module=str(name)):
                inner = [f"{name}.{a.name}" for a in node.names if f"{name}.{a.name}" in known]
                for target in inner or [name]:
                    yield target, id(node) in top


@cache
def graph(root: Path, *, top_only: bool = False) -> Graph:
    """Return the modules of the package that each module imports."""
    known = modules(root)
    return {
        name: {t for t, top in imported(path, known) if t in known and t != name and (top or not top_only)}
        for name, path in known.items()
    }


def place(module: str) -> str:
    """Return the top-level folder of a module, or the module itself if it is in no folder."""
    return module.split(".")[1] if "." in module else "__version__"


def folder_graph(root: Path) -> Graph:
    """Return the folders (or top-level modules) from which each folder imports."""
    out: Graph = defaultdict(set)
    for name, targets in graph(root).items():
        # `__init__` names the functions of `api` for their types alone.
        out[place(name)] |= {place(t) for t in targets if "." in name} - {place(name)}
    return dict(out)


def knots(edges: Mapping[str, set[str]]) -> list[set[str]]:
    """Return the groups of two or more nodes that reach one another."""
    reach = {a: _reached(a, edges) for a in edges}
    groups = {frozenset({a} | {b for b in reach[a] if a in reach.get(b, set())}) for a in edges}
    return [set(g) for g in groups if len(g) > 1]


def _reached(start: str, edges: Mapping[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    todo = [start]
    while todo:
        for target in edges.get(todo.pop(), set()) - seen:
            seen.add(target)
            todo.append(target)
    return seen


WINGS = frozenset({"restricted", "gate", "freeform", "composing"})
"""Rooms above the core. Only `wings` plugs them in, for what stands above it."""
ABOVE = frozenset({"wings", "inspect_extension", "api", "cli", "__init__", "__main__"})


def wings_of_core(root: Path) -> list[str]:
    """Return the imports of a wing by the core, and by another wing except of the gate by `restricted`."""
    return sorted(
        f"{name} -> {target}"
        for name, targets in graph(root).items()
        for target in targets
        if place(target) in WINGS - {place(name)}
        and place(name) not in ABOVE
        and (place(name), place(target)) != ("restricted", "gate")
    )


def lines(folder: Path) -> int:
    """Count the lines of all Python files below a folder."""
    return sum(len(p.read_text(encoding="utf-8").splitlines()) for p in folder.rglob("*.py"))


Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(root: Path) -> Iterator[tuple[str, Function]]:
    """Yield every function of the package, with the name of its module."""
    for name, path in modules(root).items():
        for node in ast.walk(parsed(path)):
            if isinstance(node, Function):
                yield name, node


def many_arguments(root: Path) -> int:
    """Count the functions of the package with seven or more arguments, not counting `self` and `cls`."""
    n = 0
    for _, node in functions(root):
        given = [one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        n += len(given) - (given[:1] in (["self"], ["cls"])) >= 7
    return n


_EMPTY = "one found at said there known asked why how won meant whole together made left rest"
EMPTY_NAMES = frozenset(_EMPTY.split())
"""Names that do not say what they hold."""


def empty_names(root: Path) -> Counter[str]:
    """Count the variables and arguments named by `EMPTY_NAMES`, by top-level folder."""
    counts: Counter[str] = Counter()
    for module, path in modules(root).items():
        for node in ast.walk(parsed(path)):
            match node:
                case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) if name in EMPTY_NAMES:
                    counts[place(module)] += 1
    return counts


def long_functions(root: Path) -> dict[str, int]:
    """Return the number of lines of each function of the package that has more than 60."""
    sizes = {
        f"{name}.{node.name}": (node.end_lineno or 0) - node.lineno + 1 for name, node in functions(root)
    }
    return {name: n for name, n in sizes.items() if n > 60}


def public_twice(root: Path) -> list[str]:
    """Return the public functions and classes that two modules define at their top level."""
    defined = Counter(
        node.name
        for path in modules(root).values()
        for node in parsed(path).body
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_")
    )
    return sorted(name for name, n in defined.items() if n > 1)


def measured(root: Path) -> dict[str, object]:
    """Return the table of all sizes by name."""
    known = modules(root)
    size = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in known.items()}
    folders = Counter(str(p.parent.relative_to(root)) for p in known.values())
    stems = Counter(p.stem for p in known.values() if p.stem not in ROLES)
    return {
        "files": len(known),
        "lines": sum(size.values()),
        "entries at the top": sum(not path.name.startswith("__py") for path in (root / PACKAGE).iterdir()),
        "lines of tests": lines(root / "tests"),
        "lines of bench and tools": lines(root / "bench") + lines(root / "tools"),
        "words of docs": sum(
            len(page.read_text(encoding="utf-8").split())
            for page in (root / "README.md", *(root / "docs").glob("*.md"))
        ),
        "names that say nothing": dict(empty_names(root).most_common()),
        "imports of a wing by the core": wings_of_core(root),
        "functions with seven or more arguments": many_arguments(root),
        "functions over 60 lines": long_functions(root),
        "public names defined twice": public_twice(root),
        "folders with more than 15 files": {f: n for f, n in folders.items() if n > 15},
        "largest file": max(size.values()),
        "folder circles": sorted(sorted(k) for k in knots(folder_graph(root))),
        "file circles": sorted(sorted(k) for k in knots(graph(root, top_only=True))),
        "file names used twice": sorted(s for s, n in stems.items() if n > 1),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT)
    given = parser.parse_args()
    for name, value in measured(given.root).items():
        match value:
            case dict() if all(isinstance(n, int) for n in value.values()):
                number = f"{sum(value.values())}: "
            case list() | dict():
                number = f"{len(value)}: "
            case _:
                number = ""
        print(f"{name:46} {number}{value}")


if __name__ == "__main__":
    main()
