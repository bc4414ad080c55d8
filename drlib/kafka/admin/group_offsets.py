"""Where groups stand: their committed positions, read and written over our own connections.

Rules: librdkafka's admin client is not asked. Where a coordinator moved or is about to, it ends the whole process
(`rd_kafka_handle_OffsetFetch` hands the question to a consumer group that an admin client has not got, as of 2.16), and
coordinators move just when positions matter; and what it writes has the byte that ends a string in C behind its metadata.
Here the coordinator is looked for again until the time is up. All groups are asked at once, and positions of
transactions that are still open are waited for (`require_stable`, KIP-447). A commit is sent again only where the answer
says that nothing was written, and the other codes of a coordinator leave that open (`CoordinatorRuntime` fails what waits
for its replicas with NOT_COORDINATOR): whoever commits meanwhile must not be overtaken by our second try.
Not for: deciding what may be written (`drlib.mirror.sync.rules.group_offsets`), who is in a group (`cluster`, `upkeep`).
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Final

from drlib.errors import DrlibError, Unreachable
from drlib.kafka.admin.connect import blocking, wire_client
from drlib.kafka.admin.descriptions import CommittedOffset
from drlib.kafka.admin.errors import ClusterRefused, unreachable
from drlib.kafka.net import group_requests
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol.error_codes import COORDINATOR_LOAD_IN_PROGRESS, BrokerError
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import TopicPartition

Positions = Mapping[TopicPartition, CommittedOffset]

_AGAIN_S: Final = 0.1
_AT_ONCE: Final = 64  # groups
_CONNECTIONS: Final = 4  # to each coordinator


def committed(cluster: ClusterSettings, groups: Collection[str], timeout_s: float) -> dict[str, Positions | DrlibError]:
    """The positions of each group, empty where it has none or is not there; or why they cannot be had. Blocks.

    Raises `Unreachable` and `SecurityFault` where the cluster as a whole cannot be asked.
    """
    return blocking(_all(cluster, sorted(groups), timeout_s)) if groups else {}


def commit(cluster: ClusterSettings, group: str, positions: Positions, timeout_s: float) -> None:
    """Move a group without members to `positions`, in one request. Blocks.

    Raises `ClusterRefused` with the broker's code (UNKNOWN_MEMBER_ID where the group has members), `Unreachable` where it
    is not known whether it was moved, and `SecurityFault`.
    """
    if positions:
        blocking(_write_one(cluster, group, positions, timeout_s))


def commit_all(
    cluster: ClusterSettings, wanted: Mapping[str, Positions], timeout_s: float
) -> dict[str, DrlibError | None]:
    """Move many groups without members, each in one request, many groups at a time. Blocks.

    By group: None where it was moved, else what `commit` would have raised. Raises `Unreachable` and `SecurityFault` where
    the cluster as a whole cannot be asked.
    """
    return blocking(_write_all(cluster, {g: p for g, p in wanted.items() if p}, timeout_s)) if wanted else {}


def take_away(cluster: ClusterSettings, group: str, partitions: Collection[TopicPartition], timeout_s: float) -> None:
    """Leave a group without members no position in `partitions`; its others stay (KIP-496). Blocks.

    Raises `ClusterRefused` with the broker's code (NON_EMPTY_GROUP where the group has members), `Unreachable`.
    """
    if partitions:
        blocking(_take_away(cluster, group, partitions, timeout_s))


@asynccontextmanager
async def _connected(cluster: ClusterSettings, doing: str, timeout_s: float) -> AsyncIterator[ClusterClient]:
    client = wire_client(cluster, client_id="drlib-positions", timeout_s=timeout_s)
    try:
        try:
            await client.connect()
        except Unreachable as error:
            raise unreachable(cluster, doing, error.why.rstrip(".")) from error
        yield client
    finally:
        await client.close()


async def _all(
    cluster: ClusterSettings, groups: Collection[str], timeout_s: float
) -> dict[str, Positions | DrlibError]:
    async with _connected(cluster, "reading the positions of groups", timeout_s) as client:
        turn = asyncio.Semaphore(_AT_ONCE)
        answers = await asyncio.gather(*(_one(client, cluster, group, timeout_s, turn) for group in groups))
        return dict(zip(groups, answers, strict=True))


async def _write_all(
    cluster: ClusterSettings, wanted: Mapping[str, Positions], timeout_s: float
) -> dict[str, DrlibError | None]:
    async with _connected(cluster, f"moving the positions of {len(wanted)} groups", timeout_s) as client:
        turn = asyncio.Semaphore(_AT_ONCE)

        async def one(group: str) -> DrlibError | None:
            async with turn:
                try:
                    await _write(client, cluster, group, wanted[group], timeout_s)
                except DrlibError as error:
                    return error
                return None

        answers = await asyncio.gather(*map(one, wanted))
        return dict(zip(wanted, answers, strict=True))


async def _coordinator(client: ClusterClient, group: str, end: float) -> Connection:
    """A broker answers the requests of one connection one by one, so groups are spread over a few."""
    node = await client.coordinator(group, "group", deadline_s=max(0.1, end - time.monotonic()))
    return await client.connection(node, f"positions-{zlib.crc32(group.encode()) % _CONNECTIONS}")


async def _one(
    client: ClusterClient, cluster: ClusterSettings, group: str, timeout_s: float, turn: asyncio.Semaphore
) -> Positions | DrlibError:
    async with turn:
        return await _read(client, cluster, group, time.monotonic() + timeout_s)


async def _read(client: ClusterClient, cluster: ClusterSettings, group: str, end: float) -> Positions | DrlibError:
    doing = f"reading the positions of group {group}"
    while True:
        try:
            connection = await _coordinator(client, group, end)
            found = await group_requests.offset_fetch(connection, group, require_stable=True)
            return {tp: CommittedOffset(offset, _text(metadata)) for tp, (offset, metadata) in found.items()}
        except BrokerError as error:
            if not error.retriable:
                return _refused(cluster, doing, error)
            why: DrlibError = error
        except Unreachable as error:
            why = error
        if time.monotonic() > end:
            return unreachable(cluster, doing, str(why).rstrip("."))
        await asyncio.sleep(_AGAIN_S)


async def _write_one(cluster: ClusterSettings, group: str, positions: Positions, timeout_s: float) -> None:
    async with _connected(cluster, f"moving the positions of group {group}", timeout_s) as client:
        await _write(client, cluster, group, positions, timeout_s)


async def _write(
    client: ClusterClient, cluster: ClusterSettings, group: str, positions: Positions, timeout_s: float
) -> None:
    doing = f"moving the positions of group {group}"
    wanted = {tp: (position.offset, _text(position.metadata)) for tp, position in positions.items()}
    end = time.monotonic() + timeout_s
    while True:
        sent = False
        try:
            connection = await _coordinator(client, group, end)
            await group_requests.offset_fetch(
                connection, group, only=next(iter(wanted))
            )  # it is loaded, and is the one
            sent = True
            return await group_requests.offset_commit(connection, group, wanted)
        except BrokerError as error:
            if not error.retriable:
                raise _refused(cluster, doing, error) from error
            again, why = not sent or error.code == COORDINATOR_LOAD_IN_PROGRESS, error.why
        except Unreachable as error:
            again, why = not sent, str(error)
        if not again or time.monotonic() > end:
            raise unreachable(cluster, doing, why.rstrip("."))
        await asyncio.sleep(_AGAIN_S)


async def _take_away(
    cluster: ClusterSettings, group: str, partitions: Collection[TopicPartition], timeout_s: float
) -> None:
    doing = f"taking positions of group {group} away"
    async with _connected(cluster, doing, timeout_s) as client:
        end = time.monotonic() + timeout_s
        while True:
            try:
                return await group_requests.offset_delete(await _coordinator(client, group, end), group, partitions)
            except BrokerError as error:  # what is away already may be taken away again
                if not error.retriable:
                    raise _refused(cluster, doing, error) from error
                if time.monotonic() > end:
                    raise unreachable(cluster, doing, error.why.rstrip(".")) from error
            await asyncio.sleep(_AGAIN_S)


def _text(metadata: str) -> str:
    """Without the byte that ends a string in C, which librdkafka's clients commit along with it."""
    return metadata.rstrip("\0")


def _refused(cluster: ClusterSettings, doing: str, error: BrokerError) -> ClusterRefused:
    return ClusterRefused(
        f"{doing} on {cluster.alias} was refused",
        str(error),
        f"Look at the broker's log at {', '.join(cluster.bootstrap_servers)}, or ask for something it allows.",
        code=error.name,
    )
