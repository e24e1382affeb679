"""A FlashInfer-Bench dataset: definitions, workloads and solutions of a build's kernels, without traces.

A trace says how a solution fared in somebody's benchmark; `compiler-agent task export` writes those of a task that the
ledger knows. Kernels go as sources, which FlashInfer-Bench compiles by TVM FFI: its layout has no place for an artifact
or for compiler flags.
"""

import tempfile
from pathlib import Path

from candidates.candidate import Candidate, LanguageName
from candidates.exported_op import Obstructed
from candidates.problems.dataset import write_results
from candidates.problems.results import Results
from candidates.problems.solution import solution_of
from candidates.problems.task_definition import define
from candidates.serving_build.build import Build
from candidates.serving_build.build_files import kernels_for_no_cpu, source_of, task_of
from candidates.serving_build.manifest import KernelEntry
from candidates.serving_build.target import Export, LeftOut


class FlashinferTrace:
    def export(self, build: Build) -> Export:
        left_out = list(kernels_for_no_cpu(build))
        carried: list[str] = []
        with tempfile.TemporaryDirectory(prefix="compiler-agent-") as folder:
            root = Path(folder)
            for entry in build.manifest.kernels if not left_out else ():
                try:
                    write_results(_results_of(build, entry), root)
                    carried.append(entry.id)
                except Obstructed as obstructed:
                    left_out.append(LeftOut(kernel_id=entry.id, op=entry.op, reason=str(obstructed)))
            paths = sorted(path for path in root.rglob("*") if path.is_file())
            files = {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
        return Export(
            files=files,
            carried=tuple(carried),
            left_out=tuple(left_out),
            next_step='flashinfer_bench.data.TraceSet.from_path("FOLDER")',
        )


def _results_of(build: Build, entry: KernelEntry) -> Results:
    """Raises Obstructed for what the layout cannot hold."""
    task = task_of(build, entry)
    language, source = source_of(build, entry)
    if "LAUNCH_" in source:
        raise Obstructed("it is compiled with launch parameters, which a build does not record: use `task export`")
    candidate = Candidate(language=LanguageName(language), source=source, entry=entry.entry, prepare=entry.prepare)
    documents = define(task)
    solution = solution_of(
        task,
        documents,
        candidate,
        name=f"{documents.definition.name}_{entry.id[:12]}",
        description=f"Kernel {entry.id} of the serving build {build.id}",
    )
    return Results(
        definition=documents.definition,
        workloads=documents.workloads,
        solutions=(solution,),
        traces=(),
        left_out=(),
    )
