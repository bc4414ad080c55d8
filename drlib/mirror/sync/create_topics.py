"""Makes and grows mirror topics, and tells which source topics are gone.

Rules: a mirror topic gets the source's partition count and what MirrorMaker 2 copies of its settings (`config_sync`); one
with more partitions than its source is left as it is, one with fewer grows. A topic the target refuses is an event with
cause and remedy (`MirrorTopicRefused`), and the other topics go on. A source topic is gone when the source says so for
its name, and not merely for being left out of a list: a list leaves out what may not be described.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping

from drlib.config.settings import FlowSettings
from drlib.errors import DrlibError
from drlib.kafka.admin.bulk_admin import BulkAdmin, Wanted
from drlib.kafka.admin.descriptions import ConfigValue
from drlib.kafka.admin.errors import ClusterRefused
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.protocol.error_codes import AUTHORIZATION, TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.preflight.checks import not_authorized
from drlib.mirror.preflight.required_acls import Right
from drlib.mirror.status.worker_status import EventLog
from drlib.mirror.sync.configs import wanted_settings

HEARD_OF_S = 15.0  # until every broker knows a topic that one of them has made
REFUSED, DELETED, FORBIDDEN = "MirrorTopicRefused", "SourceTopicDeleted", "SourceTopicForbidden"


class MirrorTopics:
    """The mirror topics of one flow. `make` blocks."""

    def __init__(
        self, settings: FlowSettings, source: ClusterSettings, target: ClusterSettings, events: EventLog
    ) -> None:
        self._settings = settings
        self._source = source
        self._target = target
        self._events = events
        self._refused: dict[str, DrlibError] = {}

    @property
    def refused(self) -> Mapping[str, DrlibError]:
        """Source topics whose mirror topic could not be made or grown at the last try."""
        return self._refused

    def make(self, wanted: Mapping[str, int], have: Mapping[str, int]) -> dict[str, int]:
        """Source topic -> partitions its mirror topic should have, and has (0: is not there).

        Returns how many each has then. Raises `Unreachable`.
        """
        after = dict(have)
        with BulkAdmin(self._source) as source, BulkAdmin(self._target) as target:
            settings = source.topic_settings(name for name in wanted if not have[name])
            created = target.create_topics(self._new(wanted, settings))
            for name, count in wanted.items():
                mirror = self._mirror(name)
                try:
                    if not have[name]:
                        answer = self._answer(settings[name], created.get(mirror))
                        after[name] = count if answer else _made_by_another(target, mirror, count)
                    if 0 < after[name] < count:
                        target.create_partitions(mirror, count)
                        after[name] = count
                except ClusterRefused as error:
                    self._refused[name] = error
                    self._events.open(REFUSED, mirror, _refusal(error))
                else:
                    self._refused.pop(name, None)
                    self._events.resolve(REFUSED, mirror)
        return after

    async def closed(self, target: ClusterClient, names: Collection[str]) -> set[str]:
        """Those of `names`, whose mirror topics the target's list lacks, that may be there: it does not let us see them.

        Their lanes tell of them, which are refused them as well (`TargetUnauthorized`).
        """
        if not names:
            return set()
        answer = await target.metadata(sorted(self._mirror(name) for name in names))
        return {name for name in names if answer.topics[self._mirror(name)].error_code == TOPIC_AUTHORIZATION_FAILED}

    async def gone(self, source: ClusterClient, names: Collection[str]) -> set[str]:
        """Those of `names`, missing from the list of topics, that are really not there or may not be seen."""
        if not names:
            return set()
        answer = await source.metadata(sorted(names))
        gone = set()
        for name in names:
            code = answer.topics[name].error_code
            if code == UNKNOWN_TOPIC_OR_PARTITION:
                self._events.open(
                    DELETED,
                    name,
                    f"it is gone from {self._settings.flow.source}; {self._mirror(name)} keeps what was copied, and "
                    "nothing else stops. Create it again to have it mirrored again.",
                )
                gone.add(name)
            elif code in AUTHORIZATION:
                needed = not_authorized(Right("topic", name, ("DESCRIBE",)), self._source)
                self._events.open(FORBIDDEN, name, str(needed))
                gone.add(name)
        return gone

    def found(self, names: Collection[str]) -> None:
        """These topics are there."""
        for name in names:
            self._events.resolve(DELETED, name)
            self._events.resolve(FORBIDDEN, name)

    def lacking(self, names: Collection[str]) -> None:
        """Only these have no mirror topic or too small a one; one that was refused may stand by now, or be unwanted."""
        for name in self._refused.keys() - set(names):
            del self._refused[name]
            self._events.resolve(REFUSED, self._mirror(name))

    def _mirror(self, name: str) -> str:
        return self._settings.policy.remote_topic(self._settings.flow.source, name)

    def _new(
        self, wanted: Mapping[str, int], settings: Mapping[str, tuple[ConfigValue, ...] | DrlibError]
    ) -> Iterator[Wanted]:
        for name, found in settings.items():
            if not isinstance(found, DrlibError):
                own = wanted_settings(self._settings, found).own
                yield Wanted(self._mirror(name), wanted[name], self._settings.replication_factor, own)

    @staticmethod
    def _answer(settings: tuple[ConfigValue, ...] | DrlibError, created: bool | DrlibError | None) -> bool:
        for answer in (settings, created):
            if isinstance(answer, DrlibError):
                raise answer
        return bool(created)


def _made_by_another(target: BulkAdmin, mirror: str, wanted: int) -> int:
    """Partitions of a topic that another worker has just made; 0 if the broker that is asked does not hear of it in time.

    As many as are `wanted` where we may not see it: it is there, and its lane tells what is missing.
    """
    deadline = time.monotonic() + HEARD_OF_S
    try:
        while mirror not in (found := target.topics([mirror])):
            if time.monotonic() > deadline:
                return 0  # the next look for topics tries again
            time.sleep(0.1)
    except ClusterRefused as error:
        if error.code != "TOPIC_AUTHORIZATION_FAILED":
            raise
        return wanted
    return found[mirror].partitions


def _refusal(error: ClusterRefused) -> str:
    if error.code in ("INVALID_CONFIG", "POLICY_VIOLATION"):
        return f"{error.why}. Name the setting in config.properties.exclude, or make the target take it."
    return str(error)
