"""What was worked out while applications ran counts when they stand still just where it would come out the same."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st

from drlib.config.settings import MirrorSettings
from drlib.drill.actions.failback.precompute import PrecomputedMoves
from drlib.kafka.admin.descriptions import CommittedOffset, TopicDescription
from drlib.mirror.journal.entries import Ack, ClaimId, Covered, Placement, Run, SourcePartition, TopicNames
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.offsets.translation.two_way import FlowPairState, Move, Positions, translate
from drlib.mirror.offsets.unreplicated.settle import Ledger
from drlib.model import Flow, TopicPartition

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


def at(**offsets: int) -> dict[TopicPartition, CommittedOffset]:
    """`t_0=3, came_1=4`."""
    return {
        TopicPartition(CAME if name.startswith("came") else OWN, int(name[-1])): CommittedOffset(offset)
        for name, offset in offsets.items()
    }


def timeless(moves: tuple[Move, ...]) -> list[Move]:
    return [replace(move, translation=replace(move.translation, as_of_ms=0)) for move in moves]


def everything(now: FlowPairState, here: Mapping[str, Positions], stood: Mapping[str, Positions]) -> list[Move]:
    return timeless(translate(SETTINGS, now, here, stood))


def test_a_group_that_stood_still_is_taken_as_it_was_and_one_that_read_on_is_asked_anew() -> None:
    before, here = known(), {"still": at(t_0=3, t_1=10), "reads": at(t_0=3, came_0=2)}
    ahead = PrecomputedMoves.decide(SETTINGS, before, here, {"still": {}, "reads": {}})
    now = {**here, "reads": at(t_0=4, came_0=7)}
    again = ahead.refresh(SETTINGS, replace(before, forward=known().forward), now)
    assert again.recomputed == 1
    assert again.groups["still"] is ahead.groups["still"]
    assert timeless(tuple(again.found)) == everything(known(), now, {})
    assert again.wanted["reads"][TopicPartition("A.t", 0)] == CommittedOffset(5)
    assert again.wanted["still"] == {
        TopicPartition("A.t", 0): CommittedOffset(4),
        TopicPartition("A.t", 1): CommittedOffset(11),
    }


def test_a_position_that_stands_still_is_asked_anew_where_the_mirror_went_on() -> None:
    """At the end of what was mirrored a position is the mirror's end, and behind the next claim's marker when more came."""
    here = {"end": at(t_0=10), "middle": at(t_0=3)}
    ahead = PrecomputedMoves.decide(SETTINGS, known(), here, {})
    assert ahead.wanted["end"] == {TopicPartition("A.t", 0): CommittedOffset(11)}
    again = ahead.refresh(SETTINGS, replace(ahead.told.flow_pair, forward=known(gap=True).forward), here)
    assert again.wanted["end"] == {TopicPartition("A.t", 0): CommittedOffset(13)}
    assert (again.recomputed, again.groups["middle"]) == (1, ahead.groups["middle"])


OFFSETS = st.integers(0, 12)
GROUP = st.dictionaries(st.sampled_from(["t_0", "t_1", "came_0", "came_1"]), OFFSETS).map(lambda d: at(**d))
GROUPS = st.dictionaries(st.sampled_from("abcd"), GROUP)


@settings(max_examples=60)
@given(GROUPS, GROUPS, GROUPS, st.sampled_from([10, 11, 12]), st.booleans(), st.booleans())
def test_what_comes_out_is_what_would_come_out_of_everything_then(
    first: dict[str, Positions],
    later: dict[str, Positions],
    stood: dict[str, Positions],
    records: int,
    gap: bool,
    read_anew: bool,
) -> None:
    ahead = PrecomputedMoves.decide(SETTINGS, known(), first, stood)
    here = {**first, **later}
    forward = known(records, gap=gap).forward
    now = replace(known() if read_anew else ahead.told.flow_pair, forward=forward)
    again = ahead.refresh(SETTINGS, now, here)
    assert timeless(tuple(again.found)) == everything(now, here, stood)
    third = again.refresh(SETTINGS, now, here)
    assert third.recomputed == 0
    assert timeless(tuple(third.found)) == everything(now, here, stood)
