"""Runs the engine vllm in an interpreter that has vLLM: `python vllm_driver.py FOLDER CACHE < requests.json`.

That interpreter has vLLM's pins and not the rest of robustify's, so only the engine is imported. The answer is one JSON
line behind a mark, because vLLM writes to the same output.
"""

import json
import sys
from pathlib import Path
from typing import Any

MARK = "ROBUSTIFY "


def _score(engine: Any, requests: list[list[str]], out: dict[str, Any]) -> None:
    from robustify.errors import RobustifyError
    from robustify.views import Request

    done: list[int] = []
    try:
        scored = engine.loglikelihoods([Request(*pair) for pair in requests], done.append)
        out["scores"].append([[s.total, s.n_tokens] for s in scored])
    except RobustifyError as error:
        out["scores"].append({"kind": type(error).__name__, "lines": error.lines})
    out["progress"].append(sum(done))
    out["fingerprints"].append(engine.fingerprint())


def main(folder: str, cache: str) -> None:
    from robustify.engines import open_scorer
    from robustify.engines.protocols import Writer
    from robustify.engines.settings import VLLMModel

    asked = json.load(sys.stdin)
    model = VLLMModel(
        name="tiny", engine="vllm", model=folder, dtype="float32", eager=True, **asked["settings"]
    )
    out: dict[str, Any] = {"scores": [], "fingerprints": [], "progress": []}
    with open_scorer(model, Path(cache)) as engine:
        for requests in asked["rounds"]:
            _score(engine, requests, out)
        assert isinstance(engine, Writer)
        out["replies"] = engine.write(asked["prompts"], max_tokens=8)
    with open_scorer(model, Path(cache)) as engine:
        _score(engine, asked["again"], out)
    out["imported_again"] = getattr(engine, "_llm", None) is not None
    print(MARK + json.dumps(out), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
