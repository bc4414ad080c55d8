"""What the steps of an ordering drill share: their testbed, and where the applications are."""

from __future__ import annotations

from typing import Final

from drlib.client.read_plan import Scope
from drlib.drill.plan.plan import Fact
from drlib.drill.scenarios.ordering.testbed import OrderingTestbed
from drlib.drill.step.argument_types import Text
from drlib.drill.testbed.lab_step import LabStep
from drlib.model import Flow

SLOW: Final = 200.0  # records per second of a group before the move, so that it has something left to read after it
FAST: Final = 800.0


class OrderingStep(LabStep):
    """A step of an ordering drill."""

    source: Text
    """Alias of the cluster the applications are at."""
    target: Text
    """Alias of the cluster they move to."""
    scope: Scope = Scope.TOPIC
    """What the ordered group's members hold the local topic back for."""

    @property
    def flow(self) -> Flow:
        return Flow(self.source, self.target)

    @property
    def testbed(self) -> OrderingTestbed:
        return OrderingTestbed(self.lab, self.context.run_dir, self.topic, self.scope)

    @property
    def remote_topic(self) -> str:
        """What the target calls the source's topic."""
        return self.testbed.copy_of(self.flow.source)

    def _active(self) -> Fact:
        now = self.testbed.pointer()
        return Fact(f"active cluster of {self.topic}", None if now is None else now.active)
