"""The offset maps of a flow for those who are no worker: read once, blocking, from the journal and the mirror's logs.

Rules: a flow that never ran has no journal and no maps, which is not an error; a journal that cannot be read is one. Where a
leader moves, or a topic has none yet since it was just made, it is asked again for a while.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from drlib.config.settings import MirrorSettings
from drlib.kafka.admin.connect import blocking, wire_client
from drlib.kafka.protocol.error_codes import UNKNOWN_TOPIC_OR_PARTITION, BrokerError
from drlib.mirror.offsets.map.load_maps import Maps, read_maps
from drlib.model import Flow

_LED_S: Final = 5.0  # until a topic that was just made is led
_LOOK_S: Final = 0.1


def read_flow_maps(settings: MirrorSettings, flow: Flow) -> Maps:
    """The maps as they are now. Raises `UsageError` for clusters the file does not have, `Unreachable`, `BrokerError`."""
    return blocking(_read(settings, flow))


def worker_group(flow: Flow) -> str:
    """The consumer group, on the target, whose members are the workers of `flow`."""
    return f"drlib-{flow.source}-{flow.target}"


async def _read(settings: MirrorSettings, flow: Flow) -> Maps:
    until = time.monotonic() + _LED_S
    while True:
        try:
            return await _read_once(settings, flow)
        except BrokerError as error:
            if error.code == UNKNOWN_TOPIC_OR_PARTITION:
                return Maps()
            if not error.retriable or time.monotonic() > until:
                raise
        await asyncio.sleep(_LOOK_S)


async def _read_once(settings: MirrorSettings, flow: Flow) -> Maps:
    policy = settings.flow(flow.source, flow.target).policy
    client = wire_client(settings.clusters[flow.target], client_id="drlib-maps")
    try:
        await client.connect()
        return await read_maps(client, policy.journal_topic(flow.source))
    finally:
        await client.close()
