"""Make a `ClusterClient` from settings, with the cluster's security; run coroutines from blocking code.

Rules: references are resolved and key stores opened when a client is made, so a new client sees renewed secrets.
Not for: librdkafka's clients, which use `ClusterSettings.confluent()`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.security.cluster_settings import ClusterSettings


def wire_client(cluster: ClusterSettings, *, client_id: str, timeout_s: float = 10.0) -> ClusterClient:
    """A client that is not connected yet. Raises `UsageError` for invalid security keys."""
    return ClusterClient(
        cluster.bootstrap_servers, security=cluster.connection(), client_id=client_id, timeout_s=timeout_s
    )


Answer = TypeVar("Answer")


def blocking(work: Coroutine[object, object, Answer]) -> Answer:
    """Run `work` to its end in a thread of its own, as a notebook's kernel has an event loop in the caller's thread."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
