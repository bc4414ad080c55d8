"""Tables and figures of an incident."""

from __future__ import annotations

from drlib.training.incidents import pictures
from drlib.training.incidents.record import IncidentRecord
from drlib.training.incidents.rules.avoided_loss import AvoidedLoss
from drlib.training.incidents.rules.causes import CAUSES
from drlib.training.incidents.rules.moves import MOVES
from drlib.training.incidents.rules.reveal import build_reveal


def test_reveal_shows_every_entry_with_its_state_and_what_was_avoidable(record: IncidentRecord) -> None:
    reveal = build_reveal(record.events(), record.measurements())
    avoided = AvoidedLoss(unknown="there are no samples from before the symptom")
    shown = pictures.reveal_shown(reveal, avoided, record.started_ms())
    assert shown.figure is not None
    assert [row["what"] for row in shown.rows] == [entry.text for entry in reveal.entries]
    assert [row["state"] for row in shown.rows if row["part"] == "move"] == ["", "wrong", "hint", "right", "right"]
    assert "A good operator:" in shown.note
    assert "would have avoided is unknown: there are no samples" in shown.note
    (row,) = pictures.reference_shown(reveal).rows
    assert (row["cause"], row["moves"]) == ("link-cut-one-way", "heal-link RIGHT")
    assert "harmful" in repr(pictures.score_shown(reveal))


def test_catalogue_has_every_move_and_diagnosis(record: IncidentRecord) -> None:
    everything = repr(pictures.catalogue_shown())
    assert all(name in everything for name in (*MOVES, *CAUSES))
    assert "heal-link RIGHT" in repr(pictures.master_shown(record.injected_causes(), ("flights does not cross",), ()))
