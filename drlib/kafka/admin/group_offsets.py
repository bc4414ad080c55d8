"""Read, commit and delete the committed offsets of groups, over drlib's own connections.

Rules:
- librdkafka's admin client is not used. Where a coordinator moves, it aborts the whole process
  (`rd_kafka_handle_OffsetFetch` passes the request to a consumer group that an admin client does not have, as of 2.16), and it
  commits metadata with a trailing NUL.
- The coordinator is looked up again until the deadline. Many groups are read at once. Offsets of open transactions are waited
  for (`require_stable`, KIP-447).
- A commit is sent again only where the answer proves that nothing was written. Other codes of a coordinator leave that open
  (`CoordinatorRuntime` fails what waits for its replicas with NOT_COORDINATOR), and a second try could overwrite a commit that
  another client made meanwhile.
Not for: deciding what to commit (`drlib.mirror.sync.rules.group_offsets`), members of groups (`cluster`).
"""

import asyncio
import time
import zlib
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Final

from drlib.errors import DrlibError, Unreachable
from drlib.kafka.admin.connect import blocking, wire_client
from drlib.kafka.admin.descriptions import CommittedOffset
from drlib.kafka.admin.errors import refused, unreachable
from drlib.kafka.net import group_requests
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol.error_codes import COORDINATOR_LOAD_IN_PROGRESS, BrokerError
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import TopicPartition

Positions = Mapping[TopicPartition, CommittedOffset]

_RETRY_S: Final = 0.1
_AT_ONCE: Final = 64  # groups
ELECTION_S: Final = 1.5  # for a coordinator, where brokers are known not to answer
_CONNECTIONS: Final = 4  # to each coordinator


def committed(
    cluster: ClusterSettings, groups: Collection[str], timeout_s: float, silent: Collection[int] = ()
) -> dict[str, Positions | DrlibError]:
    """The committed offsets of each group, empty where it has none or does not exist; or why they cannot be read. Blocks.

    `silent`: node IDs of brokers that are known not to answer. A group whose coordinator is one of them is not waited for, and
    one without a coordinator for `ELECTION_S` only: without its controllers, a cluster elects none.
    Raises `Unreachable` and `SecurityFault` where the cluster as a whole cannot be used.
    """
    return blocking(_all(cluster, sorted(groups), timeout_s, frozenset(silent))) if groups else {}


def commit(cluster: ClusterSettings, group: str, positions: Positions, timeout_s: float) -> None:
    """Commit `positions` for a group without members, in one request. Blocks.

    Raises `ClusterRefused` with the broker's code (UNKNOWN_MEMBER_ID where the group has members), `Unreachable` where the
    outcome is unknown, and `SecurityFault`.
    """
    if positions:
        blocking(_write_one(cluster, group, positions, timeout_s))


def commit_all(
    cluster: ClusterSettings, wanted: Mapping[str, Positions], timeout_s: float
) -> dict[str, DrlibError | None]:
    """Commit for many groups without members, one request each, many groups at a time. Blocks.

    By group: None where it was committed, else what `commit` would have raised. Raises `Unreachable` and `SecurityFault`
    where the cluster as a whole cannot be used.
    """
    return blocking(_write_all(cluster, {g: p for g, p in wanted.items() if p}, timeout_s)) if wanted else {}


def delete_offsets(
    cluster: ClusterSettings, group: str, partitions: Collection[TopicPartition], timeout_s: float
) -> None:
    """Delete the committed offsets in `partitions` of a group without members (KIP-496). Blocks.

    Raises `ClusterRefused` with the broker's code (NON_EMPTY_GROUP where the group has members), `Unreachable`.
    """
    if partitions:
        blocking(_delete_offsets(cluster, group, partitions, timeout_s))


@asynccontextmanager
async def connected(
    cluster: ClusterSettings, doing: str, timeout_s: float, *, client_id: str = "drlib-positions"
) -> AsyncIterator[ClusterClient]:
    """A client that is connected. Raises `Unreachable`, which says what it was for: `doing`."""
    async with wire_client(cluster, client_id=client_id, timeout_s=timeout_s) as client:
        try:
            await client.connect()
        except Unreachable as error:
            raise unreachable(cluster, doing, error.why.rstrip(".")) from error
        yield client


async def _all(
    cluster: ClusterSettings, groups: Collection[str], timeout_s: float, silent: frozenset[int]
) -> dict[str, Positions | DrlibError]:
    async with connected(cluster, "reading the committed offsets of groups", timeout_s) as client:
        turn = asyncio.Semaphore(_AT_ONCE)
        answers = await asyncio.gather(*(_one(client, cluster, group, timeout_s, silent, turn) for group in groups))
        return dict(zip(groups, answers, strict=True))


async def _write_all(
    cluster: ClusterSettings, wanted: Mapping[str, Positions], timeout_s: float
) -> dict[str, DrlibError | None]:
    async with connected(cluster, f"committing offsets of {len(wanted)} groups", timeout_s) as client:
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


async def _node(client: ClusterClient, group: str, end: float) -> int:
    return await client.coordinator(group, "group", deadline_s=max(0.1, end - time.monotonic()))


async def _coordinator(client: ClusterClient, group: str, end: float) -> Connection:
    """A connection to the group's coordinator."""
    return await _connection(client, await _node(client, group, end), group)


async def _connection(client: ClusterClient, node: int, group: str) -> Connection:
    """A broker answers one connection in order, so groups share a few."""
    return await client.connection(node, f"positions-{zlib.crc32(group.encode()) % _CONNECTIONS}")


async def _one(
    client: ClusterClient,
    cluster: ClusterSettings,
    group: str,
    timeout_s: float,
    silent: frozenset[int],
    turn: asyncio.Semaphore,
) -> Positions | DrlibError:
    async with turn:
        return await _read(client, cluster, group, time.monotonic() + timeout_s, silent)


async def _read(
    client: ClusterClient, cluster: ClusterSettings, group: str, end: float, silent: frozenset[int]
) -> Positions | DrlibError:
    doing = f"reading the committed offsets of group {group}"
    end = min(end, time.monotonic() + ELECTION_S) if silent else end
    while True:
        try:
            if (node := await _node(client, group, end)) in silent:
                return Unreachable(
                    f"{doing} on {cluster.alias} got no answer",
                    f"its coordinator, broker {node}, does not answer",
                    f"Start broker {node} of {cluster.alias}.",
                )
            connection = await _connection(client, node, group)
            offsets = await group_requests.offset_fetch(connection, group, require_stable=True)
            return {tp: CommittedOffset(offset, _text(metadata)) for tp, (offset, metadata) in offsets.items()}
        except BrokerError as error:
            if not error.retriable:
                return refused(cluster, doing, str(error), error.name)
            why: DrlibError = error
        except Unreachable as error:
            why = error
        if time.monotonic() > end:
            return unreachable(cluster, doing, str(why).rstrip("."))
        await asyncio.sleep(_RETRY_S)


async def _write_one(cluster: ClusterSettings, group: str, positions: Positions, timeout_s: float) -> None:
    async with connected(cluster, f"committing offsets of group {group}", timeout_s) as client:
        await _write(client, cluster, group, positions, timeout_s)


async def _write(
    client: ClusterClient, cluster: ClusterSettings, group: str, positions: Positions, timeout_s: float
) -> None:
    doing = f"committing offsets of group {group}"
    wanted = {tp: (position.offset, _text(position.metadata)) for tp, position in positions.items()}
    end = time.monotonic() + timeout_s
    while True:
        sent = False
        try:
            connection = await _coordinator(client, group, end)
            await group_requests.offset_fetch(
                connection, group, only=next(iter(wanted))
            )  # only a loaded coordinator of this group answers
            sent = True
            return await group_requests.offset_commit(connection, group, wanted)
        except BrokerError as error:
            if not error.retriable:
                raise refused(cluster, doing, str(error), error.name) from error
            again, why = not sent or error.code == COORDINATOR_LOAD_IN_PROGRESS, error.why
        except Unreachable as error:
            again, why = not sent, str(error)
        if not again or time.monotonic() > end:
            raise unreachable(cluster, doing, why.rstrip("."))
        await asyncio.sleep(_RETRY_S)


async def _delete_offsets(
    cluster: ClusterSettings, group: str, partitions: Collection[TopicPartition], timeout_s: float
) -> None:
    doing = f"deleting offsets of group {group}"
    async with connected(cluster, doing, timeout_s) as client:
        end = time.monotonic() + timeout_s
        while True:
            try:
                return await group_requests.offset_delete(await _coordinator(client, group, end), group, partitions)
            except BrokerError as error:  # deleting again is harmless
                if not error.retriable:
                    raise refused(cluster, doing, str(error), error.name) from error
                if time.monotonic() > end:
                    raise unreachable(cluster, doing, error.why.rstrip(".")) from error
            await asyncio.sleep(_RETRY_S)


def _text(metadata: str) -> str:
    """The metadata without the trailing NUL that librdkafka's clients commit."""
    return metadata.rstrip("\0")
