"""ServedProcess: the judge's handle on one model process in a sandbox; commands, shared memory and the clock."""

import json
import math
import os
import select
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from kernel_sandbox.arena import Arena, Segment
from kernel_sandbox.sandbox import SCRATCH, Finished, Limits, Sandbox

Logits = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]

_PROGRAM = Path(__file__).with_name("model_process.py")
"""Read and never imported: with it would come transformers."""
_REPLY_BYTES = 4 << 20


class ServedProcessEnded(Exception):
    """The model process crashed, was killed, answered nonsense or left no logits; `finished` says how it ended.

    `name` is that of its ProcessSpec: with a build, the build's kernels are at fault.
    """

    def __init__(self, message: str, finished: Finished, name: str) -> None:
        super().__init__(message)
        self.finished = finished
        self.name = name


class ServedProcessLate(ServedProcessEnded):
    """No reply within the time that the judge gave; the process was killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    folder: Path
    """config.json and safetensors, as `from_pretrained` reads them."""
    tokenizer: Path
    """A folder with the tokenizer's files, or a GGUF file."""

    @property
    def vocabulary(self) -> int:
        size: int = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))["vocab_size"]
        return size


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """What one process runs, and how much its shared memory holds."""

    name: str
    build: Path | None
    threads: int
    max_ids: int
    max_batch: int
    is_compiled: bool = False


class ServedProcess:
    """Starts loading at once; the first command waits until the model is there. One process, one sandbox session."""

    def __init__(self, sandbox: Sandbox, model: ModelFiles, spec: ProcessSpec, wall_s: float) -> None:
        self.name = spec.name
        self._is_patched = spec.build is not None
        self._vocabulary = model.vocabulary
        read_only = {folder: str(folder) for folder in _folders(model, spec)}
        limits = Limits(
            wall_s=wall_s,
            cpu_s=math.ceil(wall_s) * (os.cpu_count() or 1),
            memory_bytes=64 << 30,
            processes=256,
            scratch_bytes=2 << 30,
        )
        self._session = sandbox.open(limits, read_only)
        self._arena = Arena(spec.max_ids * 8, spec.max_batch * self._vocabulary * 4)
        self._ids: Ids = self._arena.memory[Segment.INPUTS].view(np.int64)
        self._logits: Logits = self._arena.memory[Segment.OUTPUTS].view(np.float32)
        descriptors = [self._arena.descriptors[segment] for segment in (Segment.INPUTS, Segment.OUTPUTS)]
        self._session.put(_PROGRAM.name, _PROGRAM.read_bytes())
        self._process = self._session.start(
            _command(model, spec, descriptors), environment=_environment(), file_descriptors=descriptors
        )
        self._is_ready = False

    def ask(self, do: str, *, limit_s: float | None = None, **arguments: Any) -> dict[str, Any]:
        """Runs one command. Raises ServedProcessEnded, or ServedProcessLate after `limit_s`."""
        self.send(do, **arguments)
        return self.receive(limit_s)

    def send(self, do: str, **arguments: Any) -> None:
        self.wait_until_ready()
        try:
            self._process.stdin.write((json.dumps({"do": do, **arguments}) + "\n").encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self.ended("ended") from None

    def receive(self, limit_s: float | None = None) -> dict[str, Any]:
        line = self._read_line(None if limit_s is None else time.monotonic() + limit_s)
        try:
            reply = json.loads(line)
        except ValueError:
            raise self.ended(f"answered {line[:80]!r}") from None
        if not isinstance(reply, dict):
            raise self.ended(f"answered {line[:80]!r}")
        return reply

    def wait_until_ready(self, limit_s: float | None = None) -> None:
        """Returns when the model is loaded and, in a patched process, the build installed."""
        if not self._is_ready:
            self._is_ready = True
            self.receive(limit_s)

    def send_step(self, ids: Ids, *, is_kept: bool) -> None:
        """Asks for one forward pass on `ids` [batch, tokens]; `receive_logits` takes the result."""
        self._ids[: ids.size] = ids.ravel()
        self._logits[: ids.shape[0] * self._vocabulary] = np.nan
        self.send("step", batch=ids.shape[0], tokens=ids.shape[1], is_kept=is_kept)

    def receive_logits(self, batch: int, limit_s: float | None = None) -> Logits:
        """Logits of the last position, [batch, vocab]; copied from a patched process while it could not run."""
        self.receive(limit_s)
        if self._is_patched:
            self._process.freeze()
        logits = self._logits[: batch * self._vocabulary].reshape(batch, self._vocabulary).copy()
        if self._is_patched:
            self._process.thaw()
        if not np.isfinite(logits).all():
            raise self.ended("left logits that are not finite")
        return logits

    def step(self, ids: Ids, *, is_kept: bool) -> Logits:
        self.send_step(ids, is_kept=is_kept)
        return self.receive_logits(ids.shape[0])

    def time_step(self, ids: Ids, limit_s: float | None = None) -> int:
        """ns of one forward pass from request to reply, by our clock; the cache stays as it was.

        The process runs only meanwhile: it is frozen before and after.
        """
        self._process.thaw()
        self._ids[: ids.size] = ids.ravel()
        count = ids.shape[0] * self._vocabulary
        self._logits[:count] = np.nan
        started_ns = time.perf_counter_ns()
        self.send("step", batch=ids.shape[0], tokens=ids.shape[1], is_kept=False)
        self.receive(limit_s)
        elapsed_ns = time.perf_counter_ns() - started_ns
        self._process.freeze()
        if not np.isfinite(self._logits[:count]).all():
            raise self.ended("left logits that are not finite")
        return elapsed_ns

    def last_logits(self, batch: int) -> Logits:
        """Of the last `time_step`, [batch, vocab]."""
        return self._logits[: batch * self._vocabulary].reshape(batch, self._vocabulary).copy()

    def freeze(self) -> None:
        self._process.freeze()

    def thaw(self) -> None:
        self._process.thaw()

    def close(self) -> None:
        self._session.close()
        self._process.stdin.close()
        self._process.stdout.close()
        self._arena.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _read_line(self, deadline_s: float | None) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            if deadline_s is not None:
                remaining_s = deadline_s - time.monotonic()
                if remaining_s <= 0 or not select.select([self._process.stdout], [], [], remaining_s)[0]:
                    raise ServedProcessLate(f"the {self.name} process was late", self._process.kill(), self.name)
            piece = os.read(self._process.stdout.fileno(), 1 << 16)
            line += piece
            if not piece or len(line) > _REPLY_BYTES:
                raise self.ended("ended" if not piece else "answered without end")
        return line

    def ended(self, what: str) -> ServedProcessEnded:
        """Kills the process if need be; the error to raise, with its last words.

        Raises SandboxError when somebody outside killed it, which says nothing about the build.
        """
        finished = self._process.kill()
        last_words = finished.log.strip().splitlines()[-1:] or ["no output"]
        return ServedProcessEnded(
            f"the {self.name} process {what} ({finished.ending}, {finished.exit_code}): {last_words[0]}",
            finished,
            self.name,
        )


def _folders(model: ModelFiles, spec: ProcessSpec) -> list[Path]:
    """What a process reads beside the system: its Python, the model, the build."""
    tokenizer = model.tokenizer.parent if model.tokenizer.is_file() else model.tokenizer
    folders = [Path(sys.base_prefix), Path(sys.prefix), model.folder, tokenizer]
    if spec.build is not None:
        folders.append(spec.build)
    return [folder.absolute() for folder in dict.fromkeys(folders)]


def _command(model: ModelFiles, spec: ProcessSpec, descriptors: Sequence[int]) -> list[str]:
    return [
        *(sys.executable, "-I", _PROGRAM.name),
        *("--model", str(model.folder.absolute()), "--tokenizer", str(model.tokenizer.absolute())),
        *("--threads", str(spec.threads), "--arena", *map(str, descriptors)),
        *(("--build", str(spec.build.absolute())) if spec.build is not None else ()),
        *(("--compile",) if spec.is_compiled else ()),
    ]


def _environment() -> dict[str, str]:
    return {
        "OMP_WAIT_POLICY": "passive",
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": SCRATCH,
        "TORCHINDUCTOR_CACHE_DIR": f"{SCRATCH}/inductor",
        "TOKENIZERS_PARALLELISM": "false",
        "TRANSFORMERS_VERBOSITY": "error",
    }
