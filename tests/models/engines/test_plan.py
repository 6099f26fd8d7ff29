"""The plan is pure: every request can be read back from it, and each distinct prefix is planned once."""

from hypothesis import given, settings
from hypothesis import strategies as st

from robustify.models.engines.plan import Encoded, Sections, Tokens, plan_batches

TOKENS = st.lists(st.integers(0, 3), min_size=1, max_size=12).map(tuple)
PAIRS = st.lists(st.builds(Encoded, TOKENS, TOKENS), max_size=40)


def read_back(planned: Sections, n: int) -> list[dict[int, tuple[int, Tokens]]]:
    """For every request: position -> (the next token, the tokens that this position sees)."""
    found: list[dict[int, tuple[int, Tokens]]] = [{} for _ in range(n)]
    for section in planned:
        trunk: Tokens = ()
        for batch in section:
            assert len(batch.trunk_ends) == len(trunk)
            every, ends = trunk + batch.tokens, batch.trunk_ends + batch.ends
            for want in batch.wants:
                here = len(trunk) + want.node
                # An ancestor is a node before this one, or it, whose descendants reach beyond it.
                seen = tuple(every[i] for i in range(here + 1) if ends[i] > want.node)
                assert batch.depths[want.node] == len(seen) - 1
                assert len(seen) - 1 not in found[want.request]
                found[want.request][len(seen) - 1] = (want.following, seen)
            trunk = tuple(every[seat] for seat in batch.carry)
    return found


@settings(max_examples=300)
@given(PAIRS, st.integers(1, 30), st.integers(1, 5))
def test_every_request_can_be_read_back(pairs: list[Encoded], budget: int, section: int) -> None:
    planned = plan_batches(pairs, budget, section)
    for pair, found in zip(pairs, read_back(planned, len(pairs)), strict=True):
        whole = pair.context + pair.continuation
        assert sorted(found) == list(range(len(pair.context) - 1, len(whole) - 1))
        for position, (following, seen) in found.items():
            assert following == whole[position + 1]
            assert seen == whole[: position + 1]


def size(planned: Sections) -> int:
    return sum(len(batch.tokens) for batches in planned for batch in batches)


@settings(max_examples=200)
@given(PAIRS, st.integers(1, 30))
def test_each_distinct_prefix_is_planned_once(pairs: list[Encoded], budget: int) -> None:
    planned = plan_batches(pairs, budget, section=1000)
    prefixes = {
        (p.context + p.continuation)[: i + 1]
        for p in pairs
        for i in range(len(p.context + p.continuation) - 1)
    }
    assert size(planned) == len(prefixes)
    sizes = [len(batch.tokens) for batches in planned for batch in batches]
    assert sizes[:-1] == [budget] * (len(sizes) - 1)
    assert all(n <= budget for n in sizes)


@settings(max_examples=100)
@given(PAIRS, st.integers(2, 12), st.integers(1, 4))
def test_a_section_begins_with_nothing_in_hand(pairs: list[Encoded], budget: int, section: int) -> None:
    planned = plan_batches(pairs, budget, section)
    for batches in planned:
        assert batches[0].trunk_ends == ()
        assert batches[-1].carry == ()
        assert all(len(batch.tokens) <= budget for batch in batches)
    repeated = sum(len(b.tokens) for batches in planned for b in batches if not b.wants)
    assert size(planned) - size(plan_batches(pairs, budget, section=1000)) <= repeated


@given(PAIRS, st.randoms())
def test_the_plan_does_not_depend_on_the_order_of_the_requests(pairs: list[Encoded], random) -> None:
    shuffled = list(pairs)
    random.shuffle(shuffled)
    tokens = [[b.tokens for section in plan_batches(p, 9) for b in section] for p in (pairs, shuffled)]
    assert tokens[0] == tokens[1]
