"""Find prose that needs a second read: `python -m tools.prose [PATH ...]` prints each fault with its file and line.

In Python files, the docstring of a function must begin with a verb of `VERBS`. No docstring may refer to another one or use
"where" for "if". On pages, a sentence may have at most 40 words. The command exits with code 1 if it finds a fault.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
READ = ("robustify", "bench", "tools", "docs", "README.md", "CONTRIBUTING.md", "adapters/README.md")
LONGEST = 40
"""Largest number of words in a sentence on a page."""
_VERBS = """
    Accept Add Adjust Analyze Answer Append Apply Approximate Arrange Ask Assign Attach Audit Average Begin Block Bound
    Build Cache Call Cast Center Change Check Choose Clear Close Collect Combine Compare Compute Concatenate Confine Connect
    Convert Copy Correct Correlate Count Create Cross-fit Cut Decide Decode Decrypt Delete Derive Describe Detect Disable
    Discard Divide Download Draw Drop Embed Emit Encode Encrypt End Ensure Enter Escape Estimate Evaluate Exclude Exit
    Expand Explain Export Extract Fetch Fill Find Finish Fit Flag Fold Force Forget Format Generate Give Grade Group Guess
    Handle Hash Hide Ignore Import Infer Insert Inspect Install Interpolate Join Judge Keep Label Let Limit Link List Load
    Lock Log Look Make Manage Map Mark Match Measure Merge Move Name Normalise Normalize Open Order Parse Permit Pick Place
    Plan Predict Prefix Prepare Prevent Print Publish Put Raise Rank Read Recognise Recommend Record Reduce Refuse Register
    Reject Release Remember Remove Rename Render Reopen Reorder Repair Repeat Replace Report Require Re-raise Resample Reset
    Resolve Restore Resume Return Rewrite Round Run Sample Save Say Scale Scan Score Screen Seal Search See Select Send
    Separate Set Shorten Show Shuffle Sign Simulate Skip Smooth Solve Sort Split Standardize Start Stop Store Stream
    Subtract Sum Summarize Suppress Swap Switch Take Test Tokenise Track Train Translate Trim Try Turn Undo Unpack Update
    Maximize Use Validate Verify Wait Warn Watch Weigh Wrap Write Yield
"""
VERBS = frozenset(_VERBS.split())
_LEANS = re.compile(r"(?:^|\. )(?:See|As|Like) (?:the )?(?:class|`)|^As in `|\(c,\): see")
_WHERE = re.compile(
    r"\b(?:None|True|False|NaN|empty|zero|nothing|0) where\b|\bwhere (?:it|they|there|this|that|none|no one|nothing) "
)
_END = re.compile(r"(?<=[.!?:])[\"')*\]`]*\s+")
_LINK = re.compile(r"\]\([^)]*\)|`[^`]*`|\$[^$]*\$")


def docstring_faults(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the fault of each docstring in a Python file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        text = ast.get_docstring(node)
        if not text:
            continue
        line, prose = node.body[0].lineno, " ".join(text.split())
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_property(node):
            first = re.split(r"[\s,.:;]", prose, maxsplit=1)[0]
            if first not in VERBS:
                yield line, f"begins with {first!r}; expected a verb, such as Return or Write"
        if _LEANS.search(prose):
            yield line, "refers to another docstring; expected one that can be read alone"
        if found := _WHERE.search(prose):
            yield line, f"has {found[0].strip()!r}; expected if, for a condition"


def _is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in function.decorator_list)


def page_faults(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the fault of each long sentence of a page, outside code, tables, and lists of literature."""
    fenced, start, paragraph = False, 0, ""
    text = re.sub(
        r"(?ms)^## (?:Sources|References)$.*?(?=^## |\Z)",
        lambda cut: "\n" * cut[0].count("\n"),
        path.read_text("utf-8"),
    )
    for n, line in enumerate([*text.splitlines(), ""], start=1):
        bare = line.strip()
        fence = bare.startswith(("```", "~~~"))
        if fenced or fence or not bare or bare.startswith(("#", "|", "<", "!", "- ", "* ")):
            for sentence in _END.split(_LINK.sub("x", paragraph)):
                if (words := len(sentence.split())) > LONGEST:
                    yield start, f"has a sentence of {words} words; expected at most {LONGEST}"
            fenced, start, paragraph = fenced != fence, n, bare[2:] if bare.startswith(("- ", "* ")) else ""
        else:
            start, paragraph = start if paragraph else n, f"{paragraph} {bare}"


def faults(path: Path) -> Iterable[tuple[int, str]]:
    """Return the lines and the faults of a file."""
    if path.suffix == ".py":
        return docstring_faults(path)
    return page_faults(path) if path.suffix == ".md" and path.name != "changelog.md" else ()


def report(faults_in: Callable[[Path], Iterable[tuple[int, str]]], read: Sequence[str]) -> int:
    """Print the faults of the files below the paths of the command line, or below `read`. Return 1 if there are any."""
    found = 0
    for top in [Path(p).resolve() for p in sys.argv[1:]] or [ROOT / p for p in read]:
        for file in [top] if top.is_file() else sorted(top.rglob("*")):
            for line, fault in faults_in(file):
                found += 1
                print(f"{file.relative_to(ROOT)}:{line}: {fault}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(report(faults, READ))
