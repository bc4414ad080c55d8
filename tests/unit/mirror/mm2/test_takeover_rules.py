"""A model of MM2 that is killed and restarted at its committed offset, and the takeover decision after it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drlib.kafka.protocol.recode import digest
from drlib.mirror.journal.entries import ClaimId, Placement, Run, SourcePartition, Takeover, decode
from drlib.mirror.mm2 import takeover_rules as takeover
from drlib.mirror.mm2.takeover_rules import (
    PAIRS_KEPT,
    Decision,
    MirrorLog,
    RecordDigest,
    contradiction,
    decide,
    usable_pairs,
    window,
)
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.model import Translation, TranslationKind

KEY = SourcePartition(uuid.uuid4(), 0)
CLAIM = ClaimId(7, 0)


def marks(contents: list[bytes], first: int = 0) -> list[RecordDigest]:
    return [RecordDigest(first + i, content) for i, content in enumerate(contents)]


@dataclass(frozen=True)
class History:
    """Two logs, MM2's last committed offset, the first offset without a copy, and the syncs it wrote."""

    source: list[bytes]
    mirror: list[bytes]
    committed: int | None
    reached: int
    syncs: list[tuple[int, int]]

    def compared(self) -> tuple[list[RecordDigest], list[RecordDigest]]:
        """The records compared: both logs from the window on."""
        at = (0, 0) if self.committed is None else window(self.syncs, self.committed, len(self.mirror))
        here = [mark for mark in marks(self.source) if mark.offset >= at[0]]
        return here, [mark for mark in marks(self.mirror) if mark.offset >= at[1]]


@st.composite
def histories(draw: st.DrawFn, letters: int) -> History:
    size = draw(st.integers(1, 40))
    source = [n.to_bytes(4) for n in range(size)]
    if letters < size:
        source = [draw(st.integers(0, letters - 1)).to_bytes(4) for _ in range(size)]
    mirror: list[bytes] = []
    syncs: list[tuple[int, int]] = []
    committed, reached = -1, 0
    for _ in range(draw(st.integers(1, 4))):
        end = draw(st.integers(committed + 1, size))
        reported = [n for n in range(committed + 1, end) if n == committed + 1 or draw(st.integers(0, 3)) == 0]
        if draw(st.booleans()):
            reported = reported[:-1]  # the last sync died with the process
        syncs += [(offset, len(mirror) + offset - committed - 1) for offset in reported]
        mirror += source[committed + 1 : end]
        reached = max(reached, end)
        committed = draw(st.integers(committed, end - 1)) if end > committed + 1 else committed
    return History(source, mirror, committed if committed >= 0 else None, reached, syncs)


@pytest.fixture(params=[0, 1000])
def margin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(takeover, "_MARGIN", request.param)


@pytest.mark.usefixtures("margin")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(histories(letters=1000))
def test_decide_distinct_records_is_exact(history: History) -> None:
    found = decide(*history.compared(), history.committed, 0)
    assert (found.position, found.doubtful) == (history.reached, 0)


@given(histories(letters=3))
def test_decide_repeated_records_are_never_skipped(history: History) -> None:
    found = decide(*history.compared(), history.committed, 0)
    assert found.position <= history.reached <= found.position + found.doubtful


@pytest.mark.usefixtures("margin")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(histories(letters=1000), st.data())
def test_translate_sparse_misses_nothing_and_rereads_within_the_bound(history: History, data: st.DataObject) -> None:
    source, mirror = history.source, history.mirror
    here, there = history.compared()
    decision = decide(here, there, history.committed, 0)
    pairs = usable_pairs(history.syncs, here, there, decision.position)
    group = data.draw(st.integers(0, decision.position))
    committed = -1 if history.committed is None else history.committed
    offsets = PartitionMap()
    offsets.apply(Takeover(KEY, decision.position, len(mirror), committed, 0, 1, pairs))
    offsets.apply(Placement(KEY, CLAIM, 0, len(mirror)))
    found = offsets.forward(group)
    assert found.offset is not None
    if group == decision.position:
        assert found == Translation(len(mirror), TranslationKind.EXACT)
        return
    assert found.kind is TranslationKind.BOUNDED
    assert {*source[group : decision.position]} <= {*mirror[found.offset :]}, "a record would be skipped"
    unseen = next(i for i in range(found.offset, len(mirror)) if mirror[i] in source[group:])
    assert unseen - found.offset <= found.records


def test_decide_mirror_with_other_content_proves_nothing() -> None:
    source = marks([b"a", b"b", b"c"], 10)
    assert decide(source, marks([b"A", b"B"]), 10, 0) == Decision(11, 2, 0)
    assert decide(source, marks([b"A", b"B", b"C"]), 10, 0) == Decision(11, 2, 0)
    assert decide(source, marks([b"A"]), 10, 0) == Decision(11, 1, 0)


def test_decide_skipped_aborted_records_do_not_end_the_search() -> None:
    source = [RecordDigest(0, b"a"), RecordDigest(1, b"x", True), RecordDigest(2, b"x", True), RecordDigest(4, b"b")]
    assert decide(source, marks([b"a", b"b"]), 0, 0) == Decision(5, 0, 3)


def test_decide_repeated_content_after_the_last_proof_is_doubtful() -> None:
    contents = [b"a", b"x", b"b", b"x"]
    assert decide(marks(contents), marks(contents), 0, 0) == Decision(3, 1, 2)


@pytest.mark.parametrize(("may_be_aborted", "doubtful"), [(False, 0), (True, 2)])
def test_decide_record_without_a_copy_ends_the_search_unless_aborted(may_be_aborted: bool, doubtful: int) -> None:
    source = [RecordDigest(0, b"a"), RecordDigest(1, b"x", may_be_aborted), RecordDigest(2, b"a")]
    found = decide(source, marks([b"a", b"a"]), 0, 0)
    assert found == Decision(1, doubtful, 0)
    assert found.exact is (doubtful == 0)


LONG = 1_000_000  # mirrors of this length are not compared from their start


@pytest.mark.parametrize(
    ("pairs", "committed", "mirror_end", "expected"),
    [
        ([], 5, LONG, (0, 0)),
        ([(500, 600)], 499, LONG, (0, 0)),  # later syncs only
        ([(500, 600)], 500, LONG, (500, 600)),
        # the newest sync not past the committed offset
        ([(1, 2), (10_000, 10_000), (20_000, 20_000)], 15_000, LONG, (10_000, 10_000)),
        ([(1, 2), (10_000, 10_000), (20_000, 20_000)], 10_000, LONG, (10_000, 10_000)),
        ([(10_000, 50_000), (20_000, 10)], 10_000, LONG, (10_000, 50_000)),
        # and fewer than 1000 records before it, because syncs may be lost
        ([(1, 2), (9_000, 9_000), (10_000, 10_000)], 10_000, LONG, (10_000, 10_000)),
        ([(1, 2), (9_001, 9_001), (10_000, 10_000)], 10_000, LONG, (9_001, 9_001)),
        ([(9_500, 9_500), (10_000, 10_000)], 10_000, LONG, (9_500, 9_500)),
        ([(8_000, 9_100), (8_500, 9_500), (10_000, 10_000)], 10_000, LONG, (8_000, 9_100)),
        # an earlier run of MM2 got further than the committed offset
        ([(1, 2), (5_000, 5_000), (4_000, 20_000)], 19_998, LONG, (4_000, 5_000)),
        ([(1, 2), (5_000, 5_000), (4_000, 20_000)], 19_999, LONG, (4_000, 20_000)),
        # the mirror topic was made again: earlier syncs are of another log
        ([(1, 50_000), (7_000, 100), (8_000, 20_000)], 8_000, LONG, (7_000, 100)),
        ([(6_000, 19_500), (7_000, 19_500), (7_500, 20_000)], 7_500, LONG, (6_000, 19_500)),
        # syncs past the mirror's end are of another log as well
        ([(5, 6), (300_000, 200_000)], 400_000, 200_000, (5, 6)),
        ([(5, 6), (300_000, 199_999)], 400_000, 200_000, (300_000, 199_999)),
        # the first run may have died before its first sync: a short mirror is compared from its start where it matters
        ([(4_000, 40_000)], 5_000, 100_000, (0, 0)),
        ([(4_000, 40_000)], 5_000, 100_001, (4_000, 40_000)),
        ([(40_000, 40_000)], 50_000, 100_000, (40_000, 40_000)),
    ],
)
def test_window_begins_where_every_copy_past_the_committed_offset_is_found(
    pairs: list[tuple[int, int]], committed: int, mirror_end: int, expected: tuple[int, int]
) -> None:
    assert window(pairs, committed, mirror_end) == expected


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([(0, 3), (1, 10), (2, 11)], ((0, 3), (1, 10), (2, 11))),
        ([(0, 3), (3, 10)], ((0, 3),)),  # at the position to continue from
        ([(0, 3), (2, 12)], ((0, 3),)),  # past the end of the mirror
        ([(0, 3), (1, 11)], ((0, 3),)),  # its copy is not followed one to one
        ([(0, 10)], ((0, 10),)),  # where the comparison begins, nothing is known about it
        ([(1, 10), (0, 9)], ((0, 9),)),  # one that goes back on the source supersedes
        ([(1, 5), (1, 6)], ((1, 6),)),
        ([(0, 6), (1, 5)], ((1, 5),)),  # and one that goes back on the target
        ([(0, 5), (1, 5)], ((1, 5),)),
    ],
)
def test_usable_pairs_ascend_and_are_proven_where_compared(
    pairs: list[tuple[int, int]], expected: tuple[tuple[int, int], ...]
) -> None:
    source = marks([b"a", b"b", b"c", b"d"])
    assert usable_pairs(pairs, source, marks([b"b", b"c"], 10), 3) == expected
    assert usable_pairs(pairs, source, [], 3) == ()


def test_digest_covers_key_value_headers_and_timestamp() -> None:
    one = digest(b"k", b"v", [("h", b"1")], 5)
    others = [
        digest(b"k", b"v", [("h", b"1")], 6),
        digest(b"k", b"v", [("h", None)], 5),
        digest(b"k", b"v", [], 5),
        digest(None, b"kv", [("h", b"1")], 5),
        digest(b"k", None, [("h", b"1")], 5),
        digest(b"", b"kv", [("h", b"1")], 5),
        digest(b"k", b"v", [("h", b"1")], None),
    ]
    assert len({one, *others}) == 8
    assert digest(b"k", b"v", [("h", b"1")], 5) == one


def test_usable_pairs_thins_the_oldest() -> None:
    pairs = usable_pairs(((n, n) for n in range(10_000)), marks([b"z"], 9_999), marks([b"z"], 9_999), 10_000)
    assert len(pairs) <= PAIRS_KEPT
    assert pairs[-100:] == tuple((n, n) for n in range(9_900, 10_000))
    assert pairs[0] == (0, 0)


def test_usable_pairs_over_256_keeps_every_second_of_the_older_half() -> None:
    newest = marks([b"z"], 9_999)
    every = tuple((n, n) for n in range(257))
    assert usable_pairs(every[1:], newest, newest, 10_000) == every[1:]
    assert usable_pairs(every, newest, newest, 10_000) == every[:128:2] + every[128:]


def test_map_own_records_after_takeover_are_exact_both_ways() -> None:
    taken = Takeover(KEY, 1000, 800, 990, 0, 1, ((500, 400), (900, 760)))
    assert decode(taken.key(), taken.value()) == taken
    offsets = PartitionMap()
    offsets.apply(taken)
    assert offsets.backward(800) == Translation(1000, TranslationKind.EXACT)
    offsets.apply(Placement(KEY, CLAIM, 0, 801))
    assert offsets.position == 1000
    assert offsets.forward(1000) == Translation(801, TranslationKind.EXACT)
    assert offsets.forward(1004) == Translation(801, TranslationKind.BEHIND, 4)
    assert offsets.backward(800) == Translation(1000, TranslationKind.EXACT)
    offsets.apply(Run(KEY, CLAIM, 0, 1002))
    offsets.ack(CLAIM, 10)
    assert offsets.forward(1000) == Translation(801, TranslationKind.EXACT), "1000 and 1001 were markers"
    assert offsets.forward(1005) == Translation(804, TranslationKind.EXACT)
    assert offsets.forward(950) == Translation(761, TranslationKind.BOUNDED, 39)
    assert offsets.forward(950, target_log_start=780) == Translation(780, TranslationKind.BOUNDED, 20)
    assert offsets.forward(950, target_log_start=800) == Translation(800, TranslationKind.BOUNDED, 0)
    assert offsets.backward(800) == Translation(1002, TranslationKind.EXACT)
    assert offsets.backward(780) == Translation(901, TranslationKind.BOUNDED, 99)


@pytest.mark.usefixtures("margin")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(histories(letters=1000), st.integers(0, 3))
def test_contradiction_mirror_that_holds_the_copies_is_never_refused(history: History, markers: int) -> None:
    if history.committed is None:
        return
    here, there = history.compared()
    end = len(history.mirror) + markers
    log = MirrorLog(end, there, range(len(history.mirror), end), complete=True)
    assert contradiction(here, log, history.committed, history.syncs) == ""


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(histories(letters=1000), st.integers(1, 40), st.integers(0, 50))
def test_contradiction_mirror_that_lost_the_last_copies_is_refused_whatever_markers_follow(
    history: History, lost: int, markers: int
) -> None:
    """The offset that the newest sync names, or one that a copy up to the committed record needs, is gone."""
    if history.committed is None or not history.syncs:
        return
    upstream, downstream = history.syncs[-1]
    needed = downstream + 1 + max(0, history.committed - upstream)
    kept = max(0, needed - lost)
    here, _ = history.compared()
    log = MirrorLog(kept + markers, marks(history.mirror[:kept]), range(kept, kept + markers), complete=True)
    assert contradiction(here, log, history.committed, history.syncs)


def test_contradiction_names_each_kind() -> None:
    source = [RecordDigest(n, b"%d" % n, timestamp=n) for n in range(10)]
    copies = [RecordDigest(n, b"%d" % n, timestamp=n) for n in range(5)]
    markers = (0, 1, 2)
    assert "no record" in contradiction(source, MirrorLog(3, (), markers, complete=True), 4, [])
    assert "ends at 3" in contradiction(source, MirrorLog(3, copies[:3], (), complete=True), 4, [(3, 3)])
    assert "3 are there" in contradiction(source, MirrorLog(3, copies[:3], (), complete=True), 4, [(0, 0)])
    others = [RecordDigest(n, b"other", timestamp=99) for n in range(5)]
    assert "none is among" in contradiction(source, MirrorLog(5, others, (), complete=True), 4, [])
    cleaned = MirrorLog(5, others, (), complete=False)
    assert contradiction(source, cleaned, 4, []) == "", "the copies may have been cleaned away"
    transformed = [RecordDigest(n, b"other", timestamp=n) for n in range(5)]
    assert contradiction(source, MirrorLog(5, transformed, (), complete=True), 4, []) == ""
    assert contradiction(source, MirrorLog(5, copies, (), complete=True), 4, [(0, 0), (4, 4)]) == ""
    assert contradiction((), MirrorLog(100, (), (99,), complete=False), 4, []) == "", "expired on both sides"
    without_timestamps = marks([b"0", b"1", b"2", b"3", b"4"])
    others_without = marks([b"other"] * 5)
    assert "none is among" in contradiction(without_timestamps, MirrorLog(5, others_without, (), complete=True), 4, [])
    assert contradiction(source, MirrorLog(5, copies[4:], (), complete=True), 4, []) == "", "the others expired"
    assert contradiction(source[:1], MirrorLog(1, copies[:1], (), complete=True), 0, []) == ""


@pytest.mark.parametrize(
    ("end", "control", "committed", "pairs", "why"),
    [
        (3, (), 4, [(0, 0), (4, 2)], ""),  # the newest sync up to the committed record counts
        (7, (), 6, [(0, 0), (8, 5)], ""),
        (6, (), 6, [(0, 0), (8, 5)], "7 records were copied to offset 0 and after it, and 6 are there"),
        (8, (0,), 6, [(0, 0), (8, 5)], ""),
        (7, (0,), 6, [(0, 0), (8, 5)], "and 6 are there"),  # a control record took an offset
    ],
)
def test_contradiction_counts_the_room_for_the_copies(
    end: int, control: tuple[int, ...], committed: int, pairs: list[tuple[int, int]], why: str
) -> None:
    source = marks([b"%d" % n for n in range(10)])
    found = contradiction(source, MirrorLog(end, (), control, complete=False), committed, pairs)
    assert why in found
    assert bool(found) == bool(why)
