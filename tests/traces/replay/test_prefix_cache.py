from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from traces.replay.prefix_cache import KvCache

BLOCK_TOKENS = 4


def compute(cache: KvCache, blocks: tuple[int, ...]) -> None:
    """As a request does that finds nothing."""
    cache.allocate(len(blocks) * cache.block_tokens)
    cache.store(blocks)


def test_finds_the_leading_run_of_a_prompt() -> None:
    cache = KvCache(capacity_tokens=40, block_tokens=BLOCK_TOKENS)
    compute(cache, (1, 2, 3))
    assert cache.match((1, 2, 3, 4)) == 3
    assert cache.match((1, 9, 3)) == 1
    assert cache.match((2, 3)) == 2
    assert cache.match((9, 1)) == 0


def test_blocks_stay_after_their_request_until_room_is_needed() -> None:
    cache = KvCache(capacity_tokens=12, block_tokens=BLOCK_TOKENS)
    compute(cache, (1, 2))
    cache.release((1, 2))
    assert (cache.held_tokens, cache.cached_tokens, cache.available_tokens) == (0, 8, 12)
    cache.allocate(4)
    assert cache.match((1, 2)) == 2
    cache.allocate(1)
    assert cache.match((1, 2)) == 1


def test_evicts_the_least_recently_used_prefix_and_its_tail_before_its_head() -> None:
    cache = KvCache(capacity_tokens=16, block_tokens=BLOCK_TOKENS)
    compute(cache, (1, 2))
    compute(cache, (11, 12))
    cache.release((11, 12))
    cache.release((1, 2))
    cache.share((11,))
    cache.release((11,))
    evicted = []
    for _ in range(4):
        before = {block for block in (1, 2, 11, 12) if cache.match((block,))}
        cache.allocate(BLOCK_TOKENS)
        evicted += before - {block for block in before if cache.match((block,))}
    assert evicted == [12, 2, 1, 11]


def test_a_shared_block_takes_room_once() -> None:
    cache = KvCache(capacity_tokens=40, block_tokens=BLOCK_TOKENS)
    compute(cache, (1, 2))
    cache.share((1, 2))
    assert cache.held_tokens == 8
    cache.release((1, 2))
    assert cache.held_tokens == 8
    cache.release((1, 2))
    assert cache.held_tokens == 0


def test_a_block_computed_twice_at_once_is_kept_once() -> None:
    cache = KvCache(capacity_tokens=40, block_tokens=BLOCK_TOKENS)
    compute(cache, (1,))
    compute(cache, (1,))
    assert cache.held_tokens == BLOCK_TOKENS


def test_taking_evictable_blocks_uses_up_available_tokens() -> None:
    cache = KvCache(capacity_tokens=40, block_tokens=BLOCK_TOKENS)
    compute(cache, (1, 2, 3))
    cache.release((2, 3))
    assert cache.evictable_among((1, 2, 3)) == 2


class KvCacheMachine(RuleBasedStateMachine):
    """Requests come and go in a small cache; a list of who holds what says how many tokens must be in use."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = KvCache(capacity_tokens=50, block_tokens=BLOCK_TOKENS)
        self.held: list[tuple[tuple[int, ...], int]] = []

    @rule(family=st.integers(0, 3), length=st.integers(1, 6), tail=st.integers(0, 5))
    def admit(self, family: int, length: int, tail: int) -> None:
        blocks = tuple(family * 100 + index for index in range(length))
        hits = blocks[: self.cache.match(blocks)]
        fresh = (length - len(hits)) * BLOCK_TOKENS + tail
        if fresh + self.cache.evictable_among(hits) * BLOCK_TOKENS > self.cache.available_tokens:
            return
        self.cache.share(hits)
        self.cache.allocate(fresh)
        self.cache.store(blocks[len(hits) :])
        self.held.append((blocks, tail))
        assert self.cache.match(blocks) == length

    @precondition(lambda self: self.held)
    @rule(choice=st.integers(0, 100))
    def finish(self, choice: int) -> None:
        blocks, tail = self.held.pop(choice % len(self.held))
        self.cache.free(tail)
        self.cache.release(blocks)

    @invariant()
    def holds_each_block_once_and_stays_within_capacity(self) -> None:
        blocks = {block for held, _ in self.held for block in held}
        assert self.cache.held_tokens == len(blocks) * BLOCK_TOKENS + sum(tail for _, tail in self.held)
        assert self.cache.held_tokens + self.cache.cached_tokens <= self.cache.capacity_tokens
        assert all(self.cache.match((block,)) for block in blocks)


TestKvCacheMachine = KvCacheMachine.TestCase
TestKvCacheMachine.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30))
def test_with_room_for_all_every_block_seen_is_found(families: list[int]) -> None:
    cache = KvCache(capacity_tokens=10_000, block_tokens=BLOCK_TOKENS)
    seen: set[int] = set()
    for family in families:
        blocks = (family * 10, family * 10 + 1)
        assert cache.match(blocks) == (2 if family in seen else 0)
        hits = blocks[: cache.match(blocks)]
        cache.share(hits)
        compute(cache, blocks[len(hits) :])
        cache.release(blocks)
        seen.add(family)
