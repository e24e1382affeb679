"""ModelExam: a search for each task of an exam, one after the other, as a run of its own with its report."""

from temporalio import workflow

from workflows import queues
from workflows.perform import perform

with workflow.unsafe.imports_passed_through():
    from workflows.kernel_search import KernelSearch
    from workflows.payloads import ExamInput


@workflow.defn
class ModelExam:
    @workflow.run
    async def run(self, exam: ExamInput) -> None:
        for search in exam.searches:
            await workflow.execute_child_workflow(
                KernelSearch.run,
                search,
                id=f"{exam.run_id}/search/{search.task_id[:16]}",
                task_queue=queues.CONTROL,
            )
        await perform("conclude_exam", exam, queues.CONTROL)
