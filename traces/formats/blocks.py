"""PrefixIdentity: the prefix blocks of a file's prompts, checked as they are read.

An id stands for its block *and everything before it*. So ids are distinct within a prompt, and an id has the same
predecessor wherever it occurs; a row that breaks this is dropped. A prompt with fewer blocks than its length needs
means that the block size is not what we think, and then the whole file is refused.
"""

from dataclasses import dataclass, field
from typing import Literal

from traces.formats.fields import UnusableRow
from traces.formats.source import TraceSource

BlockRule = Literal["ceil", "floor"]
"""Whether the partial block at a prompt's end has an id (`ceil`) or only whole blocks do (`floor`)."""

IDS = 2**64
NO_PREDECESSOR = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixIdentity:
    source: TraceSource
    block_tokens: int
    rule: BlockRule
    _predecessors: dict[int, int] = field(default_factory=dict, init=False)

    def check(self, ids: object, prompt_tokens: int, line: int) -> tuple[int, ...]:
        """The ids as a tuple.

        Raises UnusableRow where the row is at fault, TraceError where the file is.
        """
        if not isinstance(ids, list) or any(type(block) is not int for block in ids):
            raise UnusableRow("block_ids_not_integers")
        if ids and not (min(ids) >= 0 and max(ids) < IDS):
            raise UnusableRow("block_id_beyond_64_bits")
        expected = prompt_tokens // self.block_tokens
        if self.rule == "ceil" and prompt_tokens % self.block_tokens:
            expected += 1
        if len(ids) < expected:
            raise self.source.error(
                f"{len(ids)} prefix blocks of {self.block_tokens} tokens cannot cover a prompt of {prompt_tokens}"
                f" tokens (it has {expected})",
                "the file's block size is another one, or its ids were cut; give the trace in its own format",
                line,
            )
        if len(ids) > expected:
            raise UnusableRow("more_blocks_than_prompt")
        if len(set(ids)) < len(ids):
            raise UnusableRow("duplicate_block_ids")
        self._link(ids)
        return tuple(ids)

    def _link(self, ids: list[int]) -> None:
        predecessors = self._predecessors
        previous = NO_PREDECESSOR
        for block in ids:
            if predecessors.get(block, previous) != previous:
                raise UnusableRow("block_id_with_two_prefixes")
            previous = block
        previous = NO_PREDECESSOR
        for block in ids:
            predecessors[block] = previous
            previous = block
