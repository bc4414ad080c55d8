"""Which positions in a mirror become positions on the source, by literal cases, and for which flows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small_maps import TWO_RUNS, P, built

from drlib.config.flow_settings import FlowSettings
from drlib.config.replication_policy import IdentityReplicationPolicy
from drlib.mirror.journal.entries import SourceLoss, SourceTruncated
from drlib.mirror.sync.group_offsets_back import Resets, interval_s, position_on_source
from drlib.model import Flow, TopicPartition, Translation, TranslationKind

EXACT = TranslationKind.EXACT
TP = TopicPartition("t", 0)
THERE = FlowSettings(flow=Flow("A", "B"), enabled=True)
BACK = FlowSettings(flow=Flow("B", "A"), enabled=True, sync_group_offsets=True, sync_group_offsets_s=7)


@pytest.mark.parametrize(
    ("position", "committed", "offset"),
    [
        (4, 10, 13),  # read on, on the mirror
        (4, None, 13),  # never read on the source
        (7, 14, 17),  # over the gap
        (8, 10, 18),  # all of the mirror
        (9, 10, 18),  # and the marker behind it
        (9, 22, 22),  # the source was read further than the mirror reaches
        (4, 13, None),  # what the mirror's synchronization wrote
        (1, 10, None),
        (3, 13, None),  # less than on the source
        (1, None, None),  # nothing was read of the mirror
        (0, None, None),
    ],
)
def test_position_on_source_only_of_records_read_on_the_mirror(
    position: int, committed: int | None, offset: int | None
) -> None:
    expected = None if offset is None else Translation(offset, EXACT)
    assert position_on_source(built(*TWO_RUNS), position, committed) == expected


def test_position_on_source_gap_in_the_mirror_is_no_progress() -> None:
    """The record at 15 never reached the mirror; the group waits for it on the source, and its mirror position is behind it."""
    offsets = built(*TWO_RUNS, SourceLoss(P, 15, 16, 0))
    assert offsets.forward(15) == Translation(6, TranslationKind.LOST, 1)
    assert position_on_source(offsets, 6, 15) is None
    assert position_on_source(offsets, 7, 15) == Translation(17, EXACT)


def test_position_on_source_of_unknown_history_is_no_guess() -> None:
    offsets = built(*TWO_RUNS, SourceTruncated(P, 12, 18, 0))
    found = position_on_source(offsets, 7, 10)
    assert found is not None
    assert found.kind is TranslationKind.UNKNOWN


def test_position_on_source_resumes_past_settled_records_and_within_the_log() -> None:
    assert position_on_source(built(*TWO_RUNS), 8, 10, settled=25) == Translation(25, EXACT)
    assert position_on_source(built(*TWO_RUNS), 8, 10, log_start=30) == Translation(30, EXACT)


def test_resets_hold_a_position_until_the_group_reads_on_in_the_mirror() -> None:
    resets = Resets()
    assert not resets.holds("g", TP, 8, None)
    assert not resets.holds("g", TP, 8, 20)
    assert resets.holds("g", TP, 8, 5)  # set back on the source
    assert resets.holds("g", TP, 8, 5)
    assert not resets.holds("g", TP, 9, 5)
    assert not resets.holds("other", TP, 8, 5)
    assert resets.holds("g", TP, 9, 3)
    resets.retain(["other"])
    assert not resets.holds("g", TP, 9, 3)


@pytest.mark.parametrize(
    ("settings", "reverse", "seconds"),
    [
        (THERE, BACK, 7),
        (THERE, None, None),
        (THERE, replace(BACK, enabled=False), None),
        (THERE, replace(BACK, sync_group_offsets=False), None),
        (replace(THERE, policy=IdentityReplicationPolicy(source_alias="A")), BACK, None),
        (replace(THERE, sync_group_offsets_back=False), BACK, None),
        (replace(THERE, sync_group_offsets_back=True), replace(BACK, enabled=False), 7),
        (replace(THERE, sync_group_offsets_back=True), None, 60),
    ],
)
def test_interval_back_is_that_of_the_reverse_flow_where_it_may_write(
    settings: FlowSettings, reverse: FlowSettings | None, seconds: int | None
) -> None:
    assert interval_s(settings, reverse) == seconds
