"""ShipWinner as it was before it proposed pull requests; such runs may be in flight when workers are replaced."""

from datetime import timedelta

from temporalio import workflow

from workflows import queues
from workflows.retries import RETRY

with workflow.unsafe.imports_passed_through():
    from workflows.payloads import ShipInput, ShippedBuild


@workflow.defn(name="ShipWinner")
class ShipWinnerBefore:
    @workflow.run
    async def run(self, ship: ShipInput) -> ShippedBuild:
        build: ShippedBuild | None = None
        for name, queue in (
            ("assemble_build", queues.SHIP),
            ("gate_build", queues.device_queue(ship.device_id)),
            ("conclude_run", queues.SHIP),
        ):
            result = await workflow.execute_activity(
                name,
                ship,
                result_type=ShippedBuild if name == "assemble_build" else None,
                task_queue=queue,
                start_to_close_timeout=timedelta(hours=1),
                retry_policy=RETRY,
            )
            build = build or result
        assert build is not None
        return build
