"""Which clusters answer, each asked once with a short deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from drlib.errors import Unreachable
from drlib.kafka.admin.connect import blocking, wire_client
from drlib.kafka.net.cluster_client import ClusterMetadata
from drlib.kafka.security.cluster_settings import ClusterSettings

ANSWER_S = 5.0  # what a cluster has to answer the first question; the work itself has longer deadlines


def who_answers(clusters: Sequence[ClusterSettings]) -> Mapping[str, ClusterMetadata | Unreachable]:
    """Who each cluster is and what topics it has, by alias, or why it does not answer within `ANSWER_S`. Blocks."""
    return blocking(_ask(clusters))


async def _ask(clusters: Sequence[ClusterSettings]) -> Mapping[str, ClusterMetadata | Unreachable]:
    """What each says of all its topics, all asked at once: a slow client would ask them one after another."""

    async def one(cluster: ClusterSettings) -> ClusterMetadata | Unreachable:
        client = wire_client(cluster, client_id="drlib-translate", timeout_s=ANSWER_S)
        try:
            return await client.metadata(None)
        except Unreachable as error:
            return error
        finally:
            await client.close()

    found = await asyncio.gather(*map(one, clusters))
    return {cluster.alias: answer for cluster, answer in zip(clusters, found, strict=True)}


def answers(clusters: Sequence[ClusterSettings]) -> Mapping[str, ClusterMetadata]:
    """Who each cluster is and what topics it has, by alias. Raises `Unreachable` naming every silent one."""
    found = blocking(_ask(clusters))
    _refuse_silence({alias: answer for alias, answer in found.items() if isinstance(answer, Unreachable)})
    return {alias: answer for alias, answer in found.items() if isinstance(answer, ClusterMetadata)}


def _refuse_silence(silent: Mapping[str, Unreachable]) -> None:
    if not silent:
        return
    aliases = " and ".join(sorted(silent))
    raise Unreachable(
        f"{aliases} cannot be reached",
        "; ".join(dict.fromkeys(error.why for _, error in sorted(silent.items()))),
        f"Start {aliases}, or correct their addresses (bootstrap.servers).",
    )
