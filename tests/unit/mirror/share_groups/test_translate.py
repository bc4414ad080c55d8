"""Boundaries of share groups, translated: intervals get smaller, never larger."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drlib.kafka.share_groups.state import ShareState
from drlib.mirror.share_groups.known import KnownShare
from drlib.mirror.share_groups.translate import ShareTranslation, boundaries, group_of, translate_shares
from drlib.model import GroupTranslation, TopicPartition, Translation, TranslationKind

AT, THERE = TopicPartition("orders", 0), TopicPartition("LEFT.orders", 0)
EXACT, BEHIND, BOUNDED = TranslationKind.EXACT, TranslationKind.BEHIND, TranslationKind.BOUNDED
LOST, NEVER, UNKNOWN = TranslationKind.LOST, TranslationKind.NEVER_MIRRORED, TranslationKind.UNKNOWN
KNOWN = {("g", AT): KnownShare(ShareState(10, ((12, 14),)), 99)}


def intervals(first: Translation, end: Translation) -> tuple[tuple[int, int], ...] | None:
    by_offset = {10: Translation(110, EXACT), 12: first, 14: end}
    asked = boundaries(KNOWN)
    found = [GroupTranslation(name, AT, at.offset, THERE, by_offset[at.offset], 99) for (name, _), at in asked.items()]
    (item,) = translate_shares(KNOWN, lambda _: found)
    assert (item.translation, item.target) == (Translation(110, EXACT), THERE)
    return item.complete


@pytest.mark.parametrize(
    ("first", "end", "complete"),
    [
        (Translation(112, EXACT), Translation(114, EXACT), ((112, 114),)),
        (Translation(112, EXACT), Translation(113, BEHIND, 1), ((112, 113),)),  # the mirrored end
        (Translation(113, BEHIND, 1), Translation(113, BEHIND, 3), ()),
        (Translation(113, LOST, 1), Translation(115, LOST, 2), ((113, 115),)),
        (Translation(111, BOUNDED, 2), Translation(114, BOUNDED, 2), ((113, 114),)),
        (Translation(111, BOUNDED, 5), Translation(114, BOUNDED, 2), ()),
        (Translation(None, UNKNOWN), Translation(114, EXACT), ()),
        (Translation(112, EXACT), Translation(None, UNKNOWN), ()),
        (Translation(None, NEVER), Translation(114, EXACT), ()),
    ],
)
def test_translated_interval_has_nothing_that_may_not_have_been_complete(
    first: Translation, end: Translation, complete: tuple[tuple[int, int], ...]
) -> None:
    assert intervals(first, end) == complete


def test_translated_unknown_intervals_stay_unknown_and_unmirrored_topics_are_left_out() -> None:
    unknown = {("g", AT): KnownShare(ShareState(10, None, 4), 99)}

    def found(asked: object) -> list[GroupTranslation]:
        return [GroupTranslation(name, AT, 10, THERE, Translation(110, EXACT), 99) for name, _ in boundaries(unknown)]

    (item,) = translate_shares(unknown, found)
    assert item.complete is None
    assert translate_shares(KNOWN, lambda _: []) == ()
    assert {group_of(name) for name, _ in boundaries(KNOWN)} == {"g"}


def test_behind_is_what_lies_behind_the_start_on_the_target() -> None:
    known = KnownShare(ShareState(10, ((12, 14),)), 99)
    item = ShareTranslation("g", AT, known, THERE, Translation(110, EXACT), ((105, 112), (115, 117)))
    assert item.behind == ((110, 112), (115, 117))
    assert replace(item, complete=None).behind is None
    assert replace(item, translation=Translation(None, UNKNOWN)).behind is None
