"""Remove members from a consumer group, as Kafka's own admin client does (`removeMembersFromConsumerGroup`, KIP-571).

Rules: a member learns of it by its next heartbeat, and may join again. A member that has left meanwhile is no error.
Not for: a consumer that leaves its own group.
"""

from collections.abc import Sequence

from drlib.kafka.admin.connect import blocking, wire_client
from drlib.kafka.net import group_requests
from drlib.kafka.protocol.error_codes import UNKNOWN_MEMBER_ID, BrokerError
from drlib.kafka.security.cluster_settings import ClusterSettings


def remove_members(cluster: ClusterSettings, group: str, member_ids: Sequence[str], *, timeout_s: float = 5.0) -> None:
    """Remove `member_ids` from the classic group `group`. Raises `Unreachable` or `BrokerError`."""

    async def remove() -> None:
        async with wire_client(cluster, client_id="drlib-group-members", timeout_s=timeout_s) as client:
            node = await client.coordinator(group, "group", deadline_s=timeout_s)
            connection = await client.connection(node, "group")
            for member_id in member_ids:
                try:
                    await group_requests.leave_group(connection, group=group, member_id=member_id)
                except BrokerError as error:
                    if error.code != UNKNOWN_MEMBER_ID:
                        raise

    blocking(remove())
