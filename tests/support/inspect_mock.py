"""Asks exported Inspect tasks of Inspect's mock model; run by the Python that holds inspect-ai.

`python inspect_mock.py PLAN OUT [without-robustify]`: PLAN is a list of `{"file", "task", "args", "says", "format"}`,
`solver` with `solver_args`, `score` false and `scorer` (which scores the log afterwards, by Inspect's command) as wanted;
`says` a list of `[NEEDLES, WANTED, REPLY]`: the first whose needles are all whole lines of the prompt is meant. WANTED is
the text of a choice, whose letter is looked up in the prompt; without one REPLY is said as it stands. Usage is given
with every reply, because Inspect would otherwise load a tokenizer from the network.
"""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from inspect_ai import eval as ask
from inspect_ai.log import read_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.solver import SolverSpec

ASKED: list[str] = []
CUT = " [cut off]"
"""Ends a reply that the token limit cut off."""


def reply_to(prompt: str, says: list[Any]) -> str:
    for needles, wanted, reply in says:
        if all(re.search(rf"(?m)^(?:[A-Z]\) )?{re.escape(needle)}$", prompt) for needle in needles):
            ASKED.append(prompt)
            if wanted is None:
                return str(reply)
            found = [m[1] for m in re.finditer(r"(?m)^([A-Z])\) (.*)$", prompt) if m[2] == wanted]
            assert len(found) == 1, (wanted, prompt)
            return f"ANSWER: {found[0]}"
    raise AssertionError(f"nothing is said to: {prompt}")


def mock(says: list[Any]) -> Any:
    def output(messages: Any, *_: Any) -> ModelOutput:
        reply = reply_to(messages[-1].text, says)
        stop: Any = "max_tokens" if reply.endswith(CUT) else "stop"
        made = ModelOutput.from_content("mockllm/model", reply.removesuffix(CUT), stop_reason=stop)
        made.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return made

    return get_model("mockllm/model", custom_outputs=output, memoize=False)


def tasks_of(path: str) -> Any:
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def solver_of(one: dict[str, Any]) -> SolverSpec | None:
    given = one.get("solver_args", {})
    return SolverSpec(one["solver"], given, given) if "solver" in one else None


def main(plan: str, out: str) -> None:
    told = []
    for at, one in enumerate(json.loads(Path(plan).read_text("utf-8"))):
        ASKED.clear()
        task = getattr(tasks_of(one["file"]), one["task"])(**one.get("args", {}))
        log = ask(
            task,
            model=mock(one["says"]),
            log_dir=f"{out}/{at}",
            log_format=one["format"],
            display="none",
            score=one.get("score", True),
            solver=solver_of(one),
        )[0]
        if "scorer" in one:
            command = [
                "score", log.location, "--scorer", one["scorer"], "--action", "overwrite", "--overwrite",
            ]  # fmt: skip
            main_ = "from inspect_ai._cli.main import main; main()"
            subprocess.run([sys.executable, "-c", main_, *command], check=True, stdout=sys.stderr)
            log = read_eval_log(log.location)
        results = log.results.scores[0] if log.results else None
        told.append(
            {
                "status": log.status,
                "error": str(log.error.message) if log.error else None,
                "log": str(next(Path(out, str(at)).iterdir())),
                "scorer": results and results.name,
                # `exact` calls its accuracy a mean.
                "measures": {
                    score.name: {name: m.value for name, m in score.metrics.items()}
                    for score in (log.results.scores if log.results else [])
                },
                "accuracy": results
                and next(m.value for n, m in results.metrics.items() if n in ("accuracy", "mean")),
                "scored": results and results.scored_samples,
                "unscored": results and results.unscored_samples,
                "asked": list(ASKED),
            }
        )
    print(json.dumps(told))


if __name__ == "__main__":
    if "without-robustify" in sys.argv:
        sys.modules["robustify"] = None
    main(*sys.argv[1:3])
