"""A group's position between two logs of one topic, against a model that knows every record."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from drlib.mirror.journal.entries import SourcePartition
from drlib.mirror.offsets.map.segments import SegmentList
from drlib.mirror.offsets.translation.shared_position import SharedPosition, not_copied, shared_position
from drlib.model import Translation, TranslationKind

# What happens next: a client writes here or there, or a flow copies up to so many records, or a marker takes an offset.
events = st.lists(
    st.tuples(
        st.sampled_from(["here", "there", "copy there", "copy back", "marker here", "marker there"]), st.integers(1, 4)
    ),
    max_size=40,
)


@dataclass
class Logs:
    """Both logs, record by record; None is an offset without a record. A record's name says where it was written first."""

    here: list[str | None] = field(default_factory=list)
    there: list[str | None] = field(default_factory=list)
    read_here: int = 0
    read_there: int = 0
    maps: tuple[list[tuple[int, int]], list[tuple[int, int]]] = field(default_factory=lambda: ([], []))
    written: int = 0

    def happen(self, event: str, count: int) -> None:
        for _ in range(count):
            match event:
                case "here" | "there":
                    log = self.here if event == "here" else self.there
                    log.append(f"{event[0]}{self.written}")
                    self.written += 1
                case "marker here":
                    self.here.append(None)
                case "marker there":
                    self.there.append(None)
                case "copy there" if self.read_here < len(self.here):
                    record = self.here[self.read_here]
                    if record is not None and record.startswith("h"):
                        self.maps[0].append((self.read_here, len(self.there)))
                        self.there.append(record)
                    self.read_here += 1
                case "copy back" if self.read_there < len(self.there):
                    record = self.there[self.read_there]
                    if record is not None and record.startswith("t"):
                        self.maps[1].append((self.read_there, len(self.here)))
                        self.here.append(record)
                    self.read_there += 1

    def unread(self, begin: int) -> int | None:
        """The first record there from `begin` on that was first written there."""
        return next((n for n, r in enumerate(self.there) if n >= begin and r is not None and r.startswith("t")), None)

    def position(self, at: int, *, thinned: int | None = None) -> SharedPosition:
        there, back = (stretches(pairs, thinned) for pairs in self.maps)
        unread = self.unread(self.read_there)
        return shared_position(at, there, back, read_here=self.read_here, unread=unread, end=len(self.there))

    def without_back(self, at: int, known: int = 0, *, thinned: int | None = None) -> SharedPosition:
        """Without the map of the flow back; the group is known to have read what lies before `known` there."""
        there, unread = stretches(self.maps[0], thinned), self.unread(known)
        return shared_position(at, there, None, read_here=self.read_here, unread=unread, end=len(self.there))

    def read_by(self, at: int) -> set[str]:
        return {record for record in self.here[:at] if record is not None}

    def check(self, at: int, found: SharedPosition) -> tuple[int, int]:
        """Nothing is skipped; how many records are read again there, and how many are still to come."""
        read = self.read_by(at)
        skipped = [r for r in self.there[: found.offset] if r is not None and r not in read]
        assert not skipped
        coming = [r for r in self.here[self.read_here : at] if r is not None and r.startswith("h")]
        assert found.following >= len(coming)
        return sum(record in read for record in self.there[found.offset :] if record is not None), len(coming)


def happened(events: list[tuple[str, int]]) -> Logs:
    logs = Logs()
    for event, count in events:
        logs.happen(event, count)
    return logs


def stretches(pairs: list[tuple[int, int]], thinned: int | None = None) -> SegmentList:
    """`thinned`: all but the last stretch as so many parts."""
    found = SegmentList()
    for source, target in pairs:
        found.append(source, target, 1)
    if thinned is not None:
        over = found.thinned_out(SourcePartition(UUID(int=1), 0), 1, thinned, ())
        if over is not None:
            found.thin(over)
    return found


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
