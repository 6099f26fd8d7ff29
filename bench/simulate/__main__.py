"""`python -m bench.simulate FOLDER [NAME=VALUE ...]`: a benchmark whose shortcuts are known, judged, beside the truth.

The names are the fields of `Simulation`. Written are items.jsonl, answers.parquet and truth.json, and no `run.json`, so
that nobody takes a simulated benchmark for a run.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from bench.simulate.drawing import Drawn, draw, truth
from bench.simulate.parameters import Simulation
from bench.simulate.proof import Estimate, estimates_beside, judged
from bench.simulate.truth import true_values
from robustify.files import write_json
from robustify.report.reasons import screen_sentence
from robustify.run import write_items

SHOWN = (
    "screen/", "accuracy/", "residual/", "permutation/", "heuristics/all/longest_answer", "heuristics/all/most_hedges",
)  # fmt: skip


def written(folder: Path, drawn: Drawn) -> tuple[str, list[Estimate]]:
    """Write the three files and judge them: what the screen found in a sentence, and every interval beside its truth."""
    items = drawn.items()
    answers = drawn.answers(items)
    folder.mkdir(parents=True, exist_ok=True)
    write_items(folder / "items.jsonl", items)
    answers.write(folder / "answers.parquet")
    write_json(folder / "truth.json", truth(drawn))
    summary = judged(drawn, answers, items).summary
    said = "" if summary.screen is None else screen_sentence(summary.screen)
    return said, estimates_beside(true_values(drawn.sim), summary.tree())


def lines(said: str, estimates: Sequence[Estimate]) -> Iterator[str]:
    """What is asked most often, then how many of all intervals hold the truth."""
    shown = [e for e in estimates if e.path.startswith(SHOWN)]
    width = max((len(e.path) for e in shown), default=0)
    yield f"{'':{width}}   truth   found   95 % interval"
    for e in shown:
        ends = f"{e.low:6.1%} to {e.high:6.1%}{'' if e.inside else '  outside'}"
        yield f"{e.path:{width}}  {e.truth:6.1%}  {e.value:6.1%}  {ends}"
    inside = sum(e.inside for e in estimates)
    yield f"{inside} of {len(estimates)} intervals hold the true value; about 95 % of them should."
    yield said


if __name__ == "__main__":
    named = dict(argument.split("=", 1) for argument in sys.argv[2:])
    sim = Simulation.model_validate({name: yaml.safe_load(value) for name, value in named.items()})
    print("\n".join(lines(*written(Path(sys.argv[1]), draw(sim)))))
