"""Incidents found again in their run folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from drlib.errors import UsageError
from drlib.training.incidents import store
from drlib.training.incidents.incident import Incident
from drlib.training.incidents.record import IncidentRecord


def test_find_returns_newest_incident_and_refuses_missing_ones(record: IncidentRecord, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no incident in"):
        store.find(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="not the folder of an incident"):
        store.find(tmp_path, Path("other"))
    assert store.find(tmp_path.parent, record.folder).folder == record.folder
    assert store.find(tmp_path.parent).folder.parent == tmp_path.parent
    incident = Incident(record.folder)
    for call in (
        lambda: incident.act("stop-mirror"),
        lambda: incident.diagnose("full-disk"),
        incident.hint,
        incident.finish,
        incident.status,
    ):
        with pytest.raises(UsageError, match="is over"):
            call()
