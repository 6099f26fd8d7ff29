"""Opening what the user named: a judge at an address, a model that runs here, a recorded judge.

For a restricted set the judge must run on this machine and no record of its prompts is written.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from robustify.engines.protocols import Metered, Writer
from robustify.errors import ModelError, UsageError
from robustify.freeform.judge.asking import Judging
from robustify.freeform.judge.judges import (
    HttpJudge,
    Judge,
    WriterJudge,
    engine_name,
    recording,
    replaying,
    served_model,
)
from robustify.freeform.judge.prompting import Shot, check_leak, pick_shots, read_shots
from robustify.freeform.judge.store import TemplateStore, get_store
from robustify.freeform.schema import AnswerRow, FreeItem

RECORD = "judge.jsonl"
"""The file of a judge's prompts and replies, beside the grades that name them by their keys."""


@dataclass(frozen=True, slots=True)
class JudgeChoice:
    """Which judge, and how it is asked, as the command line says it."""

    judge: str | None = None
    judge_model: str = ""
    judge_key_env: str | None = None
    replay: Path | None = None
    votes: int = 1
    retries: int = 2
    seed: int = 0
    language: str | None = None
    domain: str | None = None
    few_shot: int = 0
    few_shot_set: str = "general"
    few_shot_by: str = "balance"
    template_dir: tuple[Path, ...] = ()

    @property
    def store(self) -> TemplateStore:
        """The templates of the package and of `template_dir`."""
        return get_store(self.template_dir)

    def how(self, items: Sequence[FreeItem]) -> Judging:
        """How the judge is asked.

        Raises:
            UsageError: an even number of votes.
            DataError: a worked case that is one of the items.
        """
        shots = self._shots()
        check_leak(shots, items)
        return Judging(
            votes=self.votes, max_parse_retries=self.retries, seed=self.seed, language=self.language,
            domain=self.domain, shots=tuple(shots),
            nearest=self.few_shot if self.few_shot and self.few_shot_by == "similar" else None, store=self.store,
        )  # fmt: skip

    def _shots(self) -> list[Shot]:
        own = Path(self.few_shot_set).suffix in (".yaml", ".yml")
        names = (("grader",) if own else ("grader", "nugget")) if self.few_shot else ()
        families = [read_shots(family, self.few_shot_set) for family in names]
        if self.few_shot_by == "similar":
            return [shot for family in families for shot in family]
        # A set of one's own must be large enough; a shipped one is for both kinds of judging.
        return [
            shot
            for family in families
            for shot in pick_shots(
                family, self.few_shot if own else min(self.few_shot, len(family)), self.seed
            )
        ]


@contextmanager
def open_judge(
    choice: JudgeChoice, cache: Path, record: Path | None, *, restricted: bool = False
) -> Iterator[Judge | None]:
    """The judge that was named, or None where none was.

    Raises:
        UsageError: a judge and a replay.
        ModelError: it cannot be asked.
        AuthorisationError: a restricted set and a judge elsewhere.
    """
    if choice.replay is not None:
        if choice.judge is not None:
            raise UsageError("--judge and --replay: expected one of them")
        yield replaying(choice.replay, choice.judge_model)
        return
    if choice.judge is None:
        yield None
        return
    record = None if restricted else record
    if "://" in choice.judge:
        if not choice.judge_model:
            raise ModelError(f"judge {choice.judge}: no model is named; expected --judge-model NAME")
        http = HttpJudge(
            choice.judge, choice.judge_model, key_env=choice.judge_key_env, restricted=restricted
        )
        with closing(http), recording(http, record) as judge:
            yield judge
        return
    with open_writer(choice.judge, cache) as writer, recording(WriterJudge(writer), record) as judge:
        yield judge


@contextmanager
def open_writer(reference: str, cache: Path, device: str = "cpu") -> Iterator[Writer]:
    """A model that runs here, ready to write: a known name, a folder, a GGUF file or `hf:owner/name@revision`.

    Raises:
        ModelError: missing, damaged or refused.
        UsageError: an engine that only scores.
    """
    from robustify.engines import open_scorer
    from robustify.engines.settings import HFModel

    name = engine_name(Path(reference).name)
    with open_scorer(HFModel(name=name, model=reference, device=device), cache) as model:
        if not isinstance(model, Writer):
            raise UsageError(f"{name}: its engine only scores; expected one that writes")
        yield model


@contextmanager
def open_remote_writer(
    url: str, model: str, cache: Path, *, key_env: str | None = None, restricted: bool = False
) -> Iterator[Writer]:
    """A model behind an OpenAI-compatible server, ready to write; how much was sent is printed on stderr at the end.

    Raises:
        AuthorisationError: a restricted set and a server elsewhere.
        ModelError: no address of a server, one that cannot write, or that fails for good.
    """
    from robustify.engines import open_scorer

    settings = served_model(url, model, key_env, restricted=restricted)
    with open_scorer(settings, cache) as writer:
        assert isinstance(writer, Writer)
        assert isinstance(writer, Metered)
        yield writer
        used = writer.usage()
    sent = f"{used['requests']} requests, {used['tokens_in']} tokens sent, {used['tokens_out']} written"
    print(f"robustify: {settings.name}: {sent}", file=sys.stderr)


def refuse_self_judging(judge: str, answers: Sequence[AnswerRow]) -> None:
    """Refuse a judge that wrote one of the answers (`ModelError`)."""
    own = sum(answer.model == judge for answer in answers)
    if own:
        raise ModelError(f"judge {judge}: wrote {own} of the answers; expected another model (--judge)")
