"""TritonLanguage: kernels in Triton, a Python file whose host function launches what `@triton.jit` compiles for a GPU.

No GPU is needed to build: every launch that the host function makes is compiled for each architecture of the task, in
the sandbox, as Triton itself would compile it. `triton_source` holds what such a file may say, `triton_artifact` reads
what a build leaves.
"""

import importlib.metadata
import importlib.util
import json
import platform
from importlib import resources
from pathlib import Path

from candidates.builder import CompilerUnavailable
from candidates.candidate import Candidate, LanguageName
from candidates.compiler_report import CompilerReport
from candidates.language import BuildRecipe, SourceRefused
from candidates.languages.gpu_architectures import Architecture, find_architecture
from candidates.languages.source_header import parse_text, read_text, refuse_odd_options
from candidates.languages.triton_artifact import BadArtifact, read_artifact
from candidates.languages.triton_brief import write_brief
from candidates.languages.triton_report import read_report
from candidates.languages.triton_source import refuse_source
from candidates.task import KernelTask, Workload
from candidates.verdict import Reason
from kernel_sandbox.python_environment import PythonEnvironment, python_environment

ARCHITECTURES = ("sm_80", "sm_90", "sm_100", "gfx942")
"""That a kernel must compile for where its task names none: A100, H100, B200, MI300X."""
ARTIFACT = "kernel.zip"
_COMPILER = "triton_compiler.py"
_MOST_WORKLOADS = 16
_MOST_WORKLOAD_BYTES = 1 << 30
"""Of tensors that the host function runs on to be compiled: it computes nothing, but the memory must be there."""


class TritonLanguage:
    name = LanguageName.TRITON

    def __init__(self, compile_limit_s: float = 45.0) -> None:
        """`compile_limit_s`: for all launches and architectures together; below a builder's own limit it can say
        which line took so long."""
        self._compile_limit_s = compile_limit_s

    def brief(self, task: KernelTask) -> str:
        return write_brief(task, [architecture.name for architecture in architectures_of(task)])

    def build_recipe(self, task: KernelTask, candidate: Candidate) -> BuildRecipe:
        """Leaves the artifact that `triton_artifact` reads. Raises CompilerUnavailable where Triton is missing."""
        refuse_odd_options(candidate)
        if candidate.build_flags:
            raise SourceRefused(f"Triton takes no build flags: {' '.join(candidate.build_flags)[:100]}")
        refuse_source(task, candidate)
        environment = triton_environment()
        return BuildRecipe(
            files={
                "kernel.py": candidate.source.encode(),
                _COMPILER: _compiler_source(),
                "request.json": json.dumps(self._request(task, candidate), sort_keys=True).encode(),
            },
            commands=((*environment.argv, _COMPILER, "request.json"),),
            artifact=ARTIFACT,
            read_only=environment.read_only,
            toolchain=_toolchain(),
        )

    def parse_source(self, text: str, name: str) -> Candidate:
        """Python text; its leading comment lines may say, each at most once and all optional:

        # entry: kernel                        the function to call (default `kernel`)
        # prepare: pack                        the function that repacks parameters (default none)
        # launch: BLOCK=1024 num_warps=4       globals LAUNCH_BLOCK and LAUNCH_num_warps of the module
        """
        return parse_text(text, name, LanguageName.TRITON, keys=("entry", "prepare", "launch"))

    def parse(self, path: Path) -> Candidate:
        """A .py file with the text that `parse_source` reads."""
        return self.parse_source(read_text(path), str(path))

    def report_recipe(self, task: KernelTask, candidate: Candidate) -> BuildRecipe:
        """The build's own: what was built is not compiled again."""
        return self.build_recipe(task, candidate)

    def read_report(self, candidate: Candidate, report: bytes) -> CompilerReport:
        try:
            return read_report(read_artifact(report).report.decode(errors="replace"))
        except BadArtifact as error:
            return CompilerReport(notes=(f"the report cannot be read: {error}",))

    def _request(self, task: KernelTask, candidate: Candidate) -> dict[str, object]:
        """What the compiler inside is told: no hidden workload, no reference."""
        tensors = (*task.inputs, *task.outputs)
        by_size = sorted(task.public_workloads, key=lambda each: _size_bytes(task, each))
        small = [each for each in by_size[:_MOST_WORKLOADS] if _size_bytes(task, each) <= _MOST_WORKLOAD_BYTES]
        return {
            "entry": candidate.entry,
            "prepare": candidate.prepare,
            "launch": dict(candidate.launch_parameters),
            "limit_s": self._compile_limit_s,
            "architectures": [architecture.as_target() for architecture in architectures_of(task)],
            "parameters": [index for index, spec in enumerate(task.inputs) if spec.role.value == "parameter"],
            "public_workloads": len(by_size),
            "workloads": [
                {
                    "name": workload.name,
                    "tensors": [
                        [spec.element_type.value, spec.sizes(workload.axes), spec.strides(workload.axes)]
                        for spec in tensors
                    ],
                    "sizes": [workload.axes[axis] for axis in task.axes],
                }
                for workload in small or by_size[:1]
            ],
        }


def architectures_of(task: KernelTask) -> tuple[Architecture, ...]:
    """Raises SourceRefused for one that Triton is not known to compile for."""
    names = task.architectures or ARCHITECTURES
    unknown = [name for name in names if find_architecture(name) is None]
    if unknown:
        raise SourceRefused(
            f"the task asks for {', '.join(unknown)}, for which no limits are known", Reason.BUILD_FAILED
        )
    return tuple(found for name in names if (found := find_architecture(name)) is not None)


def triton_environment() -> PythonEnvironment:
    """A Python that has torch and Triton inside a sandbox. Raises CompilerUnavailable with the fix."""
    environment = python_environment()
    for package in ("torch", "triton"):
        found = importlib.util.find_spec(package)
        if found is None or found.origin is None:
            raise CompilerUnavailable(f"no {package} on this machine: pip install 'compiler-agent[gpu]'")
        if not environment.holds(Path(found.origin).resolve()):
            raise CompilerUnavailable(
                f"{package} lies in {Path(found.origin).parent}, which a sandbox does not show: install it into "
                "Python's own folder or a virtual environment, not with pip install --user"
            )
    return environment


def _toolchain() -> str:
    versions = [f"{package} {importlib.metadata.version(package)}" for package in ("triton", "torch")]
    return ", ".join([*versions, f"python {platform.python_version()}", platform.machine()])


def _compiler_source() -> bytes:
    return resources.files("kernel_sandbox.runners").joinpath(_COMPILER).read_bytes()


def _size_bytes(task: KernelTask, workload: Workload) -> int:
    return sum(spec.size_bytes(workload.axes) for spec in (*task.inputs, *task.outputs))
