"""simulate: what a serving engine does with a list of requests, step by step: continuous batching, chunked prefill,
prefix cache, preemption when keys and values run out of room.

After the schedulers of vLLM v1 and SGLang (`sched/scheduler.py`, `managers/scheduler.py`), first come first served.
Not modelled: priorities, speculative decoding, several devices, swapping to the host, and the reuse of generated
tokens, whose block ids no trace has. Arrivals are open loop: a session's next turn comes when the trace says so.

Runs of decode steps in which nothing happens but that the batch ages are taken in one jump.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from traces.replay.buckets import StepBuckets, steps_of_one_context_kind
from traces.replay.cost import StepCostModel, prefill_pairs
from traces.replay.prefix_cache import KvCache
from traces.replay.served_request import ServedRequest
from traces.replay.settings import EngineName, EngineSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class _Policy:
    mixes_prefill_with_decode: bool
    preempts_last_admitted: bool
    """Else the one with the least output, of those the longest prompt."""
    output_reserve: float | None
    """Admission keeps room for this share of the outputs still to come, and for all of the new request's; None: for
    its prompt alone. SGLang's new-token ratio decays from 0.7 to 0.098 within 600 decode steps."""
    cuts_prefill_to_room: bool
    """When a prompt in parts finds no room: wait with what fits, else give everything back."""


_POLICIES: dict[EngineName, _Policy] = {
    "vllm": _Policy(
        mixes_prefill_with_decode=True, preempts_last_admitted=True, output_reserve=None, cuts_prefill_to_room=False
    ),
    "sglang": _Policy(
        mixes_prefill_with_decode=False, preempts_last_admitted=False, output_reserve=0.098, cuts_prefill_to_room=True
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """What became of the requests: their own times are on them."""

    busy_s: float
    span_s: float
    """From the first arrival to the last token."""
    steps: int
    preemptions: int
    buckets: StepBuckets


def simulate(
    requests: Sequence[ServedRequest],
    *,
    settings: EngineSettings,
    cost_model: StepCostModel,
    block_tokens: int | None,
    workload_classes: Sequence[str],
    longest_run: int | None = None,
) -> Schedule:
    """Serves `requests` (fresh, at least one, sorted by arrival) and notes on each when its tokens came.

    `longest_run` 1 takes every decode step by itself: slower, the same result.

    Raises ValueError when a request could never fit in the device's keys and values.
    """
    longest = max(requests, key=lambda request: request.prompt_tokens + request.output_tokens)
    if longest.prompt_tokens + longest.output_tokens > settings.kv_capacity_tokens:
        raise ValueError(
            f"a request of {longest.prompt_tokens} + {longest.output_tokens} tokens never fits in "
            f"kv_capacity_tokens {settings.kv_capacity_tokens}: raise it or lower max_context_tokens"
        )
    engine = _Engine(requests, settings, cost_model, block_tokens, workload_classes, longest_run)
    engine.serve()
    return Schedule(
        busy_s=engine.busy_s,
        span_s=engine.now_s - requests[0].arrival_s,
        steps=engine.steps,
        preemptions=engine.preemptions,
        buckets=engine.buckets,
    )


class _Engine:
    def __init__(
        self,
        requests: Sequence[ServedRequest],
        settings: EngineSettings,
        cost_model: StepCostModel,
        block_tokens: int | None,
        workload_classes: Sequence[str],
        longest_run: int | None,
    ) -> None:
        self.busy_s = 0.0
        self.steps = 0
        self.preemptions = 0
        self.now_s = requests[0].arrival_s
        self.buckets = StepBuckets(workload_classes=workload_classes, max_batched_tokens=settings.max_batched_tokens)
        self._policy = _POLICIES[settings.name]
        self._settings = settings
        self._cost_model = cost_model
        self._block_tokens = block_tokens or 1
        self._cache = KvCache(capacity_tokens=settings.kv_capacity_tokens, block_tokens=self._block_tokens)
        self._longest_run = longest_run
        self._arrivals = requests
        self._arrived = 0
        self._waiting: deque[ServedRequest] = deque()
        self._partial: ServedRequest | None = None
        """The request whose prompt is computed in part; at most one, the last admitted."""
        self._decoding: dict[int, ServedRequest] = {}
        """By ticket, so in order of admission."""
        self._finishes: list[tuple[int, int]] = []
        """Heap of (decode steps done when it ends, ticket); tickets of preempted requests are stale."""
        self._decodes_done = 0
        self._context_total = 0
        """Tokens of the decoding requests in the cache."""
        self._outputs_to_come = 0
        """Output tokens that the decoding requests still lack."""
        self._decoding_by_class = [0] * len(workload_classes)
        self._tickets = 0

    def serve(self) -> None:
        arrivals = self._arrivals
        while True:
            while self._arrived < len(arrivals) and arrivals[self._arrived].arrival_s <= self.now_s:
                self._waiting.append(arrivals[self._arrived])
                self._arrived += 1
            preemptions = self.preemptions
            if self._policy.mixes_prefill_with_decode:
                self._make_room_to_decode()
            chunks = self._form_prefill(may_admit=self.preemptions == preemptions)
            if chunks:
                self._prefill(chunks)
            elif self._decoding:
                self._make_room_to_decode()
                # Who was preempted may be back in the very next step, if others hold its blocks.
                self._decode(self._steps_until_event() if self.preemptions == preemptions else 1)
            elif self._arrived < len(arrivals):
                self.now_s = arrivals[self._arrived].arrival_s
            else:
                return

    # Prefill

    def _form_prefill(self, may_admit: bool) -> list[tuple[ServedRequest, int]]:
        """The requests that this step prefills, each with how many tokens; these are allocated already."""
        policy, settings, cache = self._policy, self._settings, self._cache
        decodes = len(self._decoding) if policy.mixes_prefill_with_decode else 0
        budget = settings.max_batched_tokens - decodes
        chunks: list[tuple[ServedRequest, int]] = []
        partial = self._partial
        if partial is not None and budget > 0:
            room = cache.available_tokens - decodes
            chunk = min(partial.prefill_target - partial.computed_tokens, budget)
            if chunk > room and not policy.cuts_prefill_to_room:
                self._preempt(partial)
                return chunks
            chunk = min(chunk, room)
            if chunk > 0:
                cache.allocate(chunk)
                chunks.append((partial, chunk))
                budget -= chunk
                if partial.computed_tokens + chunk == partial.prefill_target:
                    self._partial = None
        running = len(self._decoding) + len(chunks)
        while self._partial is None and may_admit and self._waiting:
            if budget <= 0 or running >= settings.max_sequences:
                break
            admitted = self._admit(self._waiting[0], budget, decodes)
            if admitted is None:
                break
            self._waiting.popleft()
            chunks.append(admitted)
            budget -= admitted[1]
            running += 1
        return chunks

    def _admit(self, request: ServedRequest, budget: int, decodes: int) -> tuple[ServedRequest, int] | None:
        """The request with the tokens that it prefills first; None when its prompt has no room."""
        cache, policy = self._cache, self._policy
        target = request.prefill_target
        reusable = request.blocks[: (target - 1) // self._block_tokens]
        hits = reusable[: cache.match(reusable)]
        hit_tokens = len(hits) * self._block_tokens
        needed = target - hit_tokens
        room = cache.available_tokens - decodes - cache.evictable_among(hits) * self._block_tokens
        reserve = 0.0
        if policy.output_reserve is not None:
            reserve = policy.output_reserve * self._outputs_to_come + request.output_tokens - request.emitted_tokens
        if needed + reserve > room:
            return None
        if request.ticket == 0:
            request.hit_tokens = hit_tokens
        self._tickets += 1
        request.ticket = self._tickets
        chunk = min(needed, budget)
        cache.share(hits)
        cache.allocate(chunk)
        request.computed_tokens = hit_tokens
        request.stored_blocks = len(hits)
        if chunk < needed:
            self._partial = request
        return request, chunk

    def _prefill(self, chunks: list[tuple[ServedRequest, int]]) -> None:
        decodes = len(self._decoding) if self._policy.mixes_prefill_with_decode else 0
        tokens = context_read = weighted_context = 0
        pairs = 0.0
        tokens_by_class = list(self._decoding_by_class) if decodes else [0] * len(self._decoding_by_class)
        for request, chunk in chunks:
            context = request.computed_tokens
            tokens += chunk
            context_read += context + chunk
            weighted_context += context * chunk
            pairs += prefill_pairs(chunk, context)
            tokens_by_class[request.workload_class] += chunk
        attended = self._context_total + decodes if decodes else 0
        duration_s = self._cost_model.step_seconds(tokens + decodes, pairs + attended, context_read + attended)
        self.buckets.add_prefill(
            duration_s=duration_s,
            tokens=tokens,
            context=weighted_context / tokens,
            decode_batch=decodes,
            decode_context_total=attended,
            tokens_by_class=tokens_by_class,
        )
        self._pass(duration_s, 1)
        if decodes:
            self._age(1)
        for request, chunk in chunks:
            self._end_chunk(request, chunk)

    def _end_chunk(self, request: ServedRequest, chunk: int) -> None:
        request.computed_tokens += chunk
        whole = min(request.computed_tokens // self._block_tokens, len(request.blocks))
        if whole > request.stored_blocks:
            self._cache.store(request.blocks[request.stored_blocks : whole])
            request.stored_blocks = whole
        if request is self._partial:
            return
        if request.emitted_tokens == 0:
            request.first_token_s = self.now_s
        request.emitted_tokens += 1
        if request.emitted_tokens == request.output_tokens:
            request.finish_s = self.now_s
            self._release(request, request.computed_tokens)
            return
        to_come = request.output_tokens - request.emitted_tokens
        request.decode_start = self._decodes_done
        self._decoding[request.ticket] = request
        self._decoding_by_class[request.workload_class] += 1
        self._context_total += request.computed_tokens
        self._outputs_to_come += to_come
        heapq.heappush(self._finishes, (self._decodes_done + to_come, request.ticket))

    # Decode

    def _steps_until_event(self) -> int:
        """Decode steps until a request finishes or may join, or room or the bucket ends. At least 1.

        A waiting request that was not admitted stays so until then: room only shrinks, and nobody overtakes it.
        """
        batch = len(self._decoding)
        while self._finishes[0][1] not in self._decoding:
            heapq.heappop(self._finishes)
        mean_context = self._context_total // batch + 1
        steps = min(
            self._finishes[0][0] - self._decodes_done,
            self._cache.available_tokens // batch,
            steps_of_one_context_kind(mean_context),
        )
        if self._longest_run is not None:
            steps = min(steps, self._longest_run)
        if self._waiting or self._arrived == len(self._arrivals) or steps <= 1:
            return steps
        return self._steps_until(self._arrivals[self._arrived].arrival_s, steps)

    def _steps_until(self, moment_s: float, most: int) -> int:
        """The fewest steps after which `moment_s` has come, at most `most`."""
        batch, attended = len(self._decoding), self._context_total + len(self._decoding)
        run_seconds, now_s = self._cost_model.decode_run_seconds, self.now_s
        if now_s + run_seconds(batch, attended, most) < moment_s:
            return most
        fewest = 1
        while fewest < most:
            middle = (fewest + most) // 2
            if now_s + run_seconds(batch, attended, middle) >= moment_s:
                most = middle
            else:
                fewest = middle + 1
        return fewest

    def _decode(self, steps: int) -> None:
        batch = len(self._decoding)
        attended = self._context_total + batch
        duration_s = self._cost_model.decode_run_seconds(batch, attended, steps)
        self.buckets.add_decodes(
            steps=steps,
            duration_s=duration_s,
            batch=batch,
            context_total=attended,
            batch_by_class=self._decoding_by_class,
        )
        self._pass(duration_s, steps)
        self._age(steps)

    def _pass(self, duration_s: float, steps: int) -> None:
        self.now_s += duration_s
        self.busy_s += duration_s
        self.steps += steps

    def _age(self, steps: int) -> None:
        """Every decoding request got one token from each of `steps` steps; those that have all of them leave."""
        grown = len(self._decoding) * steps
        self._cache.allocate(grown)
        self._context_total += grown
        self._outputs_to_come -= grown
        self._decodes_done += steps
        while self._finishes and self._finishes[0][0] <= self._decodes_done:
            _, ticket = heapq.heappop(self._finishes)
            request = self._decoding.get(ticket)
            if request is not None:
                self._stop_decoding(request)
                request.finish_s = self.now_s

    def _stop_decoding(self, request: ServedRequest) -> None:
        decoded = self._decodes_done - request.decode_start
        held_tokens = request.computed_tokens + decoded
        request.emitted_tokens += decoded
        del self._decoding[request.ticket]
        self._decoding_by_class[request.workload_class] -= 1
        self._context_total -= held_tokens
        self._outputs_to_come -= request.output_tokens - request.emitted_tokens
        self._release(request, held_tokens)

    def _release(self, request: ServedRequest, held_tokens: int) -> None:
        self._cache.free(held_tokens - request.stored_blocks * self._block_tokens)
        self._cache.release(request.blocks[: request.stored_blocks])
        request.computed_tokens = request.stored_blocks = 0

    # Preemption

    def _make_room_to_decode(self) -> None:
        """Preempts until each decoding request has room for one more token."""
        while len(self._decoding) > self._cache.available_tokens:
            self._preempt(self._choose_victim())

    def _choose_victim(self) -> ServedRequest:
        if self._policy.preempts_last_admitted:
            return self._partial or next(reversed(self._decoding.values()))
        if self._partial is not None and len(self._decoding) == 1:
            return self._partial
        return min(
            self._decoding.values(),
            key=lambda request: (
                request.emitted_tokens + self._decodes_done - request.decode_start,
                -request.prompt_tokens,
            ),
        )

    def _preempt(self, request: ServedRequest) -> None:
        """Takes back all that the request has computed, and puts it at the head of the queue."""
        self.preemptions += 1
        if request is self._partial:
            self._partial = None
            self._release(request, request.computed_tokens)
        else:
            self._stop_decoding(request)
        self._waiting.appendleft(request)
