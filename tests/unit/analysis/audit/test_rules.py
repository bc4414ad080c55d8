"""Sequences compared by sums of their pieces, however they are cut, and their common prefixes."""

from __future__ import annotations

import itertools
import random
import secrets
from collections.abc import Sequence
from dataclasses import replace

import pytest

from drlib.analysis.audit.rules import (
    PIECE,
    PRIME,
    Agreement,
    FourSums,
    Multipliers,
    Piece,
    Prefix,
    agreement,
    draw_multipliers,
    prefixes,
)

Content = tuple[int, int]  # two hashes of 64 bits


def contents(count: int, seed: int = 1) -> list[Content]:
    some = random.Random(seed)
    return [(some.getrandbits(64), some.getrandbits(64)) for _ in range(count)]


def cut(log: Sequence[Content], at: Sequence[int], by: Multipliers, shift: int = 0) -> list[Piece]:
    """The log in pieces that begin at 0 and `at`; every offset twice what it was, times are offsets."""
    edges = [0, *at, len(log)]
    return [piece(log[a:b], a, by, shift) for a, b in itertools.pairwise(edges) if b > a]


def piece(log: Sequence[Content], first: int, by: Multipliers, shift: int) -> Piece:
    halves = [(a & 0xFFFFFFFF, a >> 32, b & 0xFFFFFFFF, b >> 32) for a, b in log]
    factors = (by[0], by[0], by[1], by[1])
    sums = [sum(record[n] for record in halves) for n in range(4)]
    ordered = [sum(r[n] * pow(factors[n], rank, PRIME) for rank, r in enumerate(halves)) % PRIME for n in range(4)]
    last = 2 * (first + len(log) - 1)
    return Piece(2 * first + shift, last + shift, len(log), last, four(sums), four(ordered))


def four(numbers: Sequence[int]) -> FourSums:
    a, b, c, d = numbers
    return a, b, c, d


def test_agreement_same_records_agree_for_any_pieces_and_offsets() -> None:
    log, by = contents(200), draw_multipliers()
    for places in ([], [100], [1, 2, 3, 150], list(range(1, 200))):
        found = agreement(cut(log, [64, 128], by), cut(log, places, by, shift=7), by)
        assert (found.records, found.source_last, found.target_last, found.whole) == (200, 398, 405, True)


def test_prefixes_any_piece_order_but_overlap_raises() -> None:
    log, by = contents(50), draw_multipliers()
    pieces = cut(log, [10, 30], by)
    assert agreement(pieces[::-1], pieces, by).whole
    with pytest.raises(ValueError, match="in two pieces"):
        agreement([*pieces, pieces[1]], pieces, by)
    with pytest.raises(ValueError, match=f"offset {pieces[0].last} is in two pieces"):
        list(prefixes([pieces[0], replace(pieces[1], first=pieces[0].last)], by))


def test_prefixes_last_one_has_the_sums_of_the_log_as_one_piece() -> None:
    log, by = contents(50), draw_multipliers()
    (whole,) = (replace(piece, newest_ms=-1) for piece in cut(log, [], by))  # records without a timestamp
    *_, last = prefixes((replace(piece, newest_ms=-1) for piece in cut(log, [10, 30], by)), by)
    assert last == Prefix(50, whole.last, -1, whole.contents, whole.ordered)


def test_sums_of_a_piece_fit_into_a_long_and_are_modulo_a_prime() -> None:
    assert (2**32 - 1) * (PRIME - 1) < 2**63
    assert pow(3, PRIME - 1, PRIME) == 1
    assert PRIME > 2**30


@pytest.mark.parametrize(
    "change",
    [
        lambda log: log[:-1],
        lambda log: log[:77] + log[78:],
        lambda log: [*log[:77], log[77], *log[77:]],
        lambda log: [*log[:77], log[78], log[77], *log[79:]],
        lambda log: [*log[:77], (log[77][0] ^ 1, log[77][1]), *log[78:]],
        lambda log: [*log[:77], (log[77][0], log[77][1] ^ (1 << 63)), *log[78:]],
        lambda log: [*log[:77], log[12], *log[78:]],
        lambda log: log[::-1],
        lambda log: [*log[128:], *log[:128]],
        lambda log: [],
    ],
)
def test_agreement_changed_records_do_not_agree(change) -> None:  # type: ignore[no-untyped-def]
    log, by = contents(200), draw_multipliers()
    assert not agreement(cut(log, [64, 128], by), cut(change(log), [64, 128], by), by).whole
    assert not agreement(cut(change(log), [64, 128], by), cut(log, [64, 128], by), by).whole


def test_agreement_balanced_swap_of_equal_records_does_not_agree() -> None:
    """Two contents at ranks whose sums, and sums of squares, are the same (Prouhet, Tarry, Escott)."""
    c, d = contents(2)
    source = [c, d, d, c, d, c, c, d]
    target = [d, c, c, d, c, d, d, c]
    for power in (0, 1, 2):
        places = [[n**power for n, one in enumerate(log) if one == c] for log in (source, target)]
        assert sum(places[0]) == sum(places[1])
    by = draw_multipliers()
    assert not agreement(cut(source, [], by), cut(target, [], by), by).whole


def test_agreement_common_prefix_ends_one_piece_before_last_agreeing() -> None:
    log, by = contents(300), draw_multipliers()
    source, target = cut(log, [50, 100, 150, 200], by), cut(log[:230], [50, 100, 150, 200], by, shift=3)
    found = agreement(source, target, by)
    assert (found.records, found.source_last, found.target_last) == (150, 2 * 149, 2 * 149 + 3)
    assert (found.whole, found.newest_is_behind) == (False, True)
    differing = [*log[:110], log[111], log[110], *log[112:]]
    assert agreement(source, cut(differing, [50, 100, 150, 200], by), by).records == 50
    assert agreement(source, cut(log, [51, 101], by), by).whole
    assert agreement(source, cut(log[:-1], [51, 101], by), by).records == 0  # no place where both are cut


def test_agreement_newest_timestamp_within_prefix_is_reported() -> None:
    log, by = contents(300), draw_multipliers()
    source = cut(log, [100, 200], by)
    early = Piece(source[0].first, source[0].last, 100, 10**6, source[0].contents, source[0].ordered)
    target = cut(log[:290], [100, 200], by)
    assert agreement(source, target, by).newest_is_behind
    assert not agreement([early, *source[1:]], target, by).newest_is_behind
    as_late = [early, replace(source[1], newest_ms=10**6), source[2]]
    assert agreement(as_late, target, by).newest_is_behind  # no later than the latest of what follows


def test_agreement_newest_timestamp_of_the_last_common_record_does_not_follow_it() -> None:
    log, by = contents(40), draw_multipliers()
    source = cut(log, [1, 20], by)
    source[0] = replace(source[0], newest_ms=10**6)
    found = agreement(source, cut(log[:30], [1, 20], by), by)
    assert (found.records, found.source_last, found.newest_is_behind) == (1, 0, False)


def test_agreement_empty_logs_agree_with_zero_records() -> None:
    by = draw_multipliers()
    assert agreement([], [], by) == Agreement(0, -1, -1, True, True)
    assert agreement([], cut(contents(5), [], by), by) == Agreement(0, -1, -1, False, True)


def test_draw_multipliers_are_random_and_large() -> None:
    drawn = {number for _ in range(50) for number in draw_multipliers()}
    assert len(drawn) > 90
    assert all(PIECE <= number < PRIME - PIECE for number in drawn)


def test_draw_multipliers_are_no_smaller_than_a_piece_and_none_is_minus_such_a_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(secrets, "randbelow", lambda _: 0)
    assert draw_multipliers() == (PIECE, PIECE)
    monkeypatch.setattr(secrets, "randbelow", lambda limit: limit - 1)
    assert draw_multipliers() == (PRIME - PIECE - 1, PRIME - PIECE - 1)
