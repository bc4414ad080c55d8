"""A claim over thousands of topics looks each one up: comparing each with all others stopped the event loop for seconds."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import pytest

from drlib.errors import DrlibError
from drlib.mirror.engine.fetch.context import LaneContext
from drlib.mirror.engine.lane.lane import Lane
from drlib.mirror.engine.lane.produce_loop import Observer
from drlib.mirror.engine.lane.start_claim import ClaimStart, RecoveryInput
from drlib.mirror.engine.lane.start_position import Begin
from drlib.mirror.engine.lane.topics import LaneTopic
from drlib.mirror.errors import MirrorUnauthorized
from drlib.mirror.journal.entries import ClaimId, SourcePartition, TopicNames
from drlib.mirror.mm2.takeover import Mm2Progress, TakeoverReader
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.read_batches import LogEnds
from drlib.mirror.status.worker_status import EventLog
from drlib.model import TopicPartition

COUNT = 200
MOST_STEPS = 20 * COUNT  # a few for each topic; comparing each with all is COUNT * COUNT


class Name(str):
    """The name of a topic, which counts how often it is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return str.__eq__(self, cast("str", other))


class Excluded(dict[str, DrlibError]):
    """Counts the names that it is asked to list."""

    listed = 0

    def __iter__(self) -> Iterator[str]:
        Excluded.listed += len(self)
        return super().__iter__()

    def keys(self) -> object:  # type: ignore[override]
        Excluded.listed += len(self)
        return super().keys()

    def items(self) -> object:  # type: ignore[override]
        Excluded.listed += len(self)
        return super().items()


class NoMirrorMaker(TakeoverReader):
    def __init__(self) -> None:
        pass

    async def read_progress(self) -> Mm2Progress | None:
        return None


async def begin(_: Sequence[LaneTopic]) -> Mapping[SourcePartition, Begin]:
    return {}


def topics() -> list[LaneTopic]:
    return [LaneTopic(Name(f"t{n}"), uuid.UUID(int=n + 1), Name(f"A.t{n}"), (0,)) for n in range(COUNT)]


def journaled(mirrored: Sequence[LaneTopic]) -> list[TopicNames]:
    return [TopicNames(t.topic_id, t.source, t.target, uuid.UUID(int=n)) for n, t in enumerate(mirrored, COUNT + 1)]


@pytest.mark.parametrize("unauthorized", [False, True])
async def test_claim_over_many_topics_looks_each_one_up(unauthorized: bool) -> None:
    mirrored = topics()
    names = journaled(mirrored)
    mirrors = [TopicPartition(topic.target, 0) for topic in mirrored]
    log = LogEnds(
        dict.fromkeys(mirrors, 1),
        dict.fromkeys(mirrors, 0),
        {each.target_topic: each.target_topic_id for each in names},
    )
    refused = {t.target: MirrorUnauthorized(t.target, "refused", "grant it") for t in mirrored} if unauthorized else {}
    start = ClaimStart(
        lane="lane",
        claim=ClaimId(1, 1),
        maps=Maps(names={each.topic_id: each for each in names}),
        logs=RecoveryInput(log, {}, {TopicPartition(topic.source, 0): 0 for topic in mirrored}),
        excluded=Excluded(refused),
        takeover=NoMirrorMaker(),
        events=EventLog(),
        learned={},
        unavailable={},
        filled_again=(),
        begin=begin,
    )
    Name.compared = Excluded.listed = 0
    await start.plan_streams(mirrored, names)
    assert (len(start.streams), len(start.parked)) == ((0, COUNT) if unauthorized else (COUNT, 0))
    assert Name.compared < MOST_STEPS
    assert Excluded.listed < MOST_STEPS


def test_look_at_many_mirrors_that_are_gone_compares_each_with_its_own_names() -> None:
    mirrored = topics()
    lane = Lane(
        name="lane",
        journal_partition=TopicPartition("journal", 0),
        topics=tuple(mirrored),
        context=cast(
            LaneContext, type("Context", (), {"events": EventLog(), "source": type("Source", (), {"cluster_id": "c"})})
        ),
        observer=cast(Observer, None),
        takeover=NoMirrorMaker(),
        worker="worker",
    )
    lane._names = {each.topic_id: each for each in journaled(mirrored)}
    Name.compared = 0
    assert lane._allowed(mirrored, {topic.target for topic in mirrored}) == []
    assert Name.compared < MOST_STEPS
