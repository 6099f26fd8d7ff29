"""Which folders are no private place for what belongs to a restricted set: the whole list, each by name."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from robustify.restricted.confinement import require_private
from tests.support.refusals import refused

Make = Callable[[Path], Path]
PUBLIC = "folder-not-ignored"


def tree(*patterns: str, at: str = "run") -> Make:
    """A folder in a git work tree with these lines in its .gitignore."""

    def made(folder: Path) -> Path:
        subprocess.run(["git", "init", "-q", str(folder / "repo")], check=True)
        (folder / "repo" / ".gitignore").write_text("".join(f"{pattern}\n" for pattern in patterns))
        (folder / "link").symlink_to(folder / "repo")
        return folder / ("" if at.startswith("link") else "repo") / at

    return made


def followed(folder: Path) -> Path:
    place = tree("run/")(folder)
    place.mkdir(mode=0o700)
    (place / "notes").write_text("of another day\n")
    subprocess.run(["git", "-C", str(place.parent), "add", "-f", "run/notes"], check=True)
    return place


def bare(folder: Path) -> Path:
    subprocess.run(["git", "init", "-q", "--bare", str(folder / "store")], check=True)
    return folder / "store" / "lab" / "run"


def below(mode: int, linked: bool = False) -> Make:
    def made(folder: Path) -> Path:
        for name in ("mine", "above"):
            (folder / name).mkdir()
        (folder / "above").chmod(mode)
        (folder / "above" / "link").symlink_to(folder / "mine")
        return folder / "above" / ("link" if linked else "lab") / "run"

    return made


def inside(name: str) -> Make:
    return lambda folder: folder / name / "lab" / "run"


def file(folder: Path) -> Path:
    (folder / "run").write_text("of another day\n")
    return folder / "run"


SYNCHRONISED = (
    "Dropbox", "Dropbox (Lab)", "OneDrive", "OneDrive - Some Lab", "Google Drive", "GoogleDrive-me@example.org",
    "My Drive", "iCloud Drive", "Mobile Documents", "com~apple~CloudDocs", "CloudStorage", "Nextcloud", "ownCloud",
    "Syncthing", "pCloudDrive", "Proton Drive",
)  # fmt: skip
CASES: dict[str, tuple[Make, str]] = {
    "a pattern of one kind": (tree("*.json"), PUBLIC),
    "patterns of all kinds": (tree("*.json", "*.jsonl", "*.md", "*.html", "*.parquet", "*.csv"), PUBLIC),
    "names with a dot": (tree("run/*.*"), PUBLIC),
    "all but the manifest": (tree("run/*", "!run/run.json"), PUBLIC),
    "all but the items": (tree("run/*", "!run/kept.jsonl"), PUBLIC),
    "a file that git follows": (followed, PUBLIC),
    "behind a link": (tree("*.json", at="link/run"), PUBLIC),
    "new, behind a link": (tree("*.json", at="link/new/run"), PUBLIC),
    "ignored": (tree("run/"), ""),
    **{name: (inside(name), "synchronised-folder") for name in SYNCHRONISED},
    **{name: (inside(name), "") for name in ("dropboxes", "sync", "drive", "box", "cloud")},
    **{name: (inside(name), "web-root") for name in ("public_html", "htdocs", "WWWROOT", "www")},
    "a bare repository": (bare, PUBLIC),
    **{name: (inside(name), "") for name in ("www-notes", "awww")},
    "below 0777": (below(0o777), "replaceable-folder"),
    "below 0707": (below(0o707), "replaceable-folder"),
    "below 1777": (below(0o1777), ""),
    "below 0755": (below(0o755), ""),
    "a link below 0777": (below(0o777, linked=True), "replaceable-folder"),
    "a file": (file, "not-a-folder"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "code"), CASES.values(), ids=CASES)
def test_which_folders_are_private(tmp_path: Path, make: Make, code: str) -> None:
    place, names = make(tmp_path), ("run.json", "kept.jsonl")
    if not code:
        require_private(place, names)
        return
    with refused(4, code=code):
        require_private(place, names)


def test_the_file_that_will_be_written_is_asked_about(tmp_path: Path) -> None:
    place = tree("run/*", "!*.items")(tmp_path)
    with refused(4, code=PUBLIC):
        require_private(place, ["copy.items"])
    require_private(place, ["copy.txt"])


def test_git_is_asked_without_the_programs_that_a_repository_names_and_not_at_all_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, mark = tree()(tmp_path), tmp_path / "ran"
    for name in ("core.fsmonitor", "core.hooksPath", "core.pager", "core.sshCommand"):
        subprocess.run(["git", "-C", str(place.parent), "config", name, f"touch {mark};"], check=True)
    with refused(4, code=PUBLIC):
        require_private(place)
    assert not mark.exists()
    (place.parent / ".gitignore").write_text("run/\n")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with refused(4, code=PUBLIC):
        require_private(place)


def test_somebody_else_s_folder_is_not_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    tmp_path.chmod(0o700)
    with refused(4, code="folder-of-another-user"):
        require_private(tmp_path)
