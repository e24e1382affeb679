"""The project's own sample trace: two made-up workloads whose distributions stand here, for a model of 8k context.

Coding agent: sessions start as a Poisson process. Each prompt is a system prompt with tools (shared by all sessions),
the instructions of one of a few repositories (shared by its sessions), the task, then turn after turn the answer and
what the tool gave back. So prompts are long and mostly known already, answers are short, and between turns the tool
runs. A session ends by a coin at each turn, or when the window is full.

Chat: conversations start as a Poisson process whose rate swings over the span as over a day. Prompts are shorter, now
and then with a pasted document; answers are long; a person reads and types between turns.

Lengths and pauses are log-normal, given by median, sigma of the logarithm, and bounds. What is honest is the form;
the numbers are choices, small enough that a laptop's replay sees many turns. The shipped file is the output of
`python -m traces.sample --output traces/samples/coding_and_chat.jsonl`.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from traces.formats.project import write_rows
from traces.requests import TracedRequest

SAMPLE_TRACE = Path(__file__).parent / "samples" / "coding_and_chat.jsonl"
BLOCK_TOKENS = 64
WINDOW_TOKENS = 7_680
"""Leaves an 8k window some room for a chat template."""
DEFAULT_SEED = 20_260_101


@dataclass(frozen=True, slots=True, kw_only=True)
class LogNormal:
    median: float
    sigma: float
    low: float
    high: float

    def draw(self, random: np.random.Generator) -> float:
        return float(min(self.high, max(self.low, self.median * math.exp(self.sigma * random.standard_normal()))))

    def draw_tokens(self, random: np.random.Generator) -> int:
        return round(self.draw(random))


@dataclass(frozen=True, slots=True, kw_only=True)
class CodingAgent:
    session_starts_per_hour: float = 34.0
    system_tokens: int = 1_150
    repositories: int = 5
    repository_tokens: LogNormal = LogNormal(median=500, sigma=0.6, low=100, high=1_500)
    task_tokens: LogNormal = LogNormal(median=120, sigma=0.9, low=16, high=1_000)
    tool_result_tokens: LogNormal = LogNormal(median=190, sigma=1.0, low=8, high=1_800)
    output_tokens: LogNormal = LogNormal(median=48, sigma=0.9, low=4, high=600)
    tool_pause_s: LogNormal = LogNormal(median=6, sigma=1.2, low=0.5, high=300)
    another_turn: float = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    conversation_starts_per_hour: float = 150.0
    daily_swing: float = 0.7
    """The rate swings by this share of its mean, lowest at the start and the end of the span."""
    system_tokens: int = 90
    message_tokens: LogNormal = LogNormal(median=55, sigma=1.0, low=4, high=800)
    document_tokens: LogNormal = LogNormal(median=900, sigma=0.7, low=200, high=4_000)
    document_chance: float = 0.12
    output_tokens: LogNormal = LogNormal(median=230, sigma=0.8, low=8, high=1_200)
    reading_pause_s: LogNormal = LogNormal(median=35, sigma=0.9, low=3, high=600)
    another_turn: float = 0.45


@dataclass(slots=True)
class BlockIds:
    """Gives equal ids to the blocks of prompts that are made of equal segments up to and including the block."""

    _ids: dict[tuple[int, tuple[str, ...]], int] = field(default_factory=dict)

    def whole_blocks(self, segments: list[tuple[str, int]]) -> tuple[int, ...]:
        """Of a prompt of segments (name of a text, its tokens), in order; the partial last block has no id."""
        blocks: list[int] = []
        names: list[str] = []
        filled = 0
        previous = -1
        for name, tokens in segments:
            while tokens:
                taken = min(tokens, BLOCK_TOKENS - filled)
                names.append(name)
                filled += taken
                tokens -= taken
                if filled == BLOCK_TOKENS:
                    previous = self._ids.setdefault((previous, tuple(names)), len(self._ids))
                    blocks.append(previous)
                    names, filled = [], 0
        return tuple(blocks)


def generate_sample(
    seed: int = DEFAULT_SEED, span_s: float = 3600.0, coding: CodingAgent | None = None, chat: Chat | None = None
) -> list[TracedRequest]:
    """Both workloads, sorted by arrival; sessions begin within `span_s`, their later turns may come after it."""
    block_ids = BlockIds()
    requests = [
        *_coding_requests(np.random.default_rng([seed, 0]), span_s, coding or CodingAgent(), block_ids),
        *_chat_requests(np.random.default_rng([seed, 1]), span_s, chat or Chat(), block_ids),
    ]
    return sorted(requests, key=lambda request: request.arrival_s)


def _coding_requests(
    random: np.random.Generator, span_s: float, shape: CodingAgent, block_ids: BlockIds
) -> Iterator[TracedRequest]:
    repository_tokens = [shape.repository_tokens.draw_tokens(random) for _ in range(shape.repositories)]
    for index, start_s in enumerate(_poisson_times(random, span_s, shape.session_starts_per_hour, swing=0.0)):
        session = f"coding-{index}"
        repository = int(random.integers(shape.repositories))
        segments = [
            ("coding system", shape.system_tokens),
            (f"repository {repository}", repository_tokens[repository]),
            (f"{session} task", shape.task_tokens.draw_tokens(random)),
        ]
        arrival_s = start_s
        for turn in itertools.count():
            output_tokens = shape.output_tokens.draw_tokens(random)
            request = _request("coding", session, arrival_s, segments, output_tokens, block_ids)
            if request is None:
                break
            yield request
            if random.random() >= shape.another_turn:
                break
            segments.append((f"{session} answer {turn}", output_tokens))
            segments.append((f"{session} tool {turn}", shape.tool_result_tokens.draw_tokens(random)))
            arrival_s += shape.tool_pause_s.draw(random)


def _chat_requests(
    random: np.random.Generator, span_s: float, shape: Chat, block_ids: BlockIds
) -> Iterator[TracedRequest]:
    starts_s = _poisson_times(random, span_s, shape.conversation_starts_per_hour, swing=shape.daily_swing)
    for index, start_s in enumerate(starts_s):
        session = f"chat-{index}"
        segments = [("chat system", shape.system_tokens)]
        arrival_s = start_s
        for turn in itertools.count():
            segments.append((f"{session} message {turn}", shape.message_tokens.draw_tokens(random)))
            if random.random() < shape.document_chance:
                segments.append((f"{session} document {turn}", shape.document_tokens.draw_tokens(random)))
            output_tokens = shape.output_tokens.draw_tokens(random)
            request = _request("chat", session, arrival_s, segments, output_tokens, block_ids)
            if request is None:
                break
            yield request
            if random.random() >= shape.another_turn:
                break
            segments.append((f"{session} answer {turn}", output_tokens))
            arrival_s += shape.reading_pause_s.draw(random)


def _request(
    workload_class: str,
    session: str,
    arrival_s: float,
    segments: list[tuple[str, int]],
    output_tokens: int,
    block_ids: BlockIds,
) -> TracedRequest | None:
    """None when prompt and output overflow the window."""
    prompt_tokens = sum(tokens for _, tokens in segments)
    if prompt_tokens + output_tokens > WINDOW_TOKENS:
        return None
    return TracedRequest(
        arrival_s=round(arrival_s, 3),
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        workload_class=workload_class,
        session=session,
        prefix_blocks=block_ids.whole_blocks(segments),
    )


def _poisson_times(random: np.random.Generator, span_s: float, per_hour: float, *, swing: float) -> Iterator[float]:
    """Thinning (Lewis and Shedler 1979): draw at the peak rate, keep each time with the share that its own rate is."""
    peak_per_s = per_hour * (1 + swing) / 3600
    time_s = random.exponential(1 / peak_per_s)
    while time_s < span_s:
        rate_over_peak = (1 - swing * math.cos(2 * math.pi * time_s / span_s)) / (1 + swing)
        if random.random() < rate_over_peak:
            yield float(time_s)
        time_s += random.exponential(1 / peak_per_s)


def main(
    output: Annotated[Path, typer.Option(help="File to write, replaced if it is there.")],
    seed: Annotated[int, typer.Option(help="Equal seeds give equal traces.", min=0)] = DEFAULT_SEED,
    span_s: Annotated[float, typer.Option(help="Seconds within which sessions start.", min=1.0)] = 3600.0,
) -> None:
    """Writes a trace of a coding-agent and a chat workload.

    Example: python -m traces.sample --output /tmp/two_hours.jsonl --span-s 7200
    """
    lines = write_rows(generate_sample(seed, span_s), BLOCK_TOKENS)
    output.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
