"""Following the pointer's topic on several clusters at once.

Rules: one consumer without a group for each cluster, in a thread of its own, so a dead cluster holds nobody up; a move is
known as soon as one cluster that holds it answers a fetch. What has been seen never goes back. A cluster is asked every
two seconds whether it is there, and while it is not, `doubt()` names it: the newest word may be the one it holds.
Not for: a single look (`drlib.client.pointer_topic.read_pointer`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Partition

from drlib.client.pointer import Pointer, newest
from drlib.client.pointer_hold import HoldClock
from drlib.client.pointer_topic import EVERYONE, TOPIC, Words, counted, hear
from drlib.errors import DrlibError
from drlib.kafka.admin import login_check as preflight
from drlib.kafka.admin.errors import as_drlib_error, code_of
from drlib.kafka.security.cluster_settings import ClusterSettings

_ASK_EVERY_S: Final = 2.0
_ASK_S: Final = 1.5
_POLL_S: Final = 0.1
_NO_TOPIC: Final = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
)
_QUIET: Final = logging.getLogger("drlib.librdkafka")


class PointerTopicWatcher:
    """A `PointerSource` over the topic of all `clusters`. Starts when made; `close()` ends its threads."""

    def __init__(self, clusters: Sequence[ClusterSettings], application: str = EVERYONE, *, topic: str = TOPIC) -> None:
        self._application = application
        self._topic = topic
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._words: dict[str, Words] = {settings.alias: {} for settings in clusters}
        self._read: set[str] = set()  # aliases whose topic was read to its end once
        self._silent: dict[str, str] = {}
        self._pointer: Pointer | None = None
        self._broken: DrlibError | None = None
        self._hold = HoldClock()
        self._threads = [
            threading.Thread(target=self._follow, args=(settings,), name=f"pointer-{settings.alias}", daemon=True)
            for settings in clusters
        ]
        for thread in self._threads:
            thread.start()

    def current(self) -> Pointer | None:
        """The newest pointer seen. Raises `PointerConflict` or `UsageError` when the first ones seen make no sense."""
        with self._changed:
            if self._pointer is None and self._broken is not None:
                raise self._broken
            return self._hold.applied(self._pointer)

    def doubt(self) -> str:
        with self._changed:
            reasons = [f"{alias} does not answer ({why})" for alias, why in sorted(self._silent.items())]
            if self._broken is not None:
                reasons.append(str(self._broken))
            return "; ".join(reasons)

    def settled(self) -> bool:
        with self._changed:
            return len(self._read | self._silent.keys()) == len(self._threads)

    def wait_newer(self, version: int, timeout_s: float) -> Pointer | None:
        """The first pointer newer than `version` within `timeout_s` seconds, else None."""
        with self._changed:
            self._changed.wait_for(lambda: self._pointer is not None and self._pointer.version > version, timeout_s)
            return self._pointer if self._pointer is not None and self._pointer.version > version else None

    def close(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(_ASK_S + 3)

    def _follow(self, settings: ClusterSettings) -> None:
        while not self._stopping.is_set():
            try:
                if settings.secured and (found := preflight.explain_refusal(settings, _ASK_S)) is not None:
                    raise found
                self._consume(settings)
            except DrlibError as error:  # a secret that is not there yet, a refused login: told, and tried again
                self._hold_silent(settings.alias, error)
                self._stopping.wait(_ASK_EVERY_S)

    def _consume(self, settings: ClusterSettings) -> None:
        try:
            self._consume_with(settings)
        except KafkaException as error:
            raise as_drlib_error(error, settings, f"following {self._topic}") from error

    def _consume_with(self, settings: ClusterSettings) -> None:
        consumer: Any = Consumer(
            {
                "reconnect.backoff.max.ms": 1000,
                **settings.confluent(),
                "group.id": "drlib-active",  # never joined, nothing committed
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "topic.metadata.refresh.interval.ms": 2000,  # for a topic that is made later
                "log_level": 0,
            },
            logger=_QUIET,
        )
        try:
            consumer.assign([Partition(self._topic, 0, OFFSET_BEGINNING)])
            asked = float("-inf")
            while not self._stopping.is_set():
                if time.monotonic() - asked > _ASK_EVERY_S:
                    self._ask(consumer, settings)
                    asked = time.monotonic()
                if (message := consumer.poll(_POLL_S)) is not None:
                    self._take(settings, message)
        finally:
            consumer.close()

    def _ask(self, consumer: Any, settings: ClusterSettings) -> None:
        """Is the cluster there? An empty topic, or none, has been read to its end by that answer."""
        try:
            low, high = consumer.get_watermark_offsets(Partition(self._topic, 0), timeout=_ASK_S, cached=False)
        except KafkaException as error:
            if code_of(error) in _NO_TOPIC:
                self._heard(settings.alias, whole=True)
            else:
                self._hold_silent(settings.alias, as_drlib_error(error, settings, f"reading {self._topic}"))
        else:
            self._heard(settings.alias, whole=low == high)

    def _take(self, settings: ClusterSettings, message: Any) -> None:
        error = message.error()
        if error is None:
            with self._changed:
                where = f"{self._topic} on {settings.alias} at offset {message.offset()}"
                hear(self._words[settings.alias], message.key(), message.value(), where)
                if settings.alias in self._read:
                    self._judge()
        elif error.code() == KafkaError._PARTITION_EOF:
            self._heard(settings.alias, whole=True)
        elif error.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED):
            self._hold_silent(settings.alias, as_drlib_error(error, settings, f"reading {self._topic}"))

    def _heard(self, alias: str, *, whole: bool) -> None:
        with self._changed:
            if whole:
                self._read.add(alias)
            if alias in self._read:
                self._silent.pop(alias, None)
                self._judge()

    def _hold_silent(self, alias: str, error: DrlibError) -> None:
        with self._changed:
            self._silent[alias] = error.why
            self._changed.notify_all()

    def _judge(self) -> None:
        """Called with the lock held, when a cluster that was read to its end has said something."""
        try:
            found = newest(
                pointer for alias in self._read for pointer in counted(self._words[alias], self._application)
            )
            self._broken = None
        except DrlibError as error:
            found, self._broken = None, error
        if found is not None and (self._pointer is None or found.version > self._pointer.version):
            self._pointer = found
        self._changed.notify_all()
