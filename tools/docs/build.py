"""Writes the generated blocks of the documentation: `python -m tools.docs.build`; `--check` only compares.

A block stands between `<!-- generated: NAME -->` and `<!-- end -->`. What can be printed by the program or
read from results/ is never typed by hand.
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import click

from tools.docs import (
    adapters,
    bench,
    findings,
    freeform,
    gate,
    leak,
    papers,
    release,
    sources,
    tutorial,
    validity,
)
from tools.docs.measured import table

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"(<!-- generated: ([a-z-]+) -->\n)(.*?)(<!-- end -->)", re.S)
DEMO = ROOT / "results" / "benign_demo" / "summary.json"


def commands() -> str:
    from robustify.cli import cli

    return "\n".join(_help(name, command) for name, command in _walk("robustify", cli))


def _walk(name: str, command: click.Command) -> list[tuple[str, click.Command]]:
    inner = command.commands if isinstance(command, click.Group) else {}
    return [(name, command), *(pair for key in sorted(inner) for pair in _walk(f"{name} {key}", inner[key]))]


def _help(name: str, command: click.Command) -> str:
    from robustify.cli import CONTEXT

    # Click keeps the help option of the first context that a command was used in, perhaps one without `-h`.
    command._help_option = None
    context = click.Context(command, info_name=name, terminal_width=100, **CONTEXT)
    return f"## `{name}`\n\n```text\n{command.get_help(context)}\n```\n"


def settings() -> str:
    from robustify.ask import Asking
    from robustify.baselines.artifact_probe import ProbeSettings
    from robustify.baselines.linear_probes import LinearProbeSettings
    from robustify.config import Config
    from robustify.engines.settings import HFModel, OpenAIModel, RayModel, VLLMModel
    from robustify.judge.cloze import ClozeSettings
    from robustify.judge.guardrails import Limits
    from robustify.loaders import Source
    from robustify.logs.replay import ReplayModel
    from robustify.ngrams.overlap import ContaminationSettings
    from robustify.screen.screen_rules import ScreenRules

    sections = {
        "(top level)": Config, "data": Source, "models": HFModel, "models with engine: replay": ReplayModel,
        "models with engine: openai": OpenAIModel, "models with engine: vllm": VLLMModel,
        "models with engine: ray": RayModel,
        "asking": Asking, "screen, alternatives": ScreenRules,
        "cloze": ClozeSettings, "probe": ProbeSettings, "heads": LinearProbeSettings,
        "contamination": ContaminationSettings, "limits": Limits,
    }  # fmt: skip
    out = []
    for name, kind in sections.items():
        doc = " ".join((kind.__doc__ or "").split())
        rows = [f"| `{key}` | {_default(field)} |" for key, field in kind.model_fields.items()]
        out.append(f"### {name}\n\n{doc}\n\n| key | default |\n|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(out)


def _default(field: object) -> str:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

    assert isinstance(field, FieldInfo)
    if field.is_required():
        return "must be given"
    value = field.get_default(call_default_factory=True)
    return "see below" if isinstance(value, BaseModel) else f"`{json.dumps(value, default=list)}`"


def heuristics() -> str:
    from robustify.baselines.heuristics import HEURISTICS

    return table("name | picks", [[f"`{h.name}`", h.says] for h in HEURISTICS], 2)


def templates() -> str:
    from robustify.views import VIEWS, names, template

    all_ = [template(view, name) for view in VIEWS for name in names(view)]
    rows = [
        [f"`{t.view}`", f"`{t.name}`", "letter" if t.by_letter else "text", f"`{t.digest[:16]}`"]
        for t in all_
    ]
    return table("view | template | scored | sha256 (first 16)", rows, 4)


def exit_codes() -> str:
    from robustify import errors

    kinds = [errors.UsageError, errors.DataError, errors.AuthorisationError, errors.ModelError, errors.ResourceError,
             errors.GuardrailError]  # fmt: skip
    rows = [f"| {k.exit_code} | {' '.join((k.__doc__ or '').split())} |" for k in kinds]
    return (
        "| code | when |\n|---|---|\n| 0 | Done. |\n| 1 | A bug in robustify. |\n"
        + "\n".join(rows)
        + ("\n| 130, 143 | Interrupted, terminated. |\n")
    )


def demo() -> str:
    from robustify.report.opening import closing
    from robustify.run import open_run
    from robustify.summary.format_1 import read
    from tools.planted import compared

    summary = read(json.loads(DEMO.read_text(encoding="utf-8")))
    lines = [*closing(summary, "runs/benign_demo"), "", *compared(open_run(DEMO.parent))]
    return "```text\n" + "\n".join(lines) + "\n```\n"


GENERATED: dict[str, Callable[[], str]] = {
    "commands": commands,
    "settings": settings,
    "heuristics": heuristics,
    "templates": templates,
    "exit-codes": exit_codes,
    "demo": demo,
    **{
        name: block
        for module in (
            adapters, bench, findings, freeform, gate, leak, papers, release, sources, tutorial, validity,
        )
        for name, block in module.BLOCKS.items()
    },
}  # fmt: skip


SCHEMA = ROOT / "docs" / "summary.schema.json"


def schema() -> str:
    """The JSON Schema of summary.json, as it stands in docs/."""
    from robustify.summary.result import schema as of_summary

    return json.dumps(of_summary(), indent=1) + "\n"


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def renewed(text: str) -> str:
    return BLOCK.sub(lambda m: f"{m[1]}{GENERATED[m[2]]()}{m[4]}", text)


def main() -> int:
    stale = []
    for page in (*pages(), SCHEMA):
        old = page.read_text(encoding="utf-8") if page.is_file() else ""
        new = schema() if page == SCHEMA else renewed(old)
        if new != old:
            stale.append(str(page.relative_to(ROOT)))
            if "--check" not in sys.argv:
                page.write_text(new, encoding="utf-8")
    print(f"{'stale' if '--check' in sys.argv else 'renewed'}: {', '.join(stale) or 'none'}")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
