"""Moves at a site that does not answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from written_lab import written_lab

from drlib.errors import UsageError
from drlib.training.incidents.lab import inject, moves
from drlib.training.incidents.lab.testbed import IncidentTestbed
from drlib.training.incidents.rules.moves import parse_move


@pytest.mark.parametrize("words", ["raise-retention flights", "remove-acl RIGHT LEFT.bookings"])
def test_move_at_a_silent_site_fails_in_words(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (inject, moves):
        monkeypatch.setattr(module, "ANSWER_S", 0.5)
    testbed = IncidentTestbed(written_lab(tmp_path), tmp_path)
    with pytest.raises(UsageError, match=f"{words} failed") as failed:
        moves.apply_move(testbed, parse_move([words]))
    assert failed.value.remedy == "Check the site, then try again."
