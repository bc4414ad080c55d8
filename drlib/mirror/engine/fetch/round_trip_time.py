"""The round trip to a broker, measured beside the data, because answers in a pipeline wait for each other.

Rules: a connection of its own, one small question every two seconds, and none while nothing is being moved. A lost
connection ends the measuring only: whoever moves data finds out by itself, and asks here whether a broker is back.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

from kafka.protocol.metadata import ApiVersionsRequest

from drlib.errors import DrlibError
from drlib.kafka.net import api_versions as versions
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.mirror.engine.fetch.flow_control import InFlightWindow

INTERVAL_S = 2.0


async def heard(client: ClusterClient, node: int) -> None:
    """Return when `node` has answered. Raises `Unreachable` or `SecurityFault`."""
    connection = await client.connection(node, "ping")
    await connection.request(ApiVersionsRequest[versions.API_VERSIONS](), timeout_s=client.timeout_s)


async def measure(client: ClusterClient, node: int, window: InFlightWindow, busy: Callable[[], bool]) -> None:
    """Tell `window` the round trip to `node` while `busy`, until cancelled or the connection is lost."""
    with contextlib.suppress(DrlibError):
        connection = await client.connection(node, "ping")
        while True:
            if busy():
                began = time.monotonic()
                await connection.request(ApiVersionsRequest[versions.API_VERSIONS]())
                window.measured(time.monotonic() - began)
            await asyncio.sleep(INTERVAL_S)
