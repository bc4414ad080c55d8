"""Alignment of a source log with what MirrorMaker 2 copied of it: planted repetitions, markers, cleaned and aborted records."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drlib.mirror.journal.entries import SourcePartition, Takeover
from drlib.mirror.offsets.comparison import align as align_module
from drlib.mirror.offsets.comparison.align import Alignment, LogPart, align
from drlib.mirror.offsets.map.taken_part import TakenPart
from drlib.model import Segment, Translation, TranslationKind

KEY = SourcePartition(UUID(int=1), 0)
EXACT, BOUNDED = TranslationKind.EXACT, TranslationKind.BOUNDED


def part(contents: str, start: int = 0, transactional: Collection[int] = (), begins: bool = True) -> LogPart:
    """A log whose record at each offset has the content of one letter; a dot is an offset without a record."""
    held = [(start + n, ord(letter)) for n, letter in enumerate(contents) if letter != "."]
    offsets, letters = array("q", [n for n, _ in held]), array("Q", [letter for _, letter in held])
    return LogPart(start, offsets, letters, begins, bytes(n in transactional for n in offsets))


def aligned(source: str, mirror: str, transactional: Collection[int] = ()) -> Alignment:
    return align(part(source, transactional=transactional), part(mirror), (len(source), len(mirror)))


def taken(alignment: Alignment, source_end: int, target_end: int) -> TakenPart:
    found = TakenPart(Takeover(KEY, source_end, target_end, -1, 0, 0))
    for entry in found.extended(alignment.source, alignment.target, alignment.segments):
        found.apply(entry)
    return found


def forwards(source: str, mirror: str, transactional: Collection[int] = ()) -> list[tuple[int | None, bool]]:
    """Each source position translated: the offset on the mirror, and whether it is exact."""
    found = taken(aligned(source, mirror, transactional), len(source), len(mirror))
    return [(there.offset, there.exact) for there in map(found.forward, range(len(source)))]


def exactly(*offsets: int) -> list[tuple[int, bool]]:
    return [(offset, True) for offset in offsets]


def test_align_equal_logs_are_one_stretch() -> None:
    assert aligned("abcde", "abcde") == Alignment(0, 0, (Segment(0, 0, 5),), finished=True)


def test_align_equal_neighbours_are_exact_where_their_number_is_equal() -> None:
    assert forwards("aabbb", "aabbb") == exactly(0, 1, 2, 3, 4)


def test_align_repeated_stretch_counts_from_its_last_copy() -> None:
    #          the first run wrote a to g, the second one began again at d
    assert forwards("abcdefghi", "abcdefgdefghi") == exactly(0, 1, 2, 7, 8, 9, 10, 11, 12)


def test_align_run_that_ended_before_the_one_before_it_is_skipped() -> None:
    assert forwards("abcdefgh", "abcdef" + "bc" + "bcdefgh") == exactly(0, 8, 9, 10, 11, 12, 13, 14)


def test_align_runs_that_began_again_at_the_start_are_skipped() -> None:
    found = aligned("abcd", "ababcabcd")
    assert found.segments == (Segment(0, 5, 4),)
    assert found.finished


def test_align_source_markers_are_gaps_whose_positions_are_exact() -> None:
    assert forwards("ab.cd..e", "abcde") == exactly(0, 1, 2, 2, 3, 4, 4, 4)


def test_align_mirror_markers_between_copies_are_skipped() -> None:
    assert forwards("abcd", "ab.cd.") == exactly(0, 1, 3, 4)


def test_align_gap_on_both_sides_is_bounded_and_skips_nothing() -> None:
    assert forwards("ab.cd", "ab.cd") == [(0, True), (1, True), (2, False), (3, True), (4, True)]


def test_align_aborted_records_that_were_not_copied_are_gaps() -> None:
    assert forwards("abXY.cd", "abcd", transactional={2, 3}) == exactly(0, 1, 2, 2, 2, 2, 3)
    assert aligned("abXY.cd", "abcd").why, "records outside of transactions are copied"


@pytest.mark.parametrize("transactional", [{0}, {1}, {0, 1}, {3}])
def test_align_record_outside_of_transactions_is_not_explained_by_transactions_around_it(
    transactional: set[int],
) -> None:
    assert aligned("abcd", "abd", transactional).why
    assert aligned("abcd", "abd", transactional | {2}).finished


def test_align_aborted_records_that_were_copied_are_records() -> None:
    assert forwards("abXY.cd", "abXYcd", transactional={2, 3}) == exactly(0, 1, 2, 3, 4, 4, 5)


def test_align_records_that_compaction_took_from_the_mirror_are_bounded() -> None:
    assert forwards("abcdef", "ab..ef") == [(0, True), (1, True), (2, False), (2, False), (4, True), (5, True)]


def test_align_one_of_two_equal_records_that_compaction_took_from_the_mirror_is_bounded() -> None:
    assert forwards("xccy", "x.cy") == [(0, True), (1, False), (2, True), (3, True)]


def test_align_one_record_that_compaction_took_from_the_mirror_is_bounded() -> None:
    assert forwards("abcde", "ab.de") == [(0, True), (1, True), (2, False), (3, True), (4, True)]


@pytest.mark.parametrize(("source", "mirror"), [("abcdef", "ab..ef"), ("ab..ef", "abcdef")])
def test_align_cleaned_records_are_looked_for_up_to_a_size_of_either_side(
    source: str, mirror: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(align_module, "_LONGEST_CLEANED", 6)
    assert aligned(source, mirror).finished
    monkeypatch.setattr(align_module, "_LONGEST_CLEANED", 5)
    assert aligned(source, mirror).why


def test_align_records_that_compaction_took_from_the_source_are_bounded() -> None:
    assert forwards("ab..ef", "abcdef") == [(0, True), (1, True), (2, False), (2, False), (4, True), (5, True)]


@pytest.mark.parametrize(
    ("source", "mirror"),
    [
        ("abcdef", "abef"),  # two records were never copied
        ("abef", "abcdef"),  # the mirror has two that the source never had
        ("abcdef", "abXdef"),  # another content
        ("abdcef", "abcdef"),  # another order
        ("xabcabc", "xab.abc"),  # cleaned, or a and b are a repetition
        ("xay", "xb.y"),  # the mirror may lack a, and the source never had b
        ("xa.y", "xby"),  # the source may lack b, and a was never copied
        ("xccy", "cx..y"),  # the mirror may lack both c behind x, and has one before it
        ("xcdy", "ccx..y"),
        ("xcc.dy", "xc...y"),
    ],
)
def test_align_unexplained_difference_ends_the_alignment(source: str, mirror: str) -> None:
    found = aligned(source, mirror)
    assert not found.finished
    assert "is not the mirror's" in found.why
    assert found.source > 0


def test_align_other_content_proves_nothing() -> None:
    found = aligned("abc", "xyz")
    assert (found.source, found.target, found.segments) == (3, 3, ())
    assert found.why == "the source's record 2 is not the mirror's 2"


def test_align_finishes_where_one_log_begins() -> None:
    source, mirror = part("cdef", start=2), part("abcdef")
    assert align(source, mirror, (6, 6)) == Alignment(2, 2, (Segment(2, 2, 4),), finished=True)
    source, mirror = part("abcdef"), part("cdef", start=2)
    assert align(source, mirror, (6, 6)) == Alignment(2, 2, (Segment(2, 2, 4),), finished=True)


def test_align_repetition_that_the_mirror_lost_the_beginning_of_is_finished() -> None:
    source, mirror = part("abcdefgh"), part("efdefgh", start=4)  # d and what was before it has expired
    found = align(source, mirror, (8, 11))
    assert found == Alignment(3, 4, (Segment(3, 6, 5),), finished=True)


def test_align_parts_that_do_not_begin_their_logs_are_not_finished() -> None:
    source, mirror = part("cdef", start=2, begins=False), part("cdef", start=7, begins=False)
    assert align(source, mirror, (6, 11)) == Alignment(2, 7, (Segment(2, 7, 4),))


def test_align_repetition_that_goes_on_before_what_was_read_continues_there() -> None:
    source = part("bcdefgh", start=1, begins=False)
    found = align(source, part("efdefgh", start=4, begins=False), (8, 11))
    assert found == Alignment(3, 4, (Segment(3, 6, 5),))


def test_align_part_without_records_is_passed() -> None:
    empty = part("....", start=4, begins=False)
    assert align(empty, part("ab", start=7, begins=False), (8, 9)) == Alignment(4, 9)
    assert align(part("ab", start=7, begins=False), empty, (9, 8)) == Alignment(9, 4)


def test_align_records_behind_the_takeover_explain_copies_of_them() -> None:
    """The takeover was not sure: d and e are in the mirror already, and are copied again behind it."""
    assert align(part("abcde"), part("abcde"), (3, 5)) == Alignment(0, 0, (Segment(0, 0, 3),), finished=True)


# -- any history ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class History:
    """A source log, and the mirror of several runs of MirrorMaker 2; `origin`: of each of its offsets, the source offset."""

    source: str
    mirror: str
    origin: Sequence[int]
    transactional: frozenset[int] = frozenset()

    @property
    def last_copy(self) -> dict[int, int]:
        return {original: at for at, original in enumerate(self.origin) if original >= 0}


ALPHABET = "".join(map(chr, range(0x4E00, 0x4E00 + 500)))


@st.composite
def histories(draw: st.DrawFn, letters: int, *, markers: bool = True) -> History:
    size = draw(st.integers(1, 40))
    distinct = (
        draw(st.permutations(ALPHABET[:size]))
        if letters >= size
        else [draw(st.sampled_from(ALPHABET[:letters])) for _ in range(size)]
    )
    gaps = draw(st.sets(st.integers(0, size - 1), max_size=size // 3)) if markers else set()
    source = "".join("." if n in gaps else letter for n, letter in enumerate(distinct))
    records = [n for n, letter in enumerate(source) if letter != "."]
    origin: list[int] = []
    committed = reached = 0
    for last in (*[False] * draw(st.integers(0, 3)), True):
        end = len(records) if last else draw(st.integers(committed, len(records)))
        for n in records[committed:end]:
            origin += [-1] if markers and draw(st.integers(0, 9)) == 0 else []  # of a transaction of MM2's own
            origin.append(n)
        reached = max(reached, end)
        committed = draw(st.integers(committed, end)) if end > committed else committed
    mirror = "".join("." if n < 0 else source[n] for n in origin)
    return History(source, mirror, origin)


def stepwise(history: History, window: int) -> tuple[TakenPart, Alignment]:
    """Align part by part, as the worker does: a larger part where one explains nothing."""
    source, mirror = history.source, history.mirror
    found = TakenPart(Takeover(KEY, len(source), len(mirror), -1, 0, 0))
    wide = window
    while True:
        s, m = found.cursor
        low_s, low_m = max(0, s - wide), max(0, m - wide)
        whole = part(source[low_s : s + wide], low_s, history.transactional, begins=not low_s)
        result = align(whole, part(mirror[low_m:m], low_m, begins=not low_m), (s, m))
        for entry in found.extended(result.source, result.target, result.segments):
            found.apply(entry)
        if result.finished or (found.cursor == (s, m) and wide > 400):
            return found, result
        wide = window if found.cursor != (s, m) else wide * 4


def assert_nothing_skipped(history: History, found: TakenPart) -> None:
    """Whoever resumes at a translated position gets every record from there on, in order, by content."""
    for g in range(len(history.source)):
        there = found.forward(g)
        assert there.offset is not None
        rest = iter(history.mirror[there.offset :])
        for n in range(g, len(history.source)):
            if history.source[n] != "." and n in history.last_copy:
                assert history.source[n] in rest, f"record {n} is skipped from position {g}, which became {there}"


@settings(max_examples=300)
@given(histories(letters=1000), st.integers(1, 20))
def test_align_distinct_records_are_exact_at_their_last_copy(history: History, window: int) -> None:
    found, result = stepwise(history, window)
    assert result.finished
    for original, copy in history.last_copy.items():
        assert found.forward(original) == Translation(copy, EXACT)
        assert found.backward(copy) == Translation(original, EXACT)
    assert_nothing_skipped(history, found)


@settings(max_examples=300)
@given(
    st.one_of(
        st.tuples(histories(letters=3), st.just(400)),
        st.tuples(histories(letters=3, markers=False), st.integers(1, 20)),  # no gap could explain a missing record
    )
)
def test_align_repeated_contents_are_exact_and_skip_nothing(given: tuple[History, int]) -> None:
    history, window = given
    found, result = stepwise(history, window)
    assert result.finished
    assert_nothing_skipped(history, found)
    at = len(history.mirror)
    for g in sorted(history.last_copy, reverse=True):
        at = history.mirror.rindex(history.source[g], 0, at)  # the last one behind which all others follow
        assert found.forward(g) == Translation(at, EXACT)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(histories(letters=1000), st.data())
def test_align_cleaned_logs_skip_nothing(history: History, data: st.DataObject) -> None:
    """Compaction took records from either side: of what is left no record is skipped, whatever is exact."""
    records = sorted(history.last_copy)
    gone = data.draw(st.sets(st.sampled_from(records)))
    lost = data.draw(
        st.dictionaries(st.sampled_from(records), st.integers(1, 4))
    )  # of each, so many copies from the first on
    source = "".join("." if n in gone else letter for n, letter in enumerate(history.source))
    origin = list(history.origin)
    for n, copies in lost.items():
        for at in [at for at, original in enumerate(history.origin) if original == n][:copies]:
            origin[at] = -1
    mirror = "".join("." if n < 0 else history.source[n] for n in origin)
    origin = [-1 if n in gone else n for n in origin]
    left = replace(history, source=source, mirror=mirror, origin=origin)
    found, _ = stepwise(left, data.draw(st.integers(1, 20)))
    assert_nothing_skipped(left, found)


@settings(max_examples=200)
@given(histories(letters=1000, markers=False), st.data())
def test_align_altered_record_ends_the_alignment_above_it(history: History, data: st.DataObject) -> None:
    """A connector transformed one record of each run: what comes after its last copy is exact, what comes before is not."""
    altered = data.draw(st.sampled_from(sorted(history.last_copy)))
    mirror = "".join("X" if original == altered else history.mirror[at] for at, original in enumerate(history.origin))
    found, result = stepwise(replace(history, mirror=mirror), data.draw(st.integers(1, 20)))
    assert not result.finished or altered == 0
    assert found.cursor[0] > altered
    for original, copy in history.last_copy.items():
        if original > altered and original >= found.cursor[0]:
            assert found.forward(original) == Translation(copy, EXACT)


def test_align_of_two_hundred_thousand_records_in_one_stretch_repeated() -> None:
    def log(numbers: Iterator[int]) -> LogPart:
        contents = array("Q", numbers)
        return LogPart(0, array("q", range(len(contents))), contents, begins=True)

    size = 200_000
    mirror = log(n for run in (range(150_000), range(60_000, size)) for n in run)
    found = align(log(iter(range(size))), mirror, (size, 290_000))
    assert found.segments == (Segment(0, 0, 60_000), Segment(60_000, 150_000, 140_000))
    assert found.finished
