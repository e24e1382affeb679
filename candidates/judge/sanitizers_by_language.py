"""SanitizersByLanguage: those that can watch a candidate, by what it is written in and where it runs."""

from candidates.candidate import Candidate, LanguageName
from candidates.judge.gpu_sanitizers import GpuSanitizers
from candidates.judge.sanitizers import Sanitized, Sanitizers, SanitizersUnavailable
from candidates.task import KernelTask
from candidates.verdict import Rejected


class SanitizersByLanguage:
    """`gpu` None: no GPU was named, and kernels for one cannot be watched."""

    def __init__(self, cpp: Sanitizers, gpu: GpuSanitizers | None) -> None:
        self._cpp, self._gpu = cpp, gpu

    def check(
        self, task: KernelTask, candidate: Candidate, artifact: bytes, seed: int | None = None
    ) -> Sanitized | Rejected:
        """For a candidate that was built (`artifact`) and judged on the task's device before.

        Raises as Sanitizers.check and GpuSanitizers.check do, and SanitizersUnavailable where there is no GPU.
        """
        match candidate.language:
            case LanguageName.CPP:
                return self._cpp.check(task, candidate, seed)  # which builds it anew
            case LanguageName.TRITON | LanguageName.CUDA:
                if self._gpu is None:
                    raise SanitizersUnavailable("no GPU to watch a kernel on: name one with COMPILER_AGENT_GPU")
                return self._gpu.check(task, candidate, artifact, seed)
