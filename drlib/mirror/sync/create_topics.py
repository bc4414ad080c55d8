"""Create mirror topics, grow them, and detect source topics that were deleted.

Rules: a mirror topic gets the source's partition count and the configurations that MirrorMaker 2 copies (`configs`);
one with more partitions than its source is left as it is, one with fewer grows. A topic that the target refuses is an event
with cause and remedy (`MirrorTopicRefused`), and the others are still mirrored; of heartbeats that another flow brought to the
source it is one of its own (`HeartbeatsRefused`), as no application misses them. A source topic counts as deleted when the
source says so for its name; absence from a list of topics is not enough, because lists omit topics that may not be described.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping

from drlib.config.flow_settings import FlowSettings
from drlib.errors import DrlibError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import ConfigValue, NewTopicSpec
from drlib.kafka.admin.errors import ClusterRefused
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.protocol.error_codes import AUTHORIZATION, TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.preflight.checks import WRITE_MIRROR, not_authorized
from drlib.mirror.preflight.required_acls import Right
from drlib.mirror.status.worker_status import EventLog
from drlib.mirror.sync.configs import wanted_settings

METADATA_TIMEOUT_S = 15.0  # until every broker knows a new topic
REFUSED, DELETED, FORBIDDEN = "MirrorTopicRefused", "SourceTopicDeleted", "SourceTopicForbidden"
HEARTBEATS_REFUSED = "HeartbeatsRefused"


class MirrorTopics:
    """The mirror topics of one flow. `create_or_grow` blocks."""

    def __init__(
        self, settings: FlowSettings, source: ClusterSettings, target: ClusterSettings, events: EventLog
    ) -> None:
        self._settings = settings
        self._source = source
        self._target = target
        self._events = events
        self._refused: set[str] = set()
        self._forbidden: set[str] = set()  # source topics that are not mirrored because they may not be described

    def create_or_grow(self, wanted: Mapping[str, int], existing: Mapping[str, int]) -> dict[str, int]:
        """Create and grow mirror topics, and return the partition count of each afterwards. Raises `Unreachable`.

        All are by source topic: `wanted` partitions of the mirror topic, and `existing` ones (0: there is no such topic).
        """
        after = dict(existing)
        with Cluster(self._source) as source, Cluster(self._target) as target:
            settings = source.topic_settings(name for name in wanted if not existing[name])
            created = target.create_topics(self._new(wanted, settings))
            for name, count in wanted.items():
                mirror = self._mirror(name)
                operations = ("ALTER",) if existing[name] else ("CREATE", *WRITE_MIRROR)
                # that the source does not show a topic's settings says what it needs
                asked = None if isinstance(settings.get(name), DrlibError) else Right("topic", mirror, operations)
                try:
                    if not existing[name]:
                        answer = self._answer(settings[name], created.get(mirror))
                        after[name] = count if answer else _created_by_another(target, mirror, count)
                    if 0 < after[name] < count:
                        _grow(target, mirror, count)
                        after[name] = count
                except ClusterRefused as error:
                    self._refused.add(name)
                    self._events.open(self._event(name), mirror, self._refusal(error, asked))
                else:
                    self._refused.discard(name)
                    self._events.resolve(self._event(name), mirror)
        return after

    async def unauthorized(self, target: ClusterClient, names: Collection[str]) -> set[str]:
        """Those of `names` whose mirror topic may not be described on the target, so that it may or may not exist.

        Their lanes report them (`TargetUnauthorized`).
        """
        if not names:
            return set()
        answer = await target.metadata(sorted(self._mirror(name) for name in names))
        return {name for name in names if answer.topics[self._mirror(name)].error_code == TOPIC_AUTHORIZATION_FAILED}

    async def deleted(self, source: ClusterClient, names: Collection[str]) -> set[str]:
        """Those of `names`, missing from the list of topics, that do not exist on the source or may not be described.

        Topics found to be forbidden before are asked for again: whether they exist is only known with the right.
        """
        asked = self._forbidden.union(names)
        if not asked:
            return set()
        answer = await source.metadata(sorted(asked))
        deleted = set()
        for name in asked:
            code = answer.topics[name].error_code
            if code == UNKNOWN_TOPIC_OR_PARTITION:
                self._events.open(
                    DELETED,
                    name,
                    f"it was deleted on {self._settings.flow.source}; {self._mirror(name)} keeps what was copied, and other "
                    "topics are still mirrored. Re-create it to have it mirrored again.",
                )
                self._allowed(name)
                deleted.add(name)
            elif code in AUTHORIZATION:
                self._forbidden.add(name)
                needed = not_authorized(Right("topic", name, ("DESCRIBE",)), self._source)
                self._events.open(FORBIDDEN, name, str(needed))
                deleted.add(name)
            else:
                self._allowed(name)
        return deleted

    def _allowed(self, name: str) -> None:
        """A topic may be described again: it exists, or it is known not to."""
        self._forbidden.discard(name)
        self._events.resolve(FORBIDDEN, name)

    def listed(self, names: Collection[str]) -> None:
        """Resolve the events of deleted topics for `names`, which the source lists now."""
        for name in names:
            self._events.resolve(DELETED, name)
            self._allowed(name)

    def keep_refused(self, names: Collection[str]) -> None:
        """Resolve refusals except those of `names`: the other topics exist by now, or are not mirrored any more."""
        for name in self._refused - set(names):
            self._refused.discard(name)
            self._events.resolve(self._event(name), self._mirror(name))

    def _event(self, name: str) -> str:
        return HEARTBEATS_REFUSED if self._settings.mirrors_unasked(name) else REFUSED

    def _refusal(self, error: ClusterRefused, asked: Right | None) -> str:
        if error.by_rule or error.code == "INVALID_REPLICATION_FACTOR":
            return (
                f"{error.why}. A setting that is refused can be named in config.properties.exclude, the number of replicas is "
                f"replication.factor. {error.remedy}"
            )
        if error.unauthorized and asked is not None:
            return str(not_authorized(asked, self._target))
        return str(error)

    def _mirror(self, name: str) -> str:
        return self._settings.policy.remote_topic(self._settings.flow.source, name)

    def _new(
        self, wanted: Mapping[str, int], settings: Mapping[str, tuple[ConfigValue, ...] | DrlibError]
    ) -> Iterator[NewTopicSpec]:
        for name, config in settings.items():
            if not isinstance(config, DrlibError):
                own = wanted_settings(self._settings, config).own
                yield NewTopicSpec(self._mirror(name), wanted[name], self._settings.replication_factor, own)

    @staticmethod
    def _answer(settings: tuple[ConfigValue, ...] | DrlibError, created: bool | DrlibError | None) -> bool:
        for answer in (settings, created):
            if isinstance(answer, DrlibError):
                raise answer
        return bool(created)


def _grow(target: Cluster, mirror: str, wanted: int) -> None:
    """Add partitions, unless another worker has just done so. Raises `ClusterRefused`."""
    try:
        target.create_partitions(mirror, wanted)
    except ClusterRefused as error:
        if error.code != "INVALID_PARTITIONS" or _created_by_another(target, mirror, wanted, grown=True) < wanted:
            raise


def _created_by_another(target: Cluster, mirror: str, wanted: int, *, grown: bool = False) -> int:
    """Partitions of a topic that another worker has just created, or `grown`; 0 if the broker asked does not know it in time.

    `wanted` where the topic may not be described: it exists, and its lane reports the missing right.
    """
    deadline = time.monotonic() + METADATA_TIMEOUT_S
    try:
        while mirror not in (topics := target.topics([mirror])) or (grown and topics[mirror].partitions < wanted):
            if time.monotonic() > deadline:
                return 0  # the next refresh of topics tries again
            time.sleep(0.1)
    except ClusterRefused as error:
        if error.code != "TOPIC_AUTHORIZATION_FAILED":
            raise
        return wanted
    return topics[mirror].partitions
