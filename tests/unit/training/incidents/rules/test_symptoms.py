"""Symptoms detected in observations."""

from __future__ import annotations

import pytest
from incident_observations import ABNORMAL, BASELINE, observation, series, with_topic

from drlib.training.incidents.rules.symptoms import Symptom, detect_symptoms


@pytest.mark.parametrize("symptom", Symptom)
def test_detect_symptoms_abnormal_observation_shows_exactly_its_symptom(symptom: Symptom) -> None:
    assert detect_symptoms(series(ABNORMAL[symptom]), BASELINE) == (symptom,)


def test_detect_symptoms_brief_lag_is_none_and_lasting_small_lag_is_one() -> None:
    brief = with_topic(observation(108), "flights", mirrored=10_700)
    assert Symptom.MIRROR_BEHIND not in detect_symptoms(series(brief), BASELINE)
    no_progress = [with_topic(observation(at), "bookings", mirrored=10_300) for at in (104, 108)]
    assert Symptom.MIRROR_BEHIND in detect_symptoms(no_progress, BASELINE)


def test_detect_symptoms_healthy_observations_show_none() -> None:
    assert detect_symptoms(series(observation(108)), BASELINE) == ()
