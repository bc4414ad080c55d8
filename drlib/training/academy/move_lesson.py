"""Base of the lessons whose applications follow a pointer, which is kept on both clusters in a topic of the attempt.

Rules: the pointer's topic is not mirrored, because its name does not begin like the lesson's topics. Calls to a killed
cluster end after `ANSWER_S` seconds.
Not for: what such a lesson teaches.
"""

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
    """A lesson whose applications ask a pointer which cluster to use."""

    @property
    def application(self) -> str:
        """The name under which the pointer is published."""
        return self.testbed.name("shop")

    @property
    def pointer_topic(self) -> str:
        """The pointer's topic, on each cluster."""
        return f"pointer.{self.testbed.prefix}moves"

    def cutover(self) -> Mapping[str, tuple[int, ...]]:
        """The current end offsets of the mirror topic on RIGHT, as `drlib.publish_pointer` takes them."""
        self.require(*self.first)
        return self._cutover()

    def _cutover(self) -> Mapping[str, tuple[int, ...]]:
        return {self.copy: tuple(self.testbed.end_offsets("RIGHT", self.copy))}

    def pointer(self) -> Pointer | None:
        """Return the newest pointer of the clusters that answer; None before the first. Raises `Unreachable` if none does."""
        clusters = tuple(self.testbed.settings.clusters.values())
        return read_pointer(clusters, self.application, topic=self.pointer_topic, timeout_s=ANSWER_S).pointer

    def point_at(self, alias: str) -> None:
        """Publish that applications use `alias`; on RIGHT they read the mirror topic first, if it is another topic.

        Nothing if they do already.
        """
        pointer = self.pointer()
        if pointer is not None and pointer.active == alias:
            return
        options = {"topic": self.pointer_topic, "timeout_s": ANSWER_S}
        if alias == "LEFT" or self.keeps_names:
            publish_pointer(self.file, alias, self.application, **options)  # type: ignore[arg-type]
        else:
            moved = {**options, "remote_prefix": "LEFT.", "cutover": self._cutover()}
            publish_pointer(self.file, alias, self.application, **moved)  # type: ignore[arg-type]

    def in_topic(self, topic: str, positions: Mapping[int, int]) -> dict[TopicPartition, int]:
        """Positions by partition number, as positions by partition of `topic`."""
        return {TopicPartition(topic, partition): offset for partition, offset in positions.items()}


@contextmanager
def pointer_warnings() -> Iterator[list[str]]:
    """Collect the pointer's log warnings instead of printing them: the lesson reports itself that a cluster is down."""
    warnings: list[str] = []

    def collect(record: logging.LogRecord) -> bool:
        warnings.append(record.getMessage())
        return False

    _ACTIVE.addFilter(collect)
    try:
        yield warnings
    finally:
        _ACTIVE.removeFilter(collect)
