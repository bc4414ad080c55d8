"""The reference player: sees the symptoms, says what it is, makes the moves of the table, and waits until it is over.

Rules: it makes the moves that any player can make, and its game is scored like any other. It knows the cause from the
sealed file, but acknowledges, names and repairs only what shows, and takes two causes in their turn.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from drlib.training.incidents.incident import Incident
from drlib.training.incidents.rules.causes import Cause, in_turn
from drlib.training.incidents.rules.moves import ACKNOWLEDGE
from drlib.training.incidents.rules.reveal import Reveal

_CAUSE_S: Final = 90.0
_SYMPTOM_S: Final = 60.0
_OVER_S: Final = 180.0  # a busy machine catches up slowly, and whoever waits loses no point by it for five minutes


def solve(game: Incident, *, tell: Callable[[str], None] = lambda _: None, keep_lab: bool = False) -> Reveal:
    """Play `game`, which was started, to its end. Raises `Unreachable` when a cause or a symptom does not come."""
    scene = game.scene()
    scene.wait("the cause is in", lambda: game.watched() and bool(game.record.planted()), _CAUSE_S)
    for number, one in enumerate(in_turn(game.record.planted())):
        scene.wait(f"symptoms of {one.cause}", partial(_shows, game, one.kind), _SYMPTOM_S)
        tell("; ".join(symptom.value for symptom in game.status()[1]))
        if not number:
            game.act(ACKNOWLEDGE)
        game.diagnose(one.cause)
        tell(f"diagnosis: {one.cause}")
        for move in one.repair:
            tell(f"{move}: {game.act(str(move))}")
    return game.finish(settle_s=_OVER_S, keep_lab=keep_lab)


def _shows(game: Incident, cause: Cause) -> bool:
    return any(symptom in cause.symptoms for symptom in game.status()[1])
