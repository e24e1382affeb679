"""`compiler-agent models rank`: how well language models write kernels, by an exam of small tasks of our own."""

import os
from pathlib import Path
from typing import Annotated

import typer

import compiler_agent
from candidates.ceilings import fingerprint_device
from candidates.exam import ExamReport, ExamRequest, ExamTask
from candidates.extraction import Obstacle
from candidates.ledger.ledger import Ledger
from candidates.measurement import Stage
from candidates.problems.problem import Problem
from candidates.problems.problem_task import make_task
from candidates.problems.read import read_problems
from compiler_agent.choose_agents import choose_agents
from compiler_agent.commands.options import (
    BudgetTokensOption,
    BudgetUsdOption,
    JsonOption,
    ModelNameOption,
)
from compiler_agent.exam_tables import print_exams
from compiler_agent.local_run import perform_run
from compiler_agent.machine import require_machine
from compiler_agent.models.endpoints import find_endpoint, read_endpoints
from compiler_agent.models.metered import price_of
from compiler_agent.outcome import ExitCode, UserFault, print_json, progress_console, result_console
from compiler_agent.settings import Settings, read_settings
from compiler_agent.wiring import make_sandbox

EXAM_TASKS = Path(compiler_agent.__file__).with_name("exam_tasks")


def rank(
    model_name: ModelNameOption = None,
    task: Annotated[
        list[str] | None, typer.Option(help="Only this task of the exam, by its name; may be given several times.")
    ] = None,
    budget_usd: BudgetUsdOption = None,
    budget_tokens: BudgetTokensOption = None,
    attempts: Annotated[int, typer.Option(min=1, help="Kernels at most, a task.")] = 6,
    seconds: Annotated[
        float, typer.Option(min=1.0, max=1e7, help="Search time a task, waiting for the model included.")
    ] = 300,
    screen_only: Annotated[
        bool, typer.Option("--screen-only", help="No races: faster, rougher, and nothing counts as a win.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Also what has ended before; leave it out to go on after Ctrl-C.")
    ] = False,
    json: JsonOption = False,
) -> ExitCode:
    """Has models write kernels for small tasks, and compares how many are right, how fast, and for how much.

    Also a quality check of a model that you serve: exit code 1 says that an endpoint has no right kernel for any task.

    Budgets are each endpoint's own. Every endpoint starts alike: nothing of earlier searches is told. Ctrl-C stops it;
    the same command goes on. An exam that has ended is shown again, not paid for again, unless --again.

    Example: compiler-agent models rank --model-name local --model-name opus --budget-usd 2
    """
    settings = read_settings()
    problems = _choose_problems(task or ())
    requests = [
        (name, choose_agents(settings, ("llm",), () if name is None else (name,), usd=budget_usd, tokens=budget_tokens))
        for name in _each_once(model_name or ())
    ]
    require_machine(settings)
    ledger = Ledger(settings.ledger_url)
    tasks = _make_tasks(settings, ledger, problems)
    reports = []
    for name, chosen in requests:
        endpoint = find_endpoint(read_endpoints(settings.home, os.environ), name)
        request = ExamRequest(
            endpoint=endpoint.name,
            model=endpoint.model,
            is_priced=price_of(endpoint, settings.home) is not None,
            tasks=tasks,
            models=chosen.models,
            search_s=seconds,
            attempts=attempts,
            last_stage=Stage.SCREEN if screen_only else Stage.CONFIRM,
        )
        reports.append(_sit(settings, ledger, request, again=again))
    if json:
        print_json({"endpoints": [report.model_dump(mode="json") for report in reports]})
    else:
        print_exams(reports, result_console)
    return ExitCode.DONE if all(report.tasks_correct.count for report in reports) else ExitCode.NOT_ACHIEVED


def _sit(settings: Settings, ledger: Ledger, request: ExamRequest, *, again: bool) -> ExamReport:
    report = None if again else ledger.latest_report(request)
    if report is None:
        progress_console.print(f"{request.endpoint}: {len(request.tasks)} tasks", highlight=False)
        report = perform_run(settings, ledger, request, progress_console)
    else:
        progress_console.print(f"{request.endpoint}: {report.run_id} has ended; --again repeats it", highlight=False)
    assert isinstance(report, ExamReport)
    return report


def _each_once(names: list[str] | tuple[()]) -> list[str | None]:
    """None: the only endpoint that there is."""
    if len(set(names)) < len(names):
        raise UserFault(f"named twice among {', '.join(names)}: name each once")
    return list(names) or [None]


def _choose_problems(names: list[str] | tuple[()]) -> list[Problem]:
    problems = {problem.name: problem for problem in read_problems(EXAM_TASKS)}
    if unknown := [name for name in names if name not in problems]:
        raise UserFault(f"no task {', '.join(unknown)} in the exam: there are {', '.join(problems)}")
    return [problem for name, problem in problems.items() if not names or name in names]


def _make_tasks(settings: Settings, ledger: Ledger, problems: list[Problem]) -> tuple[ExamTask, ...]:
    """Made again each time, seconds each: the same problem on the same device is the same task."""
    device = fingerprint_device()
    ledger.put_device(device)
    sandbox = make_sandbox(settings)
    tasks = []
    for problem in problems:
        progress_console.print(f"task {problem.name}", highlight=False)
        made = make_task(problem, sandbox, device_id=device.id, threads=1)
        if isinstance(made, Obstacle):
            raise RuntimeError(f"the exam's own {problem.name} is no task: {made.reason}")
        ledger.put_task(made)
        tasks.append(ExamTask(task_id=made.id, op=made.op))
    return tuple(tasks)
