"""Compiles a Triton candidate for GPUs that need not be there: `python -I -B triton_compiler.py request.json`.

Goes into a sandbox and needs only torch and Triton. The candidate's own host function is called, on zeroed CPU tensors
of a task's public workloads, under a driver that claims a GPU; each launch that it makes is compiled for every
architecture, specialised by its arguments as Triton specialises them, and not run. Leaves `kernel.zip` (the source, the
report, Triton's cache) and `report.json`. What is wrong is said on standard error, `kernel.py:LINE: error: ...`, in
Triton's words; the exit status is then 1.
"""

import contextlib
import inspect
import io
import json
import os
import re
import sys
import threading
import time
import traceback
import types
import zipfile
from typing import Any, NoReturn

SOURCE, REPORT, ARTIFACT = "kernel.py", "report.json", "kernel.zip"
CACHE = "/scratch/triton_cache"
"""Triton writes absolute paths into its cache: it is found again under this one."""
FP_FUSION = "1"
"""Said explicitly, for Triton's default changes with 3.10: a multiplication and an addition may become one."""
_KEPT = (".json", ".cubin", ".hsaco", ".ptx", ".amdgcn")
_MOST_GRID = (2**31 - 1, 65_535, 65_535)
_MOST_ERROR_CHARACTERS = 3000
_MOST_KERNELS = 256
_MOST_INSTRUCTIONS = 200
_INSTRUCTION = re.compile(r"\s*(?:@!?%\w+\s+)?([a-z][a-z0-9_.:]*[a-z0-9])(?=[\s;])")
_SHARE_OF_LIMIT_FOR_MORE_WORKLOADS = 0.4

os.environ.update(
    TRITON_CACHE_DIR=CACHE,
    TRITON_DEFAULT_FP_FUSION=FP_FUSION,
    OMP_NUM_THREADS="1",
    MKL_NUM_THREADS="1",
)

import torch  # noqa: E402 - reads the environment
import triton  # noqa: E402
from triton import knobs  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.backends.driver import DriverBase  # noqa: E402
from triton.compiler.errors import CompilationError  # noqa: E402
from triton.runtime.jit import JITFunction  # noqa: E402


class Refused(Exception):
    """What the author is told, with the line in his file."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line, self.message = line, message


class NoDevice(DriverBase):  # type: ignore[misc]
    """A driver of devices that are not there: device N is the Nth architecture of the request."""

    def __init__(self, targets: list[GPUTarget]) -> None:
        self.targets, self.device = targets, 0

    @classmethod
    def is_active(cls) -> bool:
        return True

    def map_python_to_cpp_type(self, ty: str) -> str:
        return ty

    def get_current_target(self) -> GPUTarget:
        return self.targets[self.device]

    def get_current_device(self) -> int:
        return self.device

    def set_current_device(self, device: int) -> None:
        self.device = device

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        return torch.cpu

    def get_benchmarker(self) -> NoReturn:
        raise RuntimeError("nothing is timed while it is compiled")


class Compilation:
    """Collects what the launches of one candidate compile to."""

    def __init__(self, architectures: list[dict[str, Any]]) -> None:
        self.architectures = architectures
        self.driver = NoDevice([GPUTarget(a["backend"], a["arch"], a["threads_a_warp"]) for a in architectures])
        self.kernels: dict[tuple[str, str], dict[str, Any]] = {}
        self.workload = ""
        self.launches = 0
        triton.runtime.driver.set_active(self.driver)
        knobs.nvidia.dump_ptxas_log = True
        self._run = JITFunction.run
        compilation = self

        def run(function: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> None:
            compilation.launch(function, args, grid, options)

        JITFunction.run = run

    def launch(self, function: Any, args: tuple[Any, ...], grid: Any, options: dict[str, Any]) -> None:
        """Compiles one launch for every architecture. Raises Refused with all that is wrong with it."""
        self.launches += 1
        blocks = _grid_of(function, args, grid, options)
        failures: dict[tuple[int, str], list[str]] = {}
        for device, architecture in enumerate(self.architectures):
            self.driver.device = device
            log = io.StringIO()
            try:
                with contextlib.redirect_stdout(log):
                    kernel = self._run(function, *args, grid=grid, warmup=True, **options)
                figures = _figures(kernel, architecture, log.getvalue())
                _require_fit(figures, architecture)
            except Refused as refused:
                failures.setdefault((refused.line or _line_of(function), refused.message), []).append(
                    architecture["name"]
                )
            except Exception as error:
                failures.setdefault(_place_of(error, function), []).append(architecture["name"])
            else:
                self._keep(kernel, function, architecture["name"], figures, blocks)
        if failures:
            every = len(self.architectures)
            parts = [
                message if len(names) == every else f"for {', '.join(names)}: {message}"
                for (_, message), names in failures.items()
            ]
            raise Refused(next(iter(failures))[0], "\n".join(parts))

    def _keep(
        self, kernel: Any, function: Any, architecture: str, figures: dict[str, Any], blocks: tuple[int, ...]
    ) -> None:
        known = self.kernels.get((kernel.hash, architecture))
        if known is None and len(self.kernels) < _MOST_KERNELS:
            known = {"kernel": function.__name__, "line": _line_of(function), "architecture": architecture}
            known |= figures | {"grid": blocks, "workloads": []}
            self.kernels[kernel.hash, architecture] = known
        if known is not None and self.workload not in known["workloads"]:
            known["workloads"].append(self.workload)


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        request = json.load(file)
    _watch(request["limit_s"])
    torch.set_num_threads(1)
    try:
        compilation = Compilation(request["architectures"])
        notes = _compile(request, compilation)
    except Refused as refused:
        _refuse(refused.line, refused.message)
    report = {
        "triton": triton.__version__,
        "notes": notes,
        "kernels": list(compilation.kernels.values()),
    }
    with open(REPORT, "w", encoding="utf-8") as file:
        json.dump(report, file)
    _pack()


def _compile(request: dict[str, Any], compilation: Compilation) -> list[str]:
    """What an author must know of how far it went."""
    started = _cpu_s()
    module = _load(request["launch"])
    prepared: Any = None
    done = 0
    for workload in request["workloads"]:
        if done and _cpu_s() - started > request["limit_s"] * _SHARE_OF_LIMIT_FOR_MORE_WORKLOADS:
            break
        compilation.workload = workload["name"]
        tensors = [_tensor(*tensor) for tensor in workload["tensors"]]
        try:
            if request["prepare"] is not None and prepared is None:
                prepared = module[request["prepare"]](*(tensors[index] for index in request["parameters"]))
            extra = [] if request["prepare"] is None else [prepared]
            module[request["entry"]](*tensors, *extra, *workload["sizes"])
        except Refused:
            raise
        except Exception as error:
            raise Refused(_own_line(error), f"{_words(error)} (workload {workload['name']})") from error
        done += 1
    if not compilation.launches:
        raise Refused(1, f"{request['entry']} launched no @triton.jit function")
    if done < request["public_workloads"]:
        return [f"compiled for {done} of {request['public_workloads']} workloads, the smallest first"]
    return []


def _cpu_s() -> float:
    """Of this process and of the assemblers that it ran: unlike a clock it does not depend on who else works here."""
    return sum(os.times()[:4])


def _load(launch: dict[str, Any]) -> dict[str, Any]:
    """The module's names. By a relative path, which is all that then stands in errors and debug information."""
    module = types.ModuleType("kernel")
    module.__dict__.update({f"LAUNCH_{name}": value for name, value in launch.items()}, __file__=SOURCE)
    with open(SOURCE, encoding="utf-8") as file:
        source = file.read()
    try:
        exec(compile(source, SOURCE, "exec"), module.__dict__)
    except Exception as error:
        raise Refused(_own_line(error), _words(error)) from error
    return module.__dict__


def _tensor(element_type: str, sizes: list[int], strides: list[int]) -> torch.Tensor:
    return torch.empty_strided(sizes, strides, dtype=getattr(torch, element_type)).zero_()


def _grid_of(function: Any, args: tuple[Any, ...], grid: Any, options: dict[str, Any]) -> tuple[int, ...]:
    names = set(function.signature.parameters)
    try:
        bound = function.signature.bind(*args, **{name: value for name, value in options.items() if name in names})
    except TypeError as error:
        raise Refused(_calling_line(), f"{function.__name__}: {error}") from error
    bound.apply_defaults()
    blocks = tuple(grid(dict(bound.arguments)) if callable(grid) else grid)
    if not 1 <= len(blocks) <= 3 or not all(
        isinstance(count, int) and 0 <= count <= most for count, most in zip(blocks, _MOST_GRID, strict=False)
    ):
        raise Refused(
            _calling_line(), f"the grid {blocks} of {function.__name__}: 1 to 3 integers of up to {_MOST_GRID}"
        )
    return blocks


def _figures(kernel: Any, architecture: dict[str, Any], ptxas_log: str) -> dict[str, Any]:
    """Sizes in bytes; registers of 32 bits, a thread."""
    metadata = kernel.metadata
    figures = {"warps": metadata.num_warps, "shared_bytes": metadata.shared}
    if architecture["backend"] == "cuda":
        patterns = {
            "registers": r"Used (\d+) registers",
            "stack_bytes": r"(\d+) bytes stack frame",
            "spill_store_bytes": r"(\d+) bytes spill stores",
            "spill_load_bytes": r"(\d+) bytes spill loads",
        }
        text, assembly = ptxas_log, kernel.asm["ptx"]
    else:
        patterns = {
            "registers": r"\.vgpr_count:\s+(\d+)",
            "stack_bytes": r"\.private_segment_fixed_size:\s+(\d+)",
            "spilled_registers": r"\.vgpr_spill_count:\s+(\d+)",
        }
        text = assembly = kernel.asm["amdgcn"]
    # A shape met before comes out of Triton's cache, without a log; its figures are there already.
    found = {name: re.findall(pattern, text) for name, pattern in patterns.items()}
    figures |= {name: max(map(int, values)) for name, values in found.items() if values}
    return figures | {"instructions": _count_instructions(assembly)}


def _require_fit(figures: dict[str, Any], architecture: dict[str, Any]) -> None:
    if figures["shared_bytes"] > (most := architecture["most_shared_bytes"]):
        raise Refused(
            0,
            f"needs {figures['shared_bytes']} bytes of shared memory a block, {architecture['name']} has {most}: "
            "use smaller tiles or fewer stages",
        )
    threads = figures["warps"] * architecture["threads_a_warp"]
    if threads > (most := architecture["most_threads"]):
        raise Refused(0, f"{threads} threads a block, {architecture['name']} runs up to {most}: use fewer warps")


def _count_instructions(assembly: str) -> dict[str, int]:
    """How often each one stands in the code, by its name in the assembly: `ld.global.v4.b32`."""
    counts: dict[str, int] = {}
    for line in assembly.splitlines():
        if found := _INSTRUCTION.match(line):
            counts[found[1]] = counts.get(found[1], 0) + 1
    most = sorted(counts.items(), key=lambda item: -item[1])[:_MOST_INSTRUCTIONS]
    return dict(sorted(most))


def _place_of(error: BaseException, function: Any) -> tuple[int, str]:
    """Line of the candidate's file, and Triton's words."""
    innermost = error
    while isinstance(innermost.__cause__, CompilationError):
        innermost = innermost.__cause__
    if not isinstance(innermost, CompilationError):
        return _line_of(function), f"{function.__name__}: {_words(error)}"
    own = [each for each in _jit_functions(function) if each.src == innermost.src] or [function]
    line = _line_of(own[0]) + max(getattr(innermost.node, "lineno", 1), 1) - 1
    said = innermost.error_message or (_words(innermost.__cause__) if innermost.__cause__ else "")
    source = str(innermost.src).splitlines()
    at = getattr(innermost.node, "lineno", 1) - 1
    shown = f"\n    {source[at].strip()}" if 0 <= at < len(source) else ""
    return line, f"{said or str(innermost)}{shown}"


def _jit_functions(function: Any) -> list[Any]:
    return [value for value in function.__globals__.values() if isinstance(value, JITFunction)]


def _line_of(function: Any) -> int:
    """Of `def`, in the candidate's file."""
    lines: list[str] = inspect.getsource(function.fn).splitlines()
    decorators = next((number for number, line in enumerate(lines) if line.startswith("def ")), 0)
    return int(function.fn.__code__.co_firstlineno) + decorators


def _calling_line() -> int:
    """Of the candidate's frame that launches."""
    frames = [frame for frame in traceback.extract_stack() if frame.filename == SOURCE]
    return (frames[-1].lineno or 1) if frames else 1


def _own_line(error: BaseException) -> int:
    if isinstance(error, SyntaxError):
        return error.lineno or 1
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == SOURCE]
    return (frames[-1].lineno or 1) if frames else 1


def _words(error: BaseException) -> str:
    text = "\n".join(line for line in str(error).splitlines() if not line.startswith("Repro command"))
    for folder in (sys.prefix, sys.base_prefix):
        text = text.replace(f"{folder}/", "")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _refuse(line: int, message: str) -> NoReturn:
    first, _, rest = message.strip()[:_MOST_ERROR_CHARACTERS].partition("\n")
    print(f"{SOURCE}:{line}: error: {first}\n{rest}".rstrip(), file=sys.stderr, flush=True)  # noqa: T201
    os._exit(1)


def _watch(limit_s: float) -> None:
    """Ends the process when it takes too long, with the line where the candidate then is."""
    candidate = threading.main_thread().ident

    def watch() -> None:
        time.sleep(limit_s)
        frame = sys._current_frames().get(candidate or 0)
        lines = [line for each, line in traceback.walk_stack(frame) if each.f_code.co_filename == SOURCE]
        _refuse(lines[0] if lines else 1, f"not compiled after {limit_s:g} s")

    threading.Thread(target=watch, daemon=True).start()


def _pack() -> None:
    with zipfile.ZipFile(ARTIFACT, "w", zipfile.ZIP_DEFLATED) as archive:
        paths = [(SOURCE, SOURCE), (REPORT, REPORT)]
        for folder, _, names in sorted(os.walk(CACHE)):
            inside = os.path.relpath(folder, CACHE)
            paths += [(os.path.join(folder, n), f"cache/{inside}/{n}") for n in sorted(names) if n.endswith(_KEPT)]
        for path, name in paths:
            with open(path, "rb") as file:
                # With one time for all, equal builds leave equal bytes.
                archive.writestr(zipfile.ZipInfo(name), file.read(), zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    main()
