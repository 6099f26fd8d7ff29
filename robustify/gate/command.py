"""`robustify gate`: parse, scan, report, end with a code. Standard library only, for a quick start.

Ends with 0 clean, 4 refused, 2 usage, 3 a policy or index that cannot be trusted, 6 git or the disk, 1 a bug: every
code but 0 stops a commit. No message holds an excerpt, that of an unexpected error included; what the command line
cannot understand it does not repeat, because an argument may hold text.
"""

import argparse
import hashlib
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path
from typing import NoReturn

from robustify.errors import AuthorisationError, RobustifyError, UsageError
from robustify.files import writable
from robustify.gate.check import check_contents, report
from robustify.gate.fingerprints import Fingerprints, Item, build_index, read_index, read_texts, write_index
from robustify.gate.git import work_tree
from robustify.gate.key_file import IDS_VARIABLES, Key, load_key
from robustify.gate.policy import MOST_DAYS, NAME, AllowEntry, Policy, legible, policy_of
from robustify.gate.sources import of_named, task_of

INDEX_VARIABLE = "ROBUSTIFY_GATE_INDEX"
_DESCRIPTION = """\
Refuse items of a sensitive set before they are committed, pushed or published.

What is not plain UTF-8 text is refused, and so are long encoded runs within text. In text, the structure of
multiple-choice records, a reviewed lexicon and keyed fingerprints of registered sets are looked for.
One line per finding: path:line rule name; never an excerpt."""
_EPILOG = """\
examples:
  robustify gate --staged                     what the next commit would add (the hook)
  robustify gate --range origin/main..HEAD    every content and message of the commits (CI)
  robustify gate items.jsonl notes.md         files
  robustify gate doctor                       run each installed hook on a canary
  robustify gate index ITEMS --key FILE -o INDEX        register a set
  robustify gate allow PATH --reason WHY --by WHO       let one content pass; again: robustify gate allow PATH

exit codes: 0 clean (warnings allowed), 4 refused, 2 usage, 3 policy or index unusable, 6 git or disk, 1 a bug"""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors name the option at fault and nothing that was typed."""

    def __init__(self, prog: str, description: str, epilog: str = "") -> None:
        form = argparse.RawDescriptionHelpFormatter
        super().__init__(prog, None, description, epilog, formatter_class=form, allow_abbrev=False)
        where = "[$ROBUSTIFY_GATE_KEY_FILE, or the key in $ROBUSTIFY_GATE_KEY]"
        self.add_argument("--key", metavar="FILE", help=f"the gate's key file {where}")
        self.add_argument("--index", help="the index of registered sets [$ROBUSTIFY_GATE_INDEX]")

    def error(self, message: str) -> NoReturn:
        whole = message.startswith(("argument -", "one of the", "the following")) and "invalid" not in message
        raise UsageError(f"{message if whole else message.split(':')[0]}; see: {self.prog} --help")


def scanner() -> argparse.ArgumentParser:
    """Return the parser of a scan; its help is the help of the command."""
    parser = _Parser("robustify gate", _DESCRIPTION, _EPILOG)
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE", help="files to scan; a name that begins with - comes after --")
    add("--staged", action="store_true", help="what is staged, read from git's index")
    add("--all", action="store_true", help="every path that git tracks, as it stands in the index")
    add("--range", metavar="A..B", help="all that the commits of A..B bring (A all zeros: all commits of B)")
    add("--pushed", nargs="?", const="", metavar="REMOTE", help="what a push publishes (the pre-push hook)")
    add("--commit-msg", nargs="?", const="", metavar="FILE", help="a commit message that is being written")
    add("--require-fingerprints", action="store_true", help="refuse (exit 4) if that layer cannot run")
    whose = "that of A (base), or also entries of later commits that change nothing else (apart)"
    add(
        "--policy-from",
        choices=["base", "apart"],
        default="base",
        help=f"whose policy counts for a range: {whose}",
    )
    return parser


def _scanning(argv: Sequence[str]) -> Namespace:
    """Return the options of a scan: exactly one thing to scan."""
    parser = scanner()
    asked = parser.parse_args(list(argv))
    if asked.commit_msg == "" and len(asked.files) == 1:  # options stood between the option and its file
        asked.commit_msg = asked.files.pop()
    modes = (asked.staged, asked.all, asked.pushed is not None, asked.range, asked.commit_msg, asked.files)
    if sum(map(bool, modes)) != 1 or asked.commit_msg == "":
        ways = "FILES, --staged, --all, --range A..B, --pushed, --commit-msg FILE"
        parser.error(f"one of the following is expected, and only one: {ways}")
    return asked


def main(argv: Sequence[str]) -> int:
    """Run the command and print every error in its own lines; return the exit code."""
    try:
        code = run(argv)
        sys.stdout.flush()
    except RobustifyError as error:
        for line in error.lines:
            print(f"robustify gate: {line}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("robustify gate: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader has gone; what could not be printed stops the commit all the same.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 4
    except Exception as error:
        print(f"robustify gate: {_origin(error)} (no details: they may hold text)", file=sys.stderr)
        return 1
    return code


def _origin(error: Exception) -> str:
    """Return where an unexpected error arose: a module, a line and a type, never a value."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else "?"
    return f"error in {where}: {type(error).__name__}"


def run(argv: Sequence[str]) -> int:
    """Run the command. Raises the errors that `main` prints."""
    commands: dict[str, Callable[[Sequence[str]], int]] = {
        "index": _index,
        "doctor": _doctor,
        "allow": _allow,
    }
    if argv and argv[0] in commands:
        return commands[argv[0]](argv[1:])
    return _scan(_scanning(argv))


def _scan(asked: Namespace) -> int:
    prints, why_not = _fingerprints(asked)
    if prints is None and asked.require_fingerprints:
        raise AuthorisationError(f"the fingerprint layer is required and cannot run: {why_not}")
    task = task_of(asked)
    outcome = check_contents(task.contents, prints, task.policy, _own_keys(asked))
    report(outcome, why_not, task.notes)
    return AuthorisationError.exit_code if outcome.refused else 0


def _fingerprints(asked: Namespace) -> tuple[Fingerprints | None, str]:
    """Return the fingerprint layer, or None and why it cannot run."""
    index = asked.index or os.environ.get(INDEX_VARIABLE)
    key = load_key(asked.key)
    if not index:
        return None, f"no index of a registered set (--index or ${INDEX_VARIABLE})"
    if key is None:
        return None, "no key to the index ($ROBUSTIFY_GATE_KEY_FILE or $ROBUSTIFY_GATE_KEY)"
    return Fingerprints(read_index(Path(index), key), key), ""


def _own_keys(asked: Namespace) -> list[Key]:
    """Return the gate's key and the evaluator's, if they are at hand: their secrets are found even alone."""
    keys = [load_key(asked.key)]
    with suppress(RobustifyError):  # a fault of the evaluator's key is said where that key is used
        keys.append(load_key(None, *IDS_VARIABLES))
    return [key for key in keys if key is not None]


def _index(argv: Sequence[str]) -> int:
    """Register sets. Raises `AuthorisationError` without a key, `DataError` for bad files."""
    parser = _Parser("robustify gate index", "Register sets: texts become an index of keyed fingerprints.")
    add = parser.add_argument
    add("items", nargs="+", metavar="ITEMS", help="JSON, JSONL, CSV, TSV or text files; one set per file")
    add("-o", "--out", "--output", required=True, metavar="INDEX", help="where the index goes")
    add("--name", metavar="NAME", help="one name for all files [each file's own name]; findings show it")
    harmless = "harmless text whose phrases are left out, beside Python's own library (a file or folder)"
    add("--background", action="append", default=[], metavar="PATH", help=harmless)
    asked = parser.parse_args(list(argv))
    key = load_key(asked.key)
    if key is None:
        raise AuthorisationError("no key for the index; expected --key FILE (robustify restricted key new)")
    sets: dict[str, list[Item]] = {}
    for name in asked.items:
        sets.setdefault(asked.name or Path(name).stem, []).extend(read_texts(Path(name)))
    background = [Path(name) for name in asked.background]
    if missing := [legible(str(path)) for path in background if not path.exists()]:
        raise UsageError(f"no such background: {', '.join(missing)}")
    built = build_index(sets, key, background)
    write_index(Path(asked.out), built, key)
    print(f"{legible(asked.out)}: {built.items:,} items, {len(built.shingles) // 2:,} shingles, key {key.id}")
    if built.blind:
        why = "too short, or too much like ordinary text"
        print(f"robustify gate: {built.blind:,} items are not recognised: {why}", file=sys.stderr)
    return 0


def _doctor(argv: Sequence[str]) -> int:
    from robustify.gate.doctor import doctor

    asked = _Parser("robustify gate doctor", "Run each installed hook on a canary.").parse_args(list(argv))
    try:
        return doctor(_fingerprints(asked)[1])
    except RobustifyError as error:
        return doctor(error.lines[0])


def _allow(argv: Sequence[str]) -> int:
    """Write an entry for each file that is refused. Raises `AuthorisationError` if one cannot be lifted."""
    parser = _Parser(
        "robustify gate allow", f"Let contents pass that a person looked at, for {MOST_DAYS} days."
    )
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="files of this repository, as in the work tree"
    )
    parser.add_argument("--reason", help="why the content is harmless [that of the path's last entry]")
    parser.add_argument("--by", help="who looked at it [that of the path's last entry]")
    asked = parser.parse_args(list(argv))
    prints, today, root = _fingerprints(asked)[0], date.today(), work_tree(Path.cwd())
    if root is None:
        raise UsageError("not inside a git work tree; an entry is bound to a path of a repository")
    entries = [entry for entry in policy_of(root).entries if entry.expires >= today]
    for content in of_named(asked.files, root):
        path, shown = content.path, legible(content.path)
        if content.data is None:
            raise AuthorisationError(f"{shown} is larger than the gate reads; split it")
        refused = check_contents([content], prints, Policy()).refused
        if stuck := sorted({finding.rule.id for finding in refused if not finding.rule.allowable}):
            raise AuthorisationError(f"{shown}: no entry lifts {', '.join(stuck)}; remove the content")
        last = next((entry for entry in reversed(entries) if entry.path == path), None)
        reason, by = asked.reason or (last and last.reason), asked.by or (last and last.by)
        if refused and not (reason and by):
            mend = "say why it is harmless and who looked: --reason WHY --by WHO"
            raise UsageError(f"{shown} has no entry yet; {mend}")
        # One entry per path: a range of commits takes the entries of earlier contents from its own commits.
        entries = [entry for entry in entries if entry.path != path]
        if refused and reason and by:
            digest, expires = hashlib.sha256(content.data).hexdigest(), today + timedelta(days=MOST_DAYS)
            entries.append(AllowEntry(path, digest, reason, by, expires))
        print(f"{shown}: {', '.join(sorted({finding.rule.id for finding in refused})) or 'nothing to allow'}")
    with writable(NAME):
        (root / NAME).write_text(Policy(tuple(entries)).as_json(), encoding="utf-8")
    print(f"robustify gate: {NAME} is written; it counts once it is staged: git add {NAME}", file=sys.stderr)
    return 0
