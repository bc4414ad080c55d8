"""How entries become batches: together while one is written, in order, and never hanging where a write fails."""

from __future__ import annotations

import asyncio
import gc
import uuid
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from drlib.kafka.net.connection import ConnectionLost
from drlib.kafka.protocol.batch import OutgoingBatch
from drlib.kafka.protocol.error_codes import MESSAGE_TOO_LARGE
from drlib.mirror.errors import LaneFault, LaneLost
from drlib.mirror.journal.entries import Ack, ClaimId, SourcePartition
from drlib.mirror.offsets.map import journal_log
from drlib.mirror.offsets.map.journal_log import LaneJournal
from drlib.model import TopicPartition

CLAIM, KEY = ClaimId(7, 3), SourcePartition(uuid.UUID(int=1), 0)


class Broker:
    """Answers each batch when it is let go; `batches`: (first sequence, number of entries)."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, int]] = []
        self.go: asyncio.Queue[object] = asyncio.Queue()
        self.end = 0

    async def produce(self, _: str, pairs: list[tuple[int, OutgoingBatch]], *, ends: object) -> list[Any]:
        ((_number, batch),) = pairs
        self.batches.append((batch.header.base_sequence, batch.count))
        answer = await self.go.get()
        if isinstance(answer, Exception):
            raise answer
        base, self.end = self.end, self.end + (batch.count if answer == 0 else 0)
        return [SimpleNamespace(error_code=answer, base_offset=base)]

    async def connection(self, *_: object) -> Broker:
        return self

    def let_go(self, *answers: object) -> None:
        for answer in answers:
            self.go.put_nowait(answer)


def journal_at(broker: Broker) -> LaneJournal:
    target: Any = broker
    return LaneJournal(target, TopicPartition("journal", 0), CLAIM, "lane", 1, now_ms=lambda: 1)


def acks(count: int) -> list[Ack]:
    return [Ack(KEY, CLAIM, n, n) for n in range(count)]


async def turn() -> None:
    """Let everything that can go on go on."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_entries_begun_while_a_batch_is_written_go_together_in_the_next() -> None:
    broker = Broker()
    journal = journal_at(broker)
    calls = [journal.begin(acks(1))]
    await turn()
    calls += [journal.begin(acks(2)) for _ in range(100)]
    await turn()
    assert broker.batches == [(0, 1)]
    broker.let_go(0)
    await turn()
    assert [call.done() for call in calls] == [True] + [False] * 100
    broker.let_go(0)
    await asyncio.gather(*calls)
    assert broker.batches == [(0, 1), (1, 200)]
    assert journal.end == 201


async def test_entries_of_one_call_are_split_only_where_they_exceed_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_log, "ENTRIES_PER_BATCH", 10)
    broker = Broker()
    journal = journal_at(broker)
    calls = [journal.begin(acks(count)) for count in (4, 6, 1, 10, 25, 3, 0)]
    broker.let_go(*[0] * 10)
    await asyncio.gather(*calls)
    assert [count for _, count in broker.batches] == [10, 1, 10, 10, 10, 5, 3]
    assert [first for first, _ in broker.batches] == [0, 10, 11, 21, 31, 41, 46]


@pytest.mark.parametrize(
    ("answer", "error"),
    [(47, LaneLost), (7, LaneFault), (ConnectionLost("b", "reset"), LaneFault), (ValueError("a fault"), ValueError)],
)
async def test_failed_write_fails_all_that_wait_and_all_that_follow(answer: object, error: type[Exception]) -> None:
    broker = Broker()
    journal = journal_at(broker)
    calls = [journal.begin(acks(1)), journal.begin(acks(1))]
    await turn()
    calls.append(journal.begin(acks(1)))
    broker.let_go(answer)
    await turn()
    calls.append(journal.begin(acks(1)))
    assert [type(call.exception()) for call in calls] == [error] * 4
    assert len(broker.batches) == 1


async def test_append_whose_caller_is_cancelled_writes_its_entries() -> None:
    broker = Broker()
    journal = journal_at(broker)
    cancelled = asyncio.create_task(journal.append(acks(2)))
    await turn()
    cancelled.cancel()
    last = journal.begin(acks(1))
    broker.let_go(0, 0)
    await last
    assert broker.batches == [(0, 2), (2, 1)]


async def test_writer_that_is_cancelled_leaves_no_call_waiting() -> None:
    broker = Broker()
    journal = journal_at(broker)
    calls = [journal.begin(acks(1))]
    await turn()
    calls.append(journal.begin(acks(1)))
    assert journal._writer is not None
    journal._writer.cancel()
    await turn()
    assert all(call.cancelled() for call in calls)


def test_take_together_leaves_what_does_not_fit() -> None:
    loop = asyncio.new_event_loop()
    waiting = deque(
        journal_log._Call([(b"k" * size, b"")], loop.create_future()) for size in (600_000, 200_000, 200_000)
    )
    loop.close()
    assert [len(journal_log.take_together(waiting)) for _ in range(2)] == [1, 2]
    assert not waiting


async def test_journal_that_takes_small_batches_only_gets_all_entries_in_order_in_smaller_ones() -> None:
    broker = Broker()
    journal = journal_at(broker)
    broker.let_go(MESSAGE_TOO_LARGE, MESSAGE_TOO_LARGE, 0, 0, 0)
    await journal.append(acks(8))
    assert broker.batches == [(0, 8), (0, 4), (0, 2), (2, 2), (4, 4)]  # a refused batch takes no sequence numbers
    assert (journal.sequence, journal.end) == (8, 8)
    broker.let_go(*[0] * 8)
    await journal.append(acks(8))
    assert (journal.sequence, journal.end) == (16, 16)
    assert len(broker.batches) > 6  # the size is remembered


async def test_journal_that_takes_no_entry_names_the_setting() -> None:
    broker = Broker()
    broker.let_go(MESSAGE_TOO_LARGE)
    with pytest.raises(LaneFault, match=r"--topic journal --add-config max\.message\.bytes"):
        await journal_at(broker).append(acks(1))


def test_write_that_fails_after_its_caller_was_cancelled_prints_no_traceback() -> None:
    reported: list[object] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["message"]))
        broker = Broker()
        journal = journal_at(broker)
        caller = asyncio.create_task(journal.append(acks(1)))
        await turn()
        caller.cancel()
        await turn()
        broker.let_go(ConnectionLost("b", "reset"))
        await turn()
        del caller, journal, broker
        gc.collect()

    asyncio.run(scenario())
    assert reported == []
