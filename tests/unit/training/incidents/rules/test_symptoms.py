"""Symptoms detected in observations."""

from __future__ import annotations

from dataclasses import replace

import pytest
from incident_observations import ABNORMAL, BASELINE, WEEK_MS, observation, series, with_topic

from drlib.training.incidents.rules.symptoms import (
    GroupObservation,
    Symptom,
    TopicObservation,
    comparison_point,
    detect_symptoms,
    is_behind,
    partitions_differ,
    positions_stalled,
    records_expire,
    records_skipped,
    retains_less,
    timestamps_wrong,
)


@pytest.mark.parametrize("symptom", Symptom)
def test_detect_symptoms_abnormal_observation_shows_exactly_its_symptom(symptom: Symptom) -> None:
    assert detect_symptoms(series(ABNORMAL[symptom]), BASELINE) == (symptom,)


def test_detect_symptoms_brief_lag_is_none_and_lasting_small_lag_is_one() -> None:
    brief = with_topic(observation(108), "flights", mirrored=10_700)
    assert Symptom.MIRROR_BEHIND not in detect_symptoms(series(brief), BASELINE)
    no_progress = [with_topic(observation(at), "bookings", mirrored=10_300) for at in (104, 108)]
    assert Symptom.MIRROR_BEHIND in detect_symptoms(no_progress, BASELINE)


def test_comparison_point_is_three_seconds_older_or_more() -> None:
    assert comparison_point([observation(101), observation(105), observation(108)]) == observation(105)
    assert comparison_point([observation(105.001), observation(108)]) is None


def test_application_is_found_by_name_and_one_stalled_is_a_symptom() -> None:
    one, *others = observation(108).applications
    now = observation(108, applications=(replace(one, done=10_400), *others))
    assert now.application(others[0].name) == others[0]
    assert now.application("none") is None
    assert detect_symptoms(series(now), BASELINE) == (Symptom.APPLICATION_STALLED,)


@pytest.mark.parametrize(
    ("before", "lag", "progress", "behind"),
    [
        (0, 400, 100, False),
        (0, 401, 100, True),
        (5, 5, 0, True),
        (5, 5, 1, False),
        (0, 5, 0, False),  # written a moment ago
        (5, 0, 0, False),
        (5, None, 0, False),
    ],
)
def test_is_behind_by_the_lag_and_the_progress_of_the_mirror(
    before: int, lag: int | None, progress: int, behind: bool
) -> None:
    earlier = TopicObservation("t", 1000 + before, 1000, 0)
    now = TopicObservation("t", None if lag is None else 1000 + progress + lag, 1000 + progress, 0)
    assert is_behind(earlier, now) is behind


def group(name: str, left: int | None, right: int | None) -> GroupObservation:
    return GroupObservation(name, left, right)


@pytest.mark.parametrize(
    ("seconds", "then", "now", "stalled"),
    [
        (6.0, [group("g", 5, 5)], [group("g", 6, 5)], True),
        (5.999, [group("g", 5, 5)], [group("g", 6, 5)], False),
        (6.0, [group("g", 5, 5)], [group("g", 6, 6)], False),
        (6.0, [group("g", 5, 5)], [group("g", 5, 5)], False),
        (6.0, [], [group("g", 6, None)], False),
        (6.0, [group("g", 5, 5)], [group("g", None, 5)], False),
        (6.0, [group("g", 5, 5), group("h", 5, 5)], [group("g", 6, 5), group("h", 6, 6)], False),
        (6.0, [group("g", 5, 5), group("h", 5, 5)], [group("g", 6, 5), group("h", 6, 5)], True),
        (6.0, [group("g", 5, 5), group("h", 5, 5)], [group("g", 6, 5), group("h", 5, 6)], True),
    ],
)
def test_positions_stalled_where_no_group_that_moves_on_left_moves_on_right(
    seconds: float, then: list[GroupObservation], now: list[GroupObservation], stalled: bool
) -> None:
    observations = [observation(100, groups=tuple(then)), observation(100 + seconds, groups=tuple(now))]
    assert positions_stalled(observations) is stalled
    for silent in range(2):
        partly = [replace(one, unreachable=("RIGHT",) if n == silent else ()) for n, one in enumerate(observations)]
        assert not positions_stalled(partly)


@pytest.mark.parametrize(
    ("shape", "differ"),
    [((6, 0, 6), False), ((6, 1, 6), True), ((6, 6, 5), True), ((6, None, None), False), ((None, 1, 2), False)],
)
def test_partitions_differ_from_those_of_the_source(
    shape: tuple[int | None, int | None, int | None], differ: bool
) -> None:
    """A topic without partitions is not there yet."""
    assert partitions_differ(TopicObservation("t", 0, 0, 0, None, shape)) is differ


def test_timestamps_wrong_more_than_ten_seconds_from_now() -> None:
    def wrong(newest_ms: int) -> bool:
        return timestamps_wrong(TopicObservation("t", 1, 1, 0), TopicObservation("t", 2, 1, 0, newest_ms), 50_000)

    assert [wrong(newest_ms) for newest_ms in (39_999, 40_000, 60_000, 60_001)] == [True, False, False, True]


@pytest.mark.parametrize(
    ("start", "retention_ms", "expires"),
    [
        (1, 86_399_999, True),
        (0, 10_000, False),  # nothing is deleted yet
        (1, 86_400_000, False),
        (1, -1, False),  # unlimited
        (None, 10_000, False),
        (1, None, False),
    ],
)
def test_records_expire_where_the_log_start_advances_under_a_shorter_retention(
    start: int | None, retention_ms: int | None, expires: bool
) -> None:
    before = TopicObservation("t", 9, 9, 0, None, (1, 1, 1), 0, WEEK_MS)
    now = replace(before, start=start, retention_ms=retention_ms)
    assert records_expire(before, now) is expires
    assert not records_expire(replace(before, retention_ms=5_000), now), "it was as short before"


@pytest.mark.parametrize(
    ("before", "now", "count"), [(3, 5, 2), (None, 5, 5), (3, 3, 0), (3, None, 0), (None, None, 0)]
)
def test_records_skipped_count_from_the_baseline_and_none_where_it_is_unknown(
    before: int | None, now: int | None, count: int
) -> None:
    assert records_skipped(GroupObservation("g", 9, 9, before), GroupObservation("g", 9, 9, now)) == count


def test_detect_symptoms_healthy_observations_show_none() -> None:
    assert detect_symptoms(series(observation(108)), BASELINE) == ()


@pytest.mark.parametrize(
    ("before_ms", "now_ms", "less"),
    [
        (WEEK_MS, 10_000, True),
        (WEEK_MS, 0, True),  # all but the newest segment is deleted at once
        (-1, 0, True),
        (WEEK_MS, -1, False),  # for ever
        (WEEK_MS, 86_400_000, False),
        (86_400_000, 86_399_999, True),
        (10_000, 5_000, False),  # it was short before
        (0, 0, False),
        (None, 10_000, False),
        (WEEK_MS, None, False),
    ],
)
def test_retains_less_is_below_a_day_where_it_was_not(before_ms: int | None, now_ms: int | None, less: bool) -> None:
    before, now = (TopicObservation("flights", 1, 1, 0, retention_ms=ms) for ms in (before_ms, now_ms))
    assert retains_less(before, now) is less
