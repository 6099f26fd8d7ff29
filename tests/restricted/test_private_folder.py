"""Which folders are no private place for what belongs to a restricted set: the whole list, each by name."""

import os
import subprocess
from pathlib import Path

import pytest

from robustify.errors import AuthorisationError
from robustify.restricted.confinement import require_private


def tree(folder: Path, *patterns: str) -> Path:
    """A git work tree with these lines in its .gitignore."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / ".gitignore").write_text("".join(f"{pattern}\n" for pattern in patterns))
    return folder


def refused(folder: Path, match: str, *names: str) -> None:
    with pytest.raises(AuthorisationError, match=match) as error:
        require_private(folder, names or ("run.json",))
    assert len(error.value.lines) == 1


@pytest.mark.parametrize(
    "patterns",
    [["*.json"], ["*.json", "*.jsonl", "*.md", "*.html", "*.parquet", "*.csv"], ["run/*.*"], ["run/*", "!run/run.json"],
     ["run/*", "!run/robust.jsonl"]],
    ids=str,
)  # fmt: skip
def test_a_pattern_that_leaves_some_names_out_makes_no_folder_private(
    tmp_path: Path, patterns: list[str]
) -> None:
    place = tree(tmp_path / "repo", *patterns) / "run"
    refused(place, "does not ignore all of it", "run.json", "robust.jsonl")


def test_the_file_that_will_be_written_is_asked_about(tmp_path: Path) -> None:
    place = tree(tmp_path / "repo", "run/*", "!*.jsonl") / "run"
    refused(place, "does not ignore all of it", "copy.jsonl")
    require_private(place, ["copy.txt"])


def test_a_file_that_git_follows_already_makes_an_ignored_folder_public(tmp_path: Path) -> None:
    repo = tree(tmp_path / "repo", "run/")
    (repo / "run").mkdir(mode=0o700)
    require_private(repo / "run")
    (repo / "run" / "notes").write_text("of another day\n")
    subprocess.run(["git", "-C", str(repo), "add", "-f", "run/notes"], check=True)
    refused(repo / "run", "does not ignore all of it")


def test_a_link_on_the_way_into_a_work_tree_is_followed(tmp_path: Path) -> None:
    tree(tmp_path / "repo", "*.json")
    (tmp_path / "link").symlink_to(tmp_path / "repo")
    refused(tmp_path / "link" / "run", "does not ignore all of it")
    refused(tmp_path / "link" / "new" / "run", "does not ignore all of it")


@pytest.mark.parametrize(
    "name",
    ["Dropbox", "Dropbox (Lab)", "OneDrive", "OneDrive - Some Lab", "Google Drive", "GoogleDrive-me@example.org",
     "My Drive", "iCloud Drive", "Mobile Documents", "com~apple~CloudDocs", "CloudStorage", "Nextcloud", "ownCloud",
     "Syncthing", "pCloudDrive", "Proton Drive"],
)  # fmt: skip
def test_a_synchronised_folder_is_not_private(tmp_path: Path, name: str) -> None:
    refused(tmp_path / name / "lab" / "run", "synchronised")


@pytest.mark.parametrize("name", ["dropboxes", "sync", "drive", "box", "cloud"])
def test_a_name_that_only_looks_like_one_is_private(tmp_path: Path, name: str) -> None:
    require_private(tmp_path / name / "run")


@pytest.mark.parametrize(("mode", "private"), [(0o777, False), (0o707, False), (0o1777, True), (0o755, True)])
def test_a_parent_in_which_anybody_may_write_is_not_private(tmp_path: Path, mode: int, private: bool) -> None:
    (tmp_path / "open" / "lab").mkdir(parents=True)
    (tmp_path / "open").chmod(mode)
    if private:
        require_private(tmp_path / "open" / "lab" / "run")
    else:
        refused(tmp_path / "open" / "lab" / "run", f"mode {mode:04o}")


def test_a_parent_is_looked_at_on_both_sides_of_a_link(tmp_path: Path) -> None:
    for folder in ("mine", "open"):
        (tmp_path / folder).mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "open" / "link").symlink_to(tmp_path / "mine")
    refused(tmp_path / "open" / "link" / "run", "mode 0777")


@pytest.mark.parametrize("name", ["public_html", "htdocs", "WWWROOT"])
def test_a_web_root_is_not_private(tmp_path: Path, name: str) -> None:
    refused(tmp_path / name / "run", "web root")


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("of another day\n")
    refused(tmp_path / "run", "is not a folder")


def test_somebody_else_s_folder_is_not_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    tmp_path.chmod(0o700)
    refused(tmp_path, "belongs to user")
