"""`robustify gate`: parse, scan, report, end with a code. Standard library only, for a quick start.

Ends with 0 clean, 4 refused, 2 usage, 3 a policy or index that cannot be trusted, 6 git or the disk, 1 a bug: every
code but 0 stops a commit. No message holds an excerpt, that of an unexpected error included; what the command line
cannot understand it does not repeat, because an argument may hold text.
"""

import argparse
import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path
from typing import NoReturn

from robustify.errors import AuthorisationError, RobustifyError, UsageError
from robustify.files import writable
from robustify.gate.check import Demo, check_contents, print_report
from robustify.gate.fingerprints import Fingerprints, read_index
from robustify.gate.git import work_tree
from robustify.gate.key_file import IDS_VARIABLES, Key, load_key
from robustify.gate.policy import (
    BY_ID,
    BY_NAME,
    MOST_DAYS,
    NAME,
    RULES,
    AllowEntry,
    Policy,
    digests_of,
    explanation,
    legible,
    safe_demo,
)
from robustify.gate.sources import of_named, policy_of, task_of

INDEX_VARIABLE = "ROBUSTIFY_GATE_INDEX"
_DESCRIPTION = """\
Refuse items of a sensitive set before they are committed, pushed or published.

Three layers: the structure of multiple-choice records in any text format, a reviewed lexicon of category words, and
keyed fingerprints of registered sets. One line a finding: path:line rule name; never an excerpt."""
_EPILOG = """\
examples:
  robustify gate --staged                     what the next commit would add (the hook)
  robustify gate --range origin/main..HEAD    every content and message of the commits (CI)
  robustify gate items.jsonl notes.md         files
  robustify gate --explain RBG101             what a rule means and how to mend it
  robustify gate doctor                       what is on here, what is off, what would pass today
  robustify gate index ITEMS --key FILE -o INDEX        register a set
  robustify gate allow PATH --reason WHY --by WHO       bind an allow-list entry to a content

exit codes: 0 clean (warnings allowed), 4 refused, 2 usage, 3 policy or index unusable, 6 git or disk, 1 a bug"""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors name the option at fault and nothing that was typed."""

    def __init__(self, prog: str, description: str, epilog: str = "") -> None:
        form = argparse.RawDescriptionHelpFormatter
        super().__init__(
            prog, description=description, epilog=epilog, formatter_class=form, allow_abbrev=False
        )

    def error(self, message: str) -> NoReturn:
        whole = message.startswith(("argument -", "one of the", "the following")) and "invalid" not in message
        raise UsageError(f"{message if whole else message.split(':')[0]}; see: {self.prog} --help")


def _add_fingerprints(parser: argparse.ArgumentParser, *, index: bool = True) -> None:
    if index:
        says = "the index of registered sets [$ROBUSTIFY_GATE_INDEX]"
        parser.add_argument("--index", metavar="INDEX", help=says)
    says = "the gate's key file [$ROBUSTIFY_GATE_KEY_FILE, or the key in $ROBUSTIFY_GATE_KEY]"
    parser.add_argument("--key", metavar="FILE", help=says)


def scanner() -> argparse.ArgumentParser:
    """The parser of a scan; its help is the help of the command."""
    parser = _Parser("robustify gate", _DESCRIPTION, _EPILOG)
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE", help="files to scan; a name that begins with - comes after --")
    add("--staged", action="store_true", help="what is staged, read from git's index")
    add("--all", action="store_true", help="every path that git tracks, as it stands in the index")
    add("--range", metavar="A..B", help="every content, path and message that the commits of A..B bring")
    add("--history", action="store_true", help="every commit that HEAD has behind it")
    add(
        "--pushed",
        action="store_true",
        help="every branch and tag that a push may publish (the pre-push hook)",
    )
    add("--commit-msg", nargs="?", const="", metavar="FILE", help="a commit message that is being written")
    add("--stdin", action="store_true", help="standard input")
    _add_fingerprints(parser)
    add(
        "--require-fingerprints",
        action="store_true",
        help="refuse (exit 4) where the fingerprint layer cannot run",
    )
    add("--policy-from", choices=["base", "head", "apart"], default="base",
        help="with --range: whose policy file holds, that of A (default), that of B, or that of B without the entries "
        "that one commit brought together with something else (apart)")  # fmt: skip
    add("--reviewed", metavar="COMMIT", help="with --range or --history: this commit and those before it were looked "
        "at by a person; of theirs only what no allow-list entry lifts refuses")  # fmt: skip
    add("--json", action="store_true", help="print one JSON object and nothing else")
    add("-q", "--quiet", action="store_true", help="say nothing on stderr when clean")
    add("--explain", metavar="RULE", help="what a rule means (all: every rule)")
    return parser


def _scanning(argv: Sequence[str]) -> argparse.Namespace:
    """The options of a scan: exactly one thing to scan."""
    parser = scanner()
    asked = parser.parse_args(list(argv))
    if asked.commit_msg == "" and len(asked.files) == 1:  # options stood between the option and its file
        asked.commit_msg = asked.files.pop()
    modes = (
        asked.staged, asked.all, asked.history, asked.pushed, asked.stdin, asked.range is not None,
        asked.commit_msg is not None,
    )  # fmt: skip
    if not asked.explain and (sum(map(bool, (*modes, asked.files))) != 1 or asked.commit_msg == ""):
        parser.error("one of the following is expected, and only one: FILES, --staged, --all, --range A..B, --history,"
                     " --pushed, --commit-msg FILE, --stdin")  # fmt: skip
    if asked.reviewed is not None and not (asked.history or asked.range is not None):
        parser.error("one of the following is expected with --reviewed: --range A..B, --history")
    return asked


def _indexing(argv: Sequence[str]) -> argparse.Namespace:
    """The options of `gate index`."""
    parser = _Parser("robustify gate index", "Register sets: texts become an index of keyed fingerprints.")
    add = parser.add_argument
    add("items", nargs="+", metavar="ITEMS", help="JSON, JSONL, CSV, TSV or text files; one set a file")
    _add_fingerprints(parser, index=False)
    add("-o", "--out", "--output", required=True, metavar="INDEX", help="where the index goes")
    add("--name", metavar="NAME", help="one name for all files [each file's own name]; findings show it")
    add("--background", action="append", default=[], metavar="PATH",
        help="a file or folder of harmless text whose phrases are left out, beside Python's own library")  # fmt: skip
    add("--json", action="store_true", help="print one JSON object and nothing else")
    return parser.parse_args(list(argv))


def _allowing(argv: Sequence[str]) -> argparse.Namespace:
    """The options of `gate allow`."""
    parser = _Parser("robustify gate allow", "Bind allow-list entries to files that were found harmless.")
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help="files of this repository, as they stand in the work tree")
    add("--reason", required=True, help="why the content is harmless")
    add("--by", required=True, help="who looked at it")
    add("--days", type=int, default=180, help="days until it must be looked at again (at most 180)")
    _add_fingerprints(parser)
    return parser.parse_args(list(argv))


def _consulting(argv: Sequence[str]) -> argparse.Namespace:
    """The options of `gate doctor`."""
    parser = _Parser("robustify gate doctor", "What of the gate is on, what is off, what would pass today.")
    _add_fingerprints(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    return parser.parse_args(list(argv))


def main(argv: Sequence[str]) -> int:
    """Run the command and print every error in its own lines; returns the exit code."""
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
        print(f"robustify gate: {_place(error)} (no details: they may hold text)", file=sys.stderr)
        return 1
    return code


def _place(error: Exception) -> str:
    """Where an unexpected error arose: a module, a line and a type, never a value."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else "?"
    return f"error in {where}: {type(error).__name__}"


def run(argv: Sequence[str]) -> int:
    """Run the command. Raises the errors that `main` prints."""
    match list(argv[:1]):
        case ["index"]:
            from robustify.gate.build import index_command

            return index_command(_indexing(argv[1:]))
        case ["doctor"]:
            from robustify.gate.doctor import doctor

            asked = _consulting(argv[1:])
            try:
                prints, why_not = _fingerprints(asked)
            except RobustifyError as error:
                prints, why_not = None, error.lines[0]
            return doctor(asked, prints, why_not)
        case ["allow"]:
            asked = _allowing(argv[1:])
            return _allow(asked, _fingerprints(asked)[0], date.today())
        case _:
            asked = _scanning(argv)
            return _explain(asked.explain) if asked.explain else _scan(asked)


def _explain(name: str) -> int:
    if name == "all":
        print("\n\n".join("\n".join(explanation(rule)) for rule in RULES))
        return 0
    rule = BY_ID.get(name.upper()) or BY_NAME.get(name.lower())
    if rule is None:
        raise UsageError(f"no such rule; expected all, or one of {', '.join(BY_ID)}")
    print("\n".join(explanation(rule)))
    return 0


def _scan(asked: Namespace) -> int:
    prints, why_not = _fingerprints(asked)
    if prints is None and asked.require_fingerprints:
        raise AuthorisationError(f"the fingerprint layer is required and cannot run: {why_not}")
    demo: Demo = "off" if not safe_demo() else "ignored" if _for_others(asked) else "on"
    task = task_of(asked)
    policy = task.policy if demo != "on" else Policy(task.policy.entries, task.head().demo)
    outcome = check_contents(
        task.contents, prints, policy, demo=demo == "on", today=date.today(), keys=_own_keys(asked)
    )
    print_report(outcome, why_not, task.notes, demo=demo, as_json=asked.json, quiet=asked.quiet)
    return AuthorisationError.exit_code if outcome.refused else 0


def _for_others(asked: Namespace) -> bool:
    """Whether the scan guards what leaves this machine: a range, or anything in CI. SAFE_DEMO is for work at hand."""
    return bool(asked.range or asked.history or asked.pushed) or os.environ.get("CI", "") not in (
        "",
        "0",
        "false",
    )


def _fingerprints(asked: Namespace) -> tuple[Fingerprints | None, str]:
    """The fingerprint layer, or None and why it cannot run."""
    index = asked.index or os.environ.get(INDEX_VARIABLE)
    key = load_key(asked.key)
    if not index:
        return None, f"no index of a registered set (--index or ${INDEX_VARIABLE})"
    if key is None:
        return None, "no key to the index ($ROBUSTIFY_GATE_KEY_FILE or $ROBUSTIFY_GATE_KEY)"
    return Fingerprints(read_index(Path(index), key), key), ""


def _own_keys(asked: Namespace) -> list[Key]:
    """The gate's key and the evaluator's, where they are at hand: their secrets are found even alone."""
    keys = [load_key(asked.key)]
    with suppress(RobustifyError):  # a fault of the evaluator's key is said where that key is used
        keys.append(load_key(None, *IDS_VARIABLES))
    return [key for key in keys if key is not None]


def _allow(asked: Namespace, prints: Fingerprints | None, today: date) -> int:
    """Write entries for the refusals of each file. Raises `AuthorisationError` where one cannot be lifted."""
    root = work_tree(Path.cwd())
    if root is None:
        raise UsageError("not inside a git work tree; an entry is bound to a path of a repository")
    if not 1 <= asked.days <= MOST_DAYS:
        raise UsageError(f"--days {asked.days}; expected 1 to {MOST_DAYS}")
    old = policy_of(root)
    entries = list(old.entries)
    for content in of_named(asked.files, root):
        if content.data is None:
            raise AuthorisationError(f"{legible(content.path)} is larger than the gate reads; split it")
        refused = check_contents([content], prints, Policy(), demo=False, today=today).refused
        stuck = sorted({finding.rule.id for finding in refused if not finding.rule.allowable})
        if stuck:
            raise AuthorisationError(
                f"{legible(content.path)}: no entry lifts {', '.join(stuck)}; remove the content"
            )
        digest, expires = digests_of(content.data)[0], today + timedelta(days=asked.days)
        rules = sorted({finding.rule.id for finding in refused})
        new = {(content.path, rule, digest) for rule in rules}
        # An entry for an earlier content stays in force: that content stays in the history.
        entries = [e for e in entries if e.expires >= today and (e.path, e.rule, e.sha256) not in new]
        entries += [AllowEntry(content.path, rule, digest, asked.reason, asked.by, expires) for rule in rules]
        print(f"{legible(content.path)}: {', '.join(rules) if rules else 'nothing to allow'}")
    with writable(NAME):
        (root / NAME).write_text(Policy(tuple(entries), old.demo).as_json(), encoding="utf-8")
    print(
        f"robustify gate: {NAME} is written; it counts for commits once it is staged: git add {NAME}",
        file=sys.stderr,
    )
    return 0
