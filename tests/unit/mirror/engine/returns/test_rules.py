"""The steps of a trial: held back, silent, copied again, twice."""

from __future__ import annotations

import pytest

from drlib.mirror.engine.returns.rules import (
    BUSY_S,
    ENDS,
    HELD,
    LEAST_INTERVAL_S,
    LONGEST_PAUSE_S,
    MOVES,
    Phase,
    Trial,
    begin,
    drain_s,
    held_s,
    pause_s,
    return_s,
    silence_s,
)


def silence(trial: Trial) -> Trial:
    """The same trial at the end of its silence."""
    return trial.drained(trial.until, idle=True).silent(trial.until + 100, found=False)


def test_trial_two_silences_each_followed_by_a_return_show_that_records_return() -> None:
    trial = begin(0.2, 10.0)
    assert (trial.phase, trial.until) == (Phase.DRAIN, 10.0 + drain_s(0.2))
    first = silence(trial)
    assert (first.phase, first.silences) == (Phase.RETURN, 1)
    again = first.returned(first.until)
    assert again.phase is Phase.DRAIN
    assert silence(again).returned(0.0).phase is Phase.RETURNED


def test_trial_record_in_a_silence_or_none_behind_it_refutes() -> None:
    silent = begin(1.0, 0.0).drained(100.0, idle=True)
    assert silent.phase is Phase.SILENCE
    assert silent.until == 100.0 + silence_s(1.0, 0) == 104.0
    assert silent.silent(110.0, found=True).phase is Phase.REFUTED
    behind = silent.silent(110.0, found=False)
    assert behind.until == 110.0 + return_s(1.0)
    assert behind.missed(behind.until - 0.1) == behind
    assert behind.missed(behind.until).phase is Phase.REFUTED


def test_trial_waits_for_what_was_sent_and_gives_up_on_a_target_that_does_not_acknowledge_it() -> None:
    trial = begin(0.0, 0.0)
    assert trial.interval_s == LEAST_INTERVAL_S
    assert trial.drained(trial.until - 0.01, idle=True) == trial
    assert trial.drained(trial.until + BUSY_S - 0.01, idle=False) == trial
    assert trial.drained(trial.until + BUSY_S, idle=False).phase is Phase.UNKNOWN


@pytest.mark.parametrize("phase", list(Phase))
def test_trial_can_become_unknown_at_any_time_but_after_its_end(phase: Phase) -> None:
    found = Trial(phase, 1.0, 0.0).unknown(5.0).phase
    assert found is (phase if phase in ENDS else Phase.UNKNOWN)


def test_moves_every_phase_has_a_row_and_only_ends_have_none_that_follows() -> None:
    assert MOVES.keys() == set(Phase)
    assert {Phase.RETURNED, Phase.REFUTED, Phase.UNKNOWN} == ENDS
    assert {Phase.DRAIN, Phase.SILENCE} == HELD
    with pytest.raises(AssertionError, match="cannot go from DRAIN to RETURNED"):
        Trial(Phase.DRAIN, 1.0, 0.0, silences=2).returned(1.0)


@pytest.mark.parametrize("interval_s", [0.1, 0.3, 1.0, 10.0])
def test_durations_leave_no_period_of_bursts_that_passes_both_silences(interval_s: float) -> None:
    """It would have to write again within the first return, and not before the end of the second silence."""
    drain = drain_s(interval_s)
    latest = drain + silence_s(interval_s, 0) + return_s(interval_s)
    assert drain + silence_s(interval_s, 1) > 1.5 * latest
    assert held_s(interval_s) == pytest.approx(2 * drain + silence_s(interval_s, 0) + silence_s(interval_s, 1))


def test_pause_doubles_up_to_its_limit_and_is_no_shorter_than_the_trial() -> None:
    assert [pause_s(count, 0.5) for count in (1, 2, 3)] == [2.0, 4.0, 8.0]
    assert pause_s(60, 0.5) == LONGEST_PAUSE_S
    assert pause_s(1, 30.0) == 30.0
