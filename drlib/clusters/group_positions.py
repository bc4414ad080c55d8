"""Where groups stand: their committed positions, over our own connections.

Rules: librdkafka's admin client is not asked. Where a coordinator moved or is about to, it ends the whole process
(`rd_kafka_handle_OffsetFetch` hands the question to a consumer group that an admin client has not got, as of 2.16), and
coordinators move just when positions matter. Here the coordinator is looked for again until the time is up. All groups
are asked at once, and positions of transactions that are still open are waited for (`require_stable`, KIP-447).
Not for: writing positions, which librdkafka does well (`cluster`, `upkeep`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from drlib.clusters.connect import wire_client
from drlib.clusters.descriptions import CommittedOffset
from drlib.clusters.faults import ClusterRefused, unreachable
from drlib.config.settings import ClusterSettings
from drlib.errors import DrlibError, Unreachable
from drlib.model import TopicPartition
from drlib.wire import requests
from drlib.wire.cluster import ClusterClient
from drlib.wire.codes import BrokerError

Positions = Mapping[TopicPartition, CommittedOffset]

_AGAIN_S: Final = 0.1


def committed(cluster: ClusterSettings, groups: Collection[str], timeout_s: float) -> dict[str, Positions | DrlibError]:
    """The positions of each group, empty where it has none or is not there; or why they cannot be had. Blocks.

    Raises `Unreachable` and `SecurityFault` where the cluster as a whole cannot be asked.
    """
    if not groups:
        return {}
    with ThreadPoolExecutor(1) as thread:  # a notebook's kernel runs a loop of its own in the caller's thread
        return thread.submit(lambda: asyncio.run(_all(cluster, sorted(groups), timeout_s))).result()


async def _all(
    cluster: ClusterSettings, groups: Collection[str], timeout_s: float
) -> dict[str, Positions | DrlibError]:
    client = wire_client(cluster, client_id="drlib-positions", timeout_s=timeout_s)
    try:
        try:
            await client.connect()
        except Unreachable as error:
            raise unreachable(cluster, "reading the positions of groups", error.why.rstrip(".")) from error
        end = time.monotonic() + timeout_s
        answers = await asyncio.gather(*(_one(client, cluster, group, end) for group in groups))
        return dict(zip(groups, answers, strict=True))
    finally:
        await client.close()


async def _one(client: ClusterClient, cluster: ClusterSettings, group: str, end: float) -> Positions | DrlibError:
    doing = f"reading the positions of group {group}"
    while True:
        try:
            left = max(0.1, end - time.monotonic())
            node = await client.coordinator(group, "group", deadline_s=left)
            connection = await client.connection(node, "control")
            found = await requests.offset_fetch(connection, group, require_stable=True)
            # librdkafka's clients commit the byte that ends a string in C along with it
            return {tp: CommittedOffset(offset, metadata.rstrip("\0")) for tp, (offset, metadata) in found.items()}
        except BrokerError as error:
            if not error.retriable:
                return ClusterRefused(
                    f"{doing} on {cluster.alias} was refused",
                    str(error),
                    f"Look at the broker's log at {', '.join(cluster.bootstrap_servers)}, or ask for something it allows.",
                    code=error.name,
                )
            why: DrlibError = error
        except Unreachable as error:
            why = error
        if time.monotonic() > end:
            return unreachable(cluster, doing, str(why).rstrip("."))
        await asyncio.sleep(_AGAIN_S)
