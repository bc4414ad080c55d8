"""Tables and figures of an incident."""

from __future__ import annotations

from drlib.training.incidents import pictures
from drlib.training.incidents.record import IncidentRecord
from drlib.training.incidents.rules.causes import CAUSES
from drlib.training.incidents.rules.moves import MOVES
from drlib.training.incidents.rules.reveal import build_reveal


def test_incident_figure_shows_every_entry_and_a_cross_for_wrong_ones(record: IncidentRecord) -> None:
    reveal = build_reveal(record.events(), record.measurements())
    shown = pictures.reveal_shown(reveal, record.started_ms())
    assert shown.figure is not None
    points = [
        text for trace in shown.figure.data for text, _ in (trace.customdata if trace.customdata is not None else ())
    ]
    assert sorted(points) == sorted(entry.text for entry in reveal.entries)
    crosses = [symbol for trace in shown.figure.data for symbol in trace.marker.symbol if symbol == "x"]
    assert len(crosses) == 2
    assert "75 of 100 points" in shown.figure.layout.title.text
    assert "A good operator:" in repr(shown)
    (row,) = pictures.reference_shown(reveal).rows
    assert (row["cause"], row["moves"]) == ("link-cut-one-way", "heal-link RIGHT")
    assert "harmful" in repr(pictures.score_shown(reveal))


def test_catalogue_has_every_move_and_diagnosis(record: IncidentRecord) -> None:
    everything = repr(pictures.catalogue_shown())
    assert all(name in everything for name in (*MOVES, *CAUSES))
    assert "heal-link RIGHT" in repr(pictures.master_shown(record.injected_causes(), ("flights does not cross",), ()))
