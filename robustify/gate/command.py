"""`robustify gate`: parse, scan, report, end with a code. Standard library only, for a quick start.

Ends with 0 clean, 4 refused, 2 usage, 3 a policy or index that cannot be trusted, 6 git or the disk, 1 a bug: every
code but 0 stops a commit. No message holds an excerpt, that of an unexpected error included.
"""

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from robustify.errors import AuthorisationError, ResourceError, RobustifyError, UsageError
from robustify.gate import arguments
from robustify.gate.check import Demo, check_contents, print_report
from robustify.gate.decode.unpack import MOST_BYTES
from robustify.gate.fingerprints.index_file import read_index
from robustify.gate.fingerprints.matching import Fingerprints
from robustify.gate.git import Repository, work_tree
from robustify.gate.key_file import load_key
from robustify.gate.policy import MOST_DAYS, NAME, Entry, Policy, digest_of, parse_policy, safe_demo
from robustify.gate.rule_table import BY_ID, BY_NAME, RULES, explained, shown
from robustify.gate.sources import Blob, of_commits, of_entries, of_files, of_message, of_stdin

INDEX_VARIABLE = "ROBUSTIFY_GATE_INDEX"


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be scanned, and the policy that holds for it."""

    contents: Iterator[Blob]
    policy: Policy
    head: Callable[[], Policy]
    """The policy of what was committed before: where SAFE_DEMO's paths are read from."""


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
            from robustify.gate.fingerprints.build import index_command

            return index_command(arguments.indexing(argv[1:]))
        case ["allow"]:
            asked = arguments.allowing(argv[1:])
            return _allow(asked, _fingerprints(asked)[0], date.today())
        case _:
            asked = arguments.scanning(argv)
            return _explain(asked.explain) if asked.explain else _scan(asked)


def _explain(name: str) -> int:
    if name == "all":
        print("\n\n".join("\n".join(explained(rule)) for rule in RULES))
        return 0
    rule = BY_ID.get(name.upper()) or BY_NAME.get(name.lower())
    if rule is None:
        raise UsageError(f"no such rule; expected all, or one of {', '.join(BY_ID)}")
    print("\n".join(explained(rule)))
    return 0


def _scan(asked: Namespace) -> int:
    prints, why_not = _fingerprints(asked)
    if prints is None and asked.require_fingerprints:
        raise AuthorisationError(f"the fingerprint layer is required and cannot run: {why_not}")
    demo: Demo = "off" if not safe_demo() else "ignored" if _for_others(asked) else "on"
    task = _task(asked)
    policy = task.policy if demo != "on" else Policy(task.policy.entries, task.head().demo)
    outcome = check_contents(task.contents, prints, policy, demo=demo == "on", today=date.today())
    print_report(outcome, why_not, demo=demo, as_json=asked.json, quiet=asked.quiet)
    return AuthorisationError.exit_code if outcome.refused else 0


def _for_others(asked: Namespace) -> bool:
    """Whether the scan guards what leaves this machine: a range, or anything in CI. SAFE_DEMO is for work at hand."""
    return bool(asked.range or asked.pushed) or os.environ.get("CI", "") not in ("", "0", "false")


def _fingerprints(asked: Namespace) -> tuple[Fingerprints | None, str]:
    """The fingerprint layer, or None and why it cannot run."""
    index = asked.index or os.environ.get(INDEX_VARIABLE)
    key = load_key(asked.key)
    if not index:
        return None, f"no index of a registered set (--index or ${INDEX_VARIABLE})"
    if key is None:
        return None, "no key to the index ($ROBUSTIFY_GATE_KEY_FILE or $ROBUSTIFY_GATE_KEY)"
    return Fingerprints(read_index(Path(index), key), key), ""


def _task(asked: Namespace) -> Task:
    """The one mode that was asked for."""
    root = work_tree(Path.cwd())
    match asked:
        case Namespace(staged=True):
            repository = Repository(Path.cwd())
            return _of_index(repository, of_entries(repository, repository.staged()))
        case Namespace(all=True):
            repository = Repository(Path.cwd())
            return _of_index(repository, of_entries(repository, repository.tracked()))
        case Namespace(range=str(bounds)):
            return _of_range(Repository(Path.cwd()), bounds, asked.policy_from)
        case Namespace(pushed=True):
            return _of_range(Repository(Path.cwd()), _pushed(), asked.policy_from)
        case Namespace(commit_msg=str(name)):
            return _of_tree(root, of_message(name))
        case Namespace(stdin=True):
            return _of_tree(root, of_stdin())
        case _:
            return _of_tree(root, of_files(asked.files, root))


def _pushed() -> str:
    """The range that pre-commit names; where everything is new it names only the branch."""
    lower, upper = (os.environ.get(f"PRE_COMMIT_{end}_REF", "") for end in ("FROM", "TO"))
    branch = os.environ.get("PRE_COMMIT_LOCAL_BRANCH", "")
    return f"{'0' * 40}..{branch}" if branch and not lower else f"{lower}..{upper}"


def _of_tree(root: Path | None, contents: Iterator[Blob]) -> Task:
    place = root / NAME if root is not None else None
    if place is None or not place.is_file() or place.is_symlink():
        return Task(contents, Policy(), lambda: _head(root))
    policy = parse_policy(place.read_text(encoding="utf-8", errors="replace"), NAME, date.today())
    return Task(contents, policy, lambda: _head(root))


def _head(root: Path | None) -> Policy:
    return Policy() if root is None else _policy_at(Repository(root), "HEAD")


def _of_index(repository: Repository, contents: Iterator[Blob]) -> Task:
    entry = next((entry for entry in repository.tracked() if entry.path == NAME), None)
    policy = _policy(repository, entry.object) if entry is not None else Policy()
    return Task(contents, policy, lambda: _policy_at(repository, "HEAD"))


def _of_range(repository: Repository, bounds: str, policy_from: str) -> Task:
    lower, dots, upper = bounds.partition("..")
    if not dots or not lower or upper.startswith("."):
        raise UsageError("the range is not of the form A..B; expected two commits, as in main..HEAD")
    upper = upper or "HEAD"
    bound = upper if policy_from == "head" else lower
    policy = _policy_at(repository, bound) if bound.strip("0") else Policy()  # all zeros: a new branch
    commits = repository.commits(lower, upper)
    return Task(of_commits(repository, commits), policy, lambda: policy)


def _policy_at(repository: Repository, commit: str) -> Policy:
    """The policy of a commit; none where the commit has no such file or there is no commit yet."""
    try:
        entry = repository.at(repository.commit(commit), NAME)
    except UsageError:
        if commit == "HEAD":
            return Policy()
        raise
    return _policy(repository, entry.object) if entry is not None else Policy()


def _policy(repository: Repository, name: str) -> Policy:
    for _, _, data in repository.contents([name], MOST_BYTES):
        return parse_policy((data or b"").decode("utf-8", "replace"), f"{NAME} (as committed)", date.today())
    return Policy()


def _allow(asked: Namespace, prints: Fingerprints | None, today: date) -> int:
    """Write entries for the refusals of each file. Raises `AuthorisationError` where one cannot be lifted."""
    root = work_tree(Path.cwd())
    if root is None:
        raise UsageError("not inside a git work tree; an entry is bound to a path of a repository")
    if not 1 <= asked.days <= MOST_DAYS:
        raise UsageError(f"--days {asked.days}; expected 1 to {MOST_DAYS}")
    place = root / NAME
    old = parse_policy(place.read_text(encoding="utf-8"), NAME, today) if place.is_file() else Policy()
    entries = list(old.entries)
    for content in of_files(asked.files, root):
        if content.data is None:
            raise AuthorisationError(f"{shown(content.path)} is larger than the gate reads; split it")
        refused = check_contents([content], prints, Policy(), demo=False, today=today).refused
        stuck = sorted({finding.rule.id for finding in refused if not finding.rule.allowable})
        if stuck:
            raise AuthorisationError(
                f"{shown(content.path)}: no entry lifts {', '.join(stuck)}; remove the content"
            )
        digest, expires = digest_of(content.data), today + timedelta(days=asked.days)
        rules = sorted({finding.rule.id for finding in refused})
        new = {(content.path, rule, digest) for rule in rules}
        # An entry for an earlier content stays in force: that content stays in the history.
        entries = [e for e in entries if e.expires >= today and (e.path, e.rule, e.sha256) not in new]
        entries += [Entry(content.path, rule, digest, asked.reason, asked.by, expires) for rule in rules]
        print(f"{shown(content.path)}: {', '.join(rules) if rules else 'nothing to allow'}")
    try:
        place.write_text(Policy(tuple(entries), old.demo).as_json(), encoding="utf-8")
    except OSError as error:
        raise ResourceError(f"{NAME} cannot be written ({error.strerror})") from None
    print(
        f"robustify gate: {NAME} is written; it counts for commits once it is staged: git add {NAME}",
        file=sys.stderr,
    )
    return 0
