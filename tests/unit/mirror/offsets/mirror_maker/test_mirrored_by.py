"""Whether MirrorMaker 2 mirrors a flow, whether it runs, and which positions it leaves unknown."""

from __future__ import annotations

import pytest

from drlib.mirror.offsets.mirror_maker.mirrored_by import (
    MirrorMakerFlow,
    Traces,
    evidence,
    no_positions,
    without_checkpoint,
)
from drlib.model import Flow, GroupTranslation, TopicPartition, Translation, TranslationKind

NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("traces", "found"),
    [
        (Traces(), ()),
        (Traces(copied=5), ("committed offsets of Connect (5)",)),
        (Traces(checkpoints=2, own=1), ("checkpoints (2)",)),
        (Traces(synced=1, mirrors=1), ("offset syncs of 1 partition",)),
        (Traces(synced=2, heartbeats=True, mirrors=1), ("offset syncs of 2 partitions", "heartbeats")),
        (Traces(heartbeats=True, mirrors=1), ("heartbeats",)),
        (Traces(synced=2), ()),  # nothing was mirrored
        (Traces(heartbeats=True), ()),  # MirrorMaker 2 emits them also where the flow is off
        (Traces(synced=2, own=1, mirrors=1), ()),  # of a drlib whose journal was lost
        (Traces(copied=3, own=1), ("committed offsets of Connect (3)",)),
        (Traces(refused=("mm2-offsets.A.internal",)), ("mm2-offsets.A.internal, which could not be read",)),
        (Traces(refused=("mm2-offsets.A.internal",), own=1), ()),
    ],
)
def test_evidence_is_what_drlib_did_not_write(traces: Traces, found: tuple[str, ...]) -> None:
    assert evidence(traces) == found


@pytest.mark.parametrize(
    ("age_s", "interval_s", "members", "runs"),
    [
        (1, 1, None, True),
        (30, 1, False, True),
        (31, 1, False, False),
        (31, 1, None, False),
        (31, 1, True, True),  # its heartbeat connector may have failed
        (99, 10, False, True),
        (101, 10, False, False),
        (None, 1, None, None),
        (None, 1, False, None),
        (None, 1, True, True),
        (1, 0, False, None),  # heartbeats are switched off: an old one says nothing
        (1, 0, True, True),
    ],
)
def test_runs_by_its_heartbeats_or_its_connect_group(
    age_s: int | None, interval_s: int, members: bool | None, runs: bool | None
) -> None:
    beat = None if age_s is None else NOW - 1000 * age_s
    assert MirrorMakerFlow((), beat, interval_s, members).runs(NOW) is runs


def test_words_say_what_is_known() -> None:
    assert MirrorMakerFlow((), NOW - 2000, 1, True).words(NOW) == (
        "its last heartbeat is 2.0 s old, its Connect group has members"
    )
    assert (
        MirrorMakerFlow((), None, 1, False).words(NOW)
        == "no heartbeat of it was found, its Connect group has no member"
    )
    assert MirrorMakerFlow((), None, 0).words(NOW) == "its heartbeats are switched off"


def test_without_checkpoint_names_partitions_of_topics_where_the_group_has_a_position() -> None:
    def at(group: str, topic: str, number: int) -> GroupTranslation:
        position = TopicPartition(topic, number)
        return GroupTranslation(group, position, 1, position, Translation(1, TranslationKind.BOUNDED, 1), NOW)

    known = [at("b", "A.t", 0), at("b", "A.t", 2), at("a", "A.t", 5), at("a", "A.u", 0), at("c", "A.gone", 0)]
    found = list(without_checkpoint(known, {"A.t": 6, "A.u": 1}))
    assert found == [("a", "A.t-0, A.t-1, A.t-2 and 2 more"), ("b", "A.t-1, A.t-3, A.t-4 and 1 more")]


def test_no_positions_says_why() -> None:
    assert "there is none" in no_positions(Flow("A", "B"), MirrorMakerFlow(()))
    assert "of 7 none" in no_positions(Flow("A", "B"), MirrorMakerFlow((), checkpoints=7))
