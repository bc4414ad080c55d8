"""Positions from maps that are followed, each as it was some time ago: lower than they could be, and nothing is skipped."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from two_logs import PARTITION, Logs, built, events, happened

from drlib.mirror.journal.entries import SourceTruncated
from drlib.mirror.offsets.translation.shared_followed import SharedTopic, translate_followed
from drlib.model import TopicPartition, TranslationKind

UNKNOWN = TranslationKind.UNKNOWN


@given(st.lists(events, min_size=3, max_size=3), st.integers(0, 60), st.booleans())
def test_maps_of_different_moments_skip_nothing_on_the_log_as_it_is_later(
    past: list[list[tuple[str, int]]], at: int, back_is_older: bool
) -> None:
    logs = Logs()
    seen = []
    for part in past:
        for event, count in part:
            logs.happen(event, count)
        seen.append([built(list(logs.maps[0]), logs.read_here), built(list(logs.maps[1]), logs.read_there)])
    there, back = (seen[1][0], seen[0][1]) if back_is_older else (seen[0][0], seen[1][1])
    at = min(at, len(logs.here))
    translation = translate_followed(there, back, at).translation
    assert translation.offset is not None
    read = logs.read_by(at)
    assert not [r for r in logs.there[: translation.offset] if r is not None and r not in read]
    newest = translate_followed(seen[2][0], seen[2][1], at).translation
    assert newest.offset is not None
    assert newest.offset >= translation.offset, "more that is known never lowers a position"
    known = logs.without_back(at, translation.offset)  # as a checkpoint keeps it
    again, _ = logs.check(at, known)
    assert again <= known.again


def test_map_in_doubt_makes_a_position_unknown() -> None:
    logs = happened([("here", 4), ("copy there", 4), ("there", 2), ("copy back", 6)])
    there, back = built(logs.maps[0], 4), built(logs.maps[1], 6)
    assert translate_followed(there, back, 2).translation.exact
    there.apply(SourceTruncated(PARTITION, 1, 4, 0))
    answer = translate_followed(there, back, 2)
    assert (answer.translation.kind, answer.translation.offset) == (UNKNOWN, None)
    assert "went back" in answer.why


def test_topic_ids_as_a_checkpoint_has_them() -> None:
    ids = SharedTopic(TopicPartition("t", 0), UUID(int=1), UUID(int=2)).ids
    assert ids == f"{UUID(int=1)}/{UUID(int=2)}"
