"""A group's position between two logs of one topic, against a model that knows every record."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from drlib.mirror.offsets.translation.shared_position import SharedPosition, shared_position
from drlib.model import Segment

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

    def position(self, at: int) -> SharedPosition:
        there, back = (stretches(pairs) for pairs in self.maps)
        return shared_position(
            at, there, back, read_here=self.read_here, read_there=self.read_there, end=len(self.there)
        )


def stretches(pairs: list[tuple[int, int]]) -> list[Segment]:
    found: list[Segment] = []
    for source, target in pairs:
        if found and (found[-1].source_end, found[-1].target_end) == (source, target):
            found[-1] = Segment(found[-1].source, found[-1].target, found[-1].count + 1)
        else:
            found.append(Segment(source, target, 1))
    return found


@given(events, st.integers(0, 60))
def test_position_is_the_first_unread_record_and_predicts_what_is_read_again(
    happened: list[tuple[str, int]], at: int
) -> None:
    logs = Logs()
    for event, count in happened:
        logs.happen(event, count)
    at = min(at, len(logs.here))
    read = {record for record in logs.here[:at] if record is not None}
    found = logs.position(at)
    unread = [n for n, record in enumerate(logs.there) if record is not None and record not in read]
    skipped = [n for n in unread if n < found.offset]
    assert not skipped
    between = logs.there[found.offset : unread[0] if unread else None]
    assert not [record for record in between if record is not None] or found.offset >= logs.read_there, "too early"
    assert found.again == sum(record in read for record in logs.there[found.offset :] if record is not None)
    coming = [r for n, r in enumerate(logs.here[:at]) if n >= logs.read_here and r is not None and r.startswith("h")]
    assert found.following >= len(coming)
    assert not found.exact or not coming


def test_position_in_logs_of_one_order_is_exact() -> None:
    logs = Logs()
    for event, count in [
        ("here", 3),
        ("copy there", 3),
        ("there", 2),
        ("copy back", 5),
        ("here", 1),
        ("copy there", 9),
    ]:
        logs.happen(event, count)
    assert [record for record in logs.here if record] == [record for record in logs.there if record]
    assert [logs.position(at) for at in range(7)] == [SharedPosition(at, 0, 0) for at in range(7)]


def test_position_between_logs_of_another_order_reads_again_what_lies_behind_the_first_unread() -> None:
    logs = Logs()
    for event, count in [("here", 2), ("there", 2), ("copy there", 2), ("copy back", 4)]:
        logs.happen(event, count)
    assert logs.here == ["h0", "h1", "t2", "t3"]
    assert logs.there == ["t2", "t3", "h0", "h1"]
    assert logs.position(2) == SharedPosition(0, 2, 0)  # h0 and h1 were read, t2 and t3 come before them there
    assert logs.position(3) == SharedPosition(1, 2, 0)
    assert logs.position(4) == SharedPosition(4, 0, 0)
