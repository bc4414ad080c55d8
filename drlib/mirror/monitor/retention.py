"""Read the retention settings of a flow's source topics, beside the data path.

Rules: read on a thread of its own, once a minute and for every new topic. A topic that may not be described is reported
(`WatchFailed`) and does not affect the others; one that does not exist is not, because its lane reports that it was deleted.
The last known settings stay valid.
Not for: forecasts from it (`drlib.mirror.status.forecast`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial

from drlib.config.flow_settings import FlowSettings
from drlib.errors import DrlibError, Unreachable
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.errors import ClusterRefused
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.security.errors import SecurityFault
from drlib.mirror.status.forecast import Retention, retention_in
from drlib.mirror.status.worker_status import EventLog, pause_s
from drlib.mirror.threads import in_daemon

UNKNOWN_TOPIC = "UNKNOWN_TOPIC_OR_PART"  # as librdkafka names it
REFRESH_S = 60.0
ADMIN_TIMEOUT_S = 60.0  # on a saturated link every admin request waits behind the data


class RetentionWatch:
    """`run` reads until cancelled. `known`: retention by source topic; `topics` returns the topics mirrored now."""

    def __init__(
        self, settings: FlowSettings, cluster: ClusterSettings, events: EventLog, topics: Callable[[], frozenset[str]]
    ) -> None:
        self.known: Mapping[str, Retention] = {}
        self._settings = settings
        self._cluster = cluster
        self._events = events
        self._topics = topics

    async def run(self) -> None:
        read_topics: frozenset[str] = frozenset()
        read_at = 0.0
        while True:
            started = time.thread_time()
            topics = self._topics()
            cost = time.thread_time() - started
            if not topics:
                read_topics = topics
                self._report(())  # what was reported was of topics that are not mirrored any more
            elif topics - read_topics or time.monotonic() - read_at > REFRESH_S:
                read_topics, read_at = topics, time.monotonic()
                try:
                    await self._read(topics)
                except (Unreachable, SecurityFault):
                    read_topics = frozenset()  # the lanes report it, and it may answer, or let us in, at any moment
                except DrlibError as error:
                    self._report([error])
            await asyncio.sleep(pause_s(self._settings.forecast_interval_ms / 1000, cost))

    async def _read(self, topics: Collection[str]) -> None:
        answers = await in_daemon(partial(self._read_blocking, topics))
        self.known = {**self.known, **{name: a for name, a in answers.items() if isinstance(a, Retention)}}
        refused = [a for a in answers.values() if isinstance(a, DrlibError)]
        for error in refused:
            if isinstance(error, Unreachable):
                raise error
        self._report([e for e in refused if not isinstance(e, ClusterRefused) or e.code != UNKNOWN_TOPIC])

    def _read_blocking(self, topics: Collection[str]) -> dict[str, Retention | DrlibError]:
        with Cluster(self._cluster, timeout_s=ADMIN_TIMEOUT_S) as cluster:
            return {
                name: config if isinstance(config, DrlibError) else retention_in(config)
                for name, config in cluster.topic_settings(topics).items()
            }

    def _report(self, refused: Collection[DrlibError]) -> None:
        flow = str(self._settings.flow)
        if not refused:
            self._events.resolve("WatchFailed", flow, by="retention")
            return
        first, *others = refused
        more = f" The same applies to {len(others)} other topics." if others else ""
        self._events.open("WatchFailed", flow, f"{first}{more}", by="retention")
