"""Follow the pointer's topic on several clusters at once.

Rules: each cluster has a consumer without a group in a thread of its own, so an unreachable cluster delays no other; a move is
known as soon as one cluster that holds it answers a fetch request. The pointer never returns to an older version. Every two
seconds each cluster is checked; while one does not answer, `doubt()` names it, as it may hold a newer pointer. A record that is
no pointer is a doubt, too, and holds up no pointer of another record: the cluster that has it may never be written again.
- A thread ends with `close()` only. Whatever fails in it is in `doubt()` until the topic was read to its end again, and it
begins again after a pause that grows.
- A consumer has the secrets and certificates of when it was made, for good: one that is not answered is replaced when they were
renewed, and where it has lost all brokers for good; a login that is refused is in `doubt()` as what it is.
- Only the pointers of this application and of all of them are kept, whatever else is written to the topic.
Not for: reading it once (`drlib.client.pointer_topic.read_pointer`).
"""

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Partition

from drlib.client.pointer import Pointer, PointerConflict, PointerSource, newest
from drlib.client.pointer_file import OwnPointerWatcher, PointerWatcher
from drlib.client.pointer_hold import HoldClock
from drlib.client.pointer_topic import EVERYONE, TOPIC, Pointers, apply_record, pointers_for
from drlib.errors import DrlibError, explain
from drlib.kafka.admin import connect
from drlib.kafka.admin.connect import QUIET, librdkafka
from drlib.kafka.admin.errors import as_drlib_error, code_of
from drlib.kafka.broker_states import BrokerStates
from drlib.kafka.security.cluster_settings import ClusterSettings

_CHECK_EVERY_S: Final = 2.0
_CHECK_S: Final = 1.5
_POLL_S: Final = 0.1
_STEADY_S: Final = 10.0  # after so long without an error the next pause is a short one
_LONGEST_PAUSE_S: Final = 30.0
_LONGEST_REASON: Final = 300  # characters
_NO_TOPIC: Final = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
)


def pointer_source(
    file: Path | None, clusters: Sequence[ClusterSettings], application: str = EVERYONE, *, topic: str = TOPIC
) -> PointerSource:
    """What follows the pointer of `application`: in `file` and its own one beside that, or in the topic on all `clusters`."""
    if file is None:
        return PointerTopicWatcher(clusters, application, topic=topic)
    has_own = application != EVERYONE and "/" not in application
    return OwnPointerWatcher(file, application) if has_own else PointerWatcher(file)


class PointerTopicWatcher:
    """A `PointerSource` over the topic of all `clusters`. Starts when made; `close()` ends its threads."""

    def __init__(self, clusters: Sequence[ClusterSettings], application: str = EVERYONE, *, topic: str = TOPIC) -> None:
        self._application = application
        self._keys = (application.encode(), EVERYONE.encode())
        self._topic = topic
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._pointers: dict[str, Pointers] = {settings.alias: {} for settings in clusters}
        self._read: set[str] = set()  # aliases whose topic was read to its end once
        self._silent: dict[str, str] = {}  # why the pointer of a cluster may be out of date
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
        """The newest pointer seen. Raises `PointerConflict` or `UsageError` when all were asked and there is no valid one."""
        with self._changed:
            if self._pointer is None and self._broken is not None and self.settled():
                raise self._broken
            return self._hold.applied(self._pointer)

    def doubt(self) -> str:
        with self._changed:
            reasons = [f"{alias} {why}" for alias, why in sorted(self._silent.items())]
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
            thread.join(_CHECK_S + 3)

    def _follow(self, settings: ClusterSettings) -> None:
        pause_s = _CHECK_EVERY_S
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                connect.check_login(settings, _CHECK_S)
                self._consume(settings)
            except DrlibError as error:  # such as a missing secret or a refused login: reported by doubt(), and retried
                self._mark_silent(settings.alias, error)
                self._stopping.wait(_CHECK_EVERY_S)
            except Exception as error:  # whatever it is, the thread lives on: without it a move would never be noticed
                pause_s = _CHECK_EVERY_S if time.monotonic() - began > _STEADY_S else min(_LONGEST_PAUSE_S, pause_s * 2)
                self._mark_failed(settings.alias, error)
                self._stopping.wait(pause_s)

    def _consume(self, settings: ClusterSettings) -> None:
        try:
            self._consume_with(settings)
        except KafkaException as error:
            raise as_drlib_error(error, settings, f"following {self._topic}") from error

    def _consume_with(self, settings: ClusterSettings) -> None:
        security = settings.connection()
        configuration = librdkafka(settings)
        brokers = BrokerStates(configuration)
        consumer: Any = Consumer(
            {
                "reconnect.backoff.max.ms": 1000,
                **configuration,
                "group.id": "drlib-active",  # never joined, nothing committed
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "topic.metadata.refresh.interval.ms": 2000,  # for a topic that is created later
                "log_level": 0,
                **brokers.settings,
            },
            logger=QUIET,
        )
        try:
            consumer.assign([Partition(self._topic, 0, OFFSET_BEGINNING)])
            checked = float("-inf")
            while not self._stopping.is_set():
                if time.monotonic() - checked > _CHECK_EVERY_S:
                    if not self._check(consumer, settings):
                        connect.check_login(settings, _CHECK_S)
                        if settings.connection() != security or brokers.stranded():
                            return
                    checked = time.monotonic()
                if (message := consumer.poll(_POLL_S)) is not None:
                    self._handle(settings, message)
        finally:
            consumer.close()

    def _check(self, consumer: Any, settings: ClusterSettings) -> bool:
        """Does the cluster answer? An empty or missing topic counts as read to its end."""
        try:
            low, high = consumer.get_watermark_offsets(Partition(self._topic, 0), timeout=_CHECK_S, cached=False)
        except KafkaException as error:
            if code_of(error) in _NO_TOPIC:
                self._mark_answered(settings.alias, whole=True)
            else:
                self._mark_silent(settings.alias, as_drlib_error(error, settings, f"reading {self._topic}"))
                return False
        else:
            self._mark_answered(settings.alias, whole=low == high)
        return True

    def _handle(self, settings: ClusterSettings, message: Any) -> None:
        error = message.error()
        if error is None:
            with self._changed:
                where = f"{self._topic} on {settings.alias} at offset {message.offset()}"
                if message.key() in self._keys:
                    apply_record(self._pointers[settings.alias], message.key(), message.value(), where)
                if settings.alias in self._read:
                    self._update()
        elif error.code() == KafkaError._PARTITION_EOF:
            self._mark_answered(settings.alias, whole=True)
        elif error.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED):
            self._mark_silent(settings.alias, as_drlib_error(error, settings, f"reading {self._topic}"))

    def _mark_answered(self, alias: str, *, whole: bool) -> None:
        with self._changed:
            if whole:
                self._read.add(alias)
            if alias in self._read:
                self._silent.pop(alias, None)
                self._update()

    def _mark_silent(self, alias: str, error: DrlibError) -> None:
        with self._changed:
            self._silent[alias] = f"does not answer ({error.why})"
            self._changed.notify_all()

    def _mark_failed(self, alias: str, error: Exception) -> None:
        """Following has failed: the topic is read again from its start, and counts when its end was reached."""
        with self._changed:
            self._read.discard(alias)
            self._silent[alias] = f"cannot be followed ({explain(error)[:_LONGEST_REASON]})"
            self._changed.notify_all()

    def _update(self) -> None:
        """Update the newest pointer; called with the lock held, for clusters that were read to their end."""
        valid, invalid = pointers_for((self._pointers[alias] for alias in sorted(self._read)), self._application)
        self._broken = next(iter(invalid), None)
        try:
            latest = newest(valid)
        except PointerConflict as error:
            latest, self._broken = None, error
        if latest is not None and (self._pointer is None or latest.version > self._pointer.version):
            self._pointer = latest
        self._changed.notify_all()
