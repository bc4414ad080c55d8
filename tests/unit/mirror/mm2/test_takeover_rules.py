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
    found = decide(marks([b"a", b"b", b"c"], 10), marks([b"A", b"B"]), 10, 0)
    assert found == Decision(11, 2, 0)


def test_decide_skipped_aborted_records_do_not_end_the_search() -> None:
    source = [RecordDigest(0, b"a"), RecordDigest(1, b"x", True), RecordDigest(2, b"x", True), RecordDigest(4, b"b")]
    assert decide(source, marks([b"a", b"b"]), 0, 0) == Decision(5, 0, 3)


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


def test_map_own_records_after_takeover_are_exact_both_ways() -> None:
    taken = Takeover(KEY, 1000, 800, 990, 0, 1, ((500, 400), (900, 760)))
    assert decode(taken.key(), taken.value()) == taken
    offsets = PartitionMap()
    for entry in (taken, Placement(KEY, CLAIM, 0, 801)):
        offsets.apply(entry)
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
