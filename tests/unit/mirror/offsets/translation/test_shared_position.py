"""A group's position between two logs of one topic, against a model that knows every record."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from two_logs import events, happened, stretches

from drlib.mirror.offsets.translation.shared_position import SharedPosition, not_copied
from drlib.model import Translation, TranslationKind


@given(events, st.integers(0, 60))
def test_position_is_the_first_unread_record_and_predicts_what_is_read_again(
    past: list[tuple[str, int]], at: int
) -> None:
    logs = happened(past)
    at = min(at, len(logs.here))
    found = logs.position(at)
    again, coming = logs.check(at, found)
    assert found.again == again
    assert not found.bound
    read = logs.read_by(at)
    unread = [n for n, record in enumerate(logs.there) if record is not None and record not in read]
    between = logs.there[found.offset : unread[0] if unread else None]
    assert not [record for record in between if record is not None], "too early"
    assert not found.exact or not coming


@given(events, st.integers(0, 60), st.integers(1, 3))
def test_position_by_thinned_maps_skips_nothing_and_bounds_what_is_read_again(
    past: list[tuple[str, int]], at: int, parts: int
) -> None:
    logs = happened(past)
    at = min(at, len(logs.here))
    for found in (logs.position(at, thinned=parts), logs.without_back(at, thinned=parts)):
        again, _ = logs.check(at, found)
        assert again <= found.again


@given(events, events, st.integers(0, 60), st.integers(0, 60))
def test_position_without_the_map_back_skips_nothing_and_bounds_what_is_read_again(
    past: list[tuple[str, int]], later: list[tuple[str, int]], at: int, before: int
) -> None:
    logs = happened(past)
    before = min(before, len(logs.here))
    known = logs.position(before).offset  # of any group, when both maps were still readable
    for event, count in later:
        logs.happen(event, count)
    at = min(at, len(logs.here))
    for found in (logs.without_back(at), logs.without_back(at, known if before <= at else 0)):
        again, _ = logs.check(at, found)
        assert again <= found.again
        assert not found.exact or not again


@given(st.lists(st.tuples(st.sampled_from(["here", "copy there", "marker here", "marker there"]), st.integers(1, 4))))
def test_position_without_the_map_back_is_exact_where_nobody_wrote_there(past: list[tuple[str, int]]) -> None:
    logs = happened(past)
    for at in range(logs.read_here + 1):
        assert logs.without_back(at).exact


@given(events, st.integers(0, 3), st.integers(0, 50))
def test_what_the_flow_did_not_copy_is_all_of_a_range_but_its_copies(
    past: list[tuple[str, int]], parts: int, begin: int
) -> None:
    logs = happened(past)
    copies = {target for _, target in logs.maps[0]}
    there = stretches(logs.maps[0], parts or None)
    found = [n for first, end in not_copied(there, [(begin, len(logs.there))]) for n in range(first, end)]
    others = [n for n in range(begin, len(logs.there)) if n not in copies]
    assert found == sorted(set(found))
    assert set(found) >= set(others)
    assert there.thinned is not None or found == others


def test_translation_is_exact_behind_or_bounded() -> None:
    assert SharedPosition(5, 0, 0).translation == Translation(5, TranslationKind.EXACT)
    assert SharedPosition(5, 0, 2).translation == Translation(5, TranslationKind.BEHIND, 2)
    assert SharedPosition(5, 3, 2).translation == Translation(5, TranslationKind.BOUNDED, 5)


def test_position_in_logs_of_one_order_is_exact() -> None:
    logs = happened([("here", 3), ("copy there", 3), ("there", 2), ("copy back", 5), ("here", 1), ("copy there", 9)])
    assert [record for record in logs.here if record] == [record for record in logs.there if record]
    assert [logs.position(at) for at in range(7)] == [SharedPosition(at, 0, 0) for at in range(7)]


def test_position_between_logs_of_another_order_reads_again_what_lies_behind_the_first_unread() -> None:
    logs = happened([("here", 2), ("there", 2), ("copy there", 2), ("copy back", 4), ("copy there", 2)])
    assert logs.here == ["h0", "h1", "t2", "t3"]
    assert logs.there == ["t2", "t3", "h0", "h1"]
    assert logs.position(2) == SharedPosition(0, 2, 0)  # h0 and h1 were read, t2 and t3 come before them there
    assert logs.position(3) == SharedPosition(1, 2, 0)
    assert logs.position(4) == SharedPosition(4, 0, 0)
    assert logs.without_back(4) == SharedPosition(0, 4, 0, bound=True)
    assert logs.without_back(4, known=1) == SharedPosition(1, 3, 0, bound=True)
    assert logs.without_back(4, known=2) == SharedPosition(4, 0, 0)
