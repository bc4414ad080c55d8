"""Where a source's log and its mirror part, from batches as a broker returns them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast
from uuid import UUID

import pytest

from drlib.kafka.net import requests
from drlib.kafka.protocol import recode
from drlib.kafka.protocol.batch import compose
from drlib.kafka.protocol.error_codes import OFFSET_OUT_OF_RANGE
from drlib.kafka.protocol.fetch import FetchedPartition, FetchPartition
from drlib.mirror.engine.identity import evidence
from drlib.mirror.engine.identity.compare import AS_MIRRORED, went_back
from drlib.mirror.engine.identity.evidence import Question, _Sample
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.model import TopicPartition

NOW = 1_800_000_000_000
MARKER = b"a commit marker"
Log = Sequence[bytes]  # by offset: the record's value, or `MARKER`
Ask = Callable[[Log, Log], Any]


def plain(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % n for n in range(first, first + count)]


def transactions(count: int, first: int = 0) -> list[bytes]:
    return [value for n in range(first, first + count) for value in (b"%d" % n, MARKER)]


def record(offset: int, value: bytes) -> recode.Record:
    return recode.Record(offset=offset, timestamp=NOW, key=b"k", value=value)


def batch(offset: int, value: bytes) -> bytes:
    if value == MARKER:
        body = bytes.fromhex("200000000800000001") + b"\x0c" + bytes(7)
        built = compose(
            body, codec=0x30, count=1, base_timestamp=NOW, max_timestamp=NOW, producer_id=4, producer_epoch=0,
            base_sequence=-1,
        )  # fmt: skip
    else:
        built = recode.rebuild([record(0, value)], codec=0, producer_id=4, producer_epoch=0, base_sequence=0)
    return offset.to_bytes(8, "big") + (bytes(built.head) + bytes(built.body))[8:]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Ask:
    """`went_back` of a source whose log was `mirrored` and is `now` another one."""

    async def asked(mirrored: Log, now: Log) -> int | None:
        async def fetch(_: object, wanted: list[FetchPartition], **__: object) -> list[FetchedPartition]:
            offset, end = wanted[0].offset, len(now)
            code = OFFSET_OUT_OF_RANGE if offset > end else 0
            data = batch(offset, now[offset]) if offset < end else b""
            return [FetchedPartition(UUID(int=1), 0, code, end, end, 0, (), None, -1, -1, memoryview(data))]

        async def list_offsets(_: object, partitions: list[TopicPartition], time: int) -> dict[TopicPartition, int]:
            return dict.fromkeys(partitions, 0 if time == requests.EARLIEST else len(now))

        async def epochs(
            _: object, partitions: list[TopicPartition], time: int
        ) -> dict[TopicPartition, tuple[int, int]]:
            return dict.fromkeys(partitions, (len(now), 3))

        async def copy(_: object, question: Question, offset: int) -> _Sample:
            return _Sample(record(offset, [value for value in mirrored if value != MARKER][offset]), timed=True)

        class Source:
            async def connection(self, node: int, purpose: str) -> Source:
                return self

        monkeypatch.setattr(requests, "fetch", fetch)
        monkeypatch.setattr(requests, "list_offsets", list_offsets)
        monkeypatch.setattr(requests, "list_offset_epochs", epochs)
        monkeypatch.setattr(evidence, "_copy", copy)
        offsets = PartitionMap()
        for offset, value in enumerate(mirrored):
            if value != MARKER:
                offsets.segments().append(offset, sum(v != MARKER for v in mirrored[:offset]), 1)
        source, target = TopicPartition("t", 0), TopicPartition("A.t", 0)
        question = Question(source, UUID(int=1), 1, target, UUID(int=2), offsets, len(mirrored), 3)
        (found,) = await went_back(cast(Any, Source()), cast(Any, None), [question])
        return found

    return asked


@pytest.mark.parametrize("others", [0, 1, 49, 50, 80])
async def test_log_that_lost_its_end_is_known_from_its_first_other_record_on_however_far_it_has_grown(
    ask: Ask, others: int
) -> None:
    """In the same leader epoch, as the brokers went back as well: only the records show where the logs part."""
    assert await ask(plain(150), plain(100) + plain(others, first=1000)) == 100


@pytest.mark.parametrize("others", [0, 3, 20, 40])
async def test_log_of_transactions_that_went_back_is_known_from_its_first_other_record_on(
    ask: Ask, others: int
) -> None:
    """A bisection meets markers, which are not mirrored, at half of the offsets."""
    assert await ask(transactions(30), transactions(20) + transactions(others, first=1000)) == 40


async def test_marker_where_a_record_was_mirrored_is_another_log(ask: Ask) -> None:
    assert await ask(plain(150), [*plain(100), *transactions(200, first=1000)]) == 100


async def test_log_that_ends_with_the_last_mirrored_record_is_as_mirrored(ask: Ask) -> None:
    assert await ask(transactions(30), transactions(30)[:-1]) == AS_MIRRORED
    assert await ask(plain(150), plain(150)) == AS_MIRRORED
