"""Members of groups for tests, of any protocol."""

from __future__ import annotations

import asyncio

from drlib.kafka.admin.connect import blocking
from drlib.kafka.net import group_requests
from drlib.kafka.net.cluster_client import ELECTING, ClusterClient
from drlib.kafka.net.group_requests import MemberIdRequired
from drlib.kafka.protocol.error_codes import BrokerError


def join(servers: str, group: str, protocol_type: str, protocol: str) -> None:
    """Join a group as a member that stays for its session only."""

    async def joining() -> None:
        async with ClusterClient(servers.split(","), client_id=f"{group}-1") as client:
            await client.connect()
            member = ""
            while True:
                connection = await client.connection(await client.coordinator(group, "group"), "join")
                try:
                    joined = await group_requests.join_group(
                        connection,
                        group=group,
                        member_id=member,
                        session_timeout_ms=60_000,
                        rebalance_timeout_ms=60_000,
                        protocol_type=protocol_type,
                        protocols={protocol: b"\0\0\0\0\0\0\xff\xff\xff\xff"},
                    )
                except MemberIdRequired as error:
                    member = error.member_id
                    continue
                except BrokerError as error:  # a coordinator that has just been elected
                    if error.code not in ELECTING:
                        raise
                    await asyncio.sleep(0.1)
                    continue
                await group_requests.sync_group(
                    connection,
                    group=group,
                    generation=joined.generation,
                    member_id=joined.member_id,
                    protocol_type=protocol_type,
                    protocol_name=protocol,
                    assignments={joined.member_id: b""},
                    rebalance_timeout_ms=60_000,
                )
                return

    blocking(joining())
