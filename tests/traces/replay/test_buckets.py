import pytest
from hypothesis import given
from hypothesis import strategies as st

from traces.replay.buckets import StepBuckets, context_kind, steps_of_one_context_kind


def buckets() -> StepBuckets:
    return StepBuckets(workload_classes=("chat", "coding"), max_batched_tokens=512)


def add_decode(into: StepBuckets, batch: int, mean_context: int, *, steps: int = 1, duration_s: float = 1.0) -> None:
    into.add_decodes(
        steps=steps,
        duration_s=duration_s,
        batch=batch,
        context_total=batch * mean_context,
        batch_by_class=(batch, 0),
    )


def add_prefill(
    into: StepBuckets, tokens: int, context: int, *, decode_batch: int = 0, duration_s: float = 1.0
) -> None:
    into.add_prefill(
        duration_s=duration_s,
        tokens=tokens,
        context=context,
        decode_batch=decode_batch,
        decode_context_total=decode_batch * 300,
        tokens_by_class=(decode_batch, tokens),
    )


def test_a_bucket_is_represented_by_its_time_weighted_mean() -> None:
    gathered = buckets()
    add_decode(gathered, 5, 1_100, duration_s=1.0)
    add_decode(gathered, 8, 1_400, duration_s=2.0)
    (step,) = gathered.largest(48)
    assert (step.prefill_tokens, step.prefill_context) == (0, 0)
    assert (step.decode_batch, step.decode_context) == (7, 1_300)
    assert (step.count, step.duration_s) == (2, 3.0)


def test_a_run_of_decodes_counts_every_step_at_its_mean_context() -> None:
    gathered = buckets()
    add_decode(gathered, 4, 1_100, steps=101)
    (step,) = gathered.largest(48)
    assert (step.count, step.decode_context) == (101, 1_150)


def test_tells_full_prefill_from_tails_and_mixed_from_pure() -> None:
    gathered = buckets()
    add_prefill(gathered, 512, 0)
    add_prefill(gathered, 510, 0, decode_batch=2)
    add_prefill(gathered, 511, 0)
    add_prefill(gathered, 300, 0)
    add_decode(gathered, 2, 300)
    assert gathered.kinds == 4
    assert sorted((step.prefill_tokens, step.decode_batch) for step in gathered.largest(48)) == [
        (0, 2),
        (406, 0),
        (510, 2),
        (512, 0),
    ]


def test_shares_by_class_go_by_tokens() -> None:
    gathered = buckets()
    add_prefill(gathered, 384, 0, decode_batch=128)
    (step,) = gathered.largest(48)
    assert step.share_by_class == {"chat": 0.25, "coding": 0.75}


def test_small_buckets_join_a_neighbour_and_strangers_are_left_out() -> None:
    gathered = buckets()
    add_decode(gathered, 16, 1_100, duration_s=10.0)
    add_decode(gathered, 32, 1_100, duration_s=1.0)
    add_decode(gathered, 256, 1_100, duration_s=1.0)
    (step,) = gathered.largest(1)
    assert (step.count, step.duration_s) == (2, 11.0)
    assert step.decode_batch == round((16 * 10 + 32) / 11)


def test_the_step_that_takes_most_time_comes_first() -> None:
    gathered = buckets()
    for batch, duration_s in ((1, 2.0), (4, 9.0), (16, 5.0)):
        add_decode(gathered, batch, 1_000, duration_s=duration_s)
    assert [step.decode_batch for step in gathered.largest(2)] == [4, 16]


@given(st.integers(1, 200_000))
def test_a_context_keeps_its_kind_for_as_many_steps_as_said(context: int) -> None:
    steps = steps_of_one_context_kind(context)
    assert steps >= 1
    assert context_kind(context + steps - 1) == context_kind(context)
    assert context_kind(context + steps) == context_kind(context) + 1


@given(
    st.lists(
        st.tuples(st.integers(1, 512), st.integers(0, 8_000), st.integers(0, 64), st.floats(1e-3, 1.0)),
        min_size=1,
        max_size=60,
    )
)
def test_with_room_for_all_kinds_no_time_is_lost(steps: list[tuple[int, int, int, float]]) -> None:
    gathered = buckets()
    for tokens, context, batch, duration_s in steps:
        add_prefill(gathered, tokens, context, decode_batch=batch, duration_s=duration_s)
    kept = gathered.largest(gathered.kinds)
    assert sum(step.duration_s for step in kept) == pytest.approx(sum(step[-1] for step in steps))
    assert sum(step.count for step in kept) == len(steps)
