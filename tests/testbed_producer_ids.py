"""Two clusters whose next producer IDs are the same, so that their next producers collide."""

from __future__ import annotations

from collections.abc import Sequence

from fix_engine import wait_for

from drlib.kafka.admin.connect import blocking, wire_client
from drlib.kafka.net import requests
from drlib.kafka.protocol.error_codes import COORDINATOR_LOAD_IN_PROGRESS, BrokerError
from drlib.kafka.security.cluster_settings import ClusterSettings


def same_next_id(clusters: Sequence[ClusterSettings]) -> int:
    """Let all clusters assign the same producer ID next, and return it. Their first brokers assign all IDs."""
    used = {each.alias: next_id(each) for each in clusters}
    for each in clusters:
        while used[each.alias] < max(used.values()):
            used[each.alias] = next_id(each)
    return max(used.values()) + 1


def next_id(cluster: ClusterSettings) -> int:
    """Use a producer ID up."""

    async def ask() -> int:
        async with wire_client(cluster, client_id="test") as client:
            metadata = await client.metadata([])
            connection = await client.connection(min(metadata.brokers))
            return (await requests.init_producer_id(connection, None, 60_000))[0]

    found: list[int] = []

    def answered() -> bool:
        try:
            found.append(blocking(ask()))
        except BrokerError as error:
            if error.code != COORDINATOR_LOAD_IN_PROGRESS:  # the broker asks its controller for the next thousand
                raise
        return bool(found)

    wait_for("a producer ID", answered, 20)
    return found[0]
