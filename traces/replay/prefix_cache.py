"""KvCache: the tokens of keys and values that a device holds, with reuse of equal prefixes.

After vLLM v1 (`block_pool.py`, `design/prefix_caching.md`): a whole block of a prompt stays after its request as long
as there is room, free blocks are evicted least recently used first and a prefix's tail before its head. Two things
are simpler than there: equal blocks that two requests compute at once are kept once (as SGLang does), and what has no
block id (a prompt's partial tail, generated tokens) is counted by the token instead of the page and never reused.
"""

from collections import OrderedDict
from collections.abc import Sequence


class KvCache:
    """Its invariant: tokens of running requests + tokens of evictable blocks <= capacity."""

    __slots__ = ("_evictable", "_references", "block_tokens", "capacity_tokens", "held_tokens")

    def __init__(self, *, capacity_tokens: int, block_tokens: int) -> None:
        self.capacity_tokens = capacity_tokens
        self.block_tokens = block_tokens
        self.held_tokens = 0
        """Tokens of running requests, a shared block counted once."""
        self._references: dict[int, int] = {}
        self._evictable: OrderedDict[int, None] = OrderedDict()

    @property
    def available_tokens(self) -> int:
        """Free, or held by nobody but the cache."""
        return self.capacity_tokens - self.held_tokens

    @property
    def cached_tokens(self) -> int:
        """Tokens of blocks that stay though no running request holds them."""
        return len(self._evictable) * self.block_tokens

    def match(self, blocks: Sequence[int]) -> int:
        """How many leading blocks are here."""
        references, evictable = self._references, self._evictable
        for index, block in enumerate(blocks):
            if block not in references and block not in evictable:
                return index
        return len(blocks)

    def evictable_among(self, blocks: Sequence[int]) -> int:
        """How many of `blocks` only the cache holds: taking them uses up available tokens."""
        evictable = self._evictable
        return sum(block in evictable for block in blocks)

    def share(self, blocks: Sequence[int]) -> None:
        """Holds blocks that are here for one more request."""
        references = self._references
        for block in blocks:
            if block in references:
                references[block] += 1
            else:
                del self._evictable[block]
                references[block] = 1
                self.held_tokens += self.block_tokens

    def allocate(self, tokens: int) -> None:
        """Room for new tokens, evicting what nobody holds. The caller made sure that they are available."""
        self.held_tokens += tokens
        excess = self.held_tokens + self.cached_tokens - self.capacity_tokens
        while excess > 0:
            self._evictable.popitem(last=False)
            excess -= self.block_tokens

    def free(self, tokens: int) -> None:
        """Gives back tokens without a block id."""
        self.held_tokens -= tokens

    def store(self, blocks: Sequence[int]) -> None:
        """Names allocated tokens as whole blocks, held by the request that computed them, from now on shareable."""
        references, evictable = self._references, self._evictable
        for block in blocks:
            if block in references:
                references[block] += 1
                self.held_tokens -= self.block_tokens
            else:
                evictable.pop(block, None)
                references[block] = 1

    def release(self, blocks: Sequence[int]) -> None:
        """A request lets go of its blocks, given in prompt order."""
        references = self._references
        for block in reversed(blocks):
            if references[block] > 1:
                references[block] -= 1
            else:
                del references[block]
                self._evictable[block] = None
                self.held_tokens -= self.block_tokens
