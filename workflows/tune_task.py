"""TuneTask: the search for one task of the ledger, as a run of its own with its report."""

from temporalio import workflow

from workflows import queues
from workflows.perform import perform

with workflow.unsafe.imports_passed_through():
    from workflows.kernel_search import KernelSearch
    from workflows.payloads import SearchInput, SearchOutcome


@workflow.defn
class TuneTask:
    @workflow.run
    async def run(self, search: SearchInput) -> SearchOutcome:
        outcome = await workflow.execute_child_workflow(
            KernelSearch.run,
            search,
            id=f"{search.run_id}/search/{search.task_id[:16]}",
            task_queue=queues.CONTROL,
        )
        await perform("conclude_tune", search, queues.CONTROL)
        return outcome
