"""When markers are due: by record time, bounded by the broker's check interval, and never on idle partitions."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from drlib.mirror.engine.fencing.producer_expiration import (
    DAY_MS,
    HOUR_MS,
    Expiry,
    LastAppend,
    due_before_batch,
    due_when_idle,
    fence_may_have_expired,
    idle_due_ms,
    last_sequence,
)

DEFAULT = Expiry()
NOW = 1_800_000_000_000
OLD = 1_357_000_000_000


def test_expiry_from_config_missing_values_are_kafkas_defaults() -> None:
    assert Expiry.from_config({}) == DEFAULT == Expiry(DAY_MS, 600_000, 7 * DAY_MS)
    reported = {
        "producer.id.expiration.ms": "2000",
        "producer.id.expiration.check.interval.ms": "500",
        "transactional.id.expiration.ms": None,
    }
    assert Expiry.from_config(reported) == Expiry(2000, 500, 7 * DAY_MS)
    assert (DEFAULT.interval_ms, DEFAULT.idle_ms, DEFAULT.keep_alive_ms) == (300_000, 5_000, HOUR_MS)
    assert Expiry.from_config({"producer.id.expiration.ms": "-1"}) == DEFAULT
    for producer_ms, transactional_ms, keep_alive_ms in ((2000, 5000, 500), (5000, 2000, 500), (200, 200, 100)):
        assert Expiry(producer_ms, 500, transactional_ms).keep_alive_ms == keep_alive_ms
    for check_interval_ms, interval_ms, idle_ms in ((1, 1, 1), (150, 75, 75), (400, 200, 100), (24_000, 12_000, 200)):
        expiry = Expiry(DAY_MS, check_interval_ms)
        assert (expiry.interval_ms, expiry.idle_ms) == (interval_ms, idle_ms)


def test_markers_recent_records_need_none() -> None:
    last = LastAppend(NOW, NOW)
    last.batch(NOW + 1000, NOW + 1000)
    assert idle_due_ms(last, DEFAULT) == NOW + 1000 + DAY_MS // 2 + 1
    for later in (0, HOUR_MS, 11 * HOUR_MS):
        assert not due_before_batch(last, DEFAULT, NOW + later)
        assert not due_when_idle(last, DEFAULT, NOW + later)
        assert not fence_may_have_expired(last, DEFAULT, NOW + later)


def test_due_before_batch_after_half_the_expiration_only() -> None:
    last = LastAppend(NOW, NOW)
    assert not due_when_idle(last, DEFAULT, NOW + 30 * DAY_MS)
    assert not due_before_batch(last, DEFAULT, NOW + DAY_MS // 2)
    assert due_before_batch(last, DEFAULT, NOW + DAY_MS // 2 + 1)
    assert not fence_may_have_expired(last, DEFAULT, NOW + DAY_MS - 1)
    assert fence_may_have_expired(last, DEFAULT, NOW + DAY_MS)


def test_markers_old_records_are_guarded_marked_and_closed_when_idle() -> None:
    last = LastAppend(NOW, NOW)
    last.batch(OLD, NOW)
    assert fence_may_have_expired(last, DEFAULT, NOW)
    assert not due_before_batch(last, DEFAULT, NOW + 299_999)
    assert due_before_batch(last, DEFAULT, NOW + 300_000)
    assert not due_when_idle(last, DEFAULT, NOW + 4_999)
    assert due_when_idle(last, DEFAULT, NOW + 5_000)
    last.marker(NOW + 5_000)
    assert not fence_may_have_expired(last, DEFAULT, NOW + 5_000)
    assert not due_when_idle(last, DEFAULT, NOW + 30 * DAY_MS)


@given(st.integers(OLD, NOW + DAY_MS), st.integers(0, 2 * DAY_MS))
def test_due_when_idle_agrees_with_idle_due_ms(newest: int, later: int) -> None:
    last = LastAppend(NOW, NOW)
    assert idle_due_ms(last, DEFAULT) is None
    last.batch(newest, NOW)
    due = idle_due_ms(last, DEFAULT)
    assert due is not None
    assert due_when_idle(last, DEFAULT, NOW + later) == (NOW + later >= due)
    old = NOW + later - newest > DAY_MS // 2
    assert due_when_idle(last, DEFAULT, NOW + later) == (old and later >= DEFAULT.idle_ms)
    last.marker(NOW + later)
    assert idle_due_ms(last, DEFAULT) is None


@given(st.lists(st.integers(0, 60_000), max_size=200), st.sampled_from([OLD, NOW]))
def test_markers_are_at_least_half_a_check_interval_apart(gaps: list[int], newest: int) -> None:
    last, now, marked = LastAppend(NOW, NOW), NOW, [NOW]
    for gap in gaps:
        now += gap
        if due_before_batch(last, DEFAULT, now):
            last.marker(now)
            marked.append(now)
        last.batch(newest if newest == OLD else now, now)
    assert all(b - a >= DEFAULT.interval_ms for a, b in itertools.pairwise(marked))
    if newest == OLD:
        assert now - marked[-1] < DEFAULT.interval_ms + 60_000
    else:
        assert marked == [NOW]


def test_last_sequence_wraps_as_in_kafka() -> None:
    assert last_sequence(0) == -1
    assert last_sequence(1) == 0
    assert last_sequence(1 << 31) == (1 << 31) - 1
    assert last_sequence((1 << 31) + 1) == 0
