"""What the steps of an active/active drill share: their testbed, and what the readers of each cluster have seen."""

from __future__ import annotations

from collections.abc import Sequence

from drlib.drill.scenarios.active.testbed import ActiveTestbed
from drlib.drill.step.step_output import Row
from drlib.drill.testbed.lab_step import LabStep


class ActiveStep(LabStep):
    """A step of an active/active drill."""

    @property
    def testbed(self) -> ActiveTestbed:
        return ActiveTestbed(self.lab, self.context.run_dir, self.topic)

    def records_read(self, clusters: Sequence[str]) -> list[Row]:
        """What the readers of each cluster have processed, by where it came from."""
        rows: list[Row] = []
        for cluster in clusters:
            by_topic: dict[str, int] = {}
            for row in self.testbed.history_of(cluster).consumed:
                by_topic[row.topic] = by_topic.get(row.topic, 0) + 1
            rows += [{"readers on": cluster, "topic": name, "records": by_topic[name]} for name in sorted(by_topic)]
        return rows

    def every_topic_read(self, clusters: Sequence[str]) -> bool:
        """Have the readers of each cluster processed records of every one, as their groups' positions tell?"""
        wanted = {self.topic, *(self.testbed.copy_of(cluster) for cluster in clusters)}
        return all(
            wanted - {self.testbed.copy_of(cluster)} <= self.testbed.read_at_all(cluster) for cluster in clusters
        )
