"""Which offsets that are not as they were, nor as decided, count as changed by others: not those that a mirror synchronizes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from drlib.drill.actions.groups import commit
from drlib.drill.actions.groups.rules import PositionMove
from drlib.kafka.admin.descriptions import CommittedOffset
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import GroupTranslation, TopicPartition, Translation, TranslationKind

TARGET = ClusterSettings("RIGHT", ("r:1",))
HERE, THERE = TopicPartition("orders", 0), TopicPartition("LEFT.orders", 0)
MOVE = PositionMove("billing", HERE, 50, THERE, 50, TranslationKind.EXACT, 0, 0, before=20)
Newest = Mapping[tuple[str, TopicPartition], GroupTranslation]


def newest(offset: int | None, kind: TranslationKind = TranslationKind.EXACT, records: int = 0) -> Newest:
    translation = Translation(offset, kind, records)
    return {(MOVE.group, THERE): GroupTranslation(MOVE.group, HERE, 70, THERE, translation, 0)}


@pytest.mark.parametrize(
    ("now", "since", "after"),
    [
        (20, {}, 50),  # as it was
        (50, {}, 50),  # as decided
        (30, {}, 50),  # synchronized since, as the source's position was a moment ago
        (10, {}, None),  # set back by others
        (60, {}, None),  # nothing is known of its group on the source any more
        (60, newest(55), None),  # read there
        (60, newest(None), None),
        (60, newest(60), 60),  # synchronized, as the group has read on on the source since
        (60, newest(70), 60),
        (60, newest(55, TranslationKind.BOUNDED, 5), 60),  # within what MirrorMaker 2 may have written
        (60, newest(55, TranslationKind.BOUNDED, 4), None),
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_offset_that_is_not_as_decided_is_anothers_only_beyond_what_its_group_has_read_on_the_source_by_now(
    monkeypatch: pytest.MonkeyPatch, now: int, since: Newest, after: int | None, late: bool
) -> None:
    """Found before it is written, or `late`, when it is read back. `after`: None where the group is left, with a reason."""
    if late and now < 50:
        return  # it is not lowered behind a commit
    there, asked = {THERE: CommittedOffset(20 if late else now)}, 0

    def committed(_: ClusterSettings, groups: Collection[str]) -> dict[str, dict[TopicPartition, CommittedOffset]]:
        nonlocal asked
        asked += 1
        if late and asked == 2:
            there[THERE] = CommittedOffset(now)
        return {group: dict(there) for group in groups}

    def write(
        _: ClusterSettings, wanted: Mapping[str, Mapping[TopicPartition, CommittedOffset]], __: float
    ) -> dict[str, None]:
        for offsets in wanted.values():
            there.update(offsets)
        return dict.fromkeys(wanted)

    monkeypatch.setattr(commit, "committed_positions", committed)
    monkeypatch.setattr(commit, "commit_all", write)
    used = commit.write_unless_used(TARGET, [MOVE], lambda groups: since if groups == {MOVE.group} else {})
    assert bool(used) is (after is None)
    assert there[THERE].offset == (now if after is None else after)
