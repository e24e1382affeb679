"""`compiler-agent gpu-check`: does a GPU compute right here, what can it do at best, and what do kernels win on it?"""

import re
import secrets
import shutil
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.table import Table

from candidates.benchmark.exclusive import exclusive_slot
from candidates.gpu_fingerprint import gpu_slot
from candidates.judge.compute_sanitizer_log import PROGRAM
from candidates.whole_file import write_whole
from compiler_agent.commands.options import JsonOption
from compiler_agent.gpu_check.check import GpuCheck, NoGpu
from compiler_agent.gpu_check.children import ChildEnd, run_child, run_sanitized
from compiler_agent.gpu_check.contests import OPS
from compiler_agent.gpu_check.court import open_court
from compiler_agent.gpu_check.results import CaseOutcome, CeilingsJob, GpuDocument, Job, OpJob
from compiler_agent.outcome import ExitCode, UserFault, print_json, progress_console, result_console


def gpu_check(
    uuid: Annotated[
        str | None, typer.Option(help="Which GPU, as nvidia-smi -L shows it; its first by default.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of inputs and orders; drawn where none is given.")] = None,
    results: Annotated[
        Path, typer.Option(help="Where the document is kept, as gpu_check-DEVICE.json; not with --no-keep.")
    ] = Path("benchmarks/results"),
    keep: Annotated[bool, typer.Option(help="Keep the document.")] = True,
    json: JsonOption = False,
) -> ExitCode:
    """Tries a GPU in under 8 minutes: kernels that are right, wrong and cheat, ceilings, and five ops of an LLM.

    Its kernels are its own, by hand; nothing that agents wrote is run. Nothing else should use the GPU meanwhile.

    Example: compiler-agent gpu-check --json
    """
    _require_gpu()

    def run_locked(job: Job, limit_s: float) -> ChildEnd:
        # Builds on this machine wait while something is timed, and times of other runs wait for ours.
        if isinstance(job, OpJob | CeilingsJob) and job.uuid is not None:
            with exclusive_slot(), gpu_slot(job.uuid):
                return run_child(job, limit_s)
        return run_child(job, limit_s)

    check = GpuCheck(
        run_child=run_locked,
        open_court=open_court,
        ops={name: op.rows for name, op in OPS.items()},
        uuid=uuid,
        seed=secrets.randbits(32) if seed is None else seed,
        say=lambda what: progress_console.print(what, highlight=False, markup=False),
        sanitize=run_sanitized if shutil.which(PROGRAM) else None,
    )
    try:
        document = check.run()
    except NoGpu as missing:
        raise UserFault(str(missing)) from missing
    if keep:
        results.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^A-Za-z0-9]+", "-", str(document.device["model"])).strip("-").lower()
        write_whole(results / f"gpu_check-{name}.json", document.model_dump_json(indent=2).encode() + b"\n")
    if json:
        print_json(document)
    else:
        print_document(document)
    return ExitCode.DONE if document.is_clean else ExitCode.NOT_ACHIEVED


def _require_gpu() -> None:
    if shutil.which("nvidia-smi") is None and not Path("/dev/nvidiactl").exists():
        raise UserFault("no NVIDIA GPU on this machine: neither nvidia-smi nor /dev/nvidiactl is there")
    if torch.version.cuda is None:
        raise UserFault(
            "this torch is built for the CPU alone: install one with CUDA (pip install torch --index-url "
            "https://download.pytorch.org/whl/cu130), then pip install 'compiler-agent[gpu,cuda]'"
        )


def print_document(document: GpuDocument) -> None:
    console = result_console
    cases = Table("kernel", "language", "tried by", "due", "found", "", header_style="bold")
    for case in (*document.correctness, *document.attacks):
        mark = {CaseOutcome.AS_EXPECTED: "as due", CaseOutcome.NOT_RUN: "not run", CaseOutcome.UNEXPECTED: "UNEXPECTED"}
        cases.add_row(case.name, case.language, case.where, case.expected, case.found, mark[case.outcome])
    console.print(cases)
    if document.ceilings is not None:
        rates = Table("ceiling", "rate", header_style="bold")
        for level in document.ceilings.copy_bandwidth:
            rates.add_row(f"copy, {level.working_set_bytes / 2**20:.0f} MiB", f"{level.bytes_per_s / 1e9:.0f} GB/s")
        for name, rate in document.ceilings.flops_per_s.items():
            rates.add_row(f"matrix product, {name}", f"{rate / 1e12:.0f} TFLOP/s")
        console.print(rates)
    ops = Table(
        "op", "rows", "dtype", "L2", "eager us", "compile us", "ours us", "over best", "interval", "of floor",
        header_style="bold",
    )  # fmt: skip
    for op in document.ops:
        ops.add_row(
            op.op, str(op.rows), op.dtype, op.cache.value, f"{op.eager_us:.2f}",
            "" if op.compile_us is None else f"{op.compile_us:.2f}", f"{op.ours_us:.2f}",
            f"{op.speedup_over_best:.2f}x",
            f"{op.interval.low:.2f}-{op.interval.high:.2f}", f"{op.share_of_floor:.0%}",
        )  # fmt: skip
    console.print(ops)
    for missing in document.ops_without_times:
        console.print(f"{missing.op} at {missing.rows} rows: {missing.why}: {missing.detail}", markup=False)
    for note in document.notes:
        console.print(f"note: {note}", highlight=False, markup=False)
