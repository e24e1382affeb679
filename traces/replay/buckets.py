"""StepBuckets: hundreds of thousands of engine steps gathered into a few kinds of alike ones.

Alike are decode steps of equal batch and mean context up to the next power of two, and prefill steps of equal tokens
(a full step, or a tail up to the next power of two) and context, with decodes beside them or without. Contexts below
SHORT_CONTEXT are all alike.
"""

from collections.abc import Sequence

from traces.replay.step import EngineStep

Kind = tuple[int, int, int, int]
FULL_STEP = -1
SHORT_CONTEXT = 128


def context_kind(mean_context: int) -> int:
    return (mean_context // SHORT_CONTEXT).bit_length()


def steps_of_one_context_kind(mean_context: int) -> int:
    """Decode steps, of a batch that grows by a token each, until its mean context is of the next kind."""
    return (SHORT_CONTEXT << context_kind(mean_context)) - mean_context


class _Bucket:
    __slots__ = (
        "count",
        "duration_s",
        "tokens_by_class",
        "weighted_decode_batch",
        "weighted_decode_context",
        "weighted_decode_s",
        "weighted_prefill_context",
        "weighted_prefill_tokens",
    )

    def __init__(self, classes: int) -> None:
        self.count = 0
        self.duration_s = 0.0
        self.weighted_prefill_tokens = 0.0
        self.weighted_prefill_context = 0.0
        self.weighted_decode_batch = 0.0
        self.weighted_decode_context = 0.0
        self.weighted_decode_s = 0.0
        self.tokens_by_class = [0] * classes

    def take_in(self, other: "_Bucket") -> None:
        for name in self.__slots__:
            if name != "tokens_by_class":
                setattr(self, name, getattr(self, name) + getattr(other, name))
        self.tokens_by_class = [
            mine + theirs for mine, theirs in zip(self.tokens_by_class, other.tokens_by_class, strict=True)
        ]


def _are_neighbours(kind: Kind, other: Kind) -> bool:
    has_prefill, size, *rest = kind
    other_has_prefill, other_size, *other_rest = other
    if has_prefill != other_has_prefill or (size == FULL_STEP) != (other_size == FULL_STEP):
        return False
    if has_prefill and rest[-1] != other_rest[-1]:
        return False
    return all(abs(mine - theirs) <= 1 for mine, theirs in zip(kind, other, strict=True))


class StepBuckets:
    def __init__(self, *, workload_classes: Sequence[str], max_batched_tokens: int) -> None:
        self._workload_classes = tuple(workload_classes)
        self._max_batched_tokens = max_batched_tokens
        self._buckets: dict[Kind, _Bucket] = {}

    @property
    def kinds(self) -> int:
        return len(self._buckets)

    def add_decodes(
        self, *, steps: int, duration_s: float, batch: int, context_total: int, batch_by_class: Sequence[int]
    ) -> None:
        """`steps` decode steps in a row of one batch that attends to `context_total` tokens in the first of them.

        The caller ends a run after `steps_of_one_context_kind`.
        """
        mean_context = context_total / batch
        bucket = self._at((0, 0, (batch - 1).bit_length(), context_kind(int(mean_context))))
        bucket.count += steps
        bucket.duration_s += duration_s
        bucket.weighted_decode_batch += duration_s * batch
        bucket.weighted_decode_context += duration_s * (mean_context + (steps - 1) / 2)
        bucket.weighted_decode_s += duration_s
        for index, members in enumerate(batch_by_class):
            bucket.tokens_by_class[index] += members * steps

    def add_prefill(
        self,
        *,
        duration_s: float,
        tokens: int,
        context: float,
        decode_batch: int,
        decode_context_total: int,
        tokens_by_class: Sequence[int],
    ) -> None:
        """One step that prefills `tokens` on top of a mean of `context`, decodes beside them or not.

        The tokens of several prompts count as one prompt's: the same rows for all matrices, a few more pairs for
        attention.
        """
        is_full = tokens + decode_batch >= self._max_batched_tokens
        size = FULL_STEP if is_full else (tokens - 1).bit_length()
        bucket = self._at((1, size, context_kind(int(context)), 1 if decode_batch else 0))
        bucket.count += 1
        bucket.duration_s += duration_s
        bucket.weighted_prefill_tokens += duration_s * tokens
        bucket.weighted_prefill_context += duration_s * context
        if decode_batch:
            bucket.weighted_decode_batch += duration_s * decode_batch
            bucket.weighted_decode_context += duration_s * decode_context_total / decode_batch
            bucket.weighted_decode_s += duration_s
        for index, class_tokens in enumerate(tokens_by_class):
            bucket.tokens_by_class[index] += class_tokens

    def _at(self, kind: Kind) -> _Bucket:
        bucket = self._buckets.get(kind)
        if bucket is None:
            bucket = self._buckets[kind] = _Bucket(len(self._workload_classes))
        return bucket

    def largest(self, limit: int) -> tuple[EngineStep, ...]:
        """At most `limit` steps, the one that takes most time first.

        The buckets that take least time join the largest neighbour, one power of two away at most; those without one
        are left out.
        """
        ordered = sorted(self._buckets.items(), key=lambda item: (-item[1].duration_s, item[0]))
        kept = {kind: [bucket] for kind, bucket in ordered[:limit]}
        for kind, bucket in ordered[limit:]:
            for other, members in kept.items():
                if _are_neighbours(kind, other):
                    members.append(bucket)
                    break
        steps = (self._engine_step(members) for members in kept.values())
        return tuple(sorted(steps, key=lambda step: -step.duration_s))

    def _engine_step(self, members: Sequence[_Bucket]) -> EngineStep:
        bucket = _Bucket(len(self._workload_classes))
        for member in members:
            bucket.take_in(member)
        duration_s = bucket.duration_s
        decode_s = bucket.weighted_decode_s
        tokens = sum(bucket.tokens_by_class)
        return EngineStep(
            prefill_tokens=round(bucket.weighted_prefill_tokens / duration_s),
            prefill_context=round(bucket.weighted_prefill_context / duration_s),
            decode_batch=round(bucket.weighted_decode_batch / duration_s),
            decode_context=round(bucket.weighted_decode_context / decode_s) if decode_s else 0,
            count=float(bucket.count),
            duration_s=duration_s,
            share_by_class={
                name: class_tokens / tokens
                for name, class_tokens in zip(self._workload_classes, bucket.tokens_by_class, strict=True)
                if class_tokens
            },
        )
