"""The status of an incident: what is seen, and what to do next."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from drlib.training.incidents.incident import Calm
from drlib.training.incidents.rules.causes import CAUSES
from drlib.training.incidents.rules.symptoms import (
    ApplicationObservation,
    GroupObservation,
    Observation,
    Symptom,
    TopicObservation,
)
from drlib.training.incidents.status import WIDE, from_here, status_shown

FILE = "runs/x/lab/connect-mirror-maker.properties"
NEVER = Calm(None, None)
AT_MS = 1_700_000_000_000
MILLIONS = 7_654_321
OBSERVATION = Observation(
    AT_MS,
    ("RIGHT",),
    (
        TopicObservation("flights", MILLIONS, None, None, None, (4, None, None)),
        TopicObservation("bookings", MILLIONS, 1, MILLIONS, None, (2, 2, 2)),
        TopicObservation("gates", 9, 9, 0, AT_MS - 1_000_000),
    ),
    (ApplicationObservation("seat-loader", "running", "RIGHT", MILLIONS),),
    (GroupObservation("arrivals", 5, None), GroupObservation("billing", MILLIONS, MILLIONS, MILLIONS)),
    False,
    (),
)


@pytest.mark.parametrize("symptoms", [(), tuple(Symptom)])
def test_status_fits_a_terminal_of_100_columns_shows_unknown_values_and_names_no_cause(
    symptoms: tuple[Symptom, ...],
) -> None:
    text = repr(status_shown(OBSERVATION, symptoms, NEVER, FILE))
    assert max(map(len, text.splitlines())) <= WIDE == 100
    assert "unknown" in text
    assert "does not run" in text
    assert "1,000 s old" in text
    assert "7,654,321 not processed" in text
    assert all(symptom.value in text for symptom in symptoms)
    assert not [name for name in CAUSES if name in text]


@pytest.mark.parametrize(
    ("symptoms", "calm", "title", "says"),
    [
        ((), NEVER, "No symptoms yet, 2023", "The fault follows"),
        ((), Calm(None, AT_MS - 5000), "No symptoms since 22:13:15, 2023", "Not everything has recovered yet"),
        ((), Calm(AT_MS - 2000, AT_MS - 5000), "Recovered since 22:13:18, 2023", "drlib incident finish"),
        ((Symptom.SITE_SILENT,), Calm(AT_MS, None), "1 symptom, 2023", "drlib incident act acknowledge"),
        ((Symptom.SITE_SILENT, Symptom.MIRROR_DOWN), NEVER, "2 symptoms, 2023", "drlib incident list"),
        ((Symptom.SITE_SILENT,), Calm(None, None, acknowledged=True), "1 symptom, 2023", "Next: find the cause"),
    ],
)
def test_status_without_symptoms_says_whether_it_recovered_since_when_and_what_to_do(
    symptoms: tuple[Symptom, ...], calm: Calm, title: str, says: str
) -> None:
    shown = status_shown(OBSERVATION, symptoms, calm, FILE)
    assert shown.title.startswith(title)
    assert says in " ".join(str(shown.above).split())
    page = shown._repr_mimebundle_()["text/html"]
    assert isinstance(page, str)
    assert all(symptom.value in page for symptom in symptoms)


def test_file_of_the_mirror_is_named_as_a_command_here_names_it() -> None:
    path = Path("/home/me/project/runs/20261127T204119Z-incident-3a4ea4/lab/connect-mirror-maker.properties")
    assert (
        from_here(path, Path("/home/me/project"))
        == "runs/20261127T204119Z-incident-3a4ea4/lab/connect-mirror-maker.properties"
    )
    assert from_here(path, Path("/home/me/project/notebooks")) == str(path)
    shown = status_shown(OBSERVATION, (), NEVER, from_here(path, Path("/home/me/project")))
    assert max(map(len, repr(shown).splitlines())) <= WIDE


def test_command_of_the_status_can_be_pasted_whatever_the_folder_is_called() -> None:
    shown = status_shown(OBSERVATION, (), NEVER, "/home/me/it's mine/lab.properties")
    command = shown.note.splitlines()[-1]
    assert shlex.split(command) == ["drlib", "status", "/home/me/it's mine/lab.properties"]
