"""Claim a lane and fence its former owner, with one transactional ID and no transaction around data.

Rules, each there because its absence lost or doubled a record on a real broker:
- InitProducerId(-1, -1) once per claim: same producer ID, epoch + 1. Never again in that claim: a fenced owner would take
  the lane back.
- AddPartitionsToTxn v3 with every partition of the lane and its journal partition, then EndTxn(abort), v4 at most: the
  marker then carries exactly our epoch (version 5 bumps it).
- EndTxn answers before the markers are written: the claim holds only when DescribeTransactions says CompleteAbort with our
  producer ID and epoch.
- The coordinator silently skips a partition it does not know, so DescribeProducers on each leader must show our epoch.
- INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING and PRODUCER_FENCED (47, 49, 90) in any response mean that another
  worker claimed after us: the lane is lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from drlib.errors import Unreachable
from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol.error_codes import (
    AUTHORIZATION,
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    FENCED,
    INVALID_TRANSACTION_TIMEOUT,
    NOT_COORDINATOR,
    REQUEST_TIMED_OUT,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
    BrokerError,
)
from drlib.mirror.engine.fencing.target_clock import TargetClock
from drlib.mirror.errors import LaneFault, LaneLost
from drlib.mirror.failpoints import hit
from drlib.mirror.journal.entries import ClaimId
from drlib.model import TopicPartition

_REPEAT = frozenset(
    {
        CONCURRENT_TRANSACTIONS,
        COORDINATOR_LOAD_IN_PROGRESS,
        COORDINATOR_NOT_AVAILABLE,
        NOT_COORDINATOR,
        REQUEST_TIMED_OUT,
        UNKNOWN_TOPIC_OR_PARTITION,  # of a topic that was just created, or has just been deleted
    }
)
COMPLETE_ABORT = "CompleteAbort"
TRANSACTION_TIMEOUT_MS = 60_000  # or less, where the target takes no more (`transaction.max.timeout.ms`)
LEAST_TRANSACTION_MS = 1000
CLAIM_DEADLINE_S = 60.0
UNKNOWN_TOPIC_S = 5.0  # the coordinator's broker learns of a new topic sooner; the next claim leaves a deleted one out

Answer = TypeVar("Answer")


async def claim(
    target: ClusterClient,
    transactional_id: str,
    partitions: Mapping[str, Sequence[int]],
    *,
    deadline_s: float = CLAIM_DEADLINE_S,
    clock: TargetClock | None = None,
) -> ClaimId:
    """Take the lane named by `transactional_id` over `partitions` (topic -> partitions, its journal's among them).

    Sets `clock` by its markers. Returns the claim; every partition then holds our abort marker and refuses older epochs.
    Raises `LaneLost` when another worker claimed after us, `LaneFault` when the claim could not be completed before the
    deadline.
    """
    deadline = time.monotonic() + deadline_s

    coordinator = _Coordinator(target, transactional_id)
    ours = await _initialized(coordinator, deadline)
    hit("mid-claim")
    await _mark(coordinator, ours, partitions, deadline, clock)
    return ours


async def _initialized(coordinator: _Coordinator, deadline: float) -> ClaimId:
    """Our producer ID and its next epoch, with the longest transaction that the target takes."""
    lane, timeout_ms = coordinator.transactional_id, TRANSACTION_TIMEOUT_MS
    while True:
        try:
            ask = partial(requests.init_producer_id, transactional_id=lane, timeout_ms=timeout_ms)
            return ClaimId(*await coordinator.call(ask, deadline))
        except BrokerError as error:
            if error.code != INVALID_TRANSACTION_TIMEOUT or timeout_ms <= LEAST_TRANSACTION_MS:
                raise
            timeout_ms = max(LEAST_TRANSACTION_MS, timeout_ms // 2)


async def mark(
    target: ClusterClient,
    transactional_id: str,
    ours: ClaimId,
    partitions: Mapping[str, Sequence[int]],
    *,
    deadline: float,
    clock: TargetClock,
) -> Mapping[TopicPartition, int]:
    """Write our epoch's abort marker into `partitions` and wait until each leader has it; sets `clock` by them.

    Returns our last sequence as each leader knows it: -1 where this epoch wrote nothing, or was forgotten.
    """
    return await _mark(_Coordinator(target, transactional_id), ours, partitions, deadline, clock)


async def _mark(
    coordinator: _Coordinator,
    ours: ClaimId,
    partitions: Mapping[str, Sequence[int]],
    deadline: float,
    clock: TargetClock | None,
) -> Mapping[TopicPartition, int]:
    target, transactional_id = coordinator.target, coordinator.transactional_id
    await coordinator.call(
        lambda c: requests.add_partitions_to_txn(c, transactional_id, ours.producer_id, ours.epoch, partitions),
        deadline,
    )
    asked_s = time.monotonic()
    await coordinator.call(
        lambda c: requests.end_txn_abort(c, transactional_id, ours.producer_id, ours.epoch), deadline
    )
    while True:
        state = await coordinator.call(lambda c: requests.describe_transaction(c, transactional_id), deadline)
        if (state.producer_id, state.epoch) != (ours.producer_id, ours.epoch):
            raise LaneLost(transactional_id, f"producer {state.producer_id} epoch {state.epoch} claimed it after us")
        if state.state == COMPLETE_ABORT:
            break
        if time.monotonic() > deadline:
            raise LaneFault(transactional_id, f"the abort markers were not written in time (state {state.state})")
        await asyncio.sleep(0.002)
    states = await _verify(target, transactional_id, ours, partitions)
    if clock is not None:
        clock.marked(asked_s, (state.last_timestamp for state in states.values()))
    return {partition: state.last_sequence for partition, state in states.items()}


async def _verify(
    target: ClusterClient,
    transactional_id: str,
    ours: ClaimId,
    partitions: Mapping[str, Sequence[int]],
) -> Mapping[TopicPartition, requests.ProducerState]:
    """What each leader knows of our producer, behind the marker."""
    metadata = await target.metadata(tuple(partitions))
    by_leader: dict[int, dict[str, list[int]]] = {}
    for topic, numbers in partitions.items():
        if metadata.topics[topic].error_code == TOPIC_AUTHORIZATION_FAILED:  # revoked since it was marked
            raise BrokerError(TOPIC_AUTHORIZATION_FAILED, f"looking up {topic}", topics=[topic])
        for number in numbers:
            partition = metadata.topics[topic].partitions.get(number)
            leader = partition.leader if partition is not None else -1
            by_leader.setdefault(leader, {}).setdefault(topic, []).append(number)
    found: dict[TopicPartition, requests.ProducerState] = {}
    for leader, wanted in by_leader.items():
        if leader < 0:
            raise LaneFault(transactional_id, f"no leader for {', '.join(wanted)}")
        connection = await target.connection(leader, "control")
        producers = await requests.describe_producers(connection, wanted)
        for topic, numbers in wanted.items():
            for number in numbers:
                states = producers[TopicPartition(topic, number)]
                epochs = [s.epoch for s in states if s.producer_id == ours.producer_id]
                if epochs and max(epochs) > ours.epoch:
                    raise LaneLost(transactional_id, f"{topic}-{number} already knows epoch {max(epochs)}")
                if ours.epoch not in epochs:
                    raise LaneFault(transactional_id, f"no marker of ours in {topic}-{number}")
                found[TopicPartition(topic, number)] = next(
                    s for s in states if (s.producer_id, s.epoch) == (ours.producer_id, ours.epoch)
                )
    return found


@dataclass(slots=True)
class _Coordinator:
    """The coordinator of one transactional ID: looked up once, and again after every error."""

    target: ClusterClient
    transactional_id: str
    node: int | None = None

    async def call(self, request: Callable[[Connection], Awaitable[Answer]], deadline: float) -> Answer:
        """Repeat one call until its answer is final. Raises `LaneLost`, `LaneFault`; `BrokerError` for a missing right, and
        for a transaction that is too long."""
        delay = 0.005
        known = True
        while True:
            try:
                if self.node is None:
                    self.node = await self.target.coordinator(self.transactional_id, "transaction")
                connection = await self.target.connection(self.node, "transaction")
                return await request(connection)
            except BrokerError as error:
                if error.code in FENCED:
                    raise LaneLost(self.transactional_id, error.name) from error
                if error.code in AUTHORIZATION or error.code == INVALID_TRANSACTION_TIMEOUT:
                    raise  # the code says which right is missing, or that the time is too long
                if error.code not in _REPEAT or time.monotonic() > deadline:
                    raise LaneFault(self.transactional_id, str(error)) from error
                if known and error.code == UNKNOWN_TOPIC_OR_PARTITION:
                    known, deadline = False, min(deadline, time.monotonic() + UNKNOWN_TOPIC_S)
            except (Unreachable, TimeoutError, OSError) as error:
                if time.monotonic() > deadline:
                    raise LaneFault(self.transactional_id, f"the coordinator does not answer ({error})") from error
            self.node = None
            await asyncio.sleep(delay)
            delay = min(0.2, delay * 2)
