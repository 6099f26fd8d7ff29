"""The item explorer of a public run: every item with its evidence on one page, to be searched and filtered offline.

The page is one file that asks for nothing: its style, its script and the items as one JSON island. Its security policy
names the style and the script by their digests and forbids every other; and as it lets no text become markup (Trusted
Types), the browser itself sees to it that items are shown as text. A restricted run has no explorer: its writer never
comes here.
"""

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup

from robustify.files import write_text
from robustify.item import Item
from robustify.report.explorer.island import chosen, island_of
from robustify.report.format import plain
from robustify.report.printing import environment
from robustify.screen.consensus import Verdicts

_STYLES = ("palette.css", "explorer/explorer.css")
_SCRIPTS = ("explorer/items.js", "explorer/page.js")
_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")


def write_explorer(
    path: Path,
    evidence: Path,
    name: str,
    items: Sequence[Item],
    verdicts: Verdicts,
    cloze_excluded: Mapping[str, str],
) -> None:
    """Write the page of a run whose `evidence.jsonl` is there; `items` and `verdicts` are all of them, in its order."""
    places = chosen(verdicts)
    wanted = set(places)
    with evidence.open(encoding="utf-8", errors="surrogatepass", newline="\n") as lines:
        rows = [json.loads(line) for at, line in enumerate(lines) if at in wanted]
    write_text(path, page(island_of(name, rows, items, verdicts, places, cloze_excluded)))


def page(tree: Mapping[str, Any]) -> str:
    """The text of the page of an island; the same island gives the same bytes."""
    style, script = _read(_STYLES), _read(_SCRIPTS)
    template = environment("robustify.report", "explorer", autoescape=True).get_template("explorer.html.j2")
    return template.render(
        name=plain(tree["name"]),
        style=Markup(style),
        script=Markup(script),
        island=Markup(embedded(tree)),
        digests={"style": _digest(style), "script": _digest(script)},
    )


def embedded(tree: object) -> str:
    """JSON that may stand in a `script` element: nothing in it can end the element or open another."""
    text = json.dumps(tree, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def read_island(text: str) -> dict[str, Any]:
    """The island of a page's text."""
    found = re.search('<script type="application/json" id="island">(.*?)</script>', text, re.S)
    assert found is not None, "no page of the explorer"
    return dict(json.loads(found[1]))


@cache
def _read(names: tuple[str, ...]) -> str:
    return "".join((files("robustify.report") / name).read_text("utf-8") for name in names)


def _digest(text: str) -> str:
    return "sha256-" + b64encode(hashlib.sha256(text.encode()).digest()).decode()
