"""How long the source keeps what a flow mirrors: the retention settings of its topics, read from beside the data path.

Rules: asked on a thread of its own, once a minute and for every topic that is new. Each topic is answered by itself: one
that may not be described is told (`WatchFailed`) and says nothing of the others. What was known last goes on counting.
Not for: what follows from it (`drlib.mirror.status.catch_up`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial

from drlib.config.flow_settings import FlowSettings
from drlib.errors import DrlibError, Unreachable
from drlib.kafka.admin.bulk_admin import BulkAdmin
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.status.catch_up import Retention, retention_in
from drlib.mirror.status.worker_status import EventLog, pause_s
from drlib.mirror.threads import in_daemon

REFRESH_S = 60.0
ADMIN_TIMEOUT_S = 60.0  # on a saturated link every one of an admin client's questions waits behind the data


class RetentionWatch:
    """Runs until cancelled; `known` is by source topic, `topics` tells which there are."""

    def __init__(
        self, settings: FlowSettings, cluster: ClusterSettings, events: EventLog, topics: Callable[[], frozenset[str]]
    ) -> None:
        self.known: Mapping[str, Retention] = {}
        self._settings = settings
        self._cluster = cluster
        self._events = events
        self._topics = topics

    async def run(self) -> None:
        asked: frozenset[str] = frozenset()
        at = 0.0
        while True:
            began = time.thread_time()
            topics = self._topics()
            cost = time.thread_time() - began
            if topics and (topics - asked or time.monotonic() - at > REFRESH_S):
                asked, at = topics, time.monotonic()
                try:
                    await self._read(topics)
                except Unreachable:
                    asked = frozenset()  # the lanes tell that the source is gone
                except DrlibError as error:
                    self._tell([error])
            await asyncio.sleep(pause_s(self._settings.forecast_interval_ms / 1000, cost))

    async def _read(self, topics: Collection[str]) -> None:
        answers = await in_daemon(partial(self._ask, topics))
        self.known = {**self.known, **{name: a for name, a in answers.items() if isinstance(a, Retention)}}
        refused = [a for a in answers.values() if isinstance(a, DrlibError)]
        for error in refused:
            if isinstance(error, Unreachable):
                raise error
        self._tell(refused)

    def _ask(self, topics: Collection[str]) -> dict[str, Retention | DrlibError]:
        with BulkAdmin(self._cluster, timeout_s=ADMIN_TIMEOUT_S) as cluster:
            return {
                name: found if isinstance(found, DrlibError) else retention_in(found)
                for name, found in cluster.topic_settings(topics).items()
            }

    def _tell(self, refused: Collection[DrlibError]) -> None:
        flow = str(self._settings.flow)
        if not refused:
            self._events.resolve("WatchFailed", flow, by="retention")
            return
        first, *others = refused
        more = f" It is so with {len(others)} other topics too." if others else ""
        self._events.open("WatchFailed", flow, f"{first}{more}", by="retention")
