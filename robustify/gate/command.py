"""Command line of `robustify gate`, from the arguments to the exit code.

No message contains an excerpt or repeats an argument that is not understood. Only the standard library is imported.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import traceback
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path
from typing import NoReturn

from robustify.base.errors import AuthorisationError, Notice, RobustifyError, UsageError, notice_code
from robustify.base.files import replace_text, writable
from robustify.base.git import Repository, work_tree
from robustify.base.key_file import IDS_FILE_VARIABLE, IDS_VARIABLE, Key, load_key
from robustify.base.texts import escape_what_is_missing, escaped
from robustify.gate.check import (
    MOST_DAYS,
    NAME,
    AllowEntry,
    check_contents,
    policy_text,
    print_outcome,
    read_policy,
    tell,
)
from robustify.gate.fingerprints import (
    TEST_TEXT,
    Fingerprints,
    Item,
    build_index,
    read_index,
    read_texts,
    write_index,
)
from robustify.gate.sources import named_blobs, scan_task

INDEX_VARIABLE = "ROBUSTIFY_GATE_INDEX"
_DESCRIPTION = """\
Refuse items of a sensitive set before they are committed, pushed, or published.

The gate refuses content that is not plain UTF-8 text, and long encoded pieces of text. It searches text
for multiple-choice items, terms of sensitive categories, and the text of registered sets. It prints one
line per finding (path:line rule name), never an excerpt."""
_EPILOG = """\
examples:
  robustify gate --staged                     scan the next commit (pre-commit hook)
  robustify gate --range origin/main..HEAD    scan all files and messages of the commits (CI)
  robustify gate items.jsonl notes.md         scan files
  robustify gate doctor                       test each installed hook
  robustify gate index ITEMS --key FILE -o INDEX        register a set
  robustify gate allow PATH --reason WHY --by WHO       allow the findings in a file or folder, or of a commit

exit codes: 0 clean or warnings, 4 refused, 2 usage error, 3 unusable policy or index, 6 Git or disk error, 1 bug"""


class _Parser(argparse.ArgumentParser):
    def __init__(self, prog: str, description: str, epilog: str = "") -> None:
        form = argparse.RawDescriptionHelpFormatter
        super().__init__(prog, None, description, epilog, formatter_class=form, allow_abbrev=False)
        where = "[$ROBUSTIFY_GATE_KEY_FILE, or the key in $ROBUSTIFY_GATE_KEY]"
        self.add_argument("--key", metavar="FILE", help=f"key file of the gate {where}")
        self.add_argument("--index", help="index of registered sets [$ROBUSTIFY_GATE_INDEX]")

    def error(self, message: str) -> NoReturn:
        is_safe = (
            message.startswith(("argument -", "one of the", "the following")) and "invalid" not in message
        )
        fault = message if is_safe else message.split(":")[0]
        raise UsageError(f"{fault}. For help, run `{self.prog} --help`.", code="invalid-arguments")


def scanner() -> argparse.ArgumentParser:
    """Return the argument parser of a scan. Its help is also the help of `robustify gate`."""
    parser = _Parser("robustify gate", _DESCRIPTION, _EPILOG)
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE", help="files to scan; write -- before a name that begins with -")
    add("--staged", action="store_true", help="scan the staged changes")
    add("--all", action="store_true", help="scan every tracked file, as it is in the index of Git")
    commits = "scan the changes of the commits A..B (if A is all zeros: all commits up to B)"
    add("--range", metavar="A..B", help=commits)
    pushed = "scan the commits about to be pushed (pre-push hook)"
    add("--pushed", nargs="*", metavar=("REMOTE", "URL"), help=pushed)
    add("--commit-msg", nargs="?", const="", metavar="FILE", help="scan a commit message (commit-msg hook)")
    add(
        "--require-fingerprints",
        action="store_true",
        help="exit with 4 if the index or its key cannot be used",
    )
    whose = "that of commit A (base), or also entries that later commits add without other changes (apart)"
    policy = f"policy to apply to a range: {whose}"
    add("--policy-from", choices=["base", "apart"], default="base", help=policy)
    return parser


def run_gate(argv: Sequence[str]) -> int:
    """Run the command, print any error line by line, and return the exit code."""
    escape_what_is_missing()
    run = {"index": _index, "doctor": _doctor, "allow": _allow}.get(argv[0] if argv else "")
    try:
        code = run(argv[1:]) if run else _scan(argv)
        sys.stdout.flush()
    except RobustifyError as error:
        first, *others = error.lines
        tell(Notice(first, code=notice_code(first) or error.code), *others)
        return error.exit_code
    except KeyboardInterrupt:
        tell("interrupted")
        return 130
    except BrokenPipeError:
        # The reader has closed the pipe; findings that could not be printed still stop the commit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 4
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        says = f"error in {Path(last.filename).name}:{last.lineno}: {type(error).__name__}"
        tell(f"{says} (details omitted: they may contain text)")
        return 1
    return code


def _scan(argv: Sequence[str]) -> int:
    parser = scanner()
    options = parser.parse_args(list(argv))
    if options.commit_msg == "" and len(options.files) == 1:  # other options between the option and its file
        options.commit_msg = options.files.pop()
    modes = (
        options.staged,
        options.all,
        options.pushed is not None,
        options.range,
        options.commit_msg,
        options.files,
    )
    if sum(map(bool, modes)) != 1 or options.commit_msg == "":
        ways = "FILES, --staged, --all, --range A..B, --pushed, --commit-msg FILE"
        parser.error(f"one of the following is required, and only one: {ways}")
    prints, why_not = _fingerprints(options)
    if prints is None and options.require_fingerprints:
        raise AuthorisationError(
            f"The fingerprint layer is required but cannot run: {why_not}.", code="missing-fingerprints"
        )
    contents, policy, notes = scan_task(options)
    outcome = check_contents(contents, prints, policy, _own_keys(options))
    print_outcome(outcome, why_not, notes)
    return AuthorisationError.exit_code if outcome.refused else 0


def _fingerprints(options: Namespace) -> tuple[Fingerprints | None, str]:
    """Return the fingerprint layer, or None and the reason why it cannot run."""
    index = options.index or os.environ.get(INDEX_VARIABLE)
    key = load_key(options.key)
    if not index:
        return None, f"no index of registered sets was given (--index or ${INDEX_VARIABLE})"
    if key is None:
        return None, "no key for the index was given ($ROBUSTIFY_GATE_KEY_FILE or $ROBUSTIFY_GATE_KEY)"
    return Fingerprints(read_index(Path(index), key), key), ""


def _own_keys(options: Namespace) -> list[Key]:
    """Return the gate's key and the evaluator's secret key, if they are available."""
    keys = [load_key(options.key)]
    with suppress(RobustifyError):  # a fault of the evaluator's key is reported where that key is used
        keys.append(load_key(None, IDS_FILE_VARIABLE, IDS_VARIABLE))
    return [key for key in keys if key is not None]


def _index(argv: Sequence[str]) -> int:
    parser = _Parser("robustify gate index", "Register sets in an index of keyed fingerprints.")
    add = parser.add_argument
    add("items", nargs="+", metavar="ITEMS", help="JSON, JSONL, CSV, TSV or text files, one set per file")
    add("-o", "--out", "--output", required=True, metavar="INDEX", help="index file to write")
    add("--name", metavar="NAME", help="name to show in findings instead of file names")
    options = parser.parse_args(list(argv))
    key = load_key(options.key)
    if key is None:
        remedy = "Pass `--key FILE`. To create a key, run `robustify restricted key new`."
        raise AuthorisationError(f"No key for the index was given. {remedy}", code="missing-gate-key")
    sets: dict[str, list[Item]] = {}
    for name in options.items:
        sets.setdefault(options.name or Path(name).stem, []).extend(read_texts(Path(name)))
    built = build_index(sets, key)
    write_index(Path(options.out), built, key)
    print(
        f"{escaped(options.out)}: {built.items:,} items, {len(built.shingles) // 2:,} shingles, key {key.id}"
    )
    if built.blind:
        reason = "they are too short or too much like ordinary text"
        tell(Notice(f"{built.blind:,} items cannot be recognized because {reason}", code="blind-items"))
    return 0


def _allow(argv: Sequence[str]) -> int:
    says = f"Allow findings that a person has reviewed, for {MOST_DAYS} days."
    parser = _Parser("robustify gate allow", says)
    add, says = parser.add_argument, "file or folder of this repository, staged or not, or a commit or tag"
    add("paths", nargs="+", metavar="PATH", help=says)
    add("--reason", help="why the content is harmless [default: the reason in the path's entry]")
    add("--by", help="reviewer's name [default: the name in the path's entry]")
    options = parser.parse_args(list(argv))
    prints, today, root = _fingerprints(options)[0], date.today(), work_tree(Path.cwd())
    if root is None:
        raise UsageError(
            "The current folder is not in a Git work tree. Run the command in one.", code="no-work-tree"
        )
    entries = [entry for entry in read_policy(root) if entry.expires >= today]
    for path, contents in named_blobs(options.paths, root):
        refused = check_contents(contents, prints, (), _own_keys(options)).refused
        if stuck := sorted({finding.rule.id for finding in refused if not finding.digests}):
            fault = f"{escaped(path)}: {', '.join(stuck)} cannot be allowed"
            raise AuthorisationError(f"{fault}. Remove the content.", code="finding-not-allowable")
        print(
            f"{escaped(path)}: {', '.join(sorted({finding.rule.id for finding in refused})) or 'nothing to allow'}"
        )
        digests = {digest for finding in refused for digest in finding.digests}
        last = next((entry for entry in reversed(entries) if entry.covers(path)), None)
        reason, by = options.reason or (last and last.reason), options.by or (last and last.by)
        if digests and not (reason and by):
            remedy = "State why it is harmless and who reviewed it: `--reason WHY --by WHO`."
            raise UsageError(f"{escaped(path)} has no policy entry yet. {remedy}", code="missing-reason")
        # The entry of a folder gets the new findings, and loses those that are gone.
        if last and last.path != path:
            ((path, inside),) = named_blobs([str(root / last.path)], root)
            refused_inside = check_contents(inside, prints, (), _own_keys(options)).refused
            digests |= {digest for finding in refused_inside for digest in finding.digests}.intersection(
                last.findings
            )
        entries = [entry for entry in entries if not f"{entry.path}/".startswith(f"{path}/")]
        if digests and reason and by:
            expires = today + timedelta(days=MOST_DAYS)
            entries.append(AllowEntry(path, tuple(sorted(digests)), reason, by, expires))
    with writable(NAME):
        replace_text(root / NAME, policy_text(entries))
    tell(f"{NAME} was written. To apply it, run `git add {NAME}`.")
    return 0


# The doctor runs every installed hook in a temporary copy of the repository, first on a harmless text and then on a made-up
# item and registered text (the canary).

HOOKS = ("pre-commit", "pre-merge-commit", "commit-msg", "pre-push")
# In pieces, so that the gate passes this file.
_OPTIONS = map("{}) {}".format, "ABC", ("bowline", "tub", "oar"))
_CANARY = "\n".join(("Which of these is a knot?", *_OPTIONS, "Answer: A", "", TEST_TEXT))


def _doctor(argv: Sequence[str]) -> int:
    """Print the state of each part of the gate. Return 0 if all parts are on, and otherwise 4."""
    says = "Test whether each installed hook refuses a made-up item and finds registered text."
    parser = _Parser("robustify gate doctor", says)
    parser.add_argument("--json", action="store_true", help="print a single JSON object, not text")
    options = parser.parse_args(list(argv))
    try:
        why_not = _fingerprints(options)[1]
    except RobustifyError as error:
        why_not = error.lines[0]
    root = work_tree(Path.cwd())
    outside = Notice("not in a Git repository, so no hook runs", code="no-work-tree")
    faults = {"fingerprints": Notice(f"did not run: {why_not}" if why_not else "", code="no-fingerprints")}
    faults |= dict(_test_hooks(root)) if root else {"repository": outside}
    n = sum(map(bool, faults.values()))
    if options.json:
        rows = [
            {"part": name, "on": not fault, "code": fault.code if fault else None, "fault": str(fault)}
            for name, fault in faults.items()
        ]
        print(json.dumps({"on": not n, "parts": rows}))
    else:
        for name, fault in faults.items():
            print(f"OFF  {name}: {fault} [{fault.code}]" if fault else f"on   {name}")
    are = f"{n} of {len(faults)} parts are off" if n else f"all {len(faults)} parts are on"
    tell(f"{are}. docs/security.md lists what passes.")
    return AuthorisationError.exit_code if n else 0


def _test_hooks(root: Path) -> Iterator[tuple[str, Notice]]:
    """Test each hook. Yield its name and the fault that was found, or ""."""
    Repository(root)
    hooks = root / _run(root, "git", "rev-parse", "--git-path", "hooks").stdout.strip()
    with tempfile.TemporaryDirectory(prefix="robustify-doctor-") as folder:
        copy = Path(folder, "copy")
        copy.mkdir()
        _run(root, "git", "checkout-index", "--all", f"--prefix={copy}/")
        for step in ("init -q", "add --all --force", "commit -q --allow-empty -m Copy"):
            _run(copy, "git", "-c", "core.hooksPath=/dev/null", *step.split())
        for path in root.iterdir():  # untracked files, such as an environment that a hook needs
            if path.name != ".git" and not (copy / path.name).exists():
                (copy / path.name).symlink_to(path)
        (copy / ".git" / "info" / "exclude").write_text("*\n")
        _run(copy, "git", "init", "-q", "--bare", "../far")
        for stage in HOOKS:
            hook, fault, code = hooks / stage, "", "hook-works"
            if not hook.exists():
                fault, code = "not installed; see docs/security.md", "missing-hook"
            elif not os.access(hook, os.X_OK):
                fault, code = "not executable, so Git skips it", "hook-not-executable"
            elif _run_hook(hook, copy, "A note.").returncode:
                fault = "refused a harmless change too, so the test proves nothing"
                code = "hook-refuses-all"
            elif not (done := _run_hook(hook, copy, _CANARY)).returncode:
                fault, code = "let the canary pass", "hook-passes-canary"
            elif "RBG101" not in done.stdout + done.stderr:
                fault, code = "refused the canary without a gate finding", "hook-without-gate"
            elif "RBG301" not in done.stdout + done.stderr:
                fault = f"did not find registered text. Set ${INDEX_VARIABLE}, or rebuild the index"
                code = "hook-misses-registered-text"
            yield f"{stage} hook", Notice(fault, code=code)


def _run_hook(hook: Path, copy: Path, text: str) -> "subprocess.CompletedProcess[str]":
    """Run a hook on staged text, on a message, or on a pushed tag, as Git would."""
    message = ".git/COMMIT_EDITMSG"  # pre-commit puts changes of other files aside
    note = copy / (message if hook.name == "commit-msg" else "robustify-canary.md")
    note.write_text(text, encoding="utf-8")
    match hook.name:
        case "commit-msg":
            return _run(copy, str(hook), message)
        case "pre-push":
            _run(copy, "git", "tag", "-f", "-a", "canary", "-F", note.name)
            tag = _run(copy, "git", "rev-parse", "canary").stdout.strip()
            line = f"refs/tags/canary {tag} refs/tags/canary {'0' * 40}\n"
            return _run(copy, str(hook), "../far", "../far", given=line)
        case _:
            _run(copy, "git", "add", "--force", note.name)
            return _run(copy, str(hook))


def _run(folder: Path, *line: str, given: str = "") -> "subprocess.CompletedProcess[str]":
    env = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PRE_COMMIT_"))}
    people = (f"GIT_{who}_{what}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL"))
    env |= dict.fromkeys(people, "gate@localhost")
    return subprocess.run(
        line, cwd=folder, env=env, input=given, capture_output=True, text=True, timeout=600, check=False
    )
