"""A printed page as lines of text, so that tests can ask what a reader sees.

A cell is what it says when it is pointed at, else its words, with its badge in brackets; data behind figures is left out.
"""

from html.parser import HTMLParser

HEADS = {
    "h1": "# ",
    "h2": "# ",
    "h3": "## ",
    "li": "- ",
    "caption": "**",
    "figcaption": "!",
    "p": "",
    "dt": "",
    "dd": "- ",
}
SILENT = {"style", "svg", "nav", "title", "aside"}


class _Lines(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.cells: list[str] = []
        self.at: list[tuple[str, dict[str, str]]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag not in ("meta", "link", "br"):
            self.at.append((tag, values))
        if self._silent():
            return
        if tag in ("td", "th"):
            self.cells.append(values.get("title", ""))
        elif tag in HEADS:
            self.lines.append(HEADS[tag])

    def handle_endtag(self, tag: str) -> None:
        if tag == "tr" and not self._silent():
            cells = (" ".join(c.split()).replace("|", "\\|") for c in self.cells)
            self.lines.append(f"| {' | '.join(cells)} |")
            self.cells = []
        elif tag == "caption" and not self._silent():
            self.lines[-1] = self.lines[-1].rstrip() + "**"
        while self.at.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._silent() or not data.strip():
            return
        inside, classes = {t for t, _ in self.at}, {c for _, a in self.at for c in a.get("class", "").split()}
        if inside & {"td", "th"}:
            titled = any(t in ("td", "th") and "title" in a for t, a in self.at)
            if "badge" in classes:
                self.cells[-1] += f" [{data}]"
            elif not titled:
                self.cells[-1] += data
        elif self.lines and "csv" not in classes:
            gap = " " if self.lines[-1][-1:].isalnum() and data[0].isalnum() else ""
            self.lines[-1] += gap + (data if "pre" in inside else data.replace("\n", " "))

    def _silent(self) -> bool:
        return any(
            t in SILENT or (t == "details" and a.get("class") == "data" and self._table()) for t, a in self.at
        )

    def _table(self) -> bool:
        return any(t in ("table", "summary") for t, _ in self.at)


def text_of_page(page: str) -> str:
    """The page's lines, a blank one before each heading."""
    return "\n".join(f"\n{line}" if line.startswith("#") else line for line in _Lines(page).lines) + "\n"
