"""CppLanguage: kernels in C++ for the CPU, `extern "C"` functions over raw pointers and sizes, one plain .so.

The functions' exact types, for a task, are in `cpp_abi`; `brief` prints them with what an author must know.
"""

import re
from pathlib import Path

from candidates.candidate import Candidate, LanguageName
from candidates.compiler_report import CompilerReport
from candidates.language import BuildRecipe
from candidates.languages.c_source import macros, require_harmless
from candidates.languages.cpp_abi import (
    adapter_source,
    call_signature,
    declarations,
    exported_names,
    prepare_signatures,
)
from candidates.languages.cpp_report import REPORT, REPORT_FLAGS, SOURCE, read_report
from candidates.languages.source_header import parse_text, read_text
from candidates.languages.task_words import (
    allowed_scaled_error,
    describe_formats,
    describe_shapes,
    describe_tensor,
)
from candidates.task import InputRole, KernelTask

ARTIFACT = "kernel.so"

# No -ffast-math and none of its parts that link a constructor which sets flush-to-zero for the whole serving process.
FLAGS = (
    *("-O3", "-march=native", "-std=c++20", "-fopenmp", "-fPIC", "-shared"),
    *("-fno-math-errno", "-fno-trapping-math", "-fvisibility=default"),
)
# Nothing runs at load (the compiler's start-up files would), nothing is exported but the entries, and no data lie in
# executable pages.
_LINK_FLAGS = ("-nostartfiles", "-Wl,--version-script=exports.map", "-Wl,-z,separate-code", "-Wl,-z,noexecstack")
_HARMLESS_FLAGS = re.compile(
    r"-O[23]|-std=c\+\+(17|20)|-f(no-)?(unroll-loops|tree-vectorize|tree-slp-vectorize|prefetch-loop-arrays"
    r"|associative-math|reciprocal-math|signed-zeros|strict-aliasing|peel-loops|split-loops|inline-functions"
    r"|omit-frame-pointer)|-ffp-contract=(fast|on|off)|-fvect-cost-model=(unlimited|dynamic|cheap|very-cheap)"
    r"|-mprefer-vector-width=(128|256|512)|-mno-avx512f|-mno-avx2|-falign-(loops|functions)=\d{1,3}"
    r"|--param=[a-z0-9-]+=\d{1,6}"
)


class CppLanguage:
    name = LanguageName.CPP

    def build_recipe(self, task: KernelTask, candidate: Candidate) -> BuildRecipe:
        """Launch parameters become macros: `{"tile": 8}` is `-DLAUNCH_tile=8`, no name that a source has already."""
        flags = _flags(candidate)
        return BuildRecipe(
            files=_files(task, candidate),
            commands=(("g++", *flags, "-o", ARTIFACT, SOURCE, "adapter.cpp"),),
            artifact=ARTIFACT,
        )

    def parse_source(self, text: str, name: str) -> Candidate:
        """C++ text, with the header of `source_header`."""
        return parse_text(text, name, LanguageName.CPP)

    def parse(self, path: Path) -> Candidate:
        """A .cpp file with the text that `parse_source` reads."""
        return self.parse_source(read_text(path), str(path))

    def brief(self, task: KernelTask) -> str:
        parameters = task.inputs_of(InputRole.PARAMETER)
        return _BRIEF.format(
            op=task.op,
            reference=task.reference.strip(),
            signature=call_signature(task, "kernel", has_prepared=False, comment=describe_tensor),
            prepared=call_signature(task, "kernel", has_prepared=True, comment=describe_tensor),
            prepare="\n".join(prepare_signatures(task, "pack")) if parameters else "(this task has no parameters)",
            formats=describe_formats(task),
            threads=task.threads,
            scaled_error=allowed_scaled_error(task),
            flags=" ".join(FLAGS),
            shapes=describe_shapes(task),
        )

    def report_recipe(self, task: KernelTask, candidate: Candidate) -> BuildRecipe:
        """Builds as `build_recipe` does, by way of the assembly; leaves the vectoriser's remarks, and the assembly."""
        flags = _flags(candidate)
        return BuildRecipe(
            files=_files(task, candidate),
            commands=(
                ("g++", *flags, *REPORT_FLAGS, "-o", "candidate.s", SOURCE),
                # What does not link does not build.
                ("g++", *flags, "-o", ARTIFACT, "candidate.s", "adapter.cpp"),
                ("sh", "-c", f"cat candidate.s >> {REPORT}"),
            ),
            artifact=REPORT,
        )

    def read_report(self, candidate: Candidate, report: bytes) -> CompilerReport:
        return read_report(candidate.source, report.decode(errors="replace"))


def _flags(candidate: Candidate) -> tuple[str, ...]:
    """All that the compiler is told, but what to compile into what. Raises SourceRefused."""
    require_harmless(candidate, _HARMLESS_FLAGS)
    return (*FLAGS, *candidate.build_flags, *macros(candidate), *_LINK_FLAGS, "-include", "entries.h")


def _files(task: KernelTask, candidate: Candidate) -> dict[str, bytes]:
    exports = "; ".join(exported_names(candidate.entry, candidate.prepare))
    return {
        SOURCE: candidate.source.encode(),
        "entries.h": declarations(task, candidate.entry, candidate.prepare).encode(),
        "adapter.cpp": adapter_source(task, candidate.entry, candidate.prepare).encode(),
        "exports.map": f"{{ global: {exports}; local: *; }};\n".encode(),
    }


_BRIEF = """\
Write a C++20 kernel for the op {op}, faster than PyTorch on the shapes below. It replaces this function:

{reference}

Define exactly this function (an optional first comment line `// entry: NAME` gives it another name):

{signature}

If weights are better read in another layout, add `// prepare: pack` at the top of the file and define

{prepare}

which run once per session; `prepared` is 64-byte aligned and of the size that you returned, and the kernel becomes

{prepared}

{formats}Rules
- bfloat16 and float16 are passed as their bits in uint16_t, bool as uint8_t (0 or 1). Tensors are dense, but for
  those that are said to lie in larger memory, whose strides follow from its sizes; all start at multiples of 64 bytes.
- Inputs are read-only memory except states, which you update in place: what the function above leaves of one stays bit
  for bit. Write every element of every output.
- The result of each element may differ from exact arithmetic by {scaled_error} of the largest magnitude in its row
  (last dim) plus one unit in the last place of the output's type. Two calls on equal inputs must agree bit for bit.
- omp_get_max_threads() is {threads}. Use OpenMP for threads, nothing else; create no process, open no file for writing,
  change no signal, limit or affinity. All work must be done when the function returns.
- Leave rounding mode and flush-to-zero as they are, read no clock, make no system call. Nothing may run at load: no
  object outside functions that needs a constructor, no __builtin_cpu_supports (the build is for this machine: use
  #ifdef __AVX512F__). Before a win counts, the kernel runs under the address and undefined-behaviour sanitizers, on
  odd shapes too: read no element beyond a tensor, not even to ignore it.
- Built by: g++ {flags}
  Further flags go to a comment line `// flags: -funroll-loops`, the macro LAUNCH_tile to `// launch: tile=8`.

{shapes}
"""
