"""Who is connected to a cluster as a member of a group, of whatever protocol: with the addresses as brokers see them.

Rules: groups of consumers, of Connect, share groups and those of Kafka Streams count alike. What cannot be asked is raised: a
member that is not seen is never taken for one that has left. So is a list of groups that may be incomplete, as brokers leave
out the groups that a user may not describe.
Not for: who is refused (`rules`), producers, which are no members.
"""

from __future__ import annotations

from typing import Final

from drlib.drill.actions.clients.rules import member_address
from drlib.errors import DrlibError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import blocking, wire_client
from drlib.kafka.admin.errors import ClusterRefused
from drlib.kafka.net import group_requests
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.share_groups.admin import members_by
from drlib.kafka.share_groups.members import REQUESTS
from drlib.runs.journal import Scalar

_ASK_S: Final = 15.0

Row = dict[str, Scalar]


def members(cluster: Cluster) -> list[Row]:
    """A row for each member; of groups that are not of consumers, one for each address. Raises the first group's error, and
    `ClusterRefused` where there may be groups that are not listed."""
    if cluster.lists_every_group() is False:
        alias = cluster.settings.alias
        raise ClusterRefused(
            f"who is a member of a group on {alias} is not known",
            "it lists only groups that this user may describe: there may be others",
            f"Grant Describe on the cluster: drlib doctor FILE --rights --role drill prints the command for {alias}.",
            code="CLUSTER_AUTHORIZATION_FAILED",
        )
    described, of_others = blocking(_of_other_protocols(cluster.settings))
    names = {listing.group for listing in cluster.groups()} - described
    rows: list[Row] = []
    for group, found in cluster.group_descriptions(names).items():
        if isinstance(found, DrlibError):
            raise found
        rows += [_row(group, member.client_id, member.host) for member in found.members]
    return rows + of_others


async def _of_other_protocols(settings: ClusterSettings) -> tuple[set[str], list[Row]]:
    """The groups that confluent-kafka does not describe, and their rows."""
    async with wire_client(settings, client_id="drlib-members", timeout_s=_ASK_S) as client:
        await client.connect()
        newer: dict[str, str] = {}
        described: set[str] = set()
        rows: list[Row] = []
        for node in sorted(client.brokers):
            connection = await client.connection(node)
            others = [
                each
                for each in await group_requests.list_loaded_groups(connection, _ASK_S)
                if each.protocol_type not in group_requests.CONSUMERS
            ]
            described |= {each.group for each in others}
            newer |= {each.group: each.protocol_type for each in others if each.protocol_type in REQUESTS}
            if classic := [each.group for each in others if each.protocol_type not in REQUESTS]:
                for group, workers in (await group_requests.describe_workers(connection, classic)).items():
                    rows += [_row(group, ", ".join(workers.clients), host) for host in workers.hosts]
        for group, found in (await members_by(client, settings, newer, _ASK_S)).items():
            if isinstance(found, DrlibError):
                raise found
            rows += [_row(group, ", ".join(found.clients), host) for host in found.hosts]
        return described, rows


def _row(group: str, clients: str, host: str) -> Row:
    return {"group": group, "client": clients, "address": member_address(host)}
