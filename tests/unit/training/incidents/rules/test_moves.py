"""The table of moves, and what `parse_move` refuses."""

from __future__ import annotations

import pytest

from drlib.errors import UsageError
from drlib.training.incidents.rules.moves import MOVES, parse_move


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["restart-brokr", "LEFT"], "Did you mean restart-broker"),
        (["restart", "RIGHT"], "Did you mean restart-broker RIGHT"),
        (["restart LEFT"], "Did you mean restart-broker LEFT"),
        (["restart"], "Did you mean restart-mirror"),
        (["restart", "mirror"], "Did you mean restart-broker SITE or restart-mirror"),
        (["start", "billing"], "Did you mean start-application billing"),
        (["heal", "LEFT"], "Did you mean heal-link LEFT"),
        (["restartbroker"], "Did you mean restart-broker SITE"),
        (["repair"], "List the moves"),
        (["restart-broker"], "it takes SITE. Write: drlib incident act restart-broker SITE"),
        (["restart-broker", "UP"], "Use LEFT or RIGHT"),
        ([], "nothing to do"),
        (["stop-mirror", "now"], "it takes no arguments"),
        (["group-back", "arrivals", "soon"], "no number of seconds"),
        (["skip-record", "billing", "bookings", "-1"], "no number of a partition"),
        (["group-back", "arrivals", "0"], "no number of seconds"),
    ],
)
def test_parse_move_unknown_move_or_argument_is_refused(words: list[str], part: str) -> None:
    with pytest.raises(UsageError, match=part):
        parse_move(words)


def test_moves_that_lose_records_whenever_they_are_made_are_harmful() -> None:
    assert {name for name, move in MOVES.items() if move.harmful} == {"group-to-end", "delete-topic"}


def test_move_does_as_another_for_any_time() -> None:
    back = parse_move(["group-back arrivals 120"])
    assert back.does_as(parse_move(["group-back arrivals 30"]))
    assert not back.does_as(parse_move(["group-back billing 120"]))
    assert not back.does_as(parse_move(["stop-application arrivals"]))
