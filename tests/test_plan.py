"""The plan is pure: every request can be read back from it, and each distinct prefix is planned once."""

from hypothesis import given, settings
from hypothesis import strategies as st

from robustify.engines.plan import Encoded, Plan, plan

TOKENS = st.lists(st.integers(0, 3), min_size=1, max_size=12).map(tuple)
PAIRS = st.lists(st.builds(Encoded, TOKENS, TOKENS), max_size=40)


def read_back(planned: Plan, n: int) -> list[dict[int, tuple[int, tuple[int, ...]]]]:
    """For every request: position -> (the next token, the tokens that this position sees)."""
    found: list[dict[int, tuple[int, tuple[int, ...]]]] = [{} for _ in range(n)]
    for batch in planned.batches:
        segment_of = {node: s for s in batch.segments for node in range(s.start, s.stop)}
        assert sorted(segment_of) == list(range(len(batch.tokens)))
        for want in batch.wants:
            segment = segment_of[want.node]
            inside = []
            node = want.node
            while node >= segment.start:
                inside.append(node)
                node = batch.parents[node]
            assert node == (segment.above[-1] if segment.above else -1)
            path = [batch.tokens[i] for i in (*segment.above, *reversed(inside))]
            seen = (*batch.trunk[: segment.trunk], *path)
            assert batch.depths[want.node] == len(seen) - 1
            assert want.request < n
            assert len(seen) - 1 not in found[want.request]
            found[want.request][len(seen) - 1] = (want.following, seen)
    return found


@settings(max_examples=300)
@given(PAIRS, st.integers(1, 30), st.integers(1, 10))
def test_every_request_can_be_read_back(pairs: list[Encoded], budget: int, widest: int) -> None:
    planned = plan(pairs, budget, widest)
    for pair, found in zip(pairs, read_back(planned, len(pairs)), strict=True):
        whole = pair.context + pair.continuation
        assert sorted(found) == list(range(len(pair.context) - 1, len(whole) - 1))
        for position, (following, seen) in found.items():
            assert following == whole[position + 1]
            assert seen == whole[: position + 1]


@settings(max_examples=200)
@given(PAIRS, st.integers(1, 30))
def test_each_distinct_prefix_is_planned_once(pairs: list[Encoded], budget: int) -> None:
    planned = plan(pairs, budget)
    prefixes = {
        (p.context + p.continuation)[: i + 1]
        for p in pairs
        for i in range(len(p.context + p.continuation) - 1)
    }
    assert planned.distinct == sum(len(b.tokens) for b in planned.batches) == len(prefixes)
    assert all(len(b.tokens) <= budget for b in planned.batches)


@given(PAIRS, st.randoms())
def test_the_plan_does_not_depend_on_the_order_of_the_requests(pairs: list[Encoded], random) -> None:
    shuffled = list(pairs)
    random.shuffle(shuffled)
    tokens = [[b.tokens for b in plan(p, 9).batches] for p in (pairs, shuffled)]
    assert tokens[0] == tokens[1]


def test_a_header_that_all_share_is_computed_once_and_then_kept() -> None:
    header = tuple(range(100, 400))
    pairs = [Encoded((*header, i, i + 1), (7, j)) for i in range(50) for j in range(4)]
    planned = plan(pairs, budget=128)
    assert planned.distinct == 300 + 50 * 3
    # Batches that begin inside the header recompute the part above; those after it share one trunk.
    later = [b.trunk for b in planned.batches if b.trunk == header]
    assert later
    assert planned.naive == 200 * (302 + 1)


def test_segments_stay_small() -> None:
    pairs = [Encoded((1, i), (j, k)) for i in range(40) for j in range(5) for k in range(2)]
    (batch,) = plan(pairs, budget=4096, widest=32).batches
    assert max(s.stop - s.start for s in batch.segments) <= 32
    assert batch.segments[0].above == ()


def test_no_requests_make_no_batches() -> None:
    assert plan([]).batches == ()
