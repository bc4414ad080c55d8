"""The live view of an incident's folder, where no front end takes input."""

from __future__ import annotations

import pytest

from drlib.errors import UsageError
from drlib.training.incidents.live.view import LiveView
from drlib.training.incidents.record import GAME, IncidentRecord
from drlib.training.incidents.rules.symptoms import Observation


def refuse(_: str, __: tuple[str, ...], ___: int | None) -> str:
    raise AssertionError("nothing makes a move here")


def test_view_reads_the_public_files_alone(record: IncidentRecord) -> None:
    for sealed in (record.folder / GAME).iterdir():
        sealed.write_text("it cannot be read")
    record.save_observations((Observation(1, (), (), (), (), True, ()),))
    view = LiveView(record, refuse)
    assert view.state().finished
    assert "The incident is finished" in repr(view)
    assert view.known().topics == ()
    assert view.picture().state.started_ms == record.started_ms()


def test_view_outside_of_a_notebook_that_takes_input_is_a_picture(
    record: IncidentRecord, capsys: pytest.CaptureFixture[str]
) -> None:
    view = LiveView(record, refuse, attended=lambda: False)
    view._ipython_display_()
    assert "acknowledge: recorded" in capsys.readouterr().out
    assert view.widget is None
    view.close()


def test_view_refuses_a_variable_that_is_none(record: IncidentRecord) -> None:
    with pytest.raises(UsageError, match="variable my incident"):
        LiveView(record, refuse, "my incident")
