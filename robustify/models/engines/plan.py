"""Tokenized requests, and a batch plan that computes each distinct prefix only once. The plan needs no torch or model.

Tokenization follows lm-eval 0.4.13 (`TemplateLM._encode_pair`, `HFLM.tok_encode`), with one intended difference: text that
looks like a special token remains text, because it comes from items. All requests form one trie. A node is one token, and
in depth-first order, the trie is split into batches. The path above the first node of a batch is its trunk, such as a
few-shot header, whose keys and values the previous batch passes on. After some batches, a new section recomputes its
trunk, so that a resumed run never has to go back further.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustify.base.errors import DataError, ModelError, Notice, RequestError
from robustify.items.views import Request

Tokens = tuple[int, ...]
_MARK = "\u241fPROMPT\u241f"

SECTION = 64
"""Number of batches per section, without those that recompute its trunk."""


@dataclass(frozen=True, slots=True, repr=False)
class Encoded:
    """Tokens of a request. Neither part is empty. The repr shows only the lengths, because tokens reveal text."""

    context: Tokens
    continuation: Tokens

    def __repr__(self) -> str:
        return f"Encoded({len(self.context)} + {len(self.continuation)} tokens)"

    @property
    def row(self) -> Tokens:
        """Input tokens of the model: all tokens except the last, which is only predicted."""
        return self.context + self.continuation[:-1]


def split_blanks(request: Request) -> tuple[str, str]:
    """Return context and continuation, with the context's trailing spaces moved to the continuation."""
    context = request.context.rstrip()
    return context, request.context[len(context) :] + request.continuation


class Speller:
    """Wrapper around a transformers tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    @property
    def prefix(self) -> int:
        """ID of the beginning-of-sequence token, or else of the end-of-sequence token. Raise `ModelError` if the tokenizer
        has neither token."""
        for token in (self._tokenizer.bos_token_id, self._tokenizer.eos_token_id):
            if token is not None:
                return int(token)
        raise ModelError(
            f"{type(self._tokenizer).__name__}: the tokenizer has neither a beginning-of-sequence nor an "
            "end-of-sequence token. One of them is needed to represent an empty context.",
            code="missing-prefix-token",
        )

    def spell(self, texts: Iterable[str], *, special: bool) -> dict[str, Tokens]:
        """Return the tokens of each distinct text. If `special` is true, the tokenizer may add its beginning-of-sequence
        token. Text that looks like a special token is encoded as text."""
        if not (distinct := list(dict.fromkeys(texts))):
            return {}
        # lm-eval uses the tokenizer's default of `add_special_tokens`, which is True.
        ids = self._tokenizer(
            distinct, add_special_tokens=special, split_special_tokens=True, return_attention_mask=False
        )
        return dict(zip(distinct, map(tuple, ids["input_ids"]), strict=True))


def as_prompt(tokenizer: Any, name: str, text: str) -> list[int]:
    """Return the tokens of a single-turn prompt, using the chat template if there is one. The text cannot become a special
    token. Raise `ModelError` if the chat template drops the user's message."""
    speller = Speller(tokenizer)
    if not getattr(tokenizer, "chat_template", None):
        return list(speller.spell([text], special=True)[text]) or [speller.prefix]
    messages = [{"role": "user", "content": _MARK}]
    template = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    before, mark, after = template.partition(_MARK)
    if not mark:
        raise ModelError(
            f"{name}: the chat template of the model drops the user's message. Use a model whose template includes it.",
            code="unusable-chat-template",
        )
    ends = [tokenizer(part, add_special_tokens=False)["input_ids"] for part in (before, after)]
    return [*ends[0], *speller.spell([text], special=False)[text], *ends[1]]


def check_room(encoded: Sequence[Sequence[int]], name: str, max_tokens: int, longest: int) -> None:
    """Raise `DataError` with the positions of prompts that leave no room for a reply of `max_tokens`."""
    faults = [
        Notice(
            f"prompt {i}: {len(ids)} tokens plus {max_tokens} for the reply; {name} accepts at most {longest} together",
            code="prompt-too-long",
        )
        for i, ids in enumerate(encoded)
        if len(ids) + max_tokens > longest
    ]
    if faults:
        raise DataError.gather(faults)


def check_lengths(encoded: Sequence[Encoded], name: str, longest: int) -> None:
    """Raise `RequestError` with the positions of requests in which context and continuation exceed `longest` tokens
    together."""
    faults = {
        i: Notice(
            f"{len(e.context)} tokens of context plus {len(e.continuation)} of continuation; {name} accepts at most "
            f"{longest} together. Use a model with a longer context, or fewer shots.",
            code="prompt-too-long",
        )
        for i, e in enumerate(encoded)
        if len(e.context) + len(e.continuation) > longest
    }
    if faults:
        raise RequestError.of(faults)


def encode(speller: Speller, requests: Sequence[Request]) -> list[Encoded]:
    """Encode each request: tokenize its context and continuation together, and split the tokens. An empty context becomes
    the prefix token. Raise `RequestError` with the positions of continuations that have no tokens."""
    pairs = {request: split_blanks(request) for request in requests}
    spelled = speller.spell((text for c, d in pairs.values() if c for text in (c, c + d)), special=True)
    without_context = speller.spell((d for c, d in pairs.values() if not c), special=False)

    def encode_pair(context: str, continuation: str) -> Encoded:
        if context:
            context_tokens = spelled[context]
            return Encoded(context_tokens, spelled[context + continuation][len(context_tokens) :])
        tokens, prefix = without_context[continuation], speller.prefix
        # Like lm-eval, add no second prefix token if the continuation begins with one.
        return Encoded(tokens[:1], tokens[1:]) if tokens[:1] == (prefix,) else Encoded((prefix,), tokens)

    encoded = {request: encode_pair(*pair) for request, pair in pairs.items()}
    faults = {
        i: Notice(
            f"the continuation ({len(r.continuation)} characters) adds no tokens; expected at least one",
            code="empty-continuation",
        )
        for i, r in enumerate(requests)
        if not encoded[r].continuation
    }
    if faults:
        raise RequestError.of(faults)
    return [encoded[request] for request in requests]


@dataclass(frozen=True, slots=True)
class Want:
    """Token log-probability that a request needs: of the token `following` after the node `node` of its batch."""

    request: int
    node: int
    following: int


@dataclass(frozen=True, slots=True, repr=False)
class Batch:
    """Batch of n nodes in depth-first order, below a trunk of t tokens from the previous batch.

    `depths` are positions in the sequence. Node i is an ancestor of node j if `i <= j < ends[i]`, and trunk token d of the
    nodes before `trunk_ends[d]`. `carry` selects the trunk of the next batch from the trunk followed by the nodes.
    """

    tokens: Tokens
    depths: Tokens
    ends: Tokens
    trunk_ends: Tokens
    wants: tuple[Want, ...]
    carry: Tokens


Sections = tuple[tuple[Batch, ...], ...]
"""All batches in depth-first order. The first batch of a section has no trunk."""


@dataclass(slots=True)
class _Trie:
    tokens: list[int]
    parents: list[int]
    depths: list[int]
    ends: NDArray[np.int64]
    wants: list[list[tuple[int, int]]]

    def path(self, node: int) -> list[int]:
        """Return the proper ancestors of a node, starting at the root."""
        ancestors = []
        while (node := self.parents[node]) >= 0:
            ancestors.append(node)
        return ancestors[::-1]


def plan_batches(requests: Sequence[Encoded], budget: int = 512, section: int = SECTION) -> Sections:
    """Return batches of at most `budget` nodes that cover all requests, in depth-first order. The plan depends only on the
    set of requests, so that a resumed run computes exactly the same batches."""
    trie = _trie(requests)
    cuts = _cuts(trie, budget, section)
    starts = range(0, len(cuts) - 1, section)
    return tuple(_section(trie, cuts[s : s + section + 1], budget) for s in starts)


def _trie(requests: Sequence[Encoded]) -> _Trie:
    tokens: list[int] = []
    parents: list[int] = []
    depths: list[int] = []
    wants: list[list[tuple[int, int]]] = []
    path: list[int] = []
    previous_row = np.empty(0, dtype=np.int64)
    # In sorted order, the prefix that a request shares with any earlier request is the one shared with the previous.
    for number in sorted(range(len(requests)), key=lambda n: requests[n].context + requests[n].continuation):
        request = requests[number]
        row = np.array(request.row, dtype=np.int64)
        shared = _common_prefix(previous_row, row)
        del path[shared:]
        for depth, token in enumerate(request.row[shared:], start=shared):
            tokens.append(token)
            parents.append(path[-1] if path else -1)
            depths.append(depth)
            wants.append([])
            path.append(len(tokens) - 1)
        previous_row = row
        for position, following in enumerate(request.continuation, start=len(request.context) - 1):
            wants[path[position]].append((number, following))
    return _Trie(tokens, parents, depths, _ends(parents), wants)


def _common_prefix(a: NDArray[np.int64], b: NDArray[np.int64]) -> int:
    n = min(len(a), len(b))
    differing = np.flatnonzero(a[:n] != b[:n])
    return int(differing[0]) if len(differing) else n


def _ends(parents: Sequence[int]) -> NDArray[np.int64]:
    ends = list(range(1, len(parents) + 1))
    for node in range(len(parents) - 1, -1, -1):
        if (parent := parents[node]) >= 0:
            ends[parent] = max(ends[parent], ends[node])
    return np.array(ends, dtype=np.int64)


def _cuts(trie: _Trie, budget: int, section: int) -> list[int]:
    cuts = [0]
    n = len(trie.tokens)
    while n - cuts[-1] > budget:
        previous_cut = cuts[-1]
        if len(cuts) % section:
            cuts.append(previous_cut + budget)
        else:
            # A new section recomputes the path above it, so it begins where that path is shortest.
            window = range(previous_cut + budget, previous_cut + budget - max(budget // 4, 1), -1)
            cuts.append(min(window, key=lambda node: trie.depths[node]))
    return [*cuts, n] if n else [0]


def _section(trie: _Trie, cuts: Sequence[int], budget: int) -> tuple[Batch, ...]:
    trunk = trie.path(cuts[0])
    n = len(trunk)
    # The trunk alone is a chain: each token descends from all tokens above it, and the last batch still needs them all.
    tokens = [trie.tokens[node] for node in trunk]
    chain = _Trie(tokens, [*range(-1, n - 1)], [*range(n)], np.full(n, n + 1), [[] for _ in trunk])
    trunk_batches = [_batch(chain, a, min(a + budget, n), last=False) for a in range(0, n, budget)]
    return (*trunk_batches, *(_batch(trie, a, b, last=b == cuts[-1]) for a, b in itertools.pairwise(cuts)))


def _batch(trie: _Trie, start: int, stop: int, *, last: bool) -> Batch:
    trunk = trie.path(start)
    ends = [int(end) for end in trie.ends[[*trunk, *range(start, stop)]]]
    clipped = [min(end, stop) - start for end in ends]
    return Batch(
        tokens=tuple(trie.tokens[start:stop]),
        depths=tuple(trie.depths[start:stop]),
        ends=tuple(clipped[len(trunk) :]),
        trunk_ends=tuple(clipped[: len(trunk)]),
        wants=tuple(Want(r, node - start, t) for node in range(start, stop) for r, t in trie.wants[node]),
        carry=() if last else tuple(seat for seat, end in enumerate(ends) if end > stop),
    )
