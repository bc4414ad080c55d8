"""Leader epochs of positions in the journal."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from drlib.mirror.journal.entries import Entry, SourceEpoch, SourcePartition
from drlib.mirror.journal.leader_epochs import NEVER, epoch_below, epochs_read, taken_back

T, U = UUID(int=1), UUID(int=2)
P, Q = SourcePartition(T, 0), SourcePartition(U, 0)


def test_epoch_below_is_that_of_the_record_before_the_position() -> None:
    entries = [SourceEpoch(P, 4, 0), SourceEpoch(P, 5, 100), SourceEpoch(Q, 9, 7)]
    read = epochs_read(entries)[P]
    assert [epoch_below(read, at) for at in (0, 1, 100, 101, 500)] == [-1, 4, 4, 5, 5]
    assert epoch_below({}, 5) == -1


def test_taken_back_epochs_beyond_the_position() -> None:
    """Epoch 5 was read from 100 on but never delivered, and the source's new log never had it."""
    entries: list[Entry] = [SourceEpoch(P, 4, 0), SourceEpoch(P, 5, 100)]
    back = taken_back(P, epochs_read(entries)[P], 95)
    assert back == [SourceEpoch(P, 5, NEVER)]
    assert back[0].value() == bytes.fromhex("01 7fffffffffffffff"), "journals of earlier versions have it"
    read = epochs_read([*entries, *back, SourceEpoch(P, 6, 105)])[P]
    assert [epoch_below(read, at) for at in (103, 105, 106)] == [4, 4, 6]
    assert taken_back(P, read, 200) == []


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=8), st.integers(0, 60))
def test_taken_back_keeps_the_epoch_of_the_position(noted: list[tuple[int, int]], position: int) -> None:
    read = dict(noted)
    after = {**read, **{e.epoch: e.source_offset for e in taken_back(P, read, position) if isinstance(e, SourceEpoch)}}
    assert epoch_below(after, position) == epoch_below(read, position)
    assert all(first < position for first in after.values() if first != NEVER)
