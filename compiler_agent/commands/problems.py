"""`compiler-agent task import` and `task export`: problems of public suites in, results in their layout out."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from candidates.ceilings import fingerprint_device
from candidates.exported_op import Obstructed
from candidates.extraction import Obstacle
from candidates.ledger.evaluations import Evaluations
from candidates.ledger.ledger import Ledger
from candidates.problems.dataset import write_results
from candidates.problems.problem import DefinitionDocuments
from candidates.problems.problem_task import make_task
from candidates.problems.read import read_problems
from candidates.problems.results import describe_results
from candidates.task import KernelTask
from compiler_agent.commands.options import JsonOption
from compiler_agent.commands.task import find_task
from compiler_agent.outcome import ExitCode, UserFault, print_json, progress_console, result_console
from compiler_agent.settings import read_settings
from compiler_agent.wiring import make_sandbox


def import_problems(
    path: Annotated[Path, typer.Argument(help="A KernelBench .py, a FlashInfer-Bench definition, or a folder.")],
    threads: Annotated[int, typer.Option(min=1, help="Threads that a kernel may use.")] = 1,
    json: JsonOption = False,
) -> ExitCode:
    """Makes tasks of KernelBench problem files and of FlashInfer-Bench definitions; their Python runs in the sandbox.

    Example: compiler-agent task import KernelBench/level1/23_Softmax.py
    """
    settings = read_settings()
    problems = read_problems(path)
    ledger = Ledger(settings.ledger_url)
    device = fingerprint_device()
    ledger.put_device(device)
    sandbox = make_sandbox(settings)
    made: list[KernelTask] = []
    obstacles: list[dict[str, str]] = []
    for problem in problems:
        progress_console.print(f"importing {problem.name}", highlight=False, markup=False)
        task = make_task(problem, sandbox, device_id=device.id, threads=threads)
        if isinstance(task, Obstacle):
            obstacles.append({"problem": problem.name, "reason": task.reason})
            continue
        ledger.put_task(task)
        if problem.documents is not None:
            ledger.put_problem(task.id, problem.documents)
        made.append(task)
    if json:
        tasks = [
            {"id": task.id, "op": task.op, "site": task.site, "workloads": [w.name for w in task.public_workloads],
             "hidden_workloads": len(task.hidden_workloads)}
            for task in made
        ]  # fmt: skip
        print_json({"tasks": tasks, "obstacles": obstacles})
    else:
        _print_imported(made, obstacles)
    return ExitCode.DONE if made else ExitCode.NOT_ACHIEVED


def export_results(
    task: Annotated[str, typer.Argument(help="Id of a task, or the start of it.")],
    to: Annotated[Path, typer.Option(help="Folder of a FlashInfer-Bench dataset, new or existing.")],
    rejected: Annotated[bool, typer.Option(help="Also write rejected kernels, as failing solutions.")] = False,
    json: JsonOption = False,
) -> ExitCode:
    """Writes a task's definition, workloads, accepted kernels and their measurements as a FlashInfer-Bench dataset.

    Example: compiler-agent task export 3f2a --to dataset
    """
    ledger = Ledger(read_settings().ledger_url)
    found = find_task(ledger, task)
    try:
        results = describe_results(
            found,
            ledger.problem(found.id, DefinitionDocuments),
            Evaluations(ledger).of(found.id),
            ledger.device(found.device_id),
            with_rejected=rejected,
        )
    except Obstructed as obstructed:
        raise UserFault(f"task {found.id[:12]} does not fit that layout: {obstructed}") from obstructed
    path = write_results(results, to)
    left_out = [{"candidate": each.candidate_id, "reason": each.reason} for each in results.left_out]
    if json:
        print_json(
            {"task": found.id, "definition": str(path), "workloads": len(results.workloads),
             "solutions": [solution.name for solution in results.solutions], "traces": len(results.traces),
             "left_out": left_out}
        )  # fmt: skip
    else:
        result_console.print(
            f"{path}\n{len(results.workloads)} workloads, {len(results.solutions)} solutions, "
            f"{len(results.traces)} traces",
            highlight=False,
            markup=False,
        )
        for each in left_out:
            result_console.print(f"left out {each['candidate'][:12]}: {each['reason']}", highlight=False, markup=False)
    return ExitCode.DONE if results.solutions else ExitCode.NOT_ACHIEVED


def _print_imported(made: list[KernelTask], obstacles: list[dict[str, str]]) -> None:
    if made:
        table = Table("task", "op", "workloads", box=None, header_style="bold")
        for task in made:
            table.add_row(task.id[:12], task.op, " ".join(workload.name for workload in task.public_workloads))
        result_console.print(table)
    for obstacle in obstacles:
        result_console.print(
            f"no task of {obstacle['problem']}: {obstacle['reason']}", highlight=False, markup=False, soft_wrap=True
        )
