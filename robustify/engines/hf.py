"""Scores requests with a transformers model, each distinct prefix once.

The fast path computes a prefix tree (`plan`, `tree`). On the first batch of every model it is held to plain
one-by-one scoring; a model for which it is not exact is scored in plain length-sorted batches, and its
fingerprint says which was used. The output head runs only at positions that are scored, its log-softmax in
float32 or better.
"""

import gc
import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import torch
import transformers
from torch import Tensor

from robustify.engines import tree
from robustify.engines.base import Logprob, Progress, Request, no_progress
from robustify.engines.plan import Batch, Pair, plan
from robustify.engines.tokens import encode
from robustify.errors import ModelError, ResourceError
from robustify.models.folder import RECORD, digests

ENGINE = "hf-2"
HEAD_ROWS = 256
"""Positions for which the output head runs at once: with 262,144 words, 256 MiB in float32."""
EQUAL = 1e-3
"""How far the fast path may be from plain scoring on a request, in nats."""


class HF:
    """A `Scorer` and `Writer` over one model in a local folder with safetensors."""

    def __init__(
        self,
        name: str,
        folder: Path,
        device: str = "cpu",
        dtype: Literal["float32", "bfloat16", "float16"] = "float32",
        max_batch_tokens: int = 2048,
    ) -> None:
        self.name = name
        self.device = _device(device)
        self.max_batch_tokens = max_batch_tokens
        self._dtype = dtype
        self._files = digests(
            folder,
            sorted(
                p.name
                for p in folder.iterdir()
                if p.suffix in (".safetensors", ".json") and not p.name.startswith(".") and p.name != RECORD
            ),
        )
        torch.set_num_threads(len(os.sched_getaffinity(0)))
        self.tokenizer, self.model = _open(name, folder, self.device, dtype)
        self.path: Literal["tree", "plain", "untried"] = (
            "untried" if tree.fits(self.model.config) else "plain"
        )

    def __enter__(self) -> "HF":
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the model's memory back."""
        self.model = None
        gc.collect()

    def fingerprint(self) -> dict[str, str]:
        """Digests of weights and tokenizer, dtype, device, path and versions."""
        return {
            "engine": ENGINE,
            "path": self.path,
            "dtype": self._dtype,
            "device": self.device.type,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            **{f"sha256 {name}": digest for name, digest in sorted(self._files.items())},
        }

    def loglikelihoods(self, requests: Sequence[Request], progress: Progress = no_progress) -> list[Logprob]:
        """See `Scorer`. Requests that are equal in tokens are computed once."""
        pairs = encode(self.tokenizer, requests, self._longest(), self.name)
        distinct = list(dict.fromkeys(pairs))
        waiting = Counter(pairs)
        totals = dict.fromkeys(distinct, 0.0)
        with torch.inference_mode():
            for done in self._scored(distinct, totals):
                progress(sum(waiting[pair] for pair in done))
        self._refuse_what_is_no_number(totals.values())
        return [Logprob(totals[pair], len(pair.continuation)) for pair in pairs]

    def write(self, prompts: Sequence[str], *, max_tokens: int) -> list[str]:
        """Greedy continuation of each prompt; special tokens in the prompt's text stay text."""
        return [self._written(prompt, max_tokens) for prompt in prompts]

    def _written(self, prompt: str, max_tokens: int) -> str:
        ids = self.tokenizer(prompt, return_tensors="pt", split_special_tokens=True)["input_ids"].to(
            self.device
        )
        with torch.inference_mode():
            out = self.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=max_tokens,
                do_sample=False,
                pad_token_id=self.tokenizer.eos_token_id,
            )
        return str(self.tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True))

    def _longest(self) -> int:
        return int(getattr(self.model.config, "max_position_embeddings", None) or 2048)

    def _scored(self, pairs: Sequence[Pair], totals: dict[Pair, float]) -> Iterator[list[Pair]]:
        """Fill in the totals; yield the pairs that each batch finished."""
        window = tree.window(self.model.config)
        deep = {p for p in pairs if window is not None and len(p.context) + len(p.continuation) - 1 > window}
        shallow = [p for p in pairs if p not in deep]
        if self.path != "plain":
            yield from self._by_tree(shallow, totals)
        if self.path == "plain":
            yield from self._plainly([p for p in shallow if totals[p] == 0.0], totals)
        yield from self._plainly(sorted(deep, key=len_of), totals)

    def _by_tree(self, pairs: Sequence[Pair], totals: dict[Pair, float]) -> Iterator[list[Pair]]:
        planned = plan(pairs, self.max_batch_tokens)
        left = [len(pair.continuation) for pair in pairs]
        with tree.attending(self.model):
            trees = tree.Trees(self.model.get_decoder(), self.device)
            for batch in planned.batches:
                done = []
                for request, logprob in self._of_batch(batch, trees):
                    totals[pairs[request]] += logprob
                    left[request] -= 1
                    if not left[request]:
                        done.append(pairs[request])
                if self.path == "untried" and done:
                    self.path = "tree" if self._agrees(done[:: max(1, len(done) // 4)], totals) else "plain"
                    if self.path == "plain":
                        totals.update(dict.fromkeys(pairs, 0.0))
                        return
                yield done

    def _of_batch(self, batch: Batch, trees: tree.Trees) -> Iterator[tuple[int, float]]:
        hidden = trees.hidden(batch)
        wants = sorted(batch.wants, key=lambda w: w.node)
        nodes = sorted({w.node for w in wants})
        for start in range(0, len(nodes), HEAD_ROWS):
            rows = {node: i for i, node in enumerate(nodes[start : start + HEAD_ROWS])}
            here = [w for w in wants if w.node in rows]
            logits = self._head(hidden[list(rows)])
            picked = logits[[rows[w.node] for w in here], [w.following for w in here]]
            norms = torch.logsumexp(logits, dim=-1)[[rows[w.node] for w in here]]
            yield from zip((w.request for w in here), (picked - norms).tolist(), strict=True)

    def _head(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.model.get_output_embeddings()(hidden).float()
        cap = getattr(self.model.config, "final_logit_softcapping", None)
        return torch.tanh(logits / cap) * cap if cap else logits

    def _agrees(self, pairs: Sequence[Pair], totals: dict[Pair, float]) -> bool:
        with self._own_attention():
            alone = {pair: self._alone(pair) for pair in pairs}
        return all(abs(alone[pair] - totals[pair]) <= EQUAL for pair in pairs)

    @contextmanager
    def _own_attention(self) -> Iterator[None]:
        self.model.set_attn_implementation("sdpa")
        try:
            yield
        finally:
            self.model.set_attn_implementation(tree.NAME)

    def _alone(self, pair: Pair) -> float:
        whole = pair.context + pair.continuation
        logits = self.model(torch.tensor([whole[:-1]], device=self.device), use_cache=False).logits[0].float()
        logprobs = torch.log_softmax(logits, dim=-1)
        places = range(len(pair.context) - 1, len(whole) - 1)
        return float(sum(logprobs[i, whole[i + 1]].item() for i in places))

    def _plainly(self, pairs: Sequence[Pair], totals: dict[Pair, float]) -> Iterator[list[Pair]]:
        """Right-padded batches of requests of like length, the model called as it is."""
        waiting = sorted(pairs, key=len_of, reverse=True)
        while waiting:
            size = max(1, self.max_batch_tokens // len_of(waiting[0]))
            rows, waiting = waiting[:size], waiting[size:]
            width = len_of(rows[0])
            ids = torch.tensor([_row(p, width) for p in rows], device=self.device)
            mask = torch.tensor(
                [[1] * len_of(p) + [0] * (width - len_of(p)) for p in rows], device=self.device
            )
            places = [(r, i) for r, p in enumerate(rows) for i in range(len(p.context) - 1, len_of(p))]
            keep = sorted({i for _, i in places})
            logits = self.model(
                ids, attention_mask=mask, use_cache=False, logits_to_keep=torch.tensor(keep)
            ).logits
            at = {place: j for j, place in enumerate(keep)}
            for r, i in places:
                following = (rows[r].context + rows[r].continuation)[i + 1]
                totals[rows[r]] += torch.log_softmax(logits[r, at[i]].float(), dim=-1)[following].item()
            yield rows

    def _refuse_what_is_no_number(self, totals: Any) -> None:
        bad = sum(1 for t in totals if not math.isfinite(t))
        if bad:
            raise ModelError(
                f"{self.name}: {bad} log-probabilities are NaN or infinite; expected numbers: "
                "check the weights, or use float32"
            )


def len_of(pair: Pair) -> int:
    """How many tokens a request puts into the model."""
    return len(pair.context) + len(pair.continuation) - 1


def _row(pair: Pair, width: int) -> list[int]:
    tokens = list((pair.context + pair.continuation)[:-1])
    return tokens + [0] * (width - len(tokens))


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError):
        raise ResourceError(f"device {name!r}: not to be had here; expected cpu, cuda, cuda:0 ...") from None
    return device


def _open(name: str, folder: Path, device: torch.device, dtype: str) -> tuple[Any, Any]:
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        model = transformers.AutoModelForCausalLM.from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=getattr(torch, dtype),
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ModelError(
            f"{name}: cannot be opened ({type(error).__name__}); expected config, tokenizer and safetensors in {folder}"
        ) from None
    return tokenizer, model.to(device).eval()
