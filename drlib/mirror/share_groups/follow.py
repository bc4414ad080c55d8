"""Follow the source's share groups, and keep what they have read in checkpoints on the target.

Rules:
- They are polled: no broker tells of a change. A source whose brokers do not know share groups (before Kafka 4.1), or that has
  none, is asked for its groups every `NONE_S` seconds and nothing else.
- A checkpoint has the start offset, its translation, and in a header which records are complete behind it. It is written where
  that changed, for partitions of this worker's lanes.
- What may not be read is an event with the missing right (`GroupUnreadable`), and the rest is followed. A source that does not
  answer is reported by others.
Not for: consumer groups (`drlib.mirror.sync.source_groups`), reading the checkpoints (`known`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from drlib import clock
from drlib.config.flow_settings import FlowSettings
from drlib.errors import DrlibError, Unreachable
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.share_groups import admin
from drlib.kafka.share_groups.names import STATE_TOPIC
from drlib.kafka.share_groups.state import ShareState
from drlib.kafka.share_groups.state_topic import StateTopic
from drlib.mirror.engine.fetch.partition_stream import PartitionStream
from drlib.mirror.mm2.records import Checkpoint
from drlib.mirror.mm2.writer import Mm2Writer
from drlib.mirror.preflight.checks import not_authorized
from drlib.mirror.preflight.required_acls import Right
from drlib.mirror.share_groups.known import (
    NO_SHARES,
    KnownShares,
    combined,
    encoded,
    log_bounds,
    read_states,
    split,
    without_start,
)
from drlib.mirror.status.worker_status import EventLog
from drlib.mirror.threads import in_daemon
from drlib.model import TopicPartition, TranslationKind

NONE_S: Final = 5.0
POLL_TIMEOUT_S: Final = 5.0
UNREADABLE: Final = "GroupUnreadable"
SILENT: Final = "Check the source's brokers and the link; it is asked again by itself."
_Written = tuple[ShareState, int]  # with its translation


class SharePositions:
    """Of one flow's source."""

    def __init__(
        self,
        settings: FlowSettings,
        cluster: ClusterSettings,
        source: ClusterClient,
        writer: Mm2Writer,
        events: EventLog,
        stream_of: Callable[[TopicPartition], PartitionStream | None],
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._source = source
        self._writer = writer
        self._events = events
        self._stream_of = stream_of
        self._states = StateTopic(cluster)
        self._written: dict[tuple[str, TopicPartition], _Written] = {}  # by target partition
        self._unreadable: set[str] = set()

    async def run(self) -> None:
        interval_s = max(0.2, self._settings.group_positions_poll_ms / 1000)
        while True:
            known = NO_SHARES
            with contextlib.suppress(DrlibError, TimeoutError, OSError):
                known = await self._poll()
            self._emit(known)
            some = bool(known.positions or known.unset or known.incomplete())
            await asyncio.sleep(interval_s if some else max(interval_s, NONE_S))

    def rewrite(self, partition: TopicPartition | None = None) -> None:
        """Write checkpoints again, all of them or those of a source partition that this worker mirrors from now on."""
        if partition is None:
            self._written.clear()
        elif (stream := self._stream_of(partition)) is not None:
            self._written = {key: last for key, last in self._written.items() if key[1] != stream.target}

    def has_written(self, group: str, target: TopicPartition) -> bool:
        """Is the newest checkpoint of a partition of the target that of the share group `group`, written here?"""
        return (group, target) in self._written

    async def _poll(self) -> KnownShares:
        """Raises `Unreachable`, `BrokerError`."""
        groups = [g for g in (await admin.list_by(self._source)).share_groups if self._settings.mirrors_group(g)]
        if not groups:
            self._report({}, None)
            return NO_SHARES
        answers = await admin.describe_by(self._source, self._cluster, groups, POLL_TIMEOUT_S)
        described, refused = split(answers)
        states_refused = await in_daemon(lambda: read_states(self._states, POLL_TIMEOUT_S))
        unset = without_start(described)
        starts, ends = (
            await in_daemon(lambda: log_bounds(self._cluster, described, POLL_TIMEOUT_S))
            if states_refused or unset
            else ({}, {})
        )
        resets = await admin.resets_by(self._source, unset) if unset else {}
        logs = None if states_refused else self._states.logs
        found = combined(described, logs, ends, starts, resets, clock.now_ms())
        known = KnownShares(*found, refused, states_refused)
        self._report(known.incomplete(self._settings.mirrors_topic), states_refused)
        return known

    def _emit(self, known: KnownShares) -> None:
        """Raises `WriterFailed`."""
        for (group, partition), position in known.positions.items():
            stream = self._stream_of(partition)
            if stream is None:
                continue
            state = position.state
            translation = stream.map.forward(state.start)
            if translation.offset is None:
                continue  # it is looked at again with the next poll
            key, now = (group, stream.target), (state, translation.offset)
            if self._written.get(key) == now:
                continue
            behind = translation.records if translation.kind is TranslationKind.BEHIND else 0
            checkpoint = Checkpoint(group, stream.target, state.start - behind, translation.offset)
            self._written[key] = now
            lost = partial(self._written.pop, key, None)  # the next poll writes it again
            self._writer.share_checkpoint(checkpoint, state.start, position.as_of_ms, encoded(state), lost=lost)

    def _report(self, refused: dict[str, DrlibError], states_refused: DrlibError | None) -> None:
        details = unread(refused, states_refused, self._cluster)
        for entity, (detail, remedy) in details.items():
            self._events.open(UNREADABLE, entity, detail, remedy=remedy)
        for entity in self._unreadable - set(details):
            self._events.resolve(UNREADABLE, entity)
        self._unreadable = set(details)


def unread(
    refused: Mapping[str, DrlibError], states_refused: DrlibError | None, cluster: ClusterSettings
) -> dict[str, tuple[str, str]]:
    """Detail and remedy of what could not be read, by entity; the remedy is "" where it is the event's: to grant a right."""
    found = {group: _detail(error, Right("group", group, ("DESCRIBE",)), cluster) for group, error in refused.items()}
    if states_refused is not None:
        needed, remedy = _detail(states_refused, Right("topic", STATE_TOPIC, ("READ",)), cluster)
        found[STATE_TOPIC] = f"which records share groups have acknowledged is not known: {needed}", remedy
    return found


def _detail(error: DrlibError, right: Right, cluster: ClusterSettings) -> tuple[str, str]:
    missing = str(getattr(error, "code", "")).endswith("_AUTHORIZATION_FAILED")
    detail = f"{error.why.rstrip('.')}." + (f" {not_authorized(right, cluster)}" if missing else "")
    return detail, SILENT if isinstance(error, Unreachable) else ""
