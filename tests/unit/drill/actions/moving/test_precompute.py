"""Translations computed while applications ran are reused only where computing them again would give the same."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drlib.config.settings import MirrorSettings
from drlib.drill.actions.failback.actions import refuse_blocked
from drlib.drill.actions.groups.rules import Left, LogBounds, decide_all
from drlib.drill.actions.moving.precompute import PrecomputedMoves
from drlib.errors import Deviated
from drlib.kafka.admin.descriptions import CommittedOffset, TopicDescription
from drlib.mirror.journal.entries import Ack, ClaimId, Covered, Placement, Run, SourcePartition, TopicNames
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.offsets.translation.two_way import FlowPairState, Positions, translate
from drlib.mirror.offsets.unreplicated.settle import Ledger
from drlib.model import Flow, GroupTranslation, TopicPartition, Translation, TranslationKind

FLOW = Flow("A", "B")
PARTITIONS = 2
OWN, CAME = "t", "B.t"  # A's own topic, and what came from B
IDS = {OWN: uuid.UUID(int=1), CAME: uuid.UUID(int=2)}
CHOSEN = SimpleNamespace(
    flow=FLOW,
    policy=SimpleNamespace(remote_topic=lambda source, topic: f"{source}.{topic}"),
    mirrors_topic=lambda topic: topic == OWN,
)
SETTINGS = cast(MirrorSettings, SimpleNamespace(flow=lambda source, target: CHOSEN))


def maps(topic: str, target: str, of: uuid.UUID, records: int, *, gap: bool = False) -> Maps:
    """`records` of each partition mirrored from target offset 1 on; with `gap` a second run of 5 behind a claim's marker."""
    found, claim = Maps(), ClaimId(7, 1)
    found.names[of] = cast(TopicNames, SimpleNamespace(topic_id=of, source_topic=topic, target_topic=target))
    for number in range(PARTITIONS):
        key = SourcePartition(of, number)
        entries = [Placement(key, claim, 0, 1), Run(key, claim, 0, 0), Ack(key, claim, records, 1 + records)]
        entries.append(Covered(key, records))
        if gap:
            later = ClaimId(7, 2)
            entries += [
                Placement(key, later, 0, 3 + records),
                Run(key, later, 0, records),
                Ack(key, later, 5, 8 + records),
                Covered(key, records + 5),
            ]
        for entry in entries:
            found.get(key).apply(entry)
    return found


def known(records: int = 10, *, gap: bool = False) -> FlowPairState:
    there = {TopicPartition("t", n): 0 for n in range(PARTITIONS)}
    came = {TopicPartition(CAME, n): 0 for n in range(PARTITIONS)}
    ledger = cast(Ledger, SimpleNamespace(next=lambda *_: 0))
    home = {"t": TopicDescription("t", IDS[CAME], PARTITIONS, False)}
    back = maps("t", CAME, IDS[CAME], 6)
    return FlowPairState(FLOW, maps(OWN, "A.t", IDS[OWN], records, gap=gap), back, ledger, "B's", home, there, came, {})


def test_position_below_the_log_start_on_the_target_is_lost_unless_it_has_expired_where_it_is_left() -> None:
    own = TopicPartition(OWN, 0)
    expired = replace(known(), copy_log_starts={TopicPartition("A.t", 0): 5}, source_log_starts={own: 0})
    (moved,) = translate(SETTINGS, expired, {"g": at(t_0=2)}, {})
    assert (moved.translation.offset, moved.translation.kind) == (5, TranslationKind.LOST)
    assert (moved.translation.records, moved.translation.expired) == (2, 2)
    (moved,) = translate(SETTINGS, expired, {"g": at(t_0=4)}, {})
    assert moved.translation == Translation(5, TranslationKind.EXACT)
    both = replace(expired, source_log_starts={own: 4})
    (moved,) = translate(SETTINGS, both, {"g": at(t_0=2)}, {})
    assert moved.translation == Translation(5, TranslationKind.EXACT)


def test_position_in_a_topic_that_was_created_again_is_unknown_until_it_is_mirrored() -> None:
    now = TopicDescription(OWN, uuid.UUID(int=9, version=4), PARTITIONS, False)
    (moved,) = translate(SETTINGS, replace(known(), source_topics={OWN: now}), {"g": at(t_0=2)}, {})
    assert moved.translation == Translation(None, TranslationKind.UNKNOWN)


def at(**offsets: int) -> dict[TopicPartition, CommittedOffset]:
    """`t_0=3, came_1=4`."""
    return {
        TopicPartition(CAME if name.startswith("came") else OWN, int(name[-1])): CommittedOffset(offset)
        for name, offset in offsets.items()
    }


def timeless(translations: tuple[GroupTranslation, ...]) -> list[GroupTranslation]:
    return [replace(item, as_of_ms=0) for item in translations]


def offsets(ahead: PrecomputedMoves, group: str) -> dict[TopicPartition, int | None]:
    return {item.target: item.translation.offset for item in ahead.groups[group].translations}


def everything(
    now: FlowPairState, here: Mapping[str, Positions], stood: Mapping[str, Positions]
) -> list[GroupTranslation]:
    return timeless(translate(SETTINGS, now, here, stood))


def test_refresh_keeps_an_unchanged_group_and_translates_one_that_read_on_again() -> None:
    before, here = known(), {"still": at(t_0=3, t_1=10), "reads": at(t_0=3, came_0=2)}
    ahead = PrecomputedMoves.compute(SETTINGS, before, here, {"still": {}, "reads": {}})
    now = {**here, "reads": at(t_0=4, came_0=7)}
    again = ahead.refresh(SETTINGS, replace(before, forward=known().forward), now)
    assert again.recomputed == 1
    assert again.groups["still"] is ahead.groups["still"]
    assert timeless(again.translations) == everything(known(), now, {})
    assert offsets(again, "reads")[TopicPartition("A.t", 0)] == 5
    assert offsets(again, "still") == {TopicPartition("A.t", 0): 4, TopicPartition("A.t", 1): 11}


def test_refresh_translates_an_unchanged_position_again_where_the_mirror_went_on() -> None:
    """At the end of what was mirrored a position is the mirror's end, and behind the next claim's marker when more came."""
    here = {"end": at(t_0=10), "middle": at(t_0=3)}
    ahead = PrecomputedMoves.compute(SETTINGS, known(), here, {})
    assert offsets(ahead, "end") == {TopicPartition("A.t", 0): 11}
    again = ahead.refresh(SETTINGS, replace(ahead.translator.flow_pair, forward=known(gap=True).forward), here)
    assert offsets(again, "end") == {TopicPartition("A.t", 0): 13}
    assert (again.recomputed, again.groups["middle"]) == (1, ahead.groups["middle"])


OFFSETS = st.integers(0, 12)
GROUP = st.dictionaries(st.sampled_from(["t_0", "t_1", "came_0", "came_1"]), OFFSETS).map(lambda d: at(**d))
GROUPS = st.dictionaries(st.sampled_from("abcd"), GROUP)


@settings(max_examples=60)
@given(GROUPS, GROUPS, GROUPS, st.sampled_from([10, 11, 12]), st.booleans(), st.booleans())
def test_refresh_gives_what_translating_everything_would_give(
    first: dict[str, Positions],
    later: dict[str, Positions],
    stood: dict[str, Positions],
    records: int,
    gap: bool,
    read_anew: bool,
) -> None:
    ahead = PrecomputedMoves.compute(SETTINGS, known(), first, stood)
    here = {**first, **later}
    forward = known(records, gap=gap).forward
    now = replace(known() if read_anew else ahead.translator.flow_pair, forward=forward)
    again = ahead.refresh(SETTINGS, now, here)
    assert timeless(again.translations) == everything(now, here, stood)
    third = again.refresh(SETTINGS, now, here)
    assert third.recomputed == 0
    assert timeless(third.translations) == everything(now, here, stood)


def test_switchover_never_sets_a_group_back_or_past_the_end_of_the_log() -> None:
    """A position that is further ahead on the target was overwritten, and an offset past the end of its log committed."""
    ahead = PrecomputedMoves.compute(SETTINGS, known(), {"g": at(t_0=3, t_1=9)}, {})
    bounds = {TopicPartition("A.t", 0): LogBounds(0, 11), TopicPartition("A.t", 1): LogBounds(0, 5)}
    committed = {"g": {TopicPartition("A.t", 0): CommittedOffset(9)}}
    moves = decide_all(ahead.translations, bounds, committed)
    assert [(move.target.partition, move.offset, move.left) for move in moves] == [
        (0, None, Left.AHEAD),
        (1, None, Left.PAST_END),
    ]
    with pytest.raises(
        Deviated, match=r"g cannot move to B: t-0 at 3 is A\.t-0 there, and it is at 9 there, further ahead"
    ):
        refuse_blocked(moves, FLOW, inexact=True)
    rewound = decide_all(ahead.translations, bounds, committed, rewind=True)
    assert [move.offset for move in rewound] == [4, None]
    with pytest.raises(Deviated, match="its log ends at 5 there, before 10"):
        refuse_blocked(rewound, FLOW, inexact=False)
    refuse_blocked(rewound, FLOW, inexact=True)
