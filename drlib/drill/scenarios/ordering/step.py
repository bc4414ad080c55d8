"""What the steps of an ordering drill share: their stage, and where the applications are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from drlib.client.read_plan import Scope
from drlib.drill.plan.plan import Fact
from drlib.drill.scenarios.ordering.stage import OrderingStage
from drlib.drill.testbed.lab_step import LabStep
from drlib.model import Flow

SLOW: Final = 200.0  # records per second of a group before the move, so that it has something left to read after it
FAST: Final = 800.0


@dataclass(frozen=True)
class OrderingStep(LabStep):
    topic: str
    flow: Flow
    scope: Scope

    @property
    def stage(self) -> OrderingStage:
        return OrderingStage(self.lab, self.workplace.run_dir, self.topic, self.scope)

    @property
    def copy(self) -> str:
        """What the target calls the source's topic."""
        return self.stage.copy_of(self.flow.source)

    def _active(self) -> Fact:
        now = self.stage.pointer()
        return Fact(f"active cluster of {self.topic}", None if now is None else now.active)
