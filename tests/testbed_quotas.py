"""Quotas of a cluster's users and clients, as its operator sets them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from kafka.protocol.admin import AlterClientQuotasRequest

from drlib.kafka.admin.connect import wire_client
from drlib.kafka.security.cluster_settings import ClusterSettings


async def set_quotas(
    cluster: ClusterSettings,
    quotas: Mapping[str, float],
    *,
    of: Literal["user", "client-id"],
    name: str | None = None,
    remove: bool = False,
) -> None:
    """Set or `remove` the `quotas` of one user or client ID; without a `name` of all that have none of their own."""
    entry = AlterClientQuotasRequest.EntryData
    wanted = entry(
        entity=[entry.EntityData(entity_type=of, entity_name=name)],
        ops=[entry.OpData(key=quota, value=value, remove=remove) for quota, value in quotas.items()],
    )
    async with wire_client(cluster, client_id="quotas", timeout_s=30) as client:
        metadata = await client.metadata([])
        connection = await client.connection(metadata.controller_id)
        answer = await connection.request(AlterClientQuotasRequest[1](entries=[wanted], validate_only=False))
        assert not any(each.error_code for each in answer.entries), answer
