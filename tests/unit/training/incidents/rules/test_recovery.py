"""Recovery of an incident, judged from observations."""

from __future__ import annotations

from dataclasses import replace

import pytest
from incident_observations import ABNORMAL, BASELINE, observation, series, with_topic

from drlib.training.incidents.rules.causes import InjectedCause
from drlib.training.incidents.rules.recovery import unresolved
from drlib.training.incidents.rules.symptoms import (
    ApplicationObservation,
    GroupObservation,
    Observation,
    Symptom,
    detect_symptoms,
)

LEFT_KILLED = InjectedCause("broker-killed", "LEFT")


def loaders(at_s: float, done: int, missing: int | None = 0) -> Observation:
    """All is well, with two applications that write vouchers."""
    two = tuple(ApplicationObservation(name, "running", "RIGHT", done) for name in ("loyalty", "lounges"))
    return observation(at_s, applications=(*observation(at_s).applications, *two), missing=missing)


def test_unresolved_healthy_observations_are_recovered() -> None:
    observations = series(observation(108))
    assert detect_symptoms(observations, BASELINE) == ()
    assert unresolved([LEFT_KILLED], observations, BASELINE) == ()
    assert unresolved([LEFT_KILLED], [observation(108)], BASELINE) == ("it was not observed for long enough",)


@pytest.mark.parametrize(
    ("cause", "last"),
    [
        (LEFT_KILLED, ABNORMAL[Symptom.SITE_SILENT]),
        (LEFT_KILLED, ABNORMAL[Symptom.APPLICATION_STALLED]),
        (LEFT_KILLED, ABNORMAL[Symptom.MIRROR_DOWN]),
        (InjectedCause("link-cut-one-way", "LEFT", "requests"), ABNORMAL[Symptom.MIRROR_BEHIND]),
        (InjectedCause("link-cut-one-way", "LEFT", "requests"), with_topic(observation(108), "flights", mirrored=None)),
        (InjectedCause("topic-recreated", "menus"), observation(108)),
        (InjectedCause("partitions-added", "flights"), ABNORMAL[Symptom.PARTITIONS_DIFFER]),
        (InjectedCause("stopped-group-sync", "mirror"), ABNORMAL[Symptom.POSITIONS_STALLED]),
        (
            InjectedCause("stopped-group-sync", "mirror"),
            observation(108, groups=(GroupObservation("arrivals", 10_800, None),)),
        ),
        (
            InjectedCause("foreign-writer", "flights", "seat-loader"),
            observation(
                108,
                applications=(*observation(108).applications, ApplicationObservation("seat-loader", "running", "", 1)),
            ),
        ),
        (InjectedCause("clock-skew", "gates", "20"), ABNORMAL[Symptom.TIMES_WRONG]),
        (
            InjectedCause("clock-skew", "gates", "20"),
            with_topic(observation(108), "gates", end=10_400, mirrored=10_400),
        ),
        (
            InjectedCause("clock-ahead", "gates", "120"),
            with_topic(observation(108), "gates", end=10_400, mirrored=10_400),
        ),
        (InjectedCause("split-brain", "bookings"), ABNORMAL[Symptom.BOTH_WRITTEN]),
        (InjectedCause("split-brain", "bookings"), observation(108)),
        (InjectedCause("producer-id-collision", "RIGHT"), loaders(108, 800, missing=1)),
        (InjectedCause("producer-id-collision", "RIGHT"), loaders(108, 800, missing=None)),
        (InjectedCause("producer-id-collision", "RIGHT"), loaders(108, 400)),
        (InjectedCause("producer-id-collision", "RIGHT"), observation(108, missing=0)),
        (InjectedCause("wrong-failover", "RIGHT"), with_topic(observation(108), "flights", local=1)),
        (
            InjectedCause("wrong-failover", "RIGHT"),
            with_topic(
                with_topic(observation(108), "flights", end=10_400, mirrored=10_400),
                "bookings",
                end=10_400,
                mirrored=10_400,
            ),
        ),
        (InjectedCause("reset-to-latest", "arrivals"), ABNORMAL[Symptom.RECORDS_SKIPPED]),
        (
            InjectedCause("reset-to-latest", "arrivals"),
            observation(108, groups=(GroupObservation("arrivals", 10_800, 10_800, 5),)),  # one is one too many
        ),
        (
            InjectedCause("reset-to-latest", "arrivals"),
            observation(108, groups=(GroupObservation("arrivals", 10_800, 10_800, None),)),
        ),
        (InjectedCause("retention-cut", "flights", "10000"), ABNORMAL[Symptom.RECORDS_EXPIRE]),
        (
            InjectedCause("retention-cut", "flights", "10000"),
            with_topic(observation(108), "flights", start=9_000, retention_ms=None),
        ),
    ],
)
def test_unresolved_lists_problem_while_observations_show_it(cause: InjectedCause, last: Observation) -> None:
    assert unresolved([cause], [observation(100), loaders(104, 400), last], BASELINE)


@pytest.mark.parametrize("phase", ["gone", None])
def test_unresolved_application_that_does_not_run_is_named(phase: str | None) -> None:
    one, *others = observation(108).applications
    last = observation(108, applications=(*others, *(() if phase is None else (replace(one, phase=phase),))))
    assert unresolved([LEFT_KILLED], series(last), BASELINE) == (f"{one.name} does not run",)


def test_unresolved_stopped_foreign_writer_writes_no_more() -> None:
    writer = ApplicationObservation("seat-loader", "gone", "", 1)
    last = observation(108, applications=(*observation(108).applications, writer))
    assert unresolved([InjectedCause("foreign-writer", "flights", "seat-loader")], series(last), BASELINE) == ()


def test_unresolved_group_sync_needs_positions_that_moved_since_the_first_observation() -> None:
    sync = [InjectedCause("stopped-group-sync", "mirror")]
    still = [observation(at, groups=(GroupObservation("arrivals", 5, 5),)) for at in (100, 104, 108)]
    assert unresolved(sync, still, BASELINE) == ("no group's committed offsets have moved on RIGHT",)
    first = observation(100, groups=(GroupObservation("arrivals", 5, 4),))
    assert unresolved(sync, [first, *still[1:]], BASELINE) == ()


def test_unresolved_collision_is_recovered_when_both_producers_write_and_nothing_is_missing() -> None:
    seen = [observation(100), loaders(104, 400, missing=3), loaders(108, 800)]
    assert unresolved([InjectedCause("producer-id-collision", "RIGHT")], seen, BASELINE) == ()


def reading(at_s: float, done: int, lag: int = 0, skipped: int = 0) -> Observation:
    """All is well but for billing, which has processed `done` records and is `lag` behind the end of bookings."""
    billing = ApplicationObservation("billing", "running", "LEFT", done)
    group = GroupObservation("billing", int(at_s * 100) - lag, None, skipped)
    healthy = observation(at_s)
    return replace(healthy, applications=(*healthy.applications, billing), groups=(*healthy.groups, group))


@pytest.mark.parametrize(
    ("last", "problem"),
    [
        (reading(108, 900, lag=100, skipped=1), ()),  # the record itself is not processed
        (reading(108, 900, skipped=2), ("billing has not processed 1 records that it could",)),
        (reading(108, 500), ("billing has processed nothing since it was started",)),
        (reading(108, 30), ("billing has processed nothing since it was started",)),  # it was started again
        (reading(108, 900, lag=101), ("billing is not at the end of bookings",)),
    ],
)
def test_unresolved_poison_record_until_its_reader_is_past_it_and_at_the_end(
    last: Observation, problem: tuple[str, ...]
) -> None:
    poison = [InjectedCause("poison-record", "bookings", "0")]
    found = unresolved(poison, [reading(100, 100), reading(104, 500), last], reading(100, 100))
    assert tuple(text for text in found if text != "billing makes no progress") == problem


def test_unresolved_retention_is_recovered_though_expired_records_do_not_return() -> None:
    cut = [InjectedCause("retention-cut", "flights", "10000")]
    raised = with_topic(observation(108), "flights", start=9_000, retention_ms=86_400_000)
    assert unresolved(cut, series(raised), BASELINE) == ()


def test_unresolved_cause_with_own_state_is_recovered_with_that_state() -> None:
    at_start = series(observation(108, groups_at_start=("kitchen",)))
    assert unresolved([InjectedCause("topic-recreated", "menus")], at_start, BASELINE) == ()
    assert unresolved([InjectedCause("stopped-group-sync", "mirror")], series(observation(108)), BASELINE) == ()
    assert unresolved([InjectedCause("clock-skew", "gates", "20")], series(observation(108)), BASELINE) == ()
    assert unresolved([InjectedCause("reset-to-latest", "arrivals")], series(observation(108)), BASELINE) == ()
    assert unresolved([InjectedCause("wrong-failover", "RIGHT")], series(observation(108)), BASELINE) == ()
    right_only = [
        with_topic(
            with_topic(observation(at), "flights", end=9, mirrored=9, local=int(at)), "bookings", end=9, mirrored=9
        )
        for at in (100, 104, 108)
    ]
    assert unresolved([InjectedCause("split-brain", "bookings")], right_only, BASELINE) == ()
