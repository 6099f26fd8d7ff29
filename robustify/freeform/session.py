"""Open the judge that settings name: a model at an address, or a model that runs here; and decide how it is asked.

A judge of a restricted set must run on this machine, and its replies are not kept.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from robustify.engines.protocols import Writer
from robustify.errors import ModelError, UsageError
from robustify.freeform.llm_judge.asking import Judging
from robustify.freeform.llm_judge.judges import HttpJudge, Judge, KeptJudge, WriterJudge, engine_name
from robustify.freeform.replies import Replies
from robustify.freeform.schema import AnswerRow
from robustify.freeform.settings import FreeSettings, JudgeSettings


def judging(settings: FreeSettings) -> Judging:
    """Return how the judge is asked."""
    judge = settings.judge
    if judge is None:
        return Judging(language=settings.language, store=settings.store)
    return Judging(
        votes=judge.votes, max_parse_retries=judge.retries, max_tokens=judge.max_tokens, seed=judge.seed,
        language=settings.language, domain=judge.domain, store=settings.store,
    )  # fmt: skip


@contextmanager
def open_judge(
    settings: JudgeSettings | None, cache: Path, kept: Replies, *, restricted: bool = False
) -> Iterator[Judge | None]:
    """Open the judge, or yield None if none is named.

    Raises:
        ModelError: it cannot be asked.
        AuthorisationError: a restricted set and a judge on another machine.
    """
    if settings is None:
        yield None
    elif settings.base_url is not None:
        url, model, key = settings.base_url, settings.model, settings.api_key_env
        with closing(HttpJudge(url, model, key_env=key, restricted=restricted)) as http:
            yield KeptJudge(http, kept, url)
    else:
        with open_writer(settings, cache) as writer:
            yield KeptJudge(WriterJudge(writer), kept, getattr(writer, "fingerprint", dict)())


@contextmanager
def open_writer(settings: JudgeSettings, cache: Path) -> Iterator[Writer]:
    """Open a model that runs here: a known name, a folder, a GGUF file or `hf:owner/name@revision`.

    Raises:
        ModelError: missing, damaged or refused.
        UsageError: an engine that only scores.
    """
    from robustify.engines import open_scorer
    from robustify.engines.settings import HFModel

    name = judge_name(settings)
    with open_scorer(HFModel(name=name, model=settings.model, device=settings.device), cache) as model:
        if not isinstance(model, Writer):
            raise UsageError(f"{name}: its engine only scores; expected one that writes")
        yield model


def judge_name(settings: JudgeSettings) -> str:
    """Return the name under which a judge is reported."""
    return settings.model if settings.base_url is not None else engine_name(Path(settings.model).name)


def refuse_self_judging(settings: FreeSettings, answers: Sequence[AnswerRow]) -> None:
    """Refuse a judge that wrote one of the answers, unless the settings allow it (`ModelError`)."""
    if settings.judge is None or not settings.judge.forbid_self:
        return
    name = judge_name(settings.judge)
    own = sum(answer.model == name for answer in answers)
    if own:
        raise ModelError(
            f"judge {name}: wrote {own} of the answers; expected another model, or forbid_self: false"
        )
