"""The state file: written as a whole, read strictly, refused for another application."""

from __future__ import annotations

from pathlib import Path

import pytest

from drlib.client.bootstrap import state_file
from drlib.client.bootstrap.rules import Known
from drlib.client.bootstrap.state_file import Stored
from drlib.errors import UsageError


def test_state_file_that_was_written_is_read_and_private(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    assert state_file.read(path, "*") is None
    state_file.write(path, Stored("*", 7, "lyon", 5))
    stored = state_file.read(path, "*")
    assert stored is not None
    assert stored.known == Known(7, "lyon")
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b'{"application":"*","version":-1,"cluster":"lyon","at_ms":1}',
        b'{"application":"*","version":"7","cluster":"lyon","at_ms":1}',
        b'{"application":"*","version":true,"cluster":"lyon","at_ms":1}',
        b'{"application":"*","version":7,"cluster":"","at_ms":1}',
    ],
)
def test_state_file_that_is_none_is_refused_with_a_remedy(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="Remove it"):
        state_file.read(path, "*")


def test_state_file_of_another_application_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    state_file.write(path, Stored("billing", 7, "lyon", 5))
    with pytest.raises(UsageError, match="that of \\*"):
        state_file.read(path, "*")
