"""CudaLanguage: kernels in CUDA C++ for NVIDIA GPUs, `extern "C"` host functions over device pointers and a stream.

One shared object holds the machine code of every architecture of the task. It is compiled with no GPU present; there
is no emulation of a GPU on a CPU.
"""

import re
import threading
from pathlib import Path

from candidates.candidate import Candidate, LanguageName
from candidates.compiler_report import CompilerReport
from candidates.language import BuildRecipe, SourceRefused
from candidates.languages.c_source import macros, require_harmless
from candidates.languages.cpp_abi import (
    CUDA,
    adapter_source,
    call_signature,
    declarations,
    exported_names,
    prepare_signatures,
)
from candidates.languages.cuda_report import LEFT_OUT, REPORT, REPORT_FLAGS, SOURCE, read_report
from candidates.languages.cuda_toolkit import CudaToolkit, find_toolkit
from candidates.languages.source_header import parse_text, read_text
from candidates.languages.task_words import (
    allowed_scaled_error,
    describe_formats,
    describe_shapes,
    describe_tensor,
)
from candidates.task import InputRole, KernelTask

ARTIFACT = "kernel.so"
DEFAULT_ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
"""What a task that names none is compiled for: A100, H100 and H200, B200."""
TOOLKIT = "/cuda"
"""Where a sandbox shows the toolkit."""

FLAGS = ("-O3", "-std=c++20", "-lineinfo")
# Warpgroup and tensor-memory instructions exist only in the target that is for exactly one chip (PTX ISA, "Target
# Directives"). Its code runs on no other, which a shared object with a part for each chip does not need.
_OF_ONE_CHIP = {"sm_90": "sm_90a", "sm_100": "sm_100a", "sm_103": "sm_103a", "sm_120": "sm_120a"}
# As for C++: nothing is exported but the entries, and none of the compiler's start-up files runs at load. What does run
# is nvcc's own registration of the device code.
_HOST_FLAGS = ("-fPIC", "-fvisibility=default", "-nostartfiles")
_LINK_FLAGS = ("--version-script=exports.map", "-z,separate-code", "-z,noexecstack")
_MOST_THREADS = 4
"""Of nvcc; each compiles for one architecture and takes up to 1 GiB."""
_HARMLESS_FLAGS = re.compile(
    r"-O[123]|-std=c\+\+(17|20)|--?use_fast_math|--?(ftz|prec-div|prec-sqrt|fmad)=(true|false)|--?maxrregcount=\d{1,3}"
    r"|--extra-device-vectorization|--expt-relaxed-constexpr|--(expt-)?extended-lambda|--?restrict"
    r"|-Xptxas=-(O[0-3]|dlcm=(ca|cg)|dscm=(wb|cg|cs|wt))"
)


class CudaLanguage:
    name = LanguageName.CUDA

    def __init__(self) -> None:
        self._toolkit: CudaToolkit | None = None
        self._finding = threading.Lock()

    def brief(self, task: KernelTask) -> str:
        parameters = task.inputs_of(InputRole.PARAMETER)
        return _BRIEF.format(
            op=task.op,
            reference=task.reference.strip(),
            signature=call_signature(task, "kernel", has_prepared=False, comment=describe_tensor, abi=CUDA),
            prepared=call_signature(task, "kernel", has_prepared=True, comment=describe_tensor, abi=CUDA),
            prepare="\n".join(prepare_signatures(task, "pack", CUDA))
            if parameters
            else "(this task has no parameters)",
            formats=describe_formats(task),
            scaled_error=allowed_scaled_error(task),
            flags=" ".join(FLAGS),
            architectures=", ".join(map(_target, _architectures(task)[0])) or "none of this task",
            shapes=describe_shapes(task),
        )

    def build_recipe(self, task: KernelTask, candidate: Candidate) -> BuildRecipe:
        """Raises CompilerUnavailable without nvcc, SourceRefused as every language."""
        return self._recipe(task, candidate, self._command(task, candidate), ARTIFACT)

    def parse_source(self, text: str, name: str) -> Candidate:
        """CUDA text, with the header of `source_header`."""
        return parse_text(text, name, LanguageName.CUDA)

    def parse(self, path: Path) -> Candidate:
        """A .cu file with the text that `parse_source` reads."""
        return self.parse_source(read_text(path), str(path))

    def report_recipe(self, task: KernelTask, candidate: Candidate) -> BuildRecipe:
        command = self._command(task, candidate, REPORT_FLAGS)
        # The compiler's words are the report, and where it fails they are for the log.
        others = " ".join((LEFT_OUT, *_architectures(task)[1]))
        script = f'"$@" 2> words || {{ cat words >&2; exit 1; }}; {{ echo "{others}"; c++filt < words; }} > {REPORT}'
        return self._recipe(task, candidate, ("sh", "-c", script, "sh", *command), REPORT)

    def read_report(self, candidate: Candidate, report: bytes) -> CompilerReport:
        return read_report(report.decode(errors="replace"))

    def _command(self, task: KernelTask, candidate: Candidate, further: tuple[str, ...] = ()) -> tuple[str, ...]:
        require_harmless(candidate, _HARMLESS_FLAGS)
        architectures, others = _architectures(task)
        if not architectures:
            raise SourceRefused(f"CUDA compiles for NVIDIA's GPUs, this task is for {', '.join(others)} alone")
        toolkit = self._find()
        targets = [
            f"-gencode=arch={_target(each).replace('sm', 'compute')},code={_target(each)}" for each in architectures
        ]
        include = f"{TOOLKIT}/{toolkit.include}"
        return (
            *(f"{TOOLKIT}/bin/nvcc", *FLAGS, *candidate.build_flags, *macros(candidate), *further, *targets),
            *(f"--threads={min(len(targets), _MOST_THREADS)}", "-I", include, "-isystem", f"{include}/cccl"),
            *("-Xcompiler", ",".join(_HOST_FLAGS), "-Xlinker", ",".join(_LINK_FLAGS)),
            *("-cudart=none", "-shared", "-L", f"{TOOLKIT}/{toolkit.library}", "-include", "entries.h"),
            *("-o", ARTIFACT, SOURCE, "adapter.cpp", "-Xlinker", f"-l:{toolkit.runtime}"),
        )

    def _recipe(self, task: KernelTask, candidate: Candidate, command: tuple[str, ...], artifact: str) -> BuildRecipe:
        toolkit = self._find()
        exports = "; ".join(exported_names(candidate.entry, candidate.prepare))
        return BuildRecipe(
            files={
                SOURCE: candidate.source.encode(),
                "entries.h": declarations(task, candidate.entry, candidate.prepare, CUDA).encode(),
                "adapter.cpp": adapter_source(task, candidate.entry, candidate.prepare, CUDA).encode(),
                "exports.map": f"{{ global: {exports}; local: *; }};\n".encode(),
            },
            commands=(command,),
            artifact=artifact,
            read_only={toolkit.root: TOOLKIT},
            toolchain=toolkit.versions,
        )

    def _find(self) -> CudaToolkit:
        """Looked for once it is needed; one that is installed later is found."""
        with self._finding:
            if self._toolkit is None:
                self._toolkit = find_toolkit()
            return self._toolkit


def _architectures(task: KernelTask) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """NVIDIA's, and the others."""
    wanted = task.architectures or DEFAULT_ARCHITECTURES
    return (
        tuple(each for each in wanted if each.startswith("sm_")),
        tuple(each for each in wanted if not each.startswith("sm_")),
    )


def _target(architecture: str) -> str:
    return _OF_ONE_CHIP.get(architecture, architecture)


_BRIEF = """\
Write a CUDA C++20 kernel for the op {op}, faster than PyTorch on the shapes below. It replaces this function:

{reference}

Define exactly this host function (an optional first comment line `// entry: NAME` gives it another name):

{signature}

All pointers are device memory. Launch your __global__ functions on `stream` and return: do not synchronise.
If weights are better read in another layout, add `// prepare: pack` at the top of the file and define

{prepare}

which run once per session; `prepared` is device memory, 256-byte aligned and of the size that you returned, to be
filled by kernels on `stream`, and the function becomes

{prepared}

{formats}Rules
- <cuda_runtime.h>, <cuda_bf16.h> and <cuda_fp16.h> are included already. bfloat16 is __nv_bfloat16, float16 __half,
  bool uint8_t (0 or 1). Tensors are dense and start at multiples of 64 bytes: 16-byte vector loads of whole rows are
  legal where the row's size allows them.
- Read inputs, never write them, except states, which you update in place. Write every element of every output, nothing
  beyond them: there are guards at both ends, and the kernel runs under compute-sanitizer before a win counts.
- The result of each element may differ from exact arithmetic by {scaled_error} of the largest magnitude in its row
  (last dim) plus one unit in the last place of the output's type. Two calls on equal inputs must agree bit for bit: no
  float atomics whose order changes the result.
- The host code may launch kernels, set their attributes (cudaFuncSetAttribute), ask for device attributes and occupancy
  and clear memory (cudaMemsetAsync on `stream`). Refused: allocating, copying, other streams, events, graphs,
  synchronising, libraries (cuBLAS, cuDNN, CUTLASS is not installed), the driver API, files, threads, clocks; anything
  that runs at load. Scratch memory is a __device__ array.
- The call may be captured into a CUDA graph and replayed: decide everything from the arguments.
- Compiled for {architectures} by: nvcc {flags}
  Further flags go to a comment line `// flags: --maxrregcount=64`, the macro LAUNCH_tile to `// launch: tile=8`.

{shapes}
"""
