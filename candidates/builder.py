"""Builder: compiles candidates in a sandbox, a bounded number at a time, off the core that measures, and none while a
measurement decides."""

import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from candidates.artifact_cache import ArtifactCache
from candidates.benchmark.exclusive import building_slot
from candidates.candidate import Candidate, LanguageName
from candidates.language import BuildRecipe, KernelLanguage, SourceRefused
from candidates.task import KernelTask
from candidates.verdict import Evidence, Reason, Rejected
from kernel_sandbox.sandbox import Ending, Finished, Limits, Sandbox, SandboxError, SandboxUnavailable

LIMITS = Limits(wall_s=60.0, cpu_s=60, memory_bytes=4 << 30, processes=16)
ARTIFACT_LIMIT_BYTES = 32 << 20
_PROGRAM_NOT_FOUND = 127  # the exit status of every launcher for a program that does not exist
_ERRORS_SHOWN_BYTES = 4000
# A compiler sends itself none of these, whatever it compiles.
_OPERATORS_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class CompilerUnavailable(SandboxUnavailable):
    """The machine lacks the language's compiler; the message says what to install."""


class Builder:
    """Safe to share between threads; `slots` builds run at once."""

    def __init__(
        self,
        sandbox: Sandbox,
        languages: Mapping[LanguageName, KernelLanguage],
        slots: int,
        cache_folder: Path | None = None,
    ) -> None:
        """`cache_folder` keeps artifacts of recipes that name their toolchain."""
        self._sandbox = sandbox
        self._cache = ArtifactCache(cache_folder) if cache_folder is not None else None
        self._languages = languages
        self._slots = threading.BoundedSemaphore(slots)

    def build(self, task: KernelTask, candidate: Candidate) -> bytes | Rejected:
        """The artifact, or why there is none. Raises SandboxError (CompilerUnavailable) for the machine's faults."""
        if candidate.language not in self._languages:
            raise CompilerUnavailable(
                f"no {candidate.language.value} on this machine: {sorted(self._languages)} are set up"
            )
        language = self._languages[candidate.language]
        return self.follow(lambda: language.build_recipe(task, candidate))

    def follow(self, write_recipe: Callable[[], BuildRecipe]) -> bytes | Rejected:
        """What a recipe's commands leave in the sandbox, or why they leave nothing. `write_recipe` may raise
        SourceRefused; raises as `build` does."""
        try:
            recipe = write_recipe()
        except SourceRefused as refusal:
            return _rejected(refusal.reason, Evidence(message=str(refusal)))
        if self._cache is not None and (kept := self._cache.get(recipe)) is not None:
            return kept
        made = self._make(recipe)
        if self._cache is not None and isinstance(made, bytes):
            self._cache.put(recipe, made)
        return made

    def _make(self, recipe: BuildRecipe) -> bytes | Rejected:
        with self._slots, building_slot(), self._sandbox.open(LIMITS, recipe.read_only) as session:
            for name, content in recipe.files.items():
                session.put(name, content)
            for command in recipe.commands:
                finished = session.run(command)
                compiler = Path(command[0]).name
                if finished.ending is Ending.EXITED and finished.exit_code == _PROGRAM_NOT_FOUND:
                    raise CompilerUnavailable(f"no {command[0]} on this machine: install it (apt install {compiler})")
                if finished.ending is Ending.SIGNALED and finished.exit_code in _OPERATORS_SIGNALS:
                    raise SandboxError(f"{compiler} was ended by signal {finished.exit_code} from outside")
                if finished.ending is not Ending.EXITED or finished.exit_code != 0:
                    return _rejected(Reason.BUILD_FAILED, _evidence(compiler, finished))
            try:
                return session.get(recipe.artifact, ARTIFACT_LIMIT_BYTES)
            except SandboxError as error:
                return _rejected(Reason.BUILD_FAILED, Evidence(message=f"no artifact of a usable size: {error}"))


def _evidence(compiler: str, finished: Finished) -> Evidence:
    errors = [line for line in finished.log.splitlines() if "error:" in line or "undefined reference" in line]
    if finished.ending is not Ending.EXITED:
        message = f"{compiler} {finished.ending.value} after {finished.wall_s:.1f} s"
    else:
        message = errors[0] if errors else f"{compiler} exited with {finished.exit_code}"
    return Evidence(message=message, log_tail=finished.log[:_ERRORS_SHOWN_BYTES])


def _rejected(reason: Reason, evidence: Evidence) -> Rejected:
    return Rejected(reason=reason, workload=None, evidence=evidence, seed=0)
