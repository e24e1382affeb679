"""Solution: a kernel of ours as FlashInfer-Bench builds and calls it."""

from candidates.candidate import Candidate, LanguageName
from candidates.exported_op import Obstructed
from candidates.problems import documents as fib
from candidates.problems.problem import DefinitionDocuments
from candidates.problems.task_definition import arguments_of
from candidates.problems.tvm_ffi_binding import BINDING_FILE, KERNEL_FILE, SYMBOL, binding_source, kernel_header
from candidates.task import KernelTask

AUTHOR = "compiler-agent"


def solution_of(
    task: KernelTask, documents: DefinitionDocuments, candidate: Candidate, *, name: str, description: str
) -> fib.Solution:
    """`documents` are of the task. Raises Obstructed for a kernel that the layout cannot hold."""
    if candidate.language is not LanguageName.CPP:
        raise Obstructed(f"its language {candidate.language.value} has no binding here")
    if candidate.prepare is not None:
        raise Obstructed("it packs parameters once per session, and that layout calls a kernel without a session")
    return fib.Solution(
        name=name,
        definition=documents.definition.name,
        author=AUTHOR,
        spec=fib.BuildSpec(
            language="cpp",
            target_hardware=("cpu",),
            entry_point=f"{BINDING_FILE}::{SYMBOL}",
            dependencies=(),
            destination_passing_style=True,
            binding="tvm-ffi",
        ),
        sources=(
            fib.SourceFile(path=BINDING_FILE, content=binding_source(task, candidate, arguments_of(task, documents))),
            fib.SourceFile(path=KERNEL_FILE, content=kernel_header(candidate)),
        ),
        description=description,
    )
