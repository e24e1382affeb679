"""ShipWinner: winners, and what of the live build still holds, into a build; through its gate; live if approved.

Then it is proposed: whether pull requests are opened is the ship worker's setting, and the last activity does nothing
where it is off.
"""

from temporalio import workflow
from temporalio.exceptions import ActivityError

from workflows import queues
from workflows.perform import perform

with workflow.unsafe.imports_passed_through():
    from workflows.payloads import ShipInput, ShippedBuild


@workflow.defn
class ShipWinner:
    @workflow.run
    async def run(self, ship: ShipInput) -> ShippedBuild:
        device = queues.device_queue(ship.device_id)
        if workflow.patched("check-live"):
            await perform("check_live", ship, device)
        build = await perform("assemble_build", ship, queues.SHIP, ShippedBuild)
        await perform("gate_build", ship, device)
        await perform("conclude_run", ship, queues.SHIP)
        if workflow.patched("pull-requests"):
            await self._propose(ship)
        return build

    async def _propose(self, ship: ShipInput) -> None:
        """A forge that cannot be reached takes nothing from a run that has ended well; `pr open` does it later."""
        try:
            await perform("propose_pull_requests", ship, queues.SHIP)
        except ActivityError as error:
            workflow.logger.warning("pull requests of %s were not opened: %s", ship.run_id, error.cause)
