"""Quality of a build's logits against eager's, teacher-forced in the shapes of decoding.

A single prefill would never call a kernel for few rows, so every position is a decode step. Both processes get the
same tokens, which the judge samples from eager's logits or takes from its prompts; all statistics are the judge's, in
float64. What eager differs by from itself, in a batch or when it runs again, is measured beside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from candidates.serving_build.served_process import Ids, Logits, ServedProcess

CHUNK_TOKENS = 256
"""Prompts are prefilled in chunks, as serving does, so that none takes long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityPlan:
    """short_sequences * steps + long_sequences * steps positions are compared."""

    short_sequences: int = 12
    short_prompt_tokens: int = 32
    long_sequences: int = 4
    long_prompt_tokens: int = 1024
    steps: int = 125
    noise_steps: int = 12
    """Decode steps that are made again, in the batch and of one sequence alone."""
    prompt_steps: int = 32
    """Tokens of each short prompt that are fed one by one, for the drift of their probability."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    kl_divergence: float
    """Mean over positions of KL(eager || build), nats."""
    kl_of_long: float
    """Of the positions behind a long context alone."""
    kl_noise: float
    """KL(eager || eager) of a sequence in a batch and alone, or run again; the larger mean."""
    positions: int
    greedy_agreement: float
    """Over the positions where eager's top two logits differ by more than `noise`; 1.0 where there is none."""
    greedy_positions: int
    noise: float
    """Largest difference of a logit of eager between batch sizes, or between runs."""
    row_split_difference: float
    """Of the build between batch sizes: what its rows owe to the rows beside them."""
    logprob_drift: float
    """Mean log probability of the prompts' own tokens, nats, build less eager, without its sign."""


@dataclass(slots=True)
class _Positions:
    """What was seen so far, one entry for each step."""

    divergence: list[npt.NDArray[np.float64]] = field(default_factory=list)
    gaps: list[npt.NDArray[np.float32]] = field(default_factory=list)
    agrees: list[npt.NDArray[np.bool_]] = field(default_factory=list)

    def add(self, eager: Logits, build: Logits) -> None:
        self.divergence.append(kl_divergence(eager, build))
        top_two = np.partition(eager, -2, axis=-1)[:, -2:]
        self.gaps.append(top_two[:, 1] - top_two[:, 0])
        self.agrees.append(eager.argmax(-1) == build.argmax(-1))


def measure_quality(
    eager: ServedProcess,
    build: ServedProcess,
    plan: QualityPlan,
    prompts: Sequence[Sequence[int]],
    rng: np.random.Generator,
) -> Quality:
    """`prompts`: token ids; the longest serves as the long context, the others start the short sequences.

    Raises ValueError when the prompts are too few or too short, ServedProcessEnded when a process fails.
    """
    short, long = _choose_prompts(prompts, plan)
    seen = _Positions()
    own = _compare_short(eager, build, plan, short[:, : plan.short_prompt_tokens], seen, rng)
    short_positions = sum(map(len, seen.gaps))
    drift = _drift(eager, build, plan, short)
    _start_sequence(eager, build, long)
    for process in (eager, build):
        process.ask("expand", batch=plan.long_sequences)
    first = rng.choice(long[0], plan.long_sequences)
    _decode(eager, build, first[:, None], plan.steps, seen, rng)
    gaps, agrees, divergence = np.concatenate(seen.gaps), np.concatenate(seen.agrees), np.concatenate(seen.divergence)
    is_clear = gaps > own.noise
    return Quality(
        kl_divergence=float(divergence.mean()),
        kl_of_long=float(divergence[short_positions:].mean()),
        kl_noise=own.kl_noise,
        positions=len(gaps),
        greedy_agreement=float(agrees[is_clear].mean()) if is_clear.any() else 1.0,
        greedy_positions=int(is_clear.sum()),
        noise=own.noise,
        row_split_difference=own.row_split_difference,
        logprob_drift=drift,
    )


def kl_divergence(eager: Logits, build: Logits) -> npt.NDArray[np.float64]:
    """KL(eager || build) of each row, nats, rounding below 0 read as 0: [rows, vocab] -> [rows] float64."""
    shifted_p, exponentials_p = _exponentials(eager)
    shifted_q, exponentials_q = _exponentials(build)
    total_p, total_q = exponentials_p.sum(-1), exponentials_q.sum(-1)
    difference = np.einsum("rv,rv->r", exponentials_p, shifted_p - shifted_q) / total_p
    divergence: npt.NDArray[np.float64] = np.maximum(difference - np.log(total_p) + np.log(total_q), 0.0)
    return divergence


def sample_tokens(logits: Logits, rng: np.random.Generator) -> Ids:
    """One token from each row's distribution at temperature 1: [rows, vocab] -> [rows]."""
    cumulative = np.cumsum(_exponentials(logits)[1], axis=-1)
    thresholds = rng.random(len(logits)) * cumulative[:, -1]
    pairs = zip(cumulative, thresholds, strict=True)
    return np.array([np.searchsorted(row, threshold, side="right") for row, threshold in pairs], dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Own:
    """By how much a side differs from itself."""

    noise: float
    kl_noise: float
    row_split_difference: float


def _compare_short(
    eager: ServedProcess,
    build: ServedProcess,
    plan: QualityPlan,
    prompts: Ids,
    seen: _Positions,
    rng: np.random.Generator,
) -> _Own:
    logits = _start_sequence(eager, build, prompts)
    first = sample_tokens(logits, rng)[:, None]
    kept = _decode(eager, build, first, plan.steps, seen, rng, kept_steps=plan.noise_steps)
    again: list[tuple[Logits, Logits]] = []
    split: list[tuple[Logits, Logits]] = []
    _start_sequence(eager, None, prompts)
    for ids, of_eager, _ in kept:
        again.append((of_eager, eager.step(ids, is_kept=True)))
    _start_sequence(eager, build, prompts[:1])
    differences = []
    for ids, of_eager, of_build in kept:
        split.append((of_eager[:1], eager.step(ids[:1], is_kept=True)))
        differences.append(np.abs(build.step(ids[:1], is_kept=True)[0] - of_build[0]).max())
    return _Own(
        noise=float(max((np.abs(one - other).max() for one, other in (*again, *split)), default=0.0)),
        kl_noise=max(
            (float(np.mean([kl_divergence(*pair).mean() for pair in pairs])) for pairs in (again, split) if pairs),
            default=0.0,
        ),
        row_split_difference=float(max(differences, default=0.0)),
    )


def _drift(eager: ServedProcess, build: ServedProcess, plan: QualityPlan, prompts: Ids) -> float:
    """`prompts` [short_sequences, short_prompt_tokens + prompt_steps]: the last tokens are fed as they stand there."""
    _start_sequence(eager, build, prompts[:, : plan.short_prompt_tokens])
    sums = [0.0, 0.0]
    for place in range(plan.short_prompt_tokens, prompts.shape[1] - 1):
        for process in (eager, build):
            process.send_step(prompts[:, place : place + 1], is_kept=True)
        for side, process in enumerate((eager, build)):
            sums[side] += float(_log_probabilities(process.receive_logits(len(prompts)), prompts[:, place + 1]).sum())
    predicted = len(prompts) * max(prompts.shape[1] - 1 - plan.short_prompt_tokens, 1)
    return float(abs(sums[1] - sums[0]) / predicted)


def _start_sequence(eager: ServedProcess, build: ServedProcess | None, prompts: Ids) -> Logits:
    """Fills the caches with `prompts` [batch, tokens]; eager's logits after the last token."""
    processes = [process for process in (eager, build) if process is not None]
    for process in processes:
        process.ask("cache", batch=len(prompts), context=0, seed=0)
    logits = np.empty((0, 0), dtype=np.float32)
    for start in range(0, prompts.shape[1], CHUNK_TOKENS):
        chunk = prompts[:, start : start + CHUNK_TOKENS]
        for process in processes:
            process.send_step(chunk, is_kept=True)
        logits, *_ = [process.receive_logits(len(prompts)) for process in processes]
    return logits


def _decode(
    eager: ServedProcess,
    build: ServedProcess,
    ids: Ids,
    steps: int,
    seen: _Positions,
    rng: np.random.Generator,
    kept_steps: int = 0,
) -> list[tuple[Ids, Logits, Logits]]:
    """Feeds `ids` [batch, 1] and what eager's logits then give; returns the first `kept_steps` inputs with the logits
    of eager and build."""
    kept = []
    previous: tuple[Logits, Logits] | None = None
    for step in range(steps):
        # Both at once: nothing is timed here. The statistics of a step are made while the next one runs.
        eager.send_step(ids, is_kept=True)
        build.send_step(ids, is_kept=True)
        if previous is not None:
            seen.add(*previous)
        previous = eager.receive_logits(len(ids)), build.receive_logits(len(ids))
        if step < kept_steps:
            kept.append((ids, *previous))
        ids = sample_tokens(previous[0], rng)[:, None]
    if previous is not None:
        seen.add(*previous)
    return kept


def _choose_prompts(prompts: Sequence[Sequence[int]], plan: QualityPlan) -> tuple[Ids, Ids]:
    """[short_sequences, short_prompt_tokens + prompt_steps] and [1, long_prompt_tokens]; prompts that are too few serve
    again."""
    by_length = sorted(prompts, key=len)
    if not by_length or len(by_length[-1]) < plan.long_prompt_tokens:
        raise ValueError(f"no prompt has {plan.long_prompt_tokens} tokens: give a longer one")
    tokens = plan.short_prompt_tokens + plan.prompt_steps
    enough = [prompt for prompt in by_length[:-1] if len(prompt) >= tokens] or by_length[-1:]
    short = [enough[number % len(enough)][:tokens] for number in range(plan.short_sequences)]
    return np.array(short, dtype=np.int64), np.array([by_length[-1][: plan.long_prompt_tokens]], dtype=np.int64)


def _log_probabilities(logits: Logits, tokens: Ids) -> npt.NDArray[np.float64]:
    """Of each row's token: [rows, vocab], [rows] -> [rows] float64."""
    shifted, exponentials = _exponentials(logits)
    chosen: npt.NDArray[np.float64] = shifted[np.arange(len(tokens)), tokens] - np.log(exponentials.sum(-1))
    return chosen


def _exponentials(logits: Logits) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """(logits less the largest of their row, exp of that), float64."""
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    return shifted, np.exp(shifted)
