"""Live progress of a run: stage, op, candidates tried, best so far, time left.

On a terminal one panel is redrawn; elsewhere every fact is one line, so that a nightly log can be read.
"""

import time
from collections.abc import Mapping

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from candidates.run import Progress, Stage
from candidates.time_left import seconds_left


class ProgressDisplay:
    """A context manager: shows what `show` is given, on standard error."""

    def __init__(self, expected_s: Mapping[Stage, float], console: Console) -> None:
        """`expected_s`: what each stage takes, roughly, in their order."""
        self._expected_s = expected_s
        self._console = console
        self._started = time.monotonic()
        self._stage = next(iter(expected_s))
        self._stage_started = self._started
        self._current: Progress | None = None
        self._live = Live(get_renderable=self._render, console=console, refresh_per_second=2, transient=True)

    def __enter__(self) -> "ProgressDisplay":
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def show(self, progress: Progress) -> None:
        if progress.stage is not self._stage:
            self._stage, self._stage_started = progress.stage, time.monotonic()
        self._current = progress
        self._console.print(self._line(progress), highlight=False, soft_wrap=True)

    def seconds_left(self) -> float:
        return seconds_left(self._expected_s, self._stage, time.monotonic() - self._stage_started)

    def _line(self, progress: Progress) -> Text:
        elapsed = int(time.monotonic() - self._started)
        line = Text(f"{elapsed // 60:3d}:{elapsed % 60:02d} ", style="dim")
        line.append(f"{progress.stage.value:<10} ", style="bold")
        if progress.op is not None:
            line.append(f"{progress.op} ", style="cyan")
        line.append(progress.message)
        if progress.tried:
            line.append(f" · {progress.tried} tried", style="dim")
        if progress.best_speedup is not None:
            line.append(f" · best {progress.best_speedup:.2f}x", style="green")
        line.append(f" · {_minutes(self.seconds_left())} left", style="dim")
        return line

    def _render(self) -> Table:
        grid = Table.grid(padding=(0, 2))
        current = self._current
        marks = [Text(stage.value, style="bold" if stage is self._stage else "dim") for stage in self._expected_s]
        grid.add_row(Text(" > ").join(marks))
        if current is not None:
            tried = f"{current.tried} tried" if current.tried else ""
            best = f"best {current.best_speedup:.2f}x" if current.best_speedup is not None else ""
            grid.add_row("  ".join(part for part in (current.op or "", tried, best) if part))
        grid.add_row(f"{_minutes(self.seconds_left())} left")
        return grid


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
