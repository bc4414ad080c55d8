"""Writes the heartbeats of a flow that is not enabled: MirrorMaker 2 writes those of every pair of clusters in the file.

Rules: `B->A` writes to `heartbeats` on A, which `A->B` mirrors as `A.heartbeats`, so that `RemoteClusterUtils` and monitors see
A->B working where only A->B is enabled. One worker writes, the one for which `owned` is true. A cluster that does not
answer, and settings that cannot be used, are reported by the flows that mirror it; one that refuses the topic is an event, and
records are mirrored.
Source: `MirrorMakerConfig.clusterPairs`, `MirrorHeartbeatConnector`.
Not for: the heartbeats of enabled flows, which their own `Mm2Writer` writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from drlib.config.flow_settings import FlowSettings
from drlib.errors import DrlibError, Unreachable, UsageError
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.security.errors import SecurityFault
from drlib.mirror.mm2.writer import Mm2Writer
from drlib.mirror.status.worker_status import EventLog
from drlib.mirror.sync.internal_topics import create_missing, heartbeats_topic
from drlib.mirror.threads import in_daemon

RETRY_S: Final = 10.0
REFUSED: Final = "Mm2RecordRefused"


class PairHeartbeats:
    """The heartbeats of one pair. `settings`: the flow that is not enabled; `target`: the cluster they are written to."""

    def __init__(
        self, settings: FlowSettings, target: ClusterSettings, events: EventLog, owned: Callable[[], bool]
    ) -> None:
        self._settings = settings
        self._target = target
        self._events = events
        self._owned = owned

    async def run(self) -> None:
        """Write until cancelled. Raises `WriterFailed`."""
        # No offset syncs are written, so there is no producer on the other cluster.
        settings = replace(self._settings, offset_syncs_location="target")
        writer = Mm2Writer(settings, self._target, self._target, self._events)
        try:
            while True:
                if await self.create_topic():
                    await self._write(writer)
                await asyncio.sleep(RETRY_S)
        finally:
            await asyncio.to_thread(writer.close, 1.0)

    async def _write(self, writer: Mm2Writer) -> None:
        """Write until a record fails: the topic may have been deleted."""
        failures = writer.failures
        while writer.failures == failures:
            if self._owned():
                writer.heartbeat()
            writer.poll()
            await asyncio.sleep(self._settings.emit_heartbeats_s)

    async def create_topic(self) -> bool:
        """Create the topic if it does not exist; False where that failed, with an event where it was refused."""
        topic = heartbeats_topic(self._settings)
        timeout_s = self._settings.admin_timeout_ms / 1000
        try:
            await in_daemon(partial(create_missing, self._target, [topic], timeout_s))
        except (Unreachable, SecurityFault, UsageError):
            return False
        except DrlibError as error:
            flow = self._settings.flow
            remedy = f"Grant Create and Write on {topic.name}, or set {flow}.emit.heartbeats.enabled = false."
            detail = f"the heartbeats of {flow} cannot be written to {flow.target}: {error}"
            self._events.open(REFUSED, topic.name, detail, remedy=remedy, by="creation")
            return False
        self._events.resolve(REFUSED, topic.name, by="creation")
        return True
