"""Our own connections to a cluster, always with its security: the one place that makes a `ClusterClient` from settings.

Rules: references are looked up and stores opened here, now, so a client made later sees what was renewed meanwhile.
Not for: librdkafka's clients, which take `ClusterSettings.confluent()`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.security.cluster_settings import ClusterSettings


def wire_client(cluster: ClusterSettings, *, client_id: str, timeout_s: float = 10.0) -> ClusterClient:
    """A client that is not connected yet. Raises `UsageError` for security keys that cannot be used."""
    return ClusterClient(
        cluster.bootstrap_servers, security=cluster.connection(), client_id=client_id, timeout_s=timeout_s
    )


Answer = TypeVar("Answer")


def blocking(work: Coroutine[object, object, Answer]) -> Answer:
    """What `work` returns or raises, run in a thread: a notebook's kernel has an event loop in the caller's thread."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
