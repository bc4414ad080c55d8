"""The status file of an application."""

from __future__ import annotations

from pathlib import Path

import pytest

from drlib.errors import UsageError
from drlib.lab.apps.process import StatusFile, read_status


def test_status_file_new_phase_is_written_at_once(tmp_path: Path) -> None:
    path = tmp_path / "status"
    assert read_status(path) is None
    status = StatusFile("producer:flights", str(path))
    for phase, done in (("running", 1), ("running", 2), ("waiting", 3)):
        status.report(phase, "LEFT", 1, done, 7)
        seen = read_status(path)
        assert seen is not None
        assert (seen.phase, seen.done, seen.in_flight) == (phase, 1 if phase == "running" else 3, 7)
    path.write_text("{}")
    with pytest.raises(UsageError, match="is not a status file"):
        read_status(path)
