"""Write the generated blocks of the documentation: `python -m tools.docs`; `--check` only compares.

A block is the text between `<!-- generated: NAME -->` and `<!-- end -->` on a page. It is rendered from the Jinja template
`docs/blocks/NAME.j2`, which can read results, objects of the program, and the output of commands. If a template reads a
file of results/ that does not exist, the block says so. No number is typed by hand.
"""

import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import jinja2
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

ROOT = Path(__file__).parents[1]
RESULTS, TEMPLATES = ROOT / "results", ROOT / "docs" / "blocks"
SCHEMA = ROOT / "docs" / "summary.schema.json"
BLOCK = re.compile(r"(<!-- generated: ([a-z0-9-]+) -->\n)(.*?)(<!-- end -->)", re.S)
EXECUTED = "sh("
"""A template that contains this call runs commands, which takes seconds."""


class NotMeasured(LookupError):
    """A file of results/ that does not exist."""


@cache
def results(name: str) -> Any:
    """Return the content of a JSON file of results/. Raise `NotMeasured` if it does not exist."""
    path = RESULTS / name
    if not path.is_file():
        raise NotMeasured(name)
    return json.loads(path.read_text(encoding="utf-8"))


def load(name: str) -> ModuleType:
    """Import a module for a template."""
    return importlib.import_module(name)


def percent(share: float | None, digits: int = 1) -> str:
    """Format a share as a percentage."""
    return "not measured" if share is None else f"{100 * share:.{digits}f} %"


def interval(quantity: Mapping[str, Any] | None, digits: int = 1) -> str:
    """Format a share `{"value", "ci"}` as a percentage with its 95 % interval."""
    if quantity is None or quantity["value"] is None:
        return "not measured"
    text = percent(quantity["value"], digits)
    if quantity.get("ci") is None:
        return text
    low, high = (f"{100 * end:.{digits}f}" for end in quantity["ci"])
    return f"{text} ({low} to {high})"


def settings() -> list[dict[str, Any]]:
    """Return the sections of a config: `name`, `about`, `rows` (key, values, default, when to use it), and `after` (the
    example), from docs/blocks/settings.yaml and the settings classes. Raise `KeyError` if their keys differ."""
    written = yaml.safe_load((TEMPLATES / "settings.yaml").read_text(encoding="utf-8"))
    return [{"name": name, "after": "", **one, "rows": _rows(name, one)} for name, one in written.items()]


def _rows(section: str, written: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    module, _, kind = written["kind"].partition(":")
    fields: Mapping[str, FieldInfo] = getattr(load(module), kind).model_fields
    if odd := sorted(fields.keys() ^ (rows := written["rows"]).keys()):
        raise KeyError(
            f"docs/blocks/settings.yaml, {section}: {', '.join(odd)}; expected the settings of {kind}"
        )
    return [
        (f"`{key}`", values, said[0] if said else _default(fields[key]), when)
        for key, (values, when, *said) in rows.items()
    ]


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel) or value in (None, "", [], ()):
        return ""
    return f"`{json.dumps(value, default=list)}`".replace('"', "")


class Page:
    """A page whose templates are rendered in order; their commands run in one temporary folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._jinja = jinja2.Environment(
            loader=jinja2.FileSystemLoader(TEMPLATES), undefined=jinja2.StrictUndefined,
            trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
        )  # fmt: skip
        self._jinja.filters.update(percent=percent, interval=interval)
        self._jinja.globals.update(
            results=results, load=load, settings=settings, sh=self.sh, script=self.script, exists=_exists
        )

    @property
    def text(self) -> str:
        """Current text of the page."""
        return self.path.read_text(encoding="utf-8")

    @property
    def blocks(self) -> list[str]:
        """Names of the blocks on the page."""
        return [match[2] for match in BLOCK.finditer(self.text)]

    @property
    def executed(self) -> bool:
        """True if a template of the page runs commands."""
        paths = [TEMPLATES / f"{name}.j2" for name in self.blocks]
        return any(EXECUTED in path.read_text("utf-8") for path in paths if path.is_file())

    def renewed(self) -> str:
        """Return the text of the page with every block rendered again."""
        try:
            return self.rendered()
        finally:
            if self._folder is not None:
                self._folder.cleanup()
                self._folder = None

    def rendered(self) -> str:
        """Return the page as `renewed` does, but keep the files that its commands wrote in `folder()`."""
        return BLOCK.sub(lambda match: match[1] + self._rendered(match[2]) + match[4], self.text)

    def _rendered(self, name: str) -> str:
        try:
            return self._jinja.get_template(f"{name}.j2").render().strip("\n") + "\n"
        except NotMeasured as absent:
            return f"Not measured: `results/{absent}` does not exist.\n"

    def sh(self, command: str, keep: str = "") -> str:
        """Run a command in the page's folder and return the command with its output. `keep` selects lines by a pattern, and
        `...` stands for those between, before, and after them."""
        program, *arguments = command.split()
        done = subprocess.run(
            [sys.executable, *(["-m", "robustify"] if program == "robustify" else []), *arguments],
            cwd=self.folder(), capture_output=True, text=True, env=self._environment(),
        )  # fmt: skip
        said = (done.stdout + done.stderr).rstrip("\n").splitlines()
        shown = [f"$ {command}"]
        for line in said:
            if re.search(keep, line):
                shown.append(line.rstrip())
            elif shown[-1] != "...":
                shown.append("...")
        return "\n".join(shown)

    def script(self, name: str) -> str:
        """Copy a file of docs/blocks into the page's folder and return its text."""
        text = (TEMPLATES / name).read_text(encoding="utf-8")
        (self.folder() / name).write_text(text, encoding="utf-8")
        return text

    def folder(self) -> Path:
        """Return the temporary folder in which the commands of the page run."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory()
        return Path(self._folder.name)

    def _environment(self) -> dict[str, str]:
        cache_folder = str(self.folder() / ".cache")
        plain = {"NO_COLOR": "1", "COLUMNS": "100", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
        return {**os.environ, **plain, "ROBUSTIFY_CACHE": cache_folder}


def _exists(name: str) -> bool:
    return (RESULTS / name).is_file()


def pages() -> list[Page]:
    """Return the README, the map of the modules, and every page of docs/."""
    more = (ROOT / "robustify" / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    return [Page(path) for path in (ROOT / "README.md", *more)]


def schema() -> str:
    """Return the JSON Schema of summary.json."""
    found = load("robustify.judging.summary.result").Summary.model_json_schema(mode="serialization")
    label, places = load("robustify.report.printing").label, found["$defs"]["Measures"]["properties"]
    for measure in load("robustify.judging.measures").MEASURES:
        if not measure.stored:
            continue
        place = places[measure.scope]
        place.setdefault("properties", {})[measure.name] = {
            **place["additionalProperties"],
            "description": label(measure.name),
            "unit": measure.unit,
            "disclosure": "none" if measure.disclosure is None else measure.disclosure.group,
        }
    for scope in ("set", "model", "rule"):
        places[scope]["additionalProperties"] = False
    return json.dumps(found, indent=1) + "\n"


def main() -> int:
    """Write or check every page and the schema."""
    only_check, stale = "--check" in sys.argv, []
    for path, new in [*((page.path, page.renewed()) for page in pages()), (SCHEMA, schema())]:
        if not path.is_file() or path.read_text(encoding="utf-8") != new:
            stale.append(str(path.relative_to(ROOT)))
            if not only_check:
                path.write_text(new, encoding="utf-8")
    print(f"{'stale' if only_check else 'renewed'}: {', '.join(stale) or 'none'}")
    return int(bool(stale) and only_check)


if __name__ == "__main__":
    sys.exit(main())
