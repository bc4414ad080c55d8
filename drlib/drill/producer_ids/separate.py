"""Give a cluster's next producers IDs that another cluster has not given out, so that redirected producers meet no other one.

Each cluster gives producer IDs from 0 upwards, a block of a thousand to each broker; nothing sets where it continues. An ID is
used up by an InitProducerId request without a transactional ID, which is an idempotent producer that writes nothing.

Rules:
- It can be repeated: what was used up before stays used up.
- Some requests at a time for each broker, as its own producers ask for IDs, too: a broker that asks the controller for its next
  block refuses them meanwhile. A broker that gives no ID for `SILENT_S` ends it.
Rights: Write on any topic, or IdempotentWrite on the cluster (KIP-679).
Source: Kafka's RPCProducerIdManager (blocks of `ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE`), seen on 4.3.1: docs/clients.md.
Not for: how far (`distance`), and which producers collide now (`rules`).
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

from drlib.drill.producer_ids.distance import NextIds
from drlib.errors import Unreachable
from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.protocol.error_codes import COORDINATOR_LOAD_IN_PROGRESS, BrokerError

SILENT_S: Final = 30.0
_AT_ONCE: Final = 100  # requests of one connection
_CONNECTIONS: Final = 4  # to each broker
_AGAIN_S: Final = 0.02  # while a broker asks its controller for a block
_TIMEOUT_MS: Final = 60_000


async def read_next_ids(client: ClusterClient, alias: str) -> NextIds:
    """Use one ID up at each broker that answers. Raises `BrokerError`, `Unreachable`."""
    brokers = sorted((await client.connect()).brokers)
    found = await asyncio.gather(*(_next_id(client, alias, node) for node in brokers))
    return NextIds(alias, dict(zip(brokers, found, strict=True)))


async def use_up(
    client: ClusterClient, known: NextIds, until: int, show: Callable[[Mapping[int, int]], None]
) -> NextIds:
    """Use producer IDs up until each broker that is `known` has given out `until`; where they are then. `show` gets the newest
    of each broker, often.

    Raises `BrokerError`, and `Unreachable` for a broker that does not answer, or gives no ID for `SILENT_S`.
    """
    alias, newest = known.alias, dict(known.by_broker)
    working = [
        asyncio.create_task(_use_up(client, alias, node, number, until, newest, show))
        for node in newest
        for number in range(_CONNECTIONS)
    ]
    try:
        await asyncio.gather(*working)
    finally:
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)
    return NextIds(alias, newest)


async def _use_up(
    client: ClusterClient,
    alias: str,
    node: int,
    number: int,
    until: int,
    newest: dict[int, int],
    show: Callable[[Mapping[int, int]], None],
) -> None:
    connection = await client.connection(node, f"ids-{number}")
    answered = time.monotonic()
    while newest[node] < until:
        asked = (requests.init_producer_id(connection, None, _TIMEOUT_MS) for _ in range(_AT_ONCE))
        answers = await asyncio.gather(*asked, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                if not isinstance(answer, BrokerError) or answer.code != COORDINATOR_LOAD_IN_PROGRESS:
                    raise answer
            else:
                newest[node] = max(newest[node], answer[0])
                answered = time.monotonic()
        show(newest)
        if isinstance(answers[-1], BaseException):
            _refuse_silence(alias, node, answered)
            await asyncio.sleep(_AGAIN_S)


async def _next_id(client: ClusterClient, alias: str, node: int) -> int:
    connection = await client.connection(node, "ids-0")
    began = time.monotonic()
    while True:
        try:
            return (await requests.init_producer_id(connection, None, _TIMEOUT_MS))[0]
        except BrokerError as error:
            if error.code != COORDINATOR_LOAD_IN_PROGRESS:
                raise
        _refuse_silence(alias, node, began)
        await asyncio.sleep(_AGAIN_S)


def _refuse_silence(alias: str, node: int, since: float) -> None:
    if time.monotonic() - since > SILENT_S:
        raise Unreachable(
            f"broker {node} of {alias} gives no producer ID",
            f"it has waited for the controller's next thousand for {SILENT_S:g} s",
            "See whether the controllers have a leader: kafka-metadata-quorum.sh describe --status. Then do it again.",
        )
