"""What the lessons about moving share: a pointer that applications follow, kept on both clusters under a topic of the attempt.

Rules: the pointer's topic is not mirrored, since its name does not begin as the lesson's topics do. One that does not answer
costs seconds and no more: a lesson kills clusters.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from drlib.client.active_cluster import publish_pointer
from drlib.client.pointer import Pointer
from drlib.client.pointer_topic import read_pointer
from drlib.model import TopicPartition
from drlib.training.academy.lesson import Lesson

ANSWER_S: Final = 4.0
_ACTIVE: Final = logging.getLogger("drlib.active")


class MoveLesson(Lesson):
    """A lesson whose applications ask a pointer which cluster is theirs."""

    @property
    def application(self) -> str:
        """The name under which the pointer is published."""
        return self.testbed.name("shop")

    @property
    def pointer_topic(self) -> str:
        """Where the pointer is, on each cluster."""
        return f"pointer.{self.testbed.prefix}moves"

    def cutover(self) -> Mapping[str, tuple[int, ...]]:
        """Where the copy ends on RIGHT now, as drlib.publish_pointer takes it."""
        return {self.copy: tuple(self.testbed.ends("RIGHT", self.copy))}

    def pointer(self) -> Pointer | None:
        """The newest one that a cluster which answers has; None before the first. Raises `Unreachable` when none answers."""
        clusters = tuple(self.testbed.settings.clusters.values())
        return read_pointer(clusters, self.application, topic=self.pointer_topic, timeout_s=ANSWER_S).pointer

    def point_at(self, alias: str) -> None:
        """Publish that applications are to use `alias`: LEFT as it began, RIGHT with its copy to be read first."""
        found = self.pointer()
        if found is not None and found.active == alias:
            return
        where = {"topic": self.pointer_topic, "timeout_s": ANSWER_S}
        if alias == "LEFT":
            publish_pointer(self.file, alias, self.application, **where)  # type: ignore[arg-type]
        else:
            moved = {**where, "remote_prefix": "LEFT.", "cutover": self.cutover()}
            publish_pointer(self.file, alias, self.application, **moved)  # type: ignore[arg-type]

    def in_topic(self, topic: str, positions: Mapping[int, int]) -> dict[TopicPartition, int]:
        return {TopicPartition(topic, partition): offset for partition, offset in positions.items()}


@contextmanager
def pointer_warnings() -> Iterator[list[str]]:
    """What is warned of a pointer meanwhile, for the one who asked to tell: a lesson says itself that a cluster is dead."""
    found: list[str] = []

    def keep(record: logging.LogRecord) -> bool:
        found.append(record.getMessage())
        return False

    _ACTIVE.addFilter(keep)
    try:
        yield found
    finally:
        _ACTIVE.removeFilter(keep)
