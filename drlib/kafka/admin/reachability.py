"""Which clusters answer: each is asked once, all at the same time, with a short deadline.

Rules: a cluster that answers is described by its metadata; one that does not, by why.
Not for: TLS and logins (`drlib.kafka.admin.login_check`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from drlib.errors import Unreachable
from drlib.kafka.admin.connect import blocking, wire_client
from drlib.kafka.net.cluster_client import ClusterMetadata
from drlib.kafka.security.cluster_settings import ClusterSettings

ANSWER_S = 5.0  # the deadline of this check; the work itself has longer ones


def who_answers(clusters: Sequence[ClusterSettings]) -> Mapping[str, ClusterMetadata | Unreachable]:
    """The metadata of each cluster, by alias, or why it does not answer within `ANSWER_S`. Blocks."""
    return blocking(_ask(clusters))


async def _ask(clusters: Sequence[ClusterSettings]) -> Mapping[str, ClusterMetadata | Unreachable]:
    async def one(cluster: ClusterSettings) -> ClusterMetadata | Unreachable:
        client = wire_client(cluster, client_id="drlib-translate", timeout_s=ANSWER_S)
        try:
            return await client.metadata(None)
        except Unreachable as error:
            return error
        finally:
            await client.close()

    answered = await asyncio.gather(*map(one, clusters))
    return {cluster.alias: answer for cluster, answer in zip(clusters, answered, strict=True)}


def answers(clusters: Sequence[ClusterSettings]) -> Mapping[str, ClusterMetadata]:
    """The metadata of each cluster, by alias. Raises `Unreachable` naming every cluster that does not answer."""
    answered = blocking(_ask(clusters))
    refuse_silence({alias: answer for alias, answer in answered.items() if isinstance(answer, Unreachable)})
    return {alias: answer for alias, answer in answered.items() if isinstance(answer, ClusterMetadata)}


def refuse_silence(silent: Mapping[str, Unreachable]) -> None:
    """Raises one `Unreachable` that names every cluster of `silent`, by alias; nothing when it is empty."""
    if not silent:
        return
    aliases = " and ".join(sorted(silent))
    raise Unreachable(
        f"{aliases} cannot be reached",
        "; ".join(dict.fromkeys(error.why for _, error in sorted(silent.items()))),
        f"Start {aliases}, or correct their addresses (bootstrap.servers).",
    )
