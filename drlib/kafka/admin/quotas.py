"""Read, compare and set the quotas of producers, by user and client ID. Blocks.

Rules: only `producer_byte_rate` of users and client IDs; quotas of IP addresses and of consumers are left out.
Source: `DescribeClientQuotasRequest.json`, `AlterClientQuotasRequest.json` of Kafka.
Not for: deciding which quotas a cluster should have.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

from kafka.protocol.admin import AlterClientQuotasRequest, DescribeClientQuotasRequest

from drlib.kafka.admin.connect import blocking, wire_client
from drlib.kafka.admin.descriptions import Quota
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol.error_codes import raise_for
from drlib.kafka.security.cluster_settings import ClusterSettings

Answer = TypeVar("Answer")
Entity = tuple[tuple[str, str], ...]  # as `Quota.entity`

RATE: Final = "producer_byte_rate"
STANDSTILL: Final = 1.0  # bytes per second, the least that brokers take: nothing but a standstill is meant by it
OWNERS: Final = frozenset({"user", "client-id"})


def producer_quotas(cluster: ClusterSettings) -> tuple[Quota, ...]:
    """Those of all users and client IDs, in order. Raises `BrokerError`, `Unreachable`, `SecurityFault`."""
    return _asked(cluster, _read)


def lacking(source: Sequence[Quota], target: Sequence[Quota]) -> tuple[tuple[Quota, float | None], ...]:
    """Quotas of `source` that `target` lacks (None) or has lower, with its limit. Pure."""
    there = {quota.entity: quota.bytes_per_s for quota in target}
    return tuple(
        (quota, there.get(quota.entity))
        for quota in source
        if quota.entity not in there or there[quota.entity] < quota.bytes_per_s
    )


def missing_quotas(source: ClusterSettings, target: ClusterSettings) -> tuple[tuple[Quota, float | None], ...]:
    """`lacking`, of the quotas that both clusters have now. Raises as `producer_quotas`."""
    return lacking(producer_quotas(source), producer_quotas(target))


def set_producer_quotas(cluster: ClusterSettings, limits: Mapping[Entity, float | None]) -> None:
    """Limit each entity to as many bytes per second; None removes its limit. Of several the first refused one is raised, and
    the others are set. Raises as `producer_quotas`."""
    if limits:
        _asked(cluster, lambda connection: _set(connection, limits))


async def _set(connection: Connection, limits: Mapping[Entity, float | None]) -> None:
    entry = AlterClientQuotasRequest.EntryData
    answer = await connection.ask(
        AlterClientQuotasRequest,
        entries=[
            entry(
                entity=[entry.EntityData(entity_type=kind, entity_name=name or None) for kind, name in entity],
                ops=[entry.OpData(key=RATE, value=0.0 if limit is None else limit, remove=limit is None)],
            )
            for entity, limit in limits.items()
        ],
        validate_only=False,
    )
    for each in answer.entries:
        raise_for(each.error_code, "setting quotas", each.error_message)


async def _read(connection: Connection) -> tuple[Quota, ...]:
    answer = await connection.ask(DescribeClientQuotasRequest, components=[], strict=False)
    raise_for(answer.error_code, "describing quotas", answer.error_message)
    quotas = [
        Quota(tuple(sorted((part.entity_type, part.entity_name or "") for part in entry.entity)), value.value)
        for entry in answer.entries or ()
        for value in entry.values
        if value.key == RATE and {part.entity_type for part in entry.entity} <= OWNERS
    ]
    return tuple(sorted(quotas))


def _asked(cluster: ClusterSettings, question: Callable[[Connection], Awaitable[Answer]]) -> Answer:
    async def ask() -> Answer:
        async with wire_client(cluster, client_id="drlib-quotas") as client:
            return await question(await client.any_broker())

    return blocking(ask())
