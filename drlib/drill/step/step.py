"""What an action is made with: its call, and the place it is at.

Rules: clusters and the flow default to the drill's own; `source` and `target` name others, such as those of the way back.
What a step shows and knows is kept under its name (`details`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from drlib.drill.step import step_output as details
from drlib.drill.step.action import StepCall
from drlib.drill.step.arguments import word
from drlib.drill.step.context import DrillContext
from drlib.drill.step.step_output import Row, ScorecardPart
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import Flow
from drlib.runs.scorecard import Mark


@dataclass(frozen=True)
class PlacedStep:
    """One step and its place."""

    place: DrillContext
    call: StepCall

    @property
    def usual(self) -> Flow:
        """The flow where the arguments name none."""
        return self.place.flow

    @property
    def flow(self) -> Flow:
        """The flow that is meant."""
        return Flow(word(self.call, "source", self.usual.source), word(self.call, "target", self.usual.target))

    @property
    def source(self) -> ClusterSettings:
        return self.place.cluster(self.flow.source)

    @property
    def target(self) -> ClusterSettings:
        return self.place.cluster(self.flow.target)

    def show(self, rows: Iterable[Row]) -> None:
        """Keep `rows` for whoever looks at this step's results."""
        details.write_rows(self.place.run_dir, self.call.step, rows)

    def score(self, part: ScorecardPart) -> None:
        """Keep `part` as what this step adds to the scorecard; what it added before is replaced."""
        details.write_part(self.place.run_dir, self.call.step, part)

    def keep(self, *marks: Mark) -> None:
        """Put `marks` into the picture of the run, and nothing else into the scorecard."""
        self.score(ScorecardPart(marks=marks))
