"""When a connection that no longer answers is given up although nothing ended it, as behind a firewall that lost its table.

Rules:
- A connection is *silent* while an answer is overdue and no byte moves in either direction. The time for which a broker may
  let a request wait (a long poll, a rebalance) and the pause that a throttled response announces (KIP-219) are no silence.
- It is given up only when a *new* connection to the same broker is answered while it stays silent. On a slow link, or with
  a broker that is paused, the new one waits as well, so that neither is a false alarm.
- A produce request may wait for replicas. The leader is asked over the new connection: the request is lost when none of its
  batches is in the log, its answer is lost when all of them are replicated; else it waits for its own deadline.
- The successor of a connection that was given up gets twice the patience until it is answered: requests that a broker takes
  long for are not repeated for ever.
- What silenced one connection has usually silenced others: idle ones are asked for a sign of life at once, and for a while
  silence is doubted early. Idle connections are asked now and then anyway: that keeps them in a firewall's table, and a dead
  one is found before it is needed.
Source: KIP-219; `ReplicaManager.appendRecords` of Kafka appends all partitions of a request before it waits for any.
Not for: what follows from a lost connection, which its owner decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

from drlib.errors import DrlibError
from drlib.kafka.net import requests
from drlib.kafka.net.connection import Connection, SentBatch
from drlib.kafka.protocol.batch import SEQUENCE_MODULUS
from drlib.kafka.protocol.error_codes import AUTHORIZATION, BrokerError
from drlib.model import TopicPartition

CHECK_S: Final = 0.25
PATIENCE_S: Final = 3.0  # beyond what the round trip justifies
ALARMED_S: Final = 0.25  # the same, shortly after a connection was given up
ALARM_S: Final = 10.0
ROUND_TRIPS: Final = 4  # of silence, besides: the answer is computed, and a slow link queues
IDLE_S: Final = 30.0  # without a byte until an idle connection is asked for a sign of life
MOST_DOUBLINGS: Final = 5
DOUBT: Final = "doubt"  # the purpose of a connection that only shows whether its broker answers
WHY: Final = (
    "it stayed silent while a new connection to the same broker was answered; a firewall or a load balancer on the way may "
    "have forgotten it"
)


def patience_s(round_trip_s: float, given_up: int, *, alarmed: bool) -> float:
    """How long a connection may be silent before it is doubted; `given_up`: its predecessors without an answer in between."""
    return ((ALARMED_S if alarmed else PATIENCE_S) + ROUND_TRIPS * round_trip_s) * 2.0 ** min(given_up, MOST_DOUBLINGS)


def may_still_be_answered(
    sent: Sequence[SentBatch], sequences: Mapping[SentBatch, int | None], replicated: Mapping[TopicPartition, int]
) -> bool:
    """Whether a produce request waits for replicas.

    `sequences`: the last sequence of each batch's producer at the leader, None where it is unknown there; `replicated`: the
    offsets up to which the partitions are replicated. A batch that was refused is not in the log.
    """
    if any(batch.producer_id < 0 for batch in sent):
        return True  # it cannot be found in the log
    arrived = [b for b in sent if (last := sequences[b]) is not None and _reaches(last, b.last_sequence)]
    return any(b.end is None or replicated[b.partition] < b.end for b in arrived)


def _reaches(last: int, wanted: int) -> bool:
    return last >= 0 and (last - wanted) % SEQUENCE_MODULUS < SEQUENCE_MODULUS // 2


class SilenceWatch:
    """Watches the connections of one client, from the first one on until `stop`.

    `open_another` opens a further connection to the broker of the given one and calls `measured`. Raises `DrlibError`.
    """

    def __init__(
        self, connections: Iterable[Connection], open_another: Callable[[Connection], Awaitable[Connection]]
    ) -> None:
        self._connections = connections
        self._open_another = open_another
        self._round_trips: dict[str, float] = {}  # by broker, seconds
        self._given_up: dict[tuple[str, str], int] = {}  # by broker and purpose
        self._alarmed_until = float("-inf")
        self._doubted: dict[Connection, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Watch as long as a connection is open."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(CHECK_S, self._check)

    def measured(self, peer: str, round_trip_s: float) -> None:
        self._round_trips[peer] = round_trip_s

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        doubted = list(self._doubted.values())
        for task in doubted:
            task.cancel()
        await asyncio.gather(*doubted, return_exceptions=True)

    def _check(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        open_ones = [connection for connection in self._connections if not connection.is_lost]
        self._timer = loop.call_later(CHECK_S, self._check) if open_ones else None
        for connection in filter(_in_use, open_ones):
            key = (connection.peer, connection.purpose)
            if connection.answered:
                self._given_up.pop(key, None)
            if not connection.in_flight and connection.idle_s(now) > IDLE_S:
                connection.ask_for_life()
            round_trip_s = self._round_trips.get(connection.peer, 0.0)
            given_up = self._given_up.get(key, 0)
            limit = patience_s(round_trip_s, given_up, alarmed=now < self._alarmed_until)
            if connection.silent_s(now) > limit and connection not in self._doubted:
                task = loop.create_task(self._doubt(connection, limit))
                self._doubted[connection] = task

    async def _doubt(self, connection: Connection, limit_s: float) -> None:
        """Give `connection` up if another one to its broker is answered and it stays silent; once at a time."""
        try:
            before = connection.moved
            other = await self._open_another(connection)
            try:
                if connection.moved == before and await _is_lost(connection.oldest_batches(), other):
                    await asyncio.sleep(ALARMED_S + self._round_trips[connection.peer])
                    if connection.moved == before and not connection.is_lost:
                        self._give_up(connection)
            finally:
                other.close(abort=True)  # nothing waits for the end of TLS
            await asyncio.sleep(limit_s)  # before it is doubted again
        except DrlibError:
            await asyncio.sleep(CHECK_S)  # no broker answers there: that is no reason to give a connection up
        finally:
            self._doubted.pop(connection, None)

    def _give_up(self, connection: Connection) -> None:
        key = (connection.peer, connection.purpose)
        self._given_up[key] = self._given_up.get(key, 0) + 1
        self._alarmed_until = asyncio.get_running_loop().time() + ALARM_S
        connection.end(WHY)
        for other in self._connections:
            if _in_use(other) and not other.is_lost and not other.in_flight:
                other.ask_for_life()


def _in_use(connection: Connection) -> bool:
    """Not while it logs in, nor where it only shows whether a broker answers: those have deadlines of their own."""
    return connection.purpose not in ("", DOUBT)


async def _is_lost(batches: Sequence[SentBatch], other: Connection) -> bool:
    """Whether a request or its answer is lost; `batches` of a produce request, whose leader `other` leads to."""
    if not batches:
        return True
    partitions: dict[str, list[int]] = {}
    for batch in batches:
        partitions.setdefault(batch.partition.topic, []).append(batch.partition.partition)
    try:
        producers = await requests.describe_producers(other, partitions)
        replicated = await requests.list_offsets(other, [b.partition for b in batches], requests.LATEST)
    except BrokerError as error:
        return error.code not in AUTHORIZATION  # without the right to ask, its own deadline decides
    sequences = {
        batch: next(
            (
                state.last_sequence
                for state in producers[batch.partition]
                if (state.producer_id, state.epoch) == (batch.producer_id, batch.epoch)
            ),
            None,
        )
        for batch in batches
    }
    return not may_still_be_answered(batches, sequences, replicated)
