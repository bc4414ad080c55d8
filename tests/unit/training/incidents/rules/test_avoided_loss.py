"""What an earlier right move would have avoided: recorded histories, and their replay."""

from __future__ import annotations

from dataclasses import replace

import pytest
from incident_observations import BASELINE, observation, series, with_topic

from drlib.training.incidents.rules.avoided_loss import (
    MOST_SAMPLES,
    Losses,
    Sample,
    avoided_loss,
    in_words,
    replayed,
    sample_of,
    thinned,
    with_all_expired,
)
from drlib.training.incidents.rules.causes import InjectedCause
from drlib.training.incidents.rules.moves import parse_move
from drlib.training.incidents.rules.score import EventKind, IncidentEvent, Measurements

START_MS = 1_000_000
WELL = Measurements(recovered=True, lost=0, read_again=0, doubled=0)
LOST = replace(WELL, lost=60)
SLOW = InjectedCause("slow-link-retention", "LEFT", "2000")


def act(at_s: float, text: str, *, failed: bool = False) -> IncidentEvent:
    return IncidentEvent(at_s, EventKind.ACTED, move=parse_move([text]), failed=failed)


STARTED = IncidentEvent(0, EventKind.STARTED)
CAUSED = IncidentEvent(10, EventKind.CAUSE_IN, cause=SLOW)
SEEN = IncidentEvent(20, EventKind.SYMPTOM, detail="a topic is not mirrored")
LATE = act(50, "raise-retention flights")
RECOVERED = IncidentEvent(70, EventKind.RECOVERED)
FINISHED = IncidentEvent(80, EventKind.FINISHED)
EVENTS = (STARTED, CAUSED, SEEN, act(30, "restart-mirror"), LATE, RECOVERED, FINISHED)


def sample(at_s: float, unmirrored: int | None, expired: int | None, stalled: int | None) -> Sample:
    return Sample(START_MS + round(at_s * 1000), unmirrored, expired, stalled)


# Lag grows by 10 a second from 10 s on; from 40 s on LEFT deletes 5 of them a second; the move stops that at 50 s, and the
# mirror needs 20 s for the rest. One application stands from 30 s to 50 s.
SAMPLES = tuple(
    sample(
        at_s,
        max(0, min(at_s - 10, 40) * 10 if at_s <= 50 else 400 - (at_s - 50) * 20),
        0 if at_s < 40 else (min(at_s, 50) - 40) * 5,
        int(30 <= at_s < 50),
    )
    for at_s in range(1, 81)
)


def test_right_move_at_the_first_symptom_avoids_what_was_lost_until_it_was_made() -> None:
    avoided = avoided_loss(EVENTS, SAMPLES, START_MS, LOST)
    assert (avoided.move, avoided.late_s, avoided.lost, avoided.unknown) == ("raise-retention flights", 30, 60, "")
    assert avoided.actual == Losses(outage_s=50, stalled_s=20, expired=50, at_risk=400)
    assert avoided.replayed == Losses(outage_s=20, stalled_s=0, expired=0, at_risk=100)
    assert in_words(avoided) == (
        "The first right move, raise-retention flights, came 30 s after the first symptom."
        " At once it would have avoided (an estimate):",
        "time from the first symptom to the recovery: 30 s of 50 s",
        "applications without progress, times added up: 20 s of 20 s",
        "records that LEFT deleted before they were mirrored: 50 of 50",
        "the most records at risk, which only LEFT had: 300 of 400",
        "of 60 records lost at the end 10 went missing when no sample shows: unknown",
        "Computed by replay: the record up to the first symptom, then what was recorded after that move; what lies between"
        " is left out. What followed the move is taken as recorded.",
    )


def test_replay_continues_from_the_first_symptom_with_what_followed_the_move() -> None:
    shown = replayed(SAMPLES, START_MS + 20_000, START_MS + 50_000)
    assert shown[:20] == SAMPLES[:20]
    assert [(one.at_ms - START_MS) // 1000 for one in shown[19:22]] == [20, 21, 22]
    assert [one.unmirrored for one in shown[19:22]] == [100, 80, 60]
    assert [one.expired for one in shown[19:22]] == [0, 0, 0]
    assert len(shown) == 50


def test_losses_after_the_right_move_are_not_avoided_by_it() -> None:
    later = tuple(
        replace(one, expired=50 + (at_s - 50), stalled=2) if at_s > 50 else one for at_s, one in enumerate(SAMPLES, 1)
    )
    avoided = avoided_loss(EVENTS, later, START_MS, WELL)
    assert avoided.actual == Losses(50, 20 + 2 * 19, 70, 400)
    assert avoided.replayed == Losses(20, 2 * 19, 20, 100)


def test_wrong_harmful_and_failed_moves_are_no_right_ones() -> None:
    events = (*EVENTS[:4], act(35, "move-applications RIGHT"), act(38, "heal-link LEFT", failed=True), *EVENTS[4:])
    assert avoided_loss(events, SAMPLES, START_MS, WELL).late_s == 30
    assert avoided_loss((STARTED, act(5, "heal-link LEFT"), *EVENTS[1:]), SAMPLES, START_MS, WELL).late_s == 30


@pytest.mark.parametrize(
    ("events", "samples", "why"),
    [
        ((STARTED, SEEN, FINISHED), SAMPLES, "no symptom was seen after a fault"),
        ((STARTED, CAUSED, LATE, FINISHED), SAMPLES, "no symptom was seen after a fault"),
        ((*EVENTS[:4], FINISHED), SAMPLES, "no right move was made"),
        (EVENTS, SAMPLES[30:], "there are no samples from before the symptom"),
        (EVENTS, (), "there are no samples from before the symptom"),
    ],
)
def test_what_the_record_does_not_show_is_unknown(
    events: tuple[IncidentEvent, ...], samples: tuple[Sample, ...], why: str
) -> None:
    avoided = avoided_loss(events, samples, START_MS, WELL)
    assert (avoided.actual, avoided.replayed) == (None, None)
    (text,) = in_words(avoided)
    assert text.startswith(f"What an earlier right move would have avoided is unknown: {why}")


def test_right_move_at_or_before_the_first_symptom_leaves_nothing_to_avoid() -> None:
    for at_s in (15, 20):
        events = (
            STARTED,
            CAUSED,
            *sorted((SEEN, act(at_s, "heal-link LEFT")), key=lambda e: e.at_s),
            RECOVERED,
            FINISHED,
        )
        avoided = avoided_loss(events, SAMPLES, START_MS, WELL)
        assert avoided.late_s == 0
        assert avoided.actual == avoided.replayed
        assert in_words(avoided) == ("The first right move, heal-link LEFT, was made before or at the first symptom.",)


def test_numbers_that_no_sample_has_are_unknown_and_not_0() -> None:
    blind = tuple(replace(one, unmirrored=None, expired=None, stalled=None) for one in SAMPLES)
    avoided = avoided_loss(EVENTS, blind, START_MS, replace(WELL, lost=None))
    assert avoided.actual == Losses(50, None, None, None)
    lines = in_words(avoided)
    assert [line.rsplit(" ", 1)[1] for line in lines[2:5]] == ["unknown"] * 3
    assert "how many records were lost at the end was not measured" in lines
    gap = SAMPLES[:25] + SAMPLES[60:]
    assert avoided_loss(EVENTS, gap, START_MS, WELL).actual == Losses(50, None, None, None)
    unrecovered = avoided_loss(EVENTS, SAMPLES, START_MS, Measurements(False, 0, 0, 0))
    assert unrecovered.actual is not None
    assert unrecovered.actual.outage_s is None


def test_site_that_is_silent_at_the_move_counts_from_what_was_known_last() -> None:
    silent = tuple(
        replace(one, unmirrored=None, expired=None) if 45 <= at_s <= 52 else one for at_s, one in enumerate(SAMPLES, 1)
    )
    avoided = avoided_loss(EVENTS, silent, START_MS, WELL)
    assert avoided.actual is not None
    assert avoided.replayed is not None
    assert avoided.actual.at_risk == 340
    assert (avoided.actual.expired, avoided.replayed.expired) == (50, 30), (
        "it cannot be said when the others were deleted"
    )


def test_all_that_expired_is_counted_where_the_mirror_continued_behind_a_hole() -> None:
    holes = [sample(n, 0, hole, 0) for n, hole in enumerate((0, 5, 0, None, 3, 4, 0, 0))]
    assert [one.expired for one in with_all_expired(holes)] == [0, 5, 5, None, 8, 9, 9, 9]
    assert with_all_expired(()) == ()


def test_samples_are_thinned_out_and_keep_the_first_and_the_last() -> None:
    many = tuple(sample(n, n, 0, 0) for n in range(5 * MOST_SAMPLES))
    kept = thinned(many)
    assert MOST_SAMPLES / 4 < len(kept) <= MOST_SAMPLES
    assert (kept[0], kept[-1]) == (many[0], many[-1])
    assert thinned(many[:MOST_SAMPLES]) == many[:MOST_SAMPLES]


def test_sample_of_observations_counts_lag_deleted_records_and_applications_that_stand() -> None:
    assert sample_of(series(observation(108)), BASELINE) == Sample(108_000, 0, None, 0), "menus has no known log start"
    topics = [replace(topic, start=0) for topic in observation(108).topics]
    now = with_topic(observation(108, topics=tuple(topics)), "flights", mirrored=9_000, start=9_400)
    assert sample_of(series(now), BASELINE) == Sample(108_000, 1_800, 400, 0)
    standing = replace(now, applications=observation(104).applications)
    assert sample_of(series(standing), BASELINE).stalled == 3
    gone = replace(now, applications=now.applications[1:])
    assert sample_of(series(gone), BASELINE).stalled == 1
    assert sample_of([now], BASELINE).stalled is None
    assert sample_of(series(with_topic(now, "gates", mirrored=None)), BASELINE).unmirrored is None
