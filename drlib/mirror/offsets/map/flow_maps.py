"""Reads the offset maps of a flow once, blocking, from the journal and the mirror's logs: for commands, not for workers.

Rules: a flow that never ran has no journal and no maps, which is not an error; a journal that cannot be read is one. A
leader that moves, or that a new topic does not have yet, is retried for a few seconds.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from drlib.config.both_ways.shared_topics import refuse_ring, refuse_shared_topics
from drlib.config.settings import MirrorSettings
from drlib.kafka.admin.connect import blocking, wire_client
from drlib.kafka.protocol.error_codes import UNKNOWN_TOPIC_OR_PARTITION, BrokerError
from drlib.mirror.offsets.map.load_maps import Maps, read_maps
from drlib.model import Flow

OWN_GROUPS: Final = "drlib-"  # prefix of the groups of workers and of readers that never join one
_RETRY_S: Final = 5.0  # for a topic that was just created to get its leaders
_POLL_S: Final = 0.1


def read_flow_maps(settings: MirrorSettings, flow: Flow, *, shared: bool = False, partly: bool = False) -> Maps:
    """The maps now. Raises `UsageError` for clusters that the file does not have, `Unreachable`, `BrokerError`.

    Topics that are copied in both directions are refused, unless the caller knows them (`shared`): of these one map alone
    says nothing of the other cluster's records. `partly`: as `read_maps` has it, once a leader was waited for.
    """
    (refuse_ring if shared else refuse_shared_topics)(settings, flow, "positions cannot be translated")
    return blocking(_read(settings, flow, partly))


def worker_group(flow: Flow) -> str:
    """The consumer group, on the target, whose members are the workers of `flow`."""
    return f"{OWN_GROUPS}{flow.source}-{flow.target}"


async def _read(settings: MirrorSettings, flow: Flow, partly: bool) -> Maps:
    until = time.monotonic() + _RETRY_S
    while True:
        last = time.monotonic() > until
        try:
            return await _read_once(settings, flow, partly=partly and last)
        except BrokerError as error:
            if error.code == UNKNOWN_TOPIC_OR_PARTITION:
                return Maps()
            if not error.retriable or last:
                raise
        await asyncio.sleep(_POLL_S)


async def _read_once(settings: MirrorSettings, flow: Flow, *, partly: bool) -> Maps:
    policy = settings.flow(flow.source, flow.target).policy
    async with wire_client(settings.clusters[flow.target], client_id="drlib-maps") as client:
        await client.connect()
        return await read_maps(client, policy.journal_topic(flow.source), partly=partly)
