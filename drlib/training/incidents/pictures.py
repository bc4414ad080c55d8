"""Tables of an incident: the catalogue, the game master's view, the score, and the reveal with its timeline.

Rules: times in seconds from the start. Unknown values are shown as unknown. A player's table names no cause.
Not for: the player's status (`status`), the figure (`reveal_figure`), measuring or judging (`drlib.training.incidents.rules`).
"""

import textwrap
from collections.abc import Sequence
from typing import Final

from drlib.runs.table import Table
from drlib.training.incidents.reveal_figure import reveal_figure
from drlib.training.incidents.rules.avoided_loss import AvoidedLoss, in_words
from drlib.training.incidents.rules.causes import CAUSES, InjectedCause
from drlib.training.incidents.rules.moves import MOVES
from drlib.training.incidents.rules.reveal import Reveal, TimelineEntry

_PAGE: Final = 100  # characters of a line that a notebook shows without wrapping


def catalogue_shown(note: str = "") -> Table:
    """Every move and every possible diagnosis."""
    rows: list[dict[str, object]] = [
        {"kind": "move", "name": " ".join((name, *move.parameters)), "what": move.description}
        for name, move in MOVES.items()
    ]
    rows += [{"kind": "diagnosis", "name": cause.name, "what": cause.title} for cause in CAUSES.values()]
    return Table("Moves and diagnoses", rows, note=note)


def master_shown(
    injected: Sequence[InjectedCause], unresolved: Sequence[str], entries: Sequence[TimelineEntry]
) -> Table:
    """For the game master: injected causes with their repairs, what still has to recover, and the last events."""
    rows: list[dict[str, object]] = []
    for cause in injected:
        rows.append({"what": "cause", "which": cause.cause, "state": cause.render(cause.definition.story)})
        rows.append({"what": "repair", "which": cause.cause, "state": ", ".join(str(move) for move in cause.repair)})
    rows += [{"what": "not recovered", "which": "", "state": text} for text in unresolved]
    rows += [{"what": f"{e.at_s:.0f} s", "which": e.track.value, "state": e.text} for e in entries[-8:]]
    return Table("The game master's view", rows, note="Not for players.")


def score_shown(reveal: Reveal) -> Table:
    """The points by part, with reasons."""
    rows = [{"part": p.name, "points": p.points, "of": p.of or "", "why": p.why} for p in reveal.score.parts]
    return Table(f"{reveal.score.points:g} of 100 points: {reveal.title}", rows)


def reveal_shown(reveal: Reveal, avoided: AvoidedLoss, started_ms: int) -> Table:
    """All events with their timeline, what an earlier right move would have avoided, and what a good operator would have
    done."""
    rows: list[dict[str, object]] = [
        {
            "second": round(entry.at_s, 1),
            "part": entry.track.value,
            "what": entry.text,
            "state": entry.state,
        }
        for entry in reveal.entries
    ]
    note = "\n".join((*in_words(avoided), "A good operator: " + " ".join(reveal.reference)))
    return Table(f"The reveal: {reveal.title}", rows, note, figure=reveal_figure(reveal, started_ms))


def reference_shown(reveal: Reveal) -> Table:
    """What a good operator would have done, one row for each cause, most urgent first."""
    rows = [
        {"cause": cause.cause, "what a good operator does": text, "moves": ", ".join(str(m) for m in cause.repair)}
        for cause, text in reveal.advice
    ]
    return Table("What a good operator would have done", rows)


def replay_line(entry: TimelineEntry) -> str:
    """One line of a replay; a long text continues on indented lines."""
    mark = {"right": "+", "wrong": "x", "hint": "?"}.get(entry.state, " ")
    head = f"{entry.at_s:7.1f} s  {mark}  {entry.track:<18}  "
    return textwrap.fill(head + entry.text, _PAGE, subsequent_indent=" " * len(head), break_long_words=False)
