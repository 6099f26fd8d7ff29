"""The command line of the gate. What it cannot understand it does not repeat: an argument may hold text."""

import argparse
from collections.abc import Sequence
from typing import NoReturn

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
  robustify gate index ITEMS --key FILE -o INDEX        register a set
  robustify gate allow PATH --reason WHY --by WHO       bind an allow-list entry to a content

exit codes: 0 clean (warnings allowed), 4 refused, 2 usage, 3 policy or index unusable, 6 git or disk, 1 a bug"""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors name the option at fault and nothing that was typed."""

    def error(self, message: str) -> NoReturn:
        from robustify.errors import UsageError

        whole = message.startswith(("argument -", "one of the", "the following")) and "invalid" not in message
        raise UsageError(f"{message if whole else message.split(':')[0]}; see: {self.prog} --help")


def _parser(prog: str, description: str, epilog: str = "") -> _Parser:
    return _Parser(
        prog=prog,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _add_key(parser: argparse.ArgumentParser) -> None:
    says = "the gate's key file [$ROBUSTIFY_GATE_KEY_FILE, or the key in $ROBUSTIFY_GATE_KEY]"
    parser.add_argument("--key", metavar="FILE", help=says)


def _add_index(parser: argparse.ArgumentParser) -> None:
    says = "the index of registered sets [$ROBUSTIFY_GATE_INDEX]"
    parser.add_argument("--index", metavar="INDEX", help=says)


def scanner() -> argparse.ArgumentParser:
    """The parser of a scan; its help is the help of the command."""
    parser = _parser("robustify gate", _DESCRIPTION, _EPILOG)
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE", help="files to scan; a name that begins with - comes after --")
    add("--staged", action="store_true", help="what is staged, read from git's index")
    add("--all", action="store_true", help="every path that git tracks, as it stands in the index")
    add("--range", metavar="A..B", help="every content, path and message that the commits of A..B bring")
    add("--pushed", action="store_true", help="the range that pre-commit names at the pre-push stage")
    add("--commit-msg", metavar="FILE", help="a commit message that is being written")
    add("--stdin", action="store_true", help="standard input")
    _add_index(parser)
    _add_key(parser)
    add(
        "--require-fingerprints",
        action="store_true",
        help="refuse (exit 4) where the fingerprint layer cannot run",
    )
    add("--policy-from", choices=["base", "head"], default="base",
        help="with --range: whose policy file holds, that of A (default) or that of B")  # fmt: skip
    add("--json", action="store_true", help="print one JSON object and nothing else")
    add("-q", "--quiet", action="store_true", help="say nothing on stderr when clean")
    add("--explain", metavar="RULE", help="what a rule means (all: every rule)")
    return parser


def scanning(argv: Sequence[str]) -> argparse.Namespace:
    """The options of a scan: exactly one thing to scan."""
    parser = scanner()
    asked = parser.parse_args(list(argv))
    modes = (
        asked.staged,
        asked.all,
        asked.pushed,
        asked.stdin,
        asked.range is not None,
        asked.commit_msg is not None,
    )
    if not asked.explain and sum(map(bool, (*modes, asked.files))) != 1:
        parser.error("one of the following is expected, and only one: FILES, --staged, --all, --range A..B, --pushed,"
                     " --commit-msg FILE, --stdin")  # fmt: skip
    return asked


def indexing(argv: Sequence[str]) -> argparse.Namespace:
    """The options of `gate index`."""
    parser = _parser(
        "robustify gate index", "Register sets: their texts become an index of keyed fingerprints."
    )
    add = parser.add_argument
    add("items", nargs="+", metavar="ITEMS", help="JSON, JSONL, CSV, TSV or text files; one set a file")
    _add_key(parser)
    add("-o", "--out", "--output", required=True, metavar="INDEX", help="where the index goes")
    add("--name", metavar="NAME", help="one name for all files [each file's own name]; findings show it")
    add("--background", action="append", default=[], metavar="PATH",
        help="a file or folder of harmless text whose phrases are left out, beside Python's own library")  # fmt: skip
    add("--json", action="store_true", help="print one JSON object and nothing else")
    return parser.parse_args(list(argv))


def allowing(argv: Sequence[str]) -> argparse.Namespace:
    """The options of `gate allow`."""
    parser = _parser(
        "robustify gate allow", "Bind allow-list entries to files that were looked at and are harmless."
    )
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help="files of this repository, as they stand in the work tree")
    add("--reason", required=True, help="why the content is harmless")
    add("--by", required=True, help="who looked at it")
    add("--days", type=int, default=180, help="days until it must be looked at again (at most 180)")
    _add_index(parser)
    _add_key(parser)
    return parser.parse_args(list(argv))
