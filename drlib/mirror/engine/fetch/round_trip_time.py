"""The round-trip time to a broker, measured on a connection of its own: pipelined responses wait for each other.

Rules: one ApiVersions request every two seconds, none while no data moves. A lost connection is opened again: the data
connections notice the loss of theirs themselves, and `wait_for_response` finds out whether a broker answers again.
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


async def wait_for_response(client: ClusterClient, node: int) -> None:
    """Return when broker `node` has answered a request. Raises `Unreachable` or `SecurityFault`."""
    connection = await client.connection(node, "ping")
    await connection.request(ApiVersionsRequest[versions.API_VERSIONS](), timeout_s=client.timeout_s)


async def measure(client: ClusterClient, node: int, window: InFlightWindow, busy: Callable[[], bool]) -> None:
    """Report the round-trip time to `node` to `window` while `busy()`, until cancelled."""
    while True:
        with contextlib.suppress(DrlibError):
            if busy():
                connection = await client.connection(node, "ping")
                began = time.monotonic()
                await connection.request(ApiVersionsRequest[versions.API_VERSIONS]())
                window.measured(time.monotonic() - began)
        await asyncio.sleep(INTERVAL_S)
