"""Two logs of one topic, record by record, and the maps of the flows between them: a model that knows what was read."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from hypothesis import strategies as st

from drlib.mirror.journal.entries import Chunk, Covered, SourcePartition
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.offsets.map.segments import SegmentList
from drlib.mirror.offsets.translation.shared_position import SharedPosition, shared_position
from drlib.model import Segment

PARTITION = SourcePartition(UUID(int=1), 0)

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
        over = found.thinned_out(PARTITION, 1, thinned, ())
        if over is not None:
            found.thin(over)
    return found


def built(pairs: list[tuple[int, int]], read: int) -> PartitionMap:
    """The map of a flow that has read its source up to `read`."""
    found = PartitionMap()
    if pairs:
        found.apply(Chunk(PARTITION, 0, tuple(Segment(source, target, 1) for source, target in pairs)))
    found.apply(Covered(PARTITION, read))
    return found
