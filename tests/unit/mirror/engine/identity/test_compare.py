"""Whether a source whose topics have IDs went back to an older log, from what the records of both clusters show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast
from uuid import UUID

import pytest

from drlib.errors import Unreachable
from drlib.kafka.net import requests
from drlib.mirror.engine.identity import compare, evidence
from drlib.mirror.engine.identity.compare import AS_MIRRORED, went_back
from drlib.mirror.engine.identity.evidence import Question
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.model import Segment, TopicPartition

MIRRORED = 150
Answer = Callable[[int], bool | None]


class Source:
    """Leads every partition, in the leader epoch `epoch`."""

    def __init__(self, epoch: int = 3) -> None:
        self.epoch = epoch

    async def connection(self, node: int, purpose: str) -> Source:
        return self


def question(count: int = MIRRORED) -> Question:
    mirrored = PartitionMap()
    mirrored.segments().extend([Segment(0, 0, count)])
    source, target = TopicPartition("t", 0), TopicPartition("A.t", 0)
    return Question(source, UUID(int=1), 1, target, UUID(int=2), mirrored, count, 3)


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """`went_back` of questions, where `answer` says whether the newest record below an offset is the one that was mirrored."""

    async def asked(answer: Answer, *questions: Question, epoch: int = 3) -> list[int | None]:
        async def agrees(source: Source, target: object, which: Question, end: int) -> bool | None:
            return answer(end)

        async def list_offsets(
            source: Source, partitions: list[TopicPartition], time: int
        ) -> dict[TopicPartition, int]:
            return dict.fromkeys(partitions, 20)

        async def epochs(
            source: Source, partitions: list[TopicPartition], time: int
        ) -> dict[TopicPartition, tuple[int, int]]:
            return dict.fromkeys(partitions, (500, source.epoch))

        for module in (compare, evidence):
            monkeypatch.setattr(module, "agrees", agrees)
        monkeypatch.setattr(requests, "list_offsets", list_offsets)
        monkeypatch.setattr(requests, "list_offset_epochs", epochs)
        return await went_back(cast(Any, Source(epoch)), cast(Any, None), questions or (question(),))

    return asked


@pytest.mark.parametrize("fork", [20, 21, 77, 148, 149])
async def test_log_that_went_back_is_known_from_its_first_other_record_on(ask: Callable[..., Any], fork: int) -> None:
    assert await ask(lambda end: end <= fork) == [fork]


@pytest.mark.parametrize("same", [True, None])
async def test_log_that_has_the_last_mirrored_record_or_nothing_there_is_as_mirrored(
    ask: Callable[..., Any], same: bool | None
) -> None:
    assert await ask(lambda _: same) == [AS_MIRRORED]


async def test_records_that_are_gone_leave_the_first_other_one_lower_and_never_higher(ask: Callable[..., Any]) -> None:
    assert await ask(lambda end: None if 60 <= end < 120 else end <= 100) == [20]


async def test_broker_that_leads_in_an_older_epoch_than_was_read_shows_nothing(ask: Callable[..., Any]) -> None:
    assert await ask(lambda _: False, epoch=2) == [AS_MIRRORED]


async def test_partition_that_cannot_be_read_is_not_judged_and_others_are(ask: Callable[..., Any]) -> None:
    def answer(end: int) -> bool:
        if end == 7:
            raise Unreachable("the mirror", "its broker is down", "Start it.")
        return True

    assert await ask(answer, question(7), question(MIRRORED)) == [None, AS_MIRRORED]
